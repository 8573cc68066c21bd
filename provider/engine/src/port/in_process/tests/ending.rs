//! What has come is handled before a queue pair's requests are ended. Found by uDAPL's `dtestsrq`
//! over TCP, whose server ends the connection as soon as its client has ended that of TCP, with the
//! last acknowledgement in its socket.

use super::*;

fn end(side: &Side) {
    let attr = QpAttr {
        qp_state: QpState::Err,
        ..QpAttr::default()
    };
    side.qp.modify(&attr, M::STATE).unwrap();
}

fn statuses(side: &Side) -> Vec<u32> {
    poll(&side.cq).iter().map(|wc| wc.status).collect()
}

#[test]
fn what_was_acknowledged_is_not_flushed() {
    let _time = VirtualTime::begin();
    let kinds: [fn(u64, u32) -> SendOp; 3] = [
        |_, _| SendOp::Send,
        |va, rkey| SendOp::Write { va, rkey },
        |va, rkey| SendOp::Read { va, rkey },
    ];
    for op in kinds {
        let [a, b] = connected(Faults::default());
        let (mut here, mut there) = (pattern(64, 1), vec![0; 64]);
        let ((_ma, s), (mb, d)) = (a.register(&mut here), b.register(&mut there));
        b.qp.post_recv(9, &[d]).unwrap();
        let op = op(d.addr, mb.rkey());
        a.post(op, SendData::Sges(&[s]), Dest::Connected);

        // The peer answers while nobody looks.
        let patience = timers::now() + PATIENCE;
        while b.count(Counter::TxPackets) == 0 {
            poll(&b.cq);
            assert!(timers::now() < patience);
        }

        end(&a);
        assert_eq!(statuses(&a), [0]);
    }
}

/// `IBV_WC_WR_FLUSH_ERR`
#[test]
fn what_was_not_acknowledged_is_flushed() {
    let _time = VirtualTime::begin();
    let sides = connected(Faults::default());
    let a = &sides[0];
    let op = SendOp::Write { va: 0, rkey: 0 };
    a.post(op, SendData::Inline(&[1; 8]), Dest::Connected);
    end(a);
    assert_eq!(statuses(a), [5]);
}

/// Two sides with queue pairs of a service, the first with more WRITEs than go out at once.
fn busy(service: u32, here: &mut [u8], there: &mut [u8]) -> [Side; 2] {
    let sides = match service {
        RC => connected(Faults::default()),
        _ => unacknowledged(),
    };
    let [a, b] = &sides;
    let ((_, s), (mb, d)) = (a.register(here), b.register(there));
    let (va, rkey) = (d.addr, mb.rkey());
    for _ in 0..100 {
        let op = SendOp::Write { va, rkey };
        a.post(op, SendData::Sges(&[s]), Dest::Connected);
    }
    sides
}

/// Two sides with connected queue pairs of UC.
fn unacknowledged() -> [Side; 2] {
    let sides = Hca::tied(Faults::default())
        .unwrap()
        .map(|hca| Side::of(hca, UC));
    let init = M::STATE | M::PORT | M::PKEY_INDEX | M::ACCESS_FLAGS;
    let rtr = M::STATE | M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
    for (me, peer) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])] {
        for (qp_state, mask) in [
            (QpState::Init, init),
            (QpState::Rtr, rtr),
            (QpState::Rts, M::STATE | M::SQ_PSN),
        ] {
            let attr = QpAttr {
                qp_state,
                port_num: 1,
                dest_qp_num: peer.qp.qp_num(),
                av: peer.address(),
                path_mtu: 1024,
                qp_access_flags: Access::from_bits_retain(0xf),
                ..QpAttr::default()
            };
            me.qp.modify(&attr, mask).unwrap();
        }
    }
    sides
}

/// Between a packet and its answer nobody holds the queue pair.
#[test]
fn who_has_received_for_one_that_has_ended_completes_nothing() {
    let _time = VirtualTime::begin();
    for service in [RC, UC] {
        let (mut here, mut there) = (pattern(65_536, 1), vec![0; 65_536]);
        let [a, b] = busy(service, &mut here, &mut there);
        let op = SendOp::Send;
        b.post(op, SendData::Inline(&[]), Dest::Connected);
        let mut rx = a.hca.rx.lock();
        assert!(a.hca.receive_a_round(&mut rx) > 0);
        a.qp.close(0).unwrap();
        a.hca.answer(&mut rx);
        drop(rx);
        assert_eq!(poll(&a.cq), []);
    }
}
