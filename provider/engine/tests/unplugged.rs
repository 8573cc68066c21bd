//! A device whose daemon goes is like an adapter that is pulled: what is under way ends, and so
//! does what is posted afterwards.

mod common;

use std::io::Read;
use std::os::fd::AsRawFd;

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

#[test]
fn who_waits_for_events_is_told_and_nothing_new_is_made() {
    let host = Host::new("127.0.66.2");
    let mut bare = std::fs::File::from(host.context.make_channel().unwrap());
    let used = host.context.make_channel().unwrap();
    let cq = host
        .context
        .create_cq(8, 7, Some(used.as_raw_fd()))
        .unwrap();
    let qp = host.qp(&cq, CAP);
    cq.req_notify(false).unwrap();

    std::thread::scope(|scope| {
        let waits = scope.spawn(|| bare.read(&mut [0; 8]).unwrap());
        host.unplug();
        assert_eq!(waits.join().unwrap(), 0);
    });
    assert_eq!(events(&host.context).last(), Some(&(1, 8)));

    assert_eq!(host.hca.port_attr(1).unwrap().state, 1);
    let errno = |refused: Error| refused.errno();
    assert_eq!(host.context.alloc_pd().err().map(errno), Some(libc::EIO));
    assert_eq!(
        host.context.make_channel().err().map(errno),
        Some(libc::EIO)
    );
    let made = host.context.create_cq(8, 0, None);
    assert_eq!(made.err().map(errno), Some(libc::EIO));

    let error = QpAttr {
        qp_state: QpState::Err,
        ..QpAttr::default()
    };
    qp.modify(&error, QpAttrMask::STATE).unwrap();
    // No event is waited for that nobody could acknowledge.
    assert_eq!(qp.close(0).unwrap(), Delivered::default());
    assert_eq!(cq.destroy().unwrap(), Delivered::default());
}
