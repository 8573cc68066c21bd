//! Receiving from a shared receive queue: no credits, the last request, and messages whose head the
//! host keeps.

use ferroce_sim::tester::{TT_PSN, Tester, usual};
use ferroce_transport::{Access, QpEvent, QpState, RecvWqe, WcStatus};
use ferroce_wire::{CreditCode, Ext, Syndrome, opcode};
use smallvec::smallvec;

#[test]
fn a_shared_receive_queue_gives_no_credits_and_announces_the_last_request() {
    let mut t = Tester::in_state(usual(), QpState::Rts, true);
    let buffer = t.buffer(2000, Access::LOCAL_WRITE);
    assert!(t.qp.post_recv(1, &[]).is_err());

    for wr_id in 0..3 {
        let wqe = RecvWqe {
            wr_id,
            sges: smallvec![buffer.sge()],
            skip: 0,
        };
        t.host.srq.borrow_mut().push_back(wqe);
    }

    t.inject(opcode::RC_SEND_ONLY, TT_PSN, true, Ext::default(), &[1; 10]);
    assert_eq!(
        t.one().syndrome(),
        Some(Syndrome::Ack(CreditCode::UNLIMITED))
    );

    t.inject(
        opcode::RC_SEND_FIRST,
        TT_PSN + 1,
        true,
        Ext::default(),
        &[1; 1024],
    );

    t.go(QpState::Err);
    assert_eq!(
        t.recv_statuses(),
        [(0, WcStatus::Success), (1, WcStatus::WrFlushErr)]
    );

    assert_eq!(t.events(), [QpEvent::LastWqeReached]);
    assert_eq!(t.host.srq.borrow().len(), 1, "what was not taken stays");
    t.none();
}

#[test]
fn what_the_host_takes_out_of_a_message_is_neither_placed_nor_counted() {
    let mut t = Tester::in_state(usual(), QpState::Rts, true);
    let buffer = t.buffer(2000, Access::LOCAL_WRITE);
    let message: Vec<u8> = (0..2016u32).map(|i| (i % 251) as u8).collect();
    let wqe = |skip| RecvWqe {
        wr_id: u64::from(skip),
        sges: smallvec![buffer.sge()],
        skip,
    };

    // 16 bytes of the first packet; the rest fills the buffer to its end.
    t.host.srq.borrow_mut().push_back(wqe(16));
    let (first, rest) = message.split_at(1024);
    t.inject(opcode::RC_SEND_FIRST, TT_PSN, false, Ext::default(), first);
    t.inject(opcode::RC_SEND_LAST, TT_PSN + 1, true, Ext::default(), rest);
    let done = *t.receives().last().unwrap();
    assert_eq!((done.status, done.byte_len), (WcStatus::Success, 2000));
    assert_eq!(t.bytes(buffer), message[16..]);

    // More than a packet, and more than the whole message.
    t.host.srq.borrow_mut().extend([wqe(1030), wqe(u32::MAX)]);
    t.inject(
        opcode::RC_SEND_FIRST,
        TT_PSN + 2,
        false,
        Ext::default(),
        first,
    );

    t.inject(opcode::RC_SEND_LAST, TT_PSN + 3, true, Ext::default(), rest);
    assert_eq!(t.receives().last().unwrap().byte_len, 2016 - 1030);
    assert_eq!(t.bytes(buffer)[..986], message[1030..]);
    let before = t.bytes(buffer);
    t.inject(
        opcode::RC_SEND_ONLY,
        TT_PSN + 4,
        true,
        Ext::default(),
        &[9; 100],
    );

    assert_eq!(t.receives().last().unwrap().byte_len, 0);
    assert_eq!(t.bytes(buffer), before);

    // One byte too many, header included.
    t.host.srq.borrow_mut().push_back(wqe(16));
    t.inject(
        opcode::RC_SEND_FIRST,
        TT_PSN + 5,
        false,
        Ext::default(),
        first,
    );

    let too_long = [rest, &[1]].concat();
    t.inject(
        opcode::RC_SEND_LAST,
        TT_PSN + 6,
        true,
        Ext::default(),
        &too_long,
    );

    assert_eq!(t.recv_statuses().last(), Some(&(16, WcStatus::LocLenErr)));
}
