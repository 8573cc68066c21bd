//! A device whose daemon goes is like an adapter that is pulled: what is under way ends, and so
//! does what is posted afterwards.

mod common;

use common::*;
use ferroce_engine::*;

/// `IBV_WC_WR_FLUSH_ERR`.
const FLUSHED: u32 = 5;

#[test]
fn what_is_posted_after_the_daemon_has_gone_is_flushed() {
    let host = Host::new("127.0.66.1");
    let cq = host.cq(64);
    let (a, b) = (host.qp(&cq, CAP), host.qp(&cq, CAP));
    connect((&host, &a), (&host, &b));
    a.post_recv(1, &[]).unwrap();

    host.unplug();
    let under_way = wait(&cq, 1);
    assert_eq!((under_way[0].wr_id, under_way[0].status), (1, FLUSHED));

    let request = SendRequest {
        wr_id: 2,
        op: SendOp::Send,
        flags: SendFlags::SIGNALED,
        data: SendData::Inline(b"too late"),
        dest: Dest::Connected,
    };

    // One after the other: each by itself has it flushed.
    a.post_send(&request).unwrap();
    let sent = wait(&cq, 1);
    assert_eq!((sent[0].wr_id, sent[0].status), (2, FLUSHED));
    a.post_recv(3, &[]).unwrap();
    let received = wait(&cq, 1);
    assert_eq!((received[0].wr_id, received[0].status), (3, FLUSHED));
}
