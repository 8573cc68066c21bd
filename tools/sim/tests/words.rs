//! ATOMIC WRITE: eight bytes at once, answered like a READ of nothing, and carried out once.

use ferroce_sim::Buffer;
use ferroce_sim::tester::{DUT_PSN, TT_PSN, Tester, aeth, reth, usual};
use ferroce_transport::{
    Access, Dest, PostError, QpAttr, QpState, QpType, SendData, SendFlags, SendOp, SendRequest,
    WcOpcode, WcStatus,
};
use ferroce_wire::opcode::*;
use ferroce_wire::{Ext, NakCode};

const WORD: SendOp = SendOp::AtomicWrite { va: 16, rkey: 9 };

fn target(t: &mut Tester) -> Buffer {
    t.buffer(24, Access::REMOTE_WRITE | Access::LOCAL_WRITE)
}

#[test]
fn the_word_goes_out_and_its_answer_is_awaited() {
    let mut t = Tester::new();
    let buffer = t.buffer(8, Access::empty());
    t.post(1, WORD, buffer);
    let p = t.one();
    assert_eq!(
        (p.bth.opcode, p.bth.psn, p.bth.ack_req),
        (RC_ATOMIC_WRITE, DUT_PSN, true)
    );

    assert_eq!(p.ext, reth(16, 9, 8));
    assert_eq!(p.payload, t.bytes(buffer));

    // An acknowledgement is not its answer: it says that the answer was lost.
    t.ack(DUT_PSN, 1);
    assert!(t.host.sends.is_empty());
    let again = t.one();
    assert_eq!((again.bth.psn, again.again), (DUT_PSN, true));
    t.inject(RC_READ_RESPONSE_ONLY, DUT_PSN, false, aeth(1), &[]);
    let c = t.host.sends[0];
    assert_eq!(
        (c.status, c.opcode),
        (WcStatus::Success, WcOpcode::AtomicWrite)
    );

    assert_eq!(t.qp.next_timeout(), None);
}

#[test]
fn an_answer_with_bytes_is_a_bad_response() {
    let mut t = Tester::new();
    let buffer = t.buffer(8, Access::empty());
    t.post(1, WORD, buffer);
    t.one();
    t.inject(RC_READ_RESPONSE_ONLY, DUT_PSN, false, aeth(1), &[1; 8]);
    assert_eq!(t.send_statuses(), [(1, WcStatus::BadRespErr)]);
}

#[test]
fn it_counts_among_the_outstanding_reads_and_is_fenced() {
    let attr = QpAttr {
        max_rd_atomic: 1,
        ..usual()
    };
    let mut t = Tester::with(attr);
    let buffer = t.buffer(8, Access::LOCAL_WRITE);
    t.post(1, WORD, buffer);
    t.post(2, WORD, buffer);
    t.one();
    t.inject(RC_READ_RESPONSE_ONLY, DUT_PSN, false, aeth(1), &[]);
    t.one();
    t.post_flags(3, SendOp::Send, buffer, SendFlags::FENCE);
    t.none();
    t.inject(RC_READ_RESPONSE_ONLY, DUT_PSN + 1, false, aeth(2), &[]);
    assert_eq!(t.one().bth.opcode, RC_SEND_ONLY);

    // Without any there can be none.
    let attr = QpAttr {
        max_rd_atomic: 0,
        ..usual()
    };
    let mut t = Tester::with(attr);
    t.post(1, WORD, buffer);
    t.none();
    assert_eq!(t.send_statuses(), [(1, WcStatus::LocQpOpErr)]);
}

#[test]
fn it_takes_eight_bytes_from_wherever() {
    let mut t = Tester::new();
    let post = |t: &mut Tester, op, data: SendData<'_>| {
        t.qp.post_send(&SendRequest {
            wr_id: 1,
            op,
            flags: SendFlags::empty(),
            data,
            dest: Dest::Connected,
        })
    };

    for len in [0, 7, 9, 64] {
        let bytes = vec![1; len];
        assert_eq!(
            post(&mut t, WORD, SendData::Inline(&bytes)),
            Err(PostError::BadLength)
        );
        let b = t.buffer(len as u32, Access::empty());
        assert_eq!(
            post(&mut t, WORD, SendData::Sges(&[b.sge()])),
            Err(PostError::BadLength)
        );
    }

    let (a, b) = (t.buffer(3, Access::empty()), t.buffer(5, Access::empty()));
    let want = [t.bytes(a), t.bytes(b)].concat();
    assert_eq!(
        post(&mut t, WORD, SendData::Sges(&[a.sge(), b.sge()])),
        Ok(())
    );

    assert_eq!(t.one().payload, want);
    assert_eq!(post(&mut t, WORD, SendData::Inline(&[5; 8])), Ok(()));
    assert_eq!(t.one().payload, [5; 8]);
    for service in [QpType::Uc, QpType::XrcSend] {
        let mut t = Tester::service(service);
        let refused = post(&mut t, WORD, SendData::Inline(&[5; 8]));
        assert_eq!(refused, Err(PostError::BadOpcode));
    }
}

#[test]
fn a_word_is_stored_once_however_often_it_comes() {
    let mut t = Tester::new();
    let b = target(&mut t);
    let ext = reth(b.va + 8, b.key, 8);
    for round in 0..3 {
        t.inject(RC_ATOMIC_WRITE, TT_PSN, true, ext, &[7 + round; 8]);
        let p = t.one();
        assert_eq!((p.bth.opcode, p.bth.psn), (RC_READ_RESPONSE_ONLY, TT_PSN));
        assert_eq!((p.payload.len(), p.again), (0, round > 0));
        assert_eq!(p.ext.aeth.unwrap().msn, 1);
        assert_eq!(t.bytes(b)[8..16], [7; 8]);
    }
    assert_eq!(t.host.words, 1);
    t.inject(RC_SEND_ONLY, TT_PSN + 1, true, Ext::default(), &[]);
    assert!(t.one().syndrome().is_some(), "the connection goes on");
}

#[test]
fn what_is_wrong_with_it_is_said() {
    let attr = QpAttr {
        qp_access_flags: Access::REMOTE_READ | Access::REMOTE_ATOMIC,
        ..usual()
    };

    let cases: [(QpAttr, u64, u32, usize, NakCode); 5] = [
        (usual(), 4, 8, 8, NakCode::InvalidRequest),
        (usual(), 8, 7, 8, NakCode::InvalidRequest),
        (usual(), 8, 8, 12, NakCode::InvalidRequest),
        (attr, 8, 8, 8, NakCode::InvalidRequest),
        (usual(), 24, 8, 8, NakCode::RemoteAccessError),
    ];

    for (attr, offset, len, payload, code) in cases {
        let mut t = Tester::with(attr);
        let b = target(&mut t);
        let before = t.bytes(b);
        let ext = reth(b.va + offset, b.key, len);
        t.inject(RC_ATOMIC_WRITE, TT_PSN, true, ext, &vec![1; payload]);
        assert_eq!(t.one().nak(), Some((code, TT_PSN)));
        assert_eq!(t.bytes(b), before);
        assert_eq!(t.qp.state(), QpState::Err);
    }
}
