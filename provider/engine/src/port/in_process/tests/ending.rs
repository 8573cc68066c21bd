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
