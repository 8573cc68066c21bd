//! What a responder refuses: the NAK, the completion or event on its own side, and the end of the
//! connection.

use ferroce_sim::tester::{TT_PSN, Tester, reth, usual};
use ferroce_transport::{Access, QpAttr, QpEvent, QpState, WcStatus};
use ferroce_wire::{AtomicEth, Ext, NakCode, opcode};

const RW: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ);

fn add(va: u64, rkey: u32, n: u64) -> Ext {
    Ext {
        atomic: Some(AtomicEth {
            va,
            rkey,
            swap_add: n,
            compare: 0,
        }),
        ..Ext::default()
    }
}

/// Asserts that the answer is this NAK, and that the connection is over.
#[track_caller]
fn refused(t: &mut Tester, code: NakCode, psn: u32) {
    let nak = t.one();
    assert_eq!(nak.nak(), Some((code, psn & 0xff_ffff)));
    assert_eq!(t.qp.state(), QpState::Err);
    t.none();
}

#[test]
fn opcodes_out_of_sequence_are_invalid() {
    use opcode::*;

    let only = [RC_SEND_MIDDLE, RC_SEND_LAST, RC_WRITE_MIDDLE, RC_WRITE_LAST];
    for opcode in only {
        let mut t = Tester::new();
        t.inject(opcode, TT_PSN, false, Ext::default(), &[0; 1024]);
        refused(&mut t, NakCode::InvalidRequest, TT_PSN);
        assert_eq!(t.events(), [QpEvent::ReqErr]);
    }

    // In the middle of a SEND nothing but its middle or last will do.
    for opcode in [
        RC_SEND_FIRST,
        RC_SEND_ONLY,
        RC_WRITE_FIRST,
        RC_WRITE_MIDDLE,
        RC_WRITE_LAST,
        RC_READ_REQUEST,
        RC_FETCH_ADD,
    ] {
        let mut t = Tester::new();
        let buffer = t.buffer(5000, RW);
        t.post_recv(1, buffer);
        t.post_recv(2, buffer);
        t.inject(RC_SEND_FIRST, TT_PSN, false, Ext::default(), &[0; 1024]);
        let ext = match opcode {
            RC_FETCH_ADD => add(buffer.va, buffer.key, 1),
            RC_WRITE_FIRST | RC_READ_REQUEST => reth(buffer.va, buffer.key, 2000),
            _ => Ext::default(),
        };
        t.inject(opcode, TT_PSN + 1, false, ext, &[0; 1024]);
        refused(&mut t, NakCode::InvalidRequest, TT_PSN + 1);
        let want = [(1, WcStatus::RemInvReqErr), (2, WcStatus::WrFlushErr)];
        assert_eq!(t.recv_statuses(), want);
    }
}

#[test]
fn payload_lengths_must_fit_the_place_in_the_message() {
    use opcode::*;

    for (opcode, len) in [
        (RC_SEND_FIRST, 1023),
        (RC_SEND_FIRST, 1025),
        (RC_SEND_ONLY, 1025),
        (RC_WRITE_FIRST, 1000),
        (RC_WRITE_ONLY, 1025),
    ] {
        let mut t = Tester::new();
        let buffer = t.buffer(5000, RW);
        t.post_recv(1, buffer);
        let ext = match opcode {
            RC_WRITE_FIRST | RC_WRITE_ONLY => reth(buffer.va, buffer.key, 1025),
            _ => Ext::default(),
        };
        t.inject(opcode, TT_PSN, false, ext, &vec![0; len]);
        refused(&mut t, NakCode::InvalidRequest, TT_PSN);
    }

    for (opcode, len) in [
        (RC_SEND_MIDDLE, 1000),
        (RC_SEND_LAST, 0),
        (RC_SEND_LAST, 1025),
    ] {
        let mut t = Tester::new();
        let buffer = t.buffer(5000, RW);
        t.post_recv(1, buffer);
        t.inject(RC_SEND_FIRST, TT_PSN, false, Ext::default(), &[0; 1024]);
        t.inject(opcode, TT_PSN + 1, false, Ext::default(), &vec![0; len]);
        refused(&mut t, NakCode::InvalidRequest, TT_PSN + 1);
    }
}

#[test]
fn an_rdma_write_is_as_long_as_its_reth_says() {
    use opcode::*;

    // Length announced, and the packets that come.
    let cases: [(u32, &[(u8, usize)]); 6] = [
        (9, &[(RC_WRITE_ONLY, 10)]),
        (11, &[(RC_WRITE_ONLY, 10)]),
        (1024, &[(RC_WRITE_FIRST, 1024)]),
        (2048, &[(RC_WRITE_FIRST, 1024), (RC_WRITE_MIDDLE, 1024)]),
        (2048, &[(RC_WRITE_FIRST, 1024), (RC_WRITE_LAST, 1000)]),
        ((1 << 30) + 1, &[(RC_WRITE_FIRST, 1024)]),
    ];

    for (len, packets) in cases {
        let mut t = Tester::new();
        let buffer = t.buffer(5000, RW);
        for (i, (opcode, n)) in packets.iter().enumerate() {
            let ext = if i == 0 {
                reth(buffer.va, buffer.key, len)
            } else {
                Ext::default()
            };
            t.inject(*opcode, TT_PSN + i as u32, false, ext, &vec![0; *n]);
        }

        refused(
            &mut t,
            NakCode::InvalidRequest,
            TT_PSN + packets.len() as u32 - 1,
        );
    }
}

#[test]
fn access_is_checked_for_the_whole_range_with_the_first_packet() {
    for (what, mr, opcode) in [
        (
            "rights of the region",
            Access::LOCAL_WRITE,
            opcode::RC_WRITE_FIRST,
        ),
        (
            "rights of the region",
            Access::LOCAL_WRITE,
            opcode::RC_READ_REQUEST,
        ),
        ("rights of the region", RW, opcode::RC_FETCH_ADD),
        ("bounds", RW, opcode::RC_WRITE_FIRST),
        ("bounds", RW, opcode::RC_READ_REQUEST),
        ("key", RW, opcode::RC_WRITE_FIRST),
    ] {
        let mut t = Tester::new();
        let buffer = t.buffer(2048, mr);
        let before = t.bytes(buffer);
        let len = if what == "bounds" { 2049 } else { 2048 };
        let key = if what == "key" { 3 } else { buffer.key };
        let (ext, payload) = match opcode {
            opcode::RC_FETCH_ADD => (add(buffer.va, key, 1), 0),
            opcode::RC_READ_REQUEST => (reth(buffer.va, key, len), 0),
            _ => (reth(buffer.va, key, len), 1024),
        };
        t.inject(opcode, TT_PSN, true, ext, &vec![7; payload]);
        refused(&mut t, NakCode::RemoteAccessError, TT_PSN);
        assert_eq!(t.events(), [QpEvent::AccessErr], "{what}");
        assert_eq!(t.bytes(buffer), before);
    }
}

/// Of whatever length: the operation itself is not allowed.
#[test]
fn operations_that_the_queue_pair_does_not_allow_are_invalid() {
    let all = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    for (without, opcode, len) in [
        (Access::REMOTE_WRITE, opcode::RC_WRITE_ONLY, 8),
        (Access::REMOTE_WRITE, opcode::RC_WRITE_ONLY, 0),
        (Access::REMOTE_READ, opcode::RC_READ_REQUEST, 8),
        (Access::REMOTE_READ, opcode::RC_READ_REQUEST, 0),
        (Access::REMOTE_ATOMIC, opcode::RC_FETCH_ADD, 8),
    ] {
        let mut t = Tester::with(QpAttr {
            qp_access_flags: all - without,
            ..usual()
        });
        let buffer = t.buffer(8, all);
        let before = t.bytes(buffer);
        let payload = if opcode == opcode::RC_WRITE_ONLY {
            vec![1; len as usize]
        } else {
            Vec::new()
        };

        let ext = if opcode == opcode::RC_FETCH_ADD {
            add(buffer.va, buffer.key, 1)
        } else {
            reth(buffer.va, buffer.key, len)
        };
        t.inject(opcode, TT_PSN, true, ext, &payload);
        refused(&mut t, NakCode::InvalidRequest, TT_PSN);
        assert_eq!(t.events(), [QpEvent::ReqErr]);
        assert_eq!(t.bytes(buffer), before);
    }
}

#[test]
fn atomics_must_be_aligned() {
    let mut t = Tester::new();
    let buffer = t.buffer(16, Access::REMOTE_ATOMIC);
    t.inject(
        opcode::RC_FETCH_ADD,
        TT_PSN,
        true,
        add(buffer.va + 4, buffer.key, 1),
        &[],
    );
    refused(&mut t, NakCode::InvalidRequest, TT_PSN);
    assert_eq!(t.host.atomics, 0);
}

#[test]
fn a_receive_that_is_too_short_is_a_local_length_error() {
    let mut t = Tester::new();
    let short = t.buffer(1500, Access::LOCAL_WRITE);
    t.post_recv(1, short);
    t.post_recv(2, short);
    t.inject(
        opcode::RC_SEND_FIRST,
        TT_PSN,
        false,
        Ext::default(),
        &[1; 1024],
    );

    t.inject(
        opcode::RC_SEND_LAST,
        TT_PSN + 1,
        true,
        Ext::default(),
        &[1; 477],
    );

    refused(&mut t, NakCode::InvalidRequest, TT_PSN + 1);
    assert_eq!(
        t.recv_statuses(),
        [(1, WcStatus::LocLenErr), (2, WcStatus::WrFlushErr)]
    );

    assert!(t.events().is_empty(), "the completion tells");
}

#[test]
fn a_bad_receive_buffer_is_the_responders_fault() {
    let mut t = Tester::new();
    let poor = t.buffer(100, Access::empty());
    t.post_recv(1, poor);
    t.inject(opcode::RC_SEND_ONLY, TT_PSN, true, Ext::default(), &[1; 10]);
    refused(&mut t, NakCode::RemoteOperationalError, TT_PSN);
    assert_eq!(t.recv_statuses(), [(1, WcStatus::LocProtErr)]);
}

#[test]
fn more_reads_than_resources_are_invalid() {
    let mut t = Tester::with(QpAttr {
        max_dest_rd_atomic: 2,
        ..usual()
    });
    let buffer = t.buffer(4096, RW | Access::REMOTE_ATOMIC);
    t.inject(
        opcode::RC_READ_REQUEST,
        TT_PSN,
        true,
        reth(buffer.va, buffer.key, 4096),
        &[],
    );

    t.inject(
        opcode::RC_FETCH_ADD,
        TT_PSN + 4,
        true,
        add(buffer.va, buffer.key, 1),
        &[],
    );

    t.inject(
        opcode::RC_READ_REQUEST,
        TT_PSN + 5,
        true,
        reth(buffer.va, buffer.key, 1),
        &[],
    );

    let sent = t.sent();
    assert_eq!(sent.len(), 6, "what was accepted is answered first");
    assert_eq!(sent[5].nak(), Some((NakCode::InvalidRequest, TT_PSN + 5)));
    assert_eq!(t.qp.state(), QpState::Err);

    // One at a time they are fine.
    let mut t = Tester::with(QpAttr {
        max_dest_rd_atomic: 1,
        ..usual()
    });
    let buffer = t.buffer(64, RW);
    for i in 0..20 {
        t.inject(
            opcode::RC_READ_REQUEST,
            TT_PSN + i,
            true,
            reth(buffer.va, buffer.key, 64),
            &[],
        );
        t.one();
    }
}

#[test]
fn a_region_that_goes_away_under_a_read_is_an_access_error() {
    let mut t = Tester::new();
    let buffer = t.buffer(4000, RW);
    t.inject(
        opcode::RC_READ_REQUEST,
        TT_PSN,
        true,
        reth(buffer.va, buffer.key, 4000),
        &[],
    );
    t.memory().borrow_mut().invalidate(buffer.key).unwrap();
    refused(&mut t, NakCode::RemoteAccessError, TT_PSN);
    assert_eq!(t.events(), [QpEvent::AccessErr]);
}
