//! What holds a requester back: resources, window, credits, draining, and what it measures
//! meanwhile.

use ferroce_sim::Nothing;
use ferroce_sim::tester::{DUT_PSN, Tester, aeth, ladder, usual};
use ferroce_transport::{
    Access, Dest, Duration, MemoryError, Qp, QpAttr, QpConfig, QpEvent, QpState, SendData,
    SendFlags, SendOp, SendRequest, Sge, Sink, Time, TransmitOpts, TxPacket, WcStatus,
};
use ferroce_wire::{Aeth, CreditCode, Ext, NakCode, Syndrome, opcode};

const VA: u64 = 0x99_9000;
const RKEY: u32 = 0x12345;
const WRITE: SendOp = SendOp::Write { va: VA, rkey: RKEY };
const READ: SendOp = SendOp::Read { va: VA, rkey: RKEY };
const ADD: SendOp = SendOp::FetchAdd {
    va: VA,
    rkey: RKEY,
    add: 1,
};
const OK: WcStatus = WcStatus::Success;

#[test]
fn outstanding_reads_and_atomics_are_limited() {
    let mut t = Tester::with(QpAttr {
        max_rd_atomic: 2,
        ..usual()
    });
    let buffer = t.buffer(8, Access::LOCAL_WRITE);
    for id in 0..4 {
        t.post(id, if id % 2 == 0 { READ } else { ADD }, buffer);
    }
    assert_eq!(t.sent().len(), 2);
    t.inject(
        opcode::RC_READ_RESPONSE_ONLY,
        DUT_PSN,
        false,
        aeth(1),
        &[0; 8],
    );

    assert_eq!(t.one().bth.psn, DUT_PSN + 2);
}

/// READ responses outstanding never exceed the window, and chunks are whole packets.
#[test]
fn long_reads_are_asked_for_in_chunks() {
    let mut t = Tester::new();
    t.opts.window = 40_000;
    let len = 300_000;
    let buffer = t.buffer(len, Access::LOCAL_WRITE);
    t.post(1, READ, buffer);
    let (mut asked, mut got, mut psn) = (0u32, 0u32, DUT_PSN);
    while got < len {
        for p in t.sent() {
            let reth = p.ext.reth.expect("a READ request");
            assert_eq!(
                (reth.va, p.bth.psn),
                (VA + u64::from(asked), (DUT_PSN + asked / 1024) & 0xff_ffff)
            );
            asked += reth.len;
            assert!(reth.len % 1024 == 0 || asked == len);
        }

        assert!(asked - got <= 40_000 && asked > got);
        let n = 1024.min(asked - got);
        let op = if got + n == asked {
            opcode::RC_READ_RESPONSE_LAST
        } else {
            opcode::RC_READ_RESPONSE_FIRST
        };

        // The end of each chunk is a last (or only) packet; where that is, the requester knows.
        let end = got + n == asked || (got + n) / 1024 % (40_000 / 4 / 1024) == 0;
        let op = if end {
            opcode::RC_READ_RESPONSE_LAST
        } else {
            op
        };
        t.inject(op, psn, false, aeth(0), &vec![9; n as usize]);
        psn += 1;
        got += n;
    }

    assert_eq!(t.send_statuses(), [(1, OK)]);
    assert!(t.bytes(buffer).iter().all(|b| *b == 9));
}

#[test]
fn requests_in_flight_stay_within_the_window() {
    let mut t = Tester::new();
    t.opts.window = 10_000;
    let buffer = t.buffer(100_000, Access::LOCAL_WRITE);
    t.post(1, WRITE, buffer);
    let (mut sent, mut acked) = (0, 0);
    while acked < 98 {
        let packets = t.sent();
        sent += packets.len();
        assert!(sent - acked <= 9, "{sent} {acked}");
        assert!(
            packets.last().is_none_or(|p| p.bth.ack_req),
            "the one that fills the window asks"
        );
        if packets.is_empty() {
            panic!("stuck at {sent}");
        }
        acked = sent;
        t.ack(DUT_PSN + acked as u32 - 1, 0);
    }

    assert_eq!(t.send_statuses(), [(1, OK)]);
}

/// Else acknowledgements of single packets would each let one packet out, for ever.
#[test]
fn a_full_window_is_refilled_by_runs_unless_packets_are_lost() {
    let write_290 = || {
        let mut t = Tester::new();
        t.opts.window = 100 << 10;
        let buffer = t.buffer(290 << 10, Access::empty());
        t.post(1, WRITE, buffer);
        t
    };
    let mut t = write_290();
    let mut runs = vec![t.sent().len()];
    for acked in 0..290 {
        t.ack(DUT_PSN + acked, u32::from(acked == 289));
        runs.push(t.sent().len());
    }

    runs.retain(|run| *run != 0);
    assert_eq!(runs, [100, 25, 25, 25, 25, 25, 25, 25, 15]);
    assert_eq!(t.send_statuses(), [(1, OK)]);

    let mut t = write_290();
    assert_eq!(t.sent().len(), 100);
    t.answer(Syndrome::Nak(NakCode::PsnSequenceError), DUT_PSN + 10, 0);
    assert_eq!(t.sent().len(), 100, "again from what is missing on");
    for acked in 10..20 {
        t.ack(DUT_PSN + acked, 0);
        assert_eq!(t.sent().len(), 1, "the next loss must show");
    }
}

fn credits(t: &mut Tester, psn: u32, msn: u32, count: u32) {
    let aeth = Aeth::new(Syndrome::Ack(CreditCode::for_count(count)), msn);
    let ext = Ext {
        aeth: Some(aeth),
        ..Ext::default()
    };
    t.inject(opcode::RC_ACKNOWLEDGE, psn, false, ext, &[]);
}

#[test]
fn end_to_end_credits_let_one_message_too_many_go() {
    let mut t = Tester::new();
    let buffer = t.buffer(8, Access::empty());
    for id in 0..10 {
        t.post(id, SendOp::Send, buffer);
    }

    // Nothing is known yet, then the first answer says 2 more.
    let first = t.sent().len() as u32;
    assert_eq!(first, 10);

    let mut t = Tester::new();
    let buffer = t.buffer(8, Access::empty());
    t.post(0, SendOp::Send, buffer);
    t.one();
    credits(&mut t, DUT_PSN, 1, 2);
    for id in 1..10 {
        t.post(id, SendOp::Send, buffer);
    }
    assert_eq!(t.sent().len(), 3, "2 credits and one limited");
    credits(&mut t, DUT_PSN + 1, 2, 1); // no news
    t.none();
    credits(&mut t, DUT_PSN + 3, 4, 0);
    assert_eq!(t.sent().len(), 1, "one limited");

    // RDMA WRITEs need no credits, but what comes after them in the queue waits.
    credits(&mut t, DUT_PSN + 4, 5, 31);
    assert_eq!(t.sent().len(), 5);
}

#[test]
fn draining_stops_between_messages() {
    let mut t = Tester::new();
    t.opts.window = 2048;
    let buffer = t.buffer(4096, Access::empty());
    t.post(1, WRITE, buffer);
    t.post(2, WRITE, buffer);
    assert_eq!(t.sent().len(), 2);
    use ferroce_transport::QpAttrMask as M;

    let sqd = QpAttr {
        qp_state: QpState::Sqd,
        en_sqd_async_notify: true,
        ..usual()
    };
    t.modify(&sqd, M::STATE | M::EN_SQD_ASYNC_NOTIFY).unwrap();
    assert!(t.qp.query().sq_draining);
    t.ack(DUT_PSN + 1, 0);
    assert_eq!(
        t.sent().len(),
        2,
        "the message that had begun is sent whole"
    );

    assert!(t.events().is_empty());
    t.ack(DUT_PSN + 3, 1);
    assert_eq!(t.events(), [QpEvent::SqDrained]);
    assert!(!t.qp.query().sq_draining);
    t.none();

    // Attributes may change now.
    t.modify(
        &QpAttr {
            timeout: 20,
            ..usual()
        },
        M::TIMEOUT,
    )
    .unwrap();

    t.go(QpState::Rts);
    assert_eq!(t.sent().len(), 2);
    assert_eq!(t.send_statuses(), [(1, OK)]);
}

#[test]
fn draining_an_idle_queue_is_done_at_once() {
    use ferroce_transport::QpAttrMask as M;
    let mut t = Tester::new();
    let sqd = QpAttr {
        qp_state: QpState::Sqd,
        en_sqd_async_notify: true,
        ..usual()
    };
    t.modify(&sqd, M::STATE | M::EN_SQD_ASYNC_NOTIFY).unwrap();
    assert_eq!(t.events(), [QpEvent::SqDrained]);
    let mut t = Tester::new();
    t.go(QpState::Sqd);
    assert!(t.events().is_empty(), "only if asked for");
}

#[test]
fn local_invalidate_waits_for_earlier_requests() {
    let mut t = Tester::new();
    let buffer = t.buffer(8, Access::LOCAL_WRITE);
    t.post(1, WRITE, buffer);
    t.post(
        2,
        SendOp::LocalInv(buffer.key),
        ferroce_sim::Buffer::default(),
    );

    t.one();
    assert!(t.memory().borrow().region(buffer.key).unwrap().valid);
    t.ack(DUT_PSN, 1);
    t.none();
    assert!(!t.memory().borrow().region(buffer.key).unwrap().valid);
    assert_eq!(t.send_statuses(), [(1, OK), (2, OK)]);
    t.post(
        3,
        SendOp::LocalInv(buffer.key),
        ferroce_sim::Buffer::default(),
    );

    t.none();
    assert_eq!(t.send_statuses().last(), Some(&(3, WcStatus::LocQpOpErr)));
}

#[test]
fn round_trips_are_measured_once_a_packet_and_not_on_retransmissions() {
    let mut t = Tester::new();
    let buffer = t.buffer(8, Access::empty());
    t.post(1, WRITE, buffer);
    t.one();
    t.now += Duration::from_micros(7);
    t.ack(DUT_PSN, 1);
    assert_eq!(t.host.rtts, [Duration::from_micros(7)]);
    t.post(2, WRITE, buffer);
    t.one();
    t.expire();
    t.one();
    t.ack(DUT_PSN + 1, 2);
    assert_eq!(t.host.rtts, [Duration::from_micros(7)]);
    assert_eq!(t.host.timeouts, 1);
}

/// Less than half of all PSNs may be outstanding, or old and new could not be told apart.
#[test]
fn outstanding_psns_stay_below_half_of_their_space() {
    struct Count(Vec<(u32, u32)>);

    impl Sink for Count {
        fn packet(&mut self, p: &TxPacket<'_>) -> Result<(), MemoryError> {
            self.0
                .push((p.bth.psn, p.ext.reth.map_or(0, |reth| reth.len)));
            Ok(())
        }
    }

    let config = QpConfig {
        cap: ferroce_sim::tester::CAP,
        ..QpConfig::default()
    };
    let mut qp = Qp::new(config);
    let mut host = Nothing::default();
    let attr = QpAttr {
        path_mtu: 256,
        ..usual()
    };

    for (to, mask) in ladder() {
        let attr = QpAttr {
            qp_state: to,
            ..attr
        };
        qp.modify(&attr, mask, Time::ZERO, &mut host).unwrap();
    }

    let whole = Sge {
        addr: 0,
        length: 1 << 30,
        lkey: 1,
    };

    for wr_id in 0..3 {
        let request = SendRequest {
            wr_id,
            op: READ,
            flags: SendFlags::SIGNALED,
            data: SendData::Sges(&[whole]),
            dest: Dest::Connected,
        };
        qp.post_send(&request).unwrap();
    }

    let opts = TransmitOpts {
        window: u32::MAX,
        budget: u32::MAX,
        flush_acks: true,
        fill: false,
        stretch: 0,
    };

    let mut sink = Count(Vec::new());
    while qp.transmit(Time::ZERO, opts, &mut host, &mut sink) {}
    let asked: u64 = sink.0.iter().map(|(_, len)| u64::from(*len)).sum();
    assert!(asked >= 1 << 30, "{:?}", sink.0);
    assert!(asked / 256 < 1 << 23, "{:?}", sink.0);
}

/// RoCEv2 (annex A17): a CNP is about congestion and nothing else, and nothing answers it.
#[test]
fn a_cnp_is_told_of_and_changes_nothing_else() {
    let mut t = Tester::new();
    let buffer = t.buffer(8, Access::LOCAL_WRITE);
    t.post(1, WRITE, buffer);
    assert_eq!(t.sent().len(), 1);
    for _ in 0..3 {
        t.inject(opcode::CNP, 0, false, Ext::default(), &[0; 16]);
    }
    assert_eq!(t.host.notices, 3);
    assert!(t.sent().is_empty());
    assert_eq!(t.qp.state(), QpState::Rts);

    t.inject(opcode::RC_ACKNOWLEDGE, DUT_PSN, false, aeth(1), &[]);
    assert_eq!(t.send_statuses(), [(1, OK)]);
}
