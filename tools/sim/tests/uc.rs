//! Unreliable connections, receiving: gaps, and what is dropped.

use ferroce_sim::Buffer;
use ferroce_sim::tester::{TT_PSN, Tester, reth, usual};
use ferroce_transport::{
    Access, Note, QpAttr, QpEvent, QpState, QpType, RecvWqe, WcData, WcOpcode, WcStatus,
};
use ferroce_wire::Ext;
use ferroce_wire::opcode::*;

/// A tester with one receive request of 5000 bytes, `wr_id` 1.
fn receiver(srq: bool) -> (Tester, Buffer) {
    let mut t = Tester::of(QpType::Uc, usual(), QpState::Rts, srq);
    let buffer = t.buffer(5000, Access::LOCAL_WRITE);
    receive(&mut t, srq, 1, buffer);
    (t, buffer)
}

fn receive(t: &mut Tester, srq: bool, wr_id: u64, buffer: Buffer) {
    if srq {
        let sges = [buffer.sge()].into_iter().collect();
        t.host.srq.borrow_mut().push_back(RecvWqe {
            wr_id,
            sges,
            skip: 0,
        });
    } else {
        t.post_recv(wr_id, buffer);
    }
}

/// A packet of a SEND comes.
fn arrive(t: &mut Tester, opcode: u8, psn: u32, payload: &[u8]) {
    t.inject(opcode, psn, true, Ext::default(), payload);
}

fn full(byte: u8) -> Vec<u8> {
    vec![byte; 1024]
}

#[test]
fn whole_messages_are_placed_and_nothing_is_answered() {
    let (mut t, buffer) = receiver(false);
    arrive(&mut t, UC_SEND_FIRST, TT_PSN, &full(1));
    arrive(&mut t, UC_SEND_MIDDLE, TT_PSN + 1, &full(2));
    let ext = Ext {
        imm: Some([5; 4]),
        ..Ext::default()
    };
    t.inject(UC_SEND_LAST_IMM, TT_PSN + 2, true, ext, &[3; 9]);
    t.none();
    assert!(!t.qp.has_pending_ack());
    let got = t.bytes(buffer);
    assert_eq!((got[0], got[1023], got[1024], got[2056]), (1, 1, 2, 3));
    let c = t.host.receives[0];
    assert_eq!((c.wr_id, c.byte_len, c.opcode), (1, 2057, WcOpcode::Recv));
    assert_eq!((c.data, c.grh), (WcData::Imm([5; 4]), false));
    assert!(t.notes().is_empty());
}

/// Lost packets in every place of a message, which then never completes, and its receive request
/// takes the next one.
#[test]
fn a_gap_loses_its_message_and_no_other() {
    for srq in [false, true] {
        for lost in 0..3u32 {
            let (mut t, buffer) = receiver(srq);
            for (i, opcode) in [UC_SEND_FIRST, UC_SEND_MIDDLE, UC_SEND_LAST]
                .into_iter()
                .enumerate()
            {
                if i as u32 != lost {
                    arrive(&mut t, opcode, TT_PSN + i as u32, &full(0xee));
                }
            }

            assert!(t.host.receives.is_empty(), "packet {lost} is lost");
            arrive(&mut t, UC_SEND_FIRST, TT_PSN + 3, &full(1));
            arrive(&mut t, UC_SEND_LAST, TT_PSN + 4, &[2; 10]);
            assert_eq!(t.recv_statuses(), [(1, WcStatus::Success)]);
            assert_eq!(t.host.receives[0].byte_len, 1034);
            assert_eq!(t.bytes(buffer)[..1024], full(1));
            let broken = t.notes().iter().filter(|n| **n == Note::UcLoss).count();
            assert_eq!(broken, usize::from(lost > 0), "{:?}", t.notes());
            assert_eq!(t.qp.state(), QpState::Rts);
            t.none();
        }
    }
}

#[test]
fn a_message_that_begins_ends_the_one_before() {
    let (mut t, buffer) = receiver(false);
    arrive(&mut t, UC_SEND_FIRST, TT_PSN, &full(1));
    arrive(&mut t, UC_SEND_ONLY, TT_PSN + 1, &[7; 3]);
    assert_eq!(t.host.receives[0].byte_len, 3);
    assert_eq!(t.bytes(buffer)[..4], [7, 7, 7, 1]);
    assert_eq!(t.notes(), [Note::UcLoss]);
    arrive(&mut t, UC_SEND_LAST, TT_PSN + 2, &[1]);
    assert_eq!(t.host.receives.len(), 1);
}

#[test]
fn what_comes_late_or_twice_is_dropped() {
    let (mut t, _) = receiver(false);
    let more = t.buffer(5000, Access::LOCAL_WRITE);
    t.post_recv(2, more);
    arrive(&mut t, UC_SEND_ONLY, TT_PSN + 4, &[1]);
    for psn in [TT_PSN + 4, TT_PSN + 3, TT_PSN] {
        arrive(&mut t, UC_SEND_ONLY, psn, &[2]);
    }

    // Within a message, too, and without harm to it.
    arrive(&mut t, UC_SEND_FIRST, TT_PSN + 5, &full(3));
    arrive(&mut t, UC_SEND_FIRST, TT_PSN + 5, &full(4));
    arrive(&mut t, UC_SEND_ONLY, TT_PSN + 4, &[1]);
    arrive(&mut t, UC_SEND_LAST, TT_PSN + 6, &[3]);
    arrive(&mut t, UC_SEND_LAST, TT_PSN + 6, &[9]);
    assert_eq!(
        t.recv_statuses(),
        [(1, WcStatus::Success), (2, WcStatus::Success)]
    );

    assert_eq!(t.bytes(more)[..1024], full(3));
    assert_eq!(t.bytes(more)[1024], 3);
}

#[test]
fn a_peer_that_has_gone_on_is_followed() {
    for ahead in [2, 1 << 22, 1 << 23, 0xff_ffff - (1 << 16)] {
        let (mut t, buffer) = receiver(false);
        t.post_recv(2, buffer);
        arrive(&mut t, UC_SEND_ONLY, TT_PSN, &[1]);
        arrive(&mut t, UC_SEND_ONLY, TT_PSN + ahead, &[1]);
        assert_eq!(t.host.receives.len(), 2, "{ahead:#x} ahead");
    }
    // The very first packet of a connection may have any PSN.
    let (mut t, _) = receiver(false);
    arrive(&mut t, UC_SEND_ONLY, TT_PSN - 5, &[1]);
    assert_eq!(t.host.receives.len(), 1);
}

#[test]
fn writes_are_placed_as_they_come_and_checked() {
    let mut t = Tester::service(QpType::Uc);
    let all = Access::REMOTE_WRITE | Access::LOCAL_WRITE;
    let target = t.buffer(2000, all);
    let first = reth(target.va, target.key, 1500);
    t.inject(UC_WRITE_FIRST, TT_PSN, false, first, &full(1));
    t.inject(UC_WRITE_LAST, TT_PSN + 1, false, Ext::default(), &[2; 476]);
    let got = t.bytes(target);
    assert_eq!((got[1023], got[1024], got[1499]), (1, 2, 2));
    assert!(t.notes().is_empty());

    let before = t.bytes(target);
    let read_only = t.buffer(100, Access::REMOTE_READ);
    let refused = [
        reth(target.va, target.key ^ 8, 4),
        reth(target.va + 1997, target.key, 4),
        reth(read_only.va, read_only.key, 4),
        reth(target.va, target.key, 5),
    ];
    for (i, ext) in refused.into_iter().enumerate() {
        t.inject(UC_WRITE_ONLY, TT_PSN + 2 + i as u32, false, ext, &[9; 4]);
    }
    assert_eq!(t.notes(), [Note::Refused; 4]);

    // Nor is the rest taken of what was refused.
    let ext = reth(target.va, 3, 1025);
    t.inject(UC_WRITE_FIRST, TT_PSN + 6, false, ext, &full(9));
    t.inject(UC_WRITE_LAST, TT_PSN + 7, false, Ext::default(), &[9]);
    assert_eq!(t.bytes(target), before);
    assert_eq!(t.qp.state(), QpState::Rts);
    assert!(t.events().is_empty());
    t.none();
}

#[test]
fn writes_that_the_queue_pair_does_not_allow_are_dropped() {
    let attr = QpAttr {
        qp_access_flags: Access::empty(),
        ..usual()
    };
    let mut t = Tester::of(QpType::Uc, attr, QpState::Rts, false);
    let target = t.buffer(10, Access::REMOTE_WRITE | Access::LOCAL_WRITE);
    let before = t.bytes(target);
    t.inject(
        UC_WRITE_ONLY,
        TT_PSN,
        false,
        reth(target.va, target.key, 4),
        &[9; 4],
    );

    assert_eq!(t.bytes(target), before);
    assert_eq!(t.notes(), [Note::Refused]);
}

#[test]
fn a_write_with_immediate_needs_a_receive_request_at_its_end() {
    let mut t = Tester::service(QpType::Uc);
    let target = t.buffer(10, Access::REMOTE_WRITE | Access::LOCAL_WRITE);
    let ext = |imm| Ext {
        imm: Some(imm),
        ..reth(target.va, target.key, 4)
    };
    t.inject(UC_WRITE_ONLY_IMM, TT_PSN, false, ext([1; 4]), &[9; 4]);
    assert_eq!(t.notes(), [Note::NoReceive]);
    t.post_recv(1, target);
    t.inject(UC_WRITE_ONLY_IMM, TT_PSN + 1, false, ext([2; 4]), &[8; 4]);
    let c = t.host.receives[0];
    assert_eq!(
        (c.opcode, c.byte_len, c.data),
        (WcOpcode::RecvRdmaWithImm, 4, WcData::Imm([2; 4]))
    );

    assert_eq!(t.bytes(target)[..4], [8; 4]);
}

#[test]
fn without_a_receive_request_or_room_a_message_is_lost() {
    let mut t = Tester::service(QpType::Uc);
    arrive(&mut t, UC_SEND_FIRST, TT_PSN, &full(1));
    let buffer = t.buffer(1030, Access::LOCAL_WRITE);
    t.post_recv(1, buffer);

    // Its rest finds a receive request and is not taken for a message.
    arrive(&mut t, UC_SEND_LAST, TT_PSN + 1, &[1; 5]);
    assert_eq!(t.notes(), [Note::NoReceive]);
    arrive(&mut t, UC_SEND_FIRST, TT_PSN + 2, &full(1));
    arrive(&mut t, UC_SEND_LAST, TT_PSN + 3, &[1; 7]);
    assert_eq!(t.notes(), [Note::NoReceive, Note::TooLong]);
    assert!(t.host.receives.is_empty());
    arrive(&mut t, UC_SEND_FIRST, TT_PSN + 4, &full(1));
    arrive(&mut t, UC_SEND_LAST, TT_PSN + 5, &[1; 6]);
    assert_eq!(t.recv_statuses(), [(1, WcStatus::Success)]);
    assert_eq!(t.qp.state(), QpState::Rts);
    t.none();
}

#[test]
fn a_bad_receive_buffer_is_the_consumers_fault() {
    let mut t = Tester::service(QpType::Uc);
    let buffer = t.buffer(100, Access::empty());
    t.post_recv(1, buffer);
    t.post_recv(2, buffer);
    arrive(&mut t, UC_SEND_ONLY, TT_PSN, &[0; 10]);
    t.none();
    assert_eq!(t.qp.state(), QpState::Err);
    assert_eq!(
        t.recv_statuses(),
        [(1, WcStatus::LocProtErr), (2, WcStatus::WrFlushErr)]
    );
}

#[test]
fn malformed_packets_are_dropped() {
    let (mut t, buffer) = receiver(false);
    let before = t.bytes(buffer);
    arrive(&mut t, UC_SEND_FIRST, TT_PSN, &[1; 1000]);
    arrive(&mut t, UC_SEND_LAST, TT_PSN + 1, &[1; 8]);
    arrive(&mut t, UC_SEND_ONLY, TT_PSN + 2, &[1; 1028]);
    arrive(&mut t, UC_SEND_MIDDLE, TT_PSN + 3, &full(1));
    assert!(t.host.receives.is_empty());
    // A SEND does not go on as an RDMA WRITE.
    arrive(&mut t, UC_SEND_FIRST, TT_PSN + 4, &full(2));
    arrive(&mut t, UC_WRITE_LAST, TT_PSN + 5, &[2; 8]);
    arrive(&mut t, UC_SEND_LAST, TT_PSN + 6, &[2; 8]);
    assert!(t.host.receives.is_empty());
    assert_eq!(t.bytes(buffer)[1024..], before[1024..]);
    assert_eq!(t.qp.state(), QpState::Rts);
}

#[test]
fn the_first_packet_in_rtr_establishes_the_communication() {
    let mut t = Tester::of(QpType::Uc, usual(), QpState::Rtr, false);
    arrive(&mut t, UC_SEND_ONLY, TT_PSN, &[]);
    arrive(&mut t, UC_SEND_ONLY, TT_PSN + 1, &[]);
    assert_eq!(t.events(), [QpEvent::CommEst]);
}
