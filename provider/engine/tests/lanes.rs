//! Lanes (`docs/architecture/lanes.md`) where something is short, or ends.

mod common;

use std::collections::HashSet;
use std::sync::Arc;

use common::*;
use ferroce_engine::*;

/// `IBV_WC_WR_FLUSH_ERR`.
const FLUSHED: u32 = 5;
/// `IBV_EVENT_DEVICE_FATAL`
const DEVICE_FATAL: u32 = 8;

fn slot_of(qp: &Qp) -> u32 {
    qp.qp_num() >> 16
}

fn send(host: &Host, cq: &Arc<Cq>, from: &Qp, to: &Qp) {
    let mut target = vec![0u8; 8];
    let mr = host.mr(&mut target);
    let sge = Sge {
        addr: target.as_ptr() as u64,
        length: 8,
        lkey: mr.lkey(),
    };
    to.post_recv(1, &[sge]).unwrap();
    from.post_send(&SendRequest {
        wr_id: 2,
        op: SendOp::Send,
        flags: SendFlags::SIGNALED,
        data: SendData::Inline(b"arrived?"),
        dest: Dest::Connected,
    })
    .unwrap();
    let done: HashSet<_> = wait(cq, 2).iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(done, HashSet::from([(1, 0), (2, 0)]));
    mr.dereg().unwrap();
    assert_eq!(target, b"arrived?");
}

#[test]
fn where_slots_are_short_the_first_lane_serves() {
    let host = Host::new("127.0.67.1");
    let others: Vec<_> = (0..128).map(|_| host.attach()).collect();
    let (first, second) = (host.cq_of_vector(16, 0), host.cq_of_vector(16, 1));
    let (a, b) = (host.qp(&first, CAP), host.qp(&second, CAP));
    assert_eq!(slot_of(&a), slot_of(&b));
    let c = host.qp(&second, CAP);
    connect((&host, &b), (&host, &c));
    send(&host, &second, &b, &c);
    drop(others);

    // It is not tried again, so that a program's queue pairs of one vector are in one lane.
    let late = host.qp(&host.cq_of_vector(16, 1), CAP);
    assert_eq!(slot_of(&late), slot_of(&a));
}

#[test]
fn without_the_daemon_all_lanes_end_and_the_program_is_told_once() {
    let host = Host::new("127.0.67.2");
    let cqs = [host.cq_of_vector(16, 0), host.cq_of_vector(16, 1)];
    let pairs = cqs.each_ref().map(|cq| {
        let pair = [host.qp(cq, CAP), host.qp(cq, CAP)];
        connect((&host, &pair[0]), (&host, &pair[1]));
        send(&host, cq, &pair[0], &pair[1]);
        pair[0].post_recv(3, &[]).unwrap();
        pair
    });
    assert_ne!(slot_of(&pairs[0][0]), slot_of(&pairs[1][0]));

    host.unplug();
    for cq in &cqs {
        let ended = wait(cq, 1);
        assert_eq!((ended[0].wr_id, ended[0].status), (3, FLUSHED));
    }
    for [qp, _] in &pairs {
        while qp.state() != QpState::Err {
            std::thread::yield_now();
        }
    }
    let told = events(&host.context);
    let ended = told.iter().filter(|(_, event)| *event == DEVICE_FATAL);
    assert_eq!(ended.count(), 1, "{told:?}");
}
