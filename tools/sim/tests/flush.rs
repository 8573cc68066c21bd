//! FLUSH: answered like a READ of nothing once the host has done it, after all that came before,
//! and done once.

use ferroce_sim::Buffer;
use ferroce_sim::tester::{DUT_PSN, TT_PSN, Tester, aeth, feth, reth, usual};
use ferroce_transport::{
    Access, Dest, Flush, MAX_FLUSH, Placement, PostError, QpAttr, QpState, QpType, Selectivity,
    SendData, SendFlags, SendOp, SendRequest, WcOpcode, WcStatus,
};
use ferroce_wire::opcode::*;
use ferroce_wire::{Ext, NakCode};

const FLUSH: Flush = Flush {
    va: 16,
    rkey: 9,
    len: 5000,
    placement: Placement::GLOBAL,
    selectivity: Selectivity::Range,
};
const NOTHING: SendData<'_> = SendData::Sges(&[]);

fn target(t: &mut Tester) -> Buffer {
    t.buffer(
        24,
        Access::REMOTE_WRITE | Access::LOCAL_WRITE | Access::FLUSH_GLOBAL,
    )
}

fn post(t: &mut Tester, flush: Flush) -> Result<(), PostError> {
    t.qp.post_send(&SendRequest {
        wr_id: 1,
        op: SendOp::Flush(flush),
        flags: SendFlags::SIGNALED,
        data: NOTHING,
        dest: Dest::Connected,
    })
}

#[test]
fn it_goes_out_in_one_packet_and_its_answer_is_awaited() {
    let mut t = Tester::new();
    for (placement, selectivity, plt, sel) in [
        (Placement::GLOBAL, Selectivity::Range, 1, 0),
        (Placement::PERSISTENT, Selectivity::Region, 2, 1),
        (Placement::all(), Selectivity::Range, 3, 0),
    ] {
        let flush = Flush {
            placement,
            selectivity,
            ..FLUSH
        };
        assert_eq!(post(&mut t, flush), Ok(()));
        let p = t.one();
        assert_eq!((p.bth.opcode, p.bth.ack_req), (RC_FLUSH, true));
        assert_eq!(p.ext, feth(plt, sel, 16, 9, 5000));
        assert!(p.payload.is_empty());

        // An acknowledgement is not its answer: it says that the answer was lost.
        t.ack(p.bth.psn, 1);
        let again = t.one();
        assert_eq!((again.bth.psn, again.again), (p.bth.psn, true));
        assert_eq!(again.ext, p.ext);
        t.inject(RC_READ_RESPONSE_ONLY, p.bth.psn, false, aeth(1), &[]);
        let c = t.host.sends.pop().expect("it is answered");
        assert_eq!((c.status, c.opcode), (WcStatus::Success, WcOpcode::Flush));
        assert_eq!(t.qp.next_timeout(), None);
    }
}

#[test]
fn an_answer_with_bytes_is_a_bad_response() {
    let mut t = Tester::new();
    assert_eq!(post(&mut t, FLUSH), Ok(()));
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
    assert_eq!(post(&mut t, FLUSH), Ok(()));
    assert_eq!(post(&mut t, FLUSH), Ok(()));
    t.one();
    t.inject(RC_READ_RESPONSE_ONLY, DUT_PSN, false, aeth(1), &[]);
    t.one();
    t.post_flags(3, SendOp::Send, buffer, SendFlags::FENCE);
    t.none();
    t.inject(RC_READ_RESPONSE_ONLY, DUT_PSN + 1, false, aeth(2), &[]);
    assert_eq!(t.one().bth.opcode, RC_SEND_ONLY);

    // Without any there can be none.
    let mut t = Tester::with(QpAttr {
        max_rd_atomic: 0,
        ..usual()
    });
    assert_eq!(post(&mut t, FLUSH), Ok(()));
    t.none();
    assert_eq!(t.send_statuses(), [(1, WcStatus::LocQpOpErr)]);
}

#[test]
fn what_asks_for_nothing_or_too_much_is_not_posted() {
    let mut t = Tester::new();
    let none = Flush {
        placement: Placement::empty(),
        ..FLUSH
    };
    let long = |len| Flush { len, ..FLUSH };
    assert_eq!(post(&mut t, none), Err(PostError::BadLength));
    assert_eq!(post(&mut t, long(MAX_FLUSH + 1)), Err(PostError::BadLength));
    assert_eq!(post(&mut t, long(MAX_FLUSH)), Ok(()));
    assert_eq!(t.one().ext.reth.map(|reth| reth.len), Some(MAX_FLUSH));
    let refused = post(&mut Tester::service(QpType::Uc), FLUSH);
    assert_eq!(refused, Err(PostError::BadOpcode));
}

#[test]
fn an_initiator_sends_it_to_a_queue() {
    let mut t = Tester::service(QpType::XrcSend);
    let request = SendRequest {
        wr_id: 1,
        op: SendOp::Flush(FLUSH),
        flags: SendFlags::SIGNALED,
        data: NOTHING,
        dest: Dest::XrcSrq(0x12_3456),
    };
    assert_eq!(t.qp.post_send(&request), Ok(()));
    let p = t.one();
    assert_eq!(p.bth.opcode, XRC_FLUSH);
    assert_eq!(p.ext.xrceth, Some(0x12_3456));
    assert_eq!((p.ext.feth, p.ext.reth), {
        let ext = feth(1, 0, 16, 9, 5000);
        (ext.feth, ext.reth)
    });

    t.inject(XRC_READ_RESPONSE_ONLY, DUT_PSN, false, aeth(1), &[]);
    assert_eq!(t.send_statuses(), [(1, WcStatus::Success)]);
}

#[test]
fn it_is_done_once_and_after_what_came_before_however_often_it_comes() {
    let mut t = Tester::new();
    let b = target(&mut t);
    let ext = feth(1, 0, b.va + 4, b.key, 8);
    t.inject(
        RC_WRITE_ONLY,
        TT_PSN,
        false,
        reth(b.va, b.key, 24),
        &[7; 24],
    );

    // One ahead of its turn is not done.
    t.inject(RC_FLUSH, TT_PSN + 2, true, ext, &[]);
    assert_eq!(t.one().nak(), Some((NakCode::PsnSequenceError, TT_PSN + 1)));
    assert!(t.host.flushes.is_empty());

    for round in 0..3 {
        t.inject(RC_FLUSH, TT_PSN + 1, true, ext, &[]);
        let p = t.one();
        assert_eq!(
            (p.bth.opcode, p.bth.psn),
            (RC_READ_RESPONSE_ONLY, TT_PSN + 1)
        );
        assert_eq!((p.payload.len(), p.again), (0, round > 0));
        assert_eq!(p.ext.aeth.unwrap().msn, 2);
    }

    let done = Flush {
        va: b.va + 4,
        rkey: b.key,
        len: 8,
        ..FLUSH
    };
    assert_eq!(t.host.flushes, [done]);
    assert_eq!(t.bytes(b), [7; 24]);
    t.inject(RC_SEND_ONLY, TT_PSN + 2, true, Ext::default(), &[]);
    assert!(t.one().syndrome().is_some(), "the connection goes on");
}

#[test]
fn a_whole_region_needs_no_address() {
    let mut t = Tester::new();
    let b = target(&mut t);
    t.inject(RC_FLUSH, TT_PSN, true, feth(1, 1, 3, b.key, 1 << 30), &[]);
    assert_eq!(t.one().bth.opcode, RC_READ_RESPONSE_ONLY);
    assert_eq!(t.host.flushes[0].selectivity, Selectivity::Region);
}

#[test]
fn what_is_wrong_with_it_is_said() {
    let without = QpAttr {
        qp_access_flags: usual().qp_access_flags - Access::FLUSH_GLOBAL,
        ..usual()
    };

    let (invalid, access) = (NakCode::InvalidRequest, NakCode::RemoteAccessError);
    let cases: [(QpAttr, u8, u8, u64, u32, u32, NakCode); 11] = [
        // No placement, reserved ones, reserved levels.
        (usual(), 0, 0, 0, 8, 0, invalid),
        (usual(), 4, 0, 0, 8, 0, invalid),
        (usual(), 9, 0, 0, 8, 0, invalid),
        (usual(), 1, 2, 0, 8, 0, invalid),
        (usual(), 1, 3, 0, 8, 0, invalid),
        // More than there can be, and a right that the queue pair does not give.
        (usual(), 1, 0, 0, MAX_FLUSH + 1, 0, invalid),
        (without, 1, 0, 0, 8, 0, invalid),
        // A range that is not all inside, a right that the region does not give, and a key that is
        // none, even for nothing.
        (usual(), 1, 0, 20, 5, 0, access),
        (usual(), 3, 0, 0, 8, 0, access),
        (usual(), 1, 0, 0, 0, 8, access),
        (usual(), 2, 1, 0, 8, 0, access),
    ];

    for (attr, placement, level, offset, len, wrong, code) in cases {
        let mut t = Tester::with(attr);
        let b = target(&mut t);
        let ext = feth(placement, level, b.va + offset, b.key + wrong, len);
        t.inject(RC_FLUSH, TT_PSN, true, ext, &[]);
        assert_eq!(t.one().nak(), Some((code, TT_PSN)), "{ext:?}");
        assert!(t.host.flushes.is_empty());
        assert_eq!(t.qp.state(), QpState::Err);
    }
}
