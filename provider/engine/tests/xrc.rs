//! XRC over real sockets: domains, shared receive queues with completion queues of their own,
//! targets with several openers; and what is the same for every shared receive queue.

mod common;

use std::os::fd::AsRawFd;
use std::sync::Arc;

use common::*;
use ferroce_engine::*;

const CREATE: i32 = libc::O_CREAT;
const EXCLUSIVE: i32 = libc::O_CREAT | libc::O_EXCL;

fn errno<T>(result: Result<T>) -> i32 {
    result.err().expect("it must be refused").errno()
}

fn initiator(host: &Host, cq: &Arc<Cq>) -> Arc<Qp> {
    let init = QpInit {
        qp_type: 9,
        send_cq: Some(cq.clone()),
        cap: CAP,
        sq_sig_all: true,
        ..QpInit::default()
    };
    host.pd.create_qp(init).unwrap()
}

fn target(host: &Host, xrcd: &Arc<Xrcd>, cookie: u64) -> Arc<Qp> {
    let init = QpInit {
        qp_type: 10,
        xrcd: Some(xrcd.clone()),
        cookie,
        ..QpInit::default()
    };
    host.context.create_xrc_target(init).unwrap()
}

fn srq(pd: &Arc<Pd>, xrcd: &Arc<Xrcd>, cq: &Arc<Cq>) -> Arc<Srq> {
    pd.create_srq(SrqInit {
        max_wr: 16,
        max_sge: 1,
        cookie: 77,
        xrc: Some((xrcd.clone(), cq.clone())),
        ..SrqInit::default()
    })
    .unwrap()
}

fn send(qp: &Qp, srq: u32, op: SendOp, data: SendData<'_>) {
    post(qp, Dest::XrcSrq(srq), op, data);
}

fn post(qp: &Qp, dest: Dest, op: SendOp, data: SendData<'_>) {
    let request = SendRequest {
        wr_id: 1,
        op,
        flags: SendFlags::SIGNALED,
        data,
        dest,
    };
    qp.post_send(&request).unwrap();
}

#[test]
fn a_domain_is_shared_by_its_file_and_ends_with_its_last_opener() {
    let host = Host::new("127.0.50.1");
    let other = Context::open(host.hca.clone()).unwrap();
    let file = tempfile::tempfile().unwrap();
    let fd = Some(file.as_raw_fd());
    assert_eq!(errno(host.context.open_xrcd(fd, 0)), libc::EAGAIN);
    let first = host.context.open_xrcd(fd, EXCLUSIVE).unwrap();
    assert_eq!(errno(other.open_xrcd(fd, EXCLUSIVE)), libc::EINVAL);
    assert_eq!(errno(other.open_xrcd(fd, libc::O_TRUNC)), libc::EINVAL);
    assert_eq!(errno(other.open_xrcd(Some(1_000_000), CREATE)), libc::EBADF);
    let second = other.open_xrcd(fd, 0).unwrap();

    // A target made through one is opened through the other, and each opener is one of its users.
    let qp = target(&host, &first, 1);
    assert_eq!(errno(first.close()), libc::EBUSY);
    let again = other.open_qp(&second, qp.qp_num(), 2).unwrap();
    assert_eq!(again.qp_num(), qp.qp_num());
    assert_eq!(errno(other.open_qp(&first, qp.qp_num(), 3)), libc::EINVAL);
    assert_eq!(errno(other.open_qp(&second, 1, 3)), libc::EINVAL);
    qp.close(1).unwrap();
    first.close().unwrap();
    assert_eq!(errno(second.close()), libc::EBUSY);

    // It is still there for the second.
    assert_eq!(again.state(), QpState::Reset);
    let third = other.open_qp(&second, again.qp_num(), 4).unwrap();
    again.close(2).unwrap();
    third.close(4).unwrap();
    assert_eq!(
        errno(other.open_qp(&second, again.qp_num(), 5)),
        libc::EINVAL
    );

    second.close().unwrap();
    assert_eq!(errno(other.open_xrcd(fd, 0)), libc::EAGAIN);

    // Without a file, each is its own.
    let (one, two) = (
        host.context.open_xrcd(None, CREATE).unwrap(),
        host.context.open_xrcd(None, EXCLUSIVE).unwrap(),
    );
    let qp = target(&host, &one, 1);
    assert_eq!(
        errno(host.context.open_qp(&two, qp.qp_num(), 2)),
        libc::EINVAL
    );

    qp.close(1).unwrap();
    one.close().unwrap();
    two.close().unwrap();
}

#[test]
fn a_request_finds_its_shared_receive_queue_and_that_ones_domain_and_cq() {
    let (a, b) = (Host::new("127.0.51.1"), Host::new("127.0.51.2"));
    let (cq_a, cq_1, cq_2) = (a.cq(64), b.cq(64), b.cq(64));
    let xrcd = b.context.open_xrcd(None, CREATE).unwrap();
    let other_pd = b.context.alloc_pd().unwrap();
    let one = srq(&b.pd, &xrcd, &cq_1);
    let two = srq(&other_pd, &xrcd, &cq_2);
    assert_ne!(one.number(), two.number());
    let (qa, qb) = (initiator(&a, &cq_a), target(&b, &xrcd, 9));
    connect((&a, &qa), (&b, &qb));

    let mut buffers = [vec![0u8; 8192], vec![0u8; 8192]];
    let addr = |b: &[u8]| b.as_ptr() as u64;
    let mr_1 = b.mr(&mut buffers[0]);
    let mr_2 = other_pd
        .reg_mr(addr(&buffers[1]), 8192, addr(&buffers[1]), 0x10f)
        .unwrap();
    for (srq, mr, buffer) in [(&one, &mr_1, &buffers[0]), (&two, &mr_2, &buffers[1])] {
        let sge = Sge {
            addr: addr(buffer),
            length: 8192,
            lkey: mr.lkey(),
        };
        srq.post_recv(u64::from(srq.number()), &[sge]).unwrap();
    }

    let (mut source, length) = (vec![5u8; 6000], 6000);
    let ms = a.mr(&mut source);
    let all = [Sge {
        addr: addr(&source),
        length,
        lkey: ms.lkey(),
    }];

    // The second first: the order is the initiator's.
    send(&qa, two.number(), SendOp::Send, SendData::Sges(&all));
    send(
        &qa,
        one.number(),
        SendOp::SendWithImm([1; 4]),
        SendData::Inline(b"short"),
    );

    for (cq, srq, len, buffer) in [
        (&cq_2, &two, 6000, &buffers[1]),
        (&cq_1, &one, 5, &buffers[0]),
    ] {
        let wc = wait(cq, 1)[0];
        assert_eq!((wc.status, wc.byte_len, wc.qp_num), (0, len, qb.qp_num()));
        assert_eq!(wc.wr_id, u64::from(srq.number()));
        assert_eq!(buffer[0], if len == 6000 { 5 } else { b's' });
    }

    // READ, ATOMIC and FLUSH in the domain of the queue that is named.
    let (va, rkey) = (addr(&buffers[1]), mr_2.rkey());
    send(
        &qa,
        two.number(),
        SendOp::Read { va, rkey },
        SendData::Sges(&all),
    );

    let add = SendOp::FetchAdd { va, rkey, add: 1 };
    send(&qa, two.number(), add, SendData::Sges(&all));
    let flush = SendOp::Flush(Flush {
        va,
        rkey,
        len: 8192,
        placement: Placement::GLOBAL,
        selectivity: Selectivity::Range,
    });
    send(&qa, two.number(), flush, SendData::Sges(&[]));
    for wc in wait(&cq_a, 5) {
        assert_eq!(wc.status, 0, "{wc:?}");
    }

    // The other queue's domain does not have that key.
    send(
        &qa,
        one.number(),
        SendOp::Read { va, rkey },
        SendData::Sges(&all),
    );

    assert_eq!(wait(&cq_a, 1)[0].status, WcStatus::RemAccessErr as u32);
    assert_eq!(qb.state(), QpState::Err);
    assert_eq!(events(&b.context), [(9, 3)], "IBV_EVENT_QP_ACCESS_ERR");

    assert_eq!(errno(cq_1.destroy()), libc::EBUSY);
    assert_eq!(errno(xrcd.close()), libc::EBUSY);
    one.destroy().unwrap();
    two.destroy().unwrap();
    qb.close(9).unwrap();
    xrcd.close().unwrap();
    cq_1.destroy().unwrap();
}

/// A completion of a shared receive queue is no place in another queue pair's, which may be known
/// by what was the target's.
#[test]
fn what_a_target_leaves_behind_takes_no_room_from_the_next_queue_pair() {
    let (a, b) = (Host::new("127.0.56.1"), Host::new("127.0.56.2"));
    let (cq_a, cq_b, cq_srq) = (a.cq(64), b.cq(64), b.cq(64));
    let xrcd = b.context.open_xrcd(None, CREATE).unwrap();
    let srq = srq(&b.pd, &xrcd, &cq_srq);
    let (qa, qb) = (initiator(&a, &cq_a), target(&b, &xrcd, 9));
    connect((&a, &qa), (&b, &qb));
    srq.post_recv(1, &[]).unwrap();
    send(&qa, srq.number(), SendOp::Send, SendData::Inline(&[]));
    assert_eq!(wait(&cq_a, 1)[0].status, 0);
    qb.close(9).unwrap();
    while Arc::strong_count(&qb) > 1 {
        std::thread::yield_now();
    }
    drop(qb);

    let small = QpCap {
        max_recv_wr: 1,
        ..CAP
    };
    let (from, next) = (a.qp(&cq_a, CAP), b.qp(&cq_b, small));
    connect((&a, &from), (&b, &next));
    next.post_recv(2, &[]).unwrap();
    let nothing = SendData::Inline(&[]);
    post(&from, Dest::Connected, SendOp::Send, nothing);
    assert_eq!(wait(&cq_b, 1)[0].status, 0);
    assert_eq!(wait(&cq_srq, 1)[0].status, 0);
    next.post_recv(2, &[]).unwrap();
}

#[test]
fn no_such_shared_receive_queue_is_the_requesters_fault() {
    let (a, b) = (Host::new("127.0.52.1"), Host::new("127.0.52.2"));
    let (cq_a, cq_b) = (a.cq(64), b.cq(64));
    let xrcd = b.context.open_xrcd(None, CREATE).unwrap();
    let gone = srq(&b.pd, &xrcd, &cq_b);
    let (qa, qb) = (initiator(&a, &cq_a), target(&b, &xrcd, 9));
    connect((&a, &qa), (&b, &qb));
    gone.destroy().unwrap();
    send(&qa, gone.number(), SendOp::Send, SendData::Inline(b"x"));
    assert_ne!(wait(&cq_a, 1)[0].status, 0);
    qa.close(0).unwrap();
    qb.close(9).unwrap();
}

#[test]
fn what_a_service_does_not_have_is_refused() {
    let host = Host::new("127.0.53.1");
    let cq = host.cq(16);
    let xrcd = host.context.open_xrcd(None, CREATE).unwrap();
    let xrc_srq = srq(&host.pd, &xrcd, &cq);
    let with = |qp_type, srq: Option<Arc<Srq>>| QpInit {
        qp_type,
        send_cq: Some(cq.clone()),
        recv_cq: Some(cq.clone()),
        srq,
        cap: CAP,
        ..QpInit::default()
    };

    let refused = |init| errno(host.pd.create_qp(init));
    assert_eq!(refused(with(2, Some(xrc_srq.clone()))), libc::EINVAL);
    assert_eq!(refused(with(8, None)), libc::EOPNOTSUPP);
    assert_eq!(refused(with(10, None)), libc::EINVAL, "no XRC domain");
    for qp_type in [2, 3, 4, 9] {
        let no_send_cq = QpInit {
            send_cq: None,
            ..with(qp_type, None)
        };
        assert_eq!(refused(no_send_cq), libc::EINVAL);
    }

    // A target has no send queue, an initiator no receive queue.
    let (ini, tgt) = (initiator(&host, &cq), target(&host, &xrcd, 0));
    assert!(ini.post_recv(1, &[]).is_err());
    assert!(tgt.post_recv(1, &[]).is_err());
    let request = SendRequest {
        wr_id: 1,
        op: SendOp::Send,
        flags: SendFlags::SIGNALED,
        data: SendData::Inline(b"x"),
        dest: Dest::Connected,
    };
    assert_eq!(errno(tgt.post_send(&request)), libc::EINVAL);
    assert_eq!((tgt.cap().max_send_wr, ini.cap().max_recv_wr), (0, 0));
    let other = Context::open(host.hca.clone()).unwrap();
    let foreign = QpInit {
        qp_type: 10,
        xrcd: Some(xrcd.clone()),
        ..QpInit::default()
    };
    assert_eq!(errno(other.create_xrc_target(foreign)), libc::EINVAL);
}

#[test]
fn the_limit_event_comes_once_each_time_it_is_armed() {
    let (a, b) = (Host::new("127.0.54.1"), Host::new("127.0.54.2"));
    let (cq_a, cq_b) = (a.cq(64), b.cq(64));
    let srq =
        b.pd.create_srq(SrqInit {
            max_wr: 8,
            max_sge: 1,
            cookie: 77,
            ..SrqInit::default()
        })
        .unwrap();

    let (qa, qb) = (a.qp(&cq_a, CAP), b.qp_with(&cq_b, CAP, Some(srq.clone())));
    connect((&a, &qa), (&b, &qb));
    let mut buffer = vec![0u8; 64];
    let mr = b.mr(&mut buffer);
    let sge = [Sge {
        addr: buffer.as_ptr() as u64,
        length: 64,
        lkey: mr.lkey(),
    }];
    for i in 0..8 {
        srq.post_recv(i, &sge).unwrap();
    }
    assert_eq!(errno(srq.post_recv(8, &sge)), libc::ENOMEM);
    assert_eq!(errno(srq.modify(None, Some(9))), libc::EINVAL);
    assert_eq!(errno(srq.modify(Some(7), None)), libc::EINVAL);
    srq.modify(Some(12), Some(7)).unwrap();
    srq.post_recv(8, &sge).unwrap();
    let one = || {
        post(&qa, Dest::Connected, SendOp::Send, SendData::Inline(b"x"));
        wait(&cq_a, 1);
        wait(&cq_b, 1);
    };

    one();
    one();
    assert_eq!(
        events(&b.context),
        [],
        "seven are left: not below the limit"
    );

    one();
    one();
    assert_eq!(
        events(&b.context),
        [(77, 15)],
        "IBV_EVENT_SRQ_LIMIT_REACHED, once"
    );

    assert_eq!(srq.query().srq_limit, 0, "it is disarmed");
    srq.modify(None, Some(5)).unwrap();
    one();
    assert_eq!(events(&b.context), [(77, 15)], "armed again");

    // Two were delivered, and one more comes that nobody reads.
    srq.modify(None, Some(4)).unwrap();
    one();

    // The queue pair's last request: it goes to error, which its events say.
    qb.modify(
        &QpAttr {
            qp_state: QpState::Err,
            ..QpAttr::default()
        },
        QpAttrMask::STATE,
    )
    .unwrap();

    assert_eq!(errno(srq.destroy()), libc::EBUSY);
    assert_eq!(
        qb.close(0).unwrap().events,
        0,
        "its unread event is taken back"
    );

    assert_eq!(srq.destroy().unwrap().events, 2);
    assert_eq!(events(&b.context), []);
}
