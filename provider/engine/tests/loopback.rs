//! Two hosts, each with its own daemon, in one process: every operation of the RC service over real
//! sockets.

mod common;

use common::*;
use ferroce_engine::*;

struct Pair {
    a: Host,
    b: Host,
    cq_a: std::sync::Arc<Cq>,
    cq_b: std::sync::Arc<Cq>,
    qa: std::sync::Arc<Qp>,
    qb: std::sync::Arc<Qp>,
}

fn pair(net: u8) -> Pair {
    let (a, b) = (
        Host::new(&format!("127.0.{net}.1")),
        Host::new(&format!("127.0.{net}.2")),
    );
    let (cq_a, cq_b) = (a.cq(1024), b.cq(1024));
    let (qa, qb) = (a.qp(&cq_a, CAP), b.qp(&cq_b, CAP));
    connect((&a, &qa), (&b, &qb));
    Pair {
        a,
        b,
        cq_a,
        cq_b,
        qa,
        qb,
    }
}

fn post(qp: &Qp, op: SendOp, sges: &[Sge]) {
    let request = SendRequest {
        wr_id: 1,
        op,
        flags: SendFlags::SIGNALED,
        data: SendData::Sges(sges),
        dest: Dest::Connected,
    };
    qp.post_send(&request).unwrap();
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn write_read_send_and_atomics() {
    let p = pair(20);
    let len = 3_000_001;
    let (mut src, mut dst) = (pattern(len), vec![0; len]);
    let (ms, md) = (p.a.mr(&mut src), p.b.mr(&mut dst));
    let (s, d) = (src.as_ptr() as u64, dst.as_ptr() as u64);
    let all = |addr, mr: &Mr| Sge {
        addr,
        length: len as u32,
        lkey: mr.lkey(),
    };

    post(
        &p.qa,
        SendOp::Write {
            va: d,
            rkey: md.rkey(),
        },
        &[all(s, &ms)],
    );

    let wc = wait(&p.cq_a, 1);
    assert_eq!((wc[0].status, wc[0].opcode), (0, 1));
    assert!(src == dst, "WRITE placed other bytes");

    // READ it back into another buffer, through a scatter list
    let mut back = vec![0; len];
    let mb = p.a.mr(&mut back);
    let base = back.as_ptr() as u64;
    let halves = [
        Sge {
            addr: base,
            length: 1_000_003,
            lkey: mb.lkey(),
        },
        Sge {
            addr: base + 1_000_003,
            length: len as u32 - 1_000_003,
            lkey: mb.lkey(),
        },
    ];

    post(
        &p.qa,
        SendOp::Read {
            va: d,
            rkey: md.rkey(),
        },
        &halves,
    );

    let wc = wait(&p.cq_a, 1);
    assert_eq!(
        (wc[0].status, wc[0].opcode, wc[0].byte_len),
        (0, 2, len as u32)
    );

    assert!(back == src, "READ returned other bytes");

    // SEND with immediate, into a receive
    dst.fill(0);
    p.qb.post_recv(77, &[all(d, &md)]).unwrap();
    post(&p.qa, SendOp::SendWithImm([1, 2, 3, 4]), &[all(s, &ms)]);
    let wc = wait(&p.cq_b, 1);
    assert_eq!(
        (wc[0].status, wc[0].opcode, wc[0].byte_len, wc[0].wr_id),
        (0, 128, len as u32, 77)
    );

    assert_eq!(
        (wc[0].imm_data, wc[0].wc_flags, wc[0].qp_num),
        ([1, 2, 3, 4], 2, p.qb.qp_num())
    );

    assert!(src == dst, "SEND placed other bytes");
    wait(&p.cq_a, 1);

    atomics(&p);
}

/// FETCH & ADD, COMPARE & SWAP that hits, and one that does not.
fn atomics(p: &Pair) {
    let mut cell = vec![5u64, 0];
    let mut answer = vec![0u64, 0];

    // SAFETY: the vectors are 16 bytes each and live to the end of the test.
    let (mc, mr) = unsafe {
        (
            p.b.mr(std::slice::from_raw_parts_mut(cell.as_mut_ptr().cast(), 16)),
            p.a.mr(std::slice::from_raw_parts_mut(
                answer.as_mut_ptr().cast(),
                16,
            )),
        )
    };

    let to = [Sge {
        addr: answer.as_ptr() as u64,
        length: 8,
        lkey: mr.lkey(),
    }];

    let (va, rkey) = (cell.as_ptr() as u64, mc.rkey());
    post(&p.qa, SendOp::FetchAdd { va, rkey, add: 37 }, &to);
    assert_eq!(wait(&p.cq_a, 1)[0].status, 0);
    assert_eq!((answer[0], cell[0]), (5, 42));
    post(
        &p.qa,
        SendOp::CompareSwap {
            va,
            rkey,
            compare: 42,
            swap: 9,
        },
        &to,
    );

    assert_eq!(wait(&p.cq_a, 1)[0].status, 0);
    assert_eq!((answer[0], cell[0]), (42, 9));
    post(
        &p.qa,
        SendOp::CompareSwap {
            va,
            rkey,
            compare: 42,
            swap: 1,
        },
        &to,
    );

    assert_eq!(wait(&p.cq_a, 1)[0].status, 0);
    assert_eq!((answer[0], cell[0]), (9, 9));
}

#[test]
fn one_sided_work_progresses_while_the_target_sleeps() {
    let p = pair(21);
    let (mut src, mut dst) = (pattern(1 << 20), vec![0; 1 << 20]);
    let (ms, md) = (p.a.mr(&mut src), p.b.mr(&mut dst));
    let sge = [Sge {
        addr: src.as_ptr() as u64,
        length: 1 << 20,
        lkey: ms.lkey(),
    }];

    // only `a` polls: `b` is driven by its helper
    for _ in 0..50 {
        post(
            &p.qa,
            SendOp::Write {
                va: dst.as_ptr() as u64,
                rkey: md.rkey(),
            },
            &sge,
        );
    }

    assert!(wait(&p.cq_a, 50).iter().all(|wc| wc.status == 0));
    assert!(src == dst);
}

#[test]
fn a_wrong_key_is_a_remote_access_error_and_flushes() {
    let p = pair(22);
    let mut src = pattern(100);
    let ms = p.a.mr(&mut src);
    let sge = [Sge {
        addr: src.as_ptr() as u64,
        length: 100,
        lkey: ms.lkey(),
    }];

    let mut queue = p.qa.send_queue();
    for wr_id in 0..3 {
        let op = SendOp::Write {
            va: 0x1000,
            rkey: 0xdead,
        };
        let request = SendRequest {
            wr_id,
            op,
            flags: SendFlags::empty(),
            data: SendData::Sges(&sge),
            dest: Dest::Connected,
        };
        queue.post(&request).unwrap();
    }

    queue.doorbell();
    let wc: Vec<_> = wait(&p.cq_a, 3)
        .iter()
        .map(|wc| (wc.wr_id, wc.status))
        .collect();
    assert_eq!(wc, [(0, 10), (1, 5), (2, 5)]);
    assert_eq!((p.qa.state(), p.qb.state()), (QpState::Err, QpState::Err));
}

#[test]
fn a_polling_ping_pong_stays_in_step() {
    let p = pair(23);
    let (mut src, mut dst) = (vec![1; 64], vec![0; 64]);
    let (ms, md) = (p.a.mr(&mut src), p.b.mr(&mut dst));
    let rounds = 20_000;
    std::thread::scope(|scope| {
        for (qp, cq, buffer, mr) in [
            (&p.qa, &p.cq_a, src.as_ptr() as u64, &ms),
            (&p.qb, &p.cq_b, dst.as_ptr() as u64, &md),
        ] {
            let first = std::ptr::eq(qp, &p.qa);
            scope.spawn(move || {
                let sge = [Sge {
                    addr: buffer,
                    length: 64,
                    lkey: mr.lkey(),
                }];
                for wr_id in 0..8 {
                    qp.post_recv(wr_id, &sge).unwrap();
                }
                if first {
                    post(qp, SendOp::Send, &sge);
                }

                let mut received = 0;
                while received < rounds {
                    for wc in wait(cq, 1) {
                        assert_eq!(wc.status, 0);
                        if wc.opcode == 128 {
                            received += 1;
                            qp.post_recv(wc.wr_id, &sge).unwrap();
                            if received < rounds || !first {
                                post(qp, SendOp::Send, &sge);
                            }
                        }
                    }
                }
            });
        }
    });
}

/// A receiver that ends right after its last message must not leave the sender without an ACK, also
/// one that was held back to go out beside an answer.
#[test]
fn the_last_message_is_acknowledged_whatever_its_receiver_does_next() {
    let p = pair(24);
    let mut buffer = vec![0u8; 64];
    let ma = p.a.mr(&mut buffer);
    let sge = |mr: &Mr, bytes: &[u8]| Sge {
        addr: bytes.as_ptr() as u64,
        length: 64,
        lkey: mr.lkey(),
    };

    let mut other = vec![0u8; 64];
    let mb = p.b.mr(&mut other);
    for round in 0..20 {
        if round > 0 {
            for qp in [&p.qa, &p.qb] {
                let reset = QpAttr::default();
                qp.modify(&reset, QpAttrMask::STATE).unwrap();
            }
            connect((&p.a, &p.qa), (&p.b, &p.qb));
        }

        // A ping-pong, so that ACKs are held back.
        for _ in 0..30 {
            p.qa.post_recv(1, &[sge(&ma, &buffer)]).unwrap();
            p.qb.post_recv(2, &[sge(&mb, &other)]).unwrap();
            post(&p.qa, SendOp::Send, &[sge(&ma, &buffer)]);
            wait(&p.cq_b, 1);
            post(&p.qb, SendOp::Send, &[sge(&mb, &other)]);
            wait(&p.cq_a, 2);
            wait(&p.cq_b, 1);
        }

        p.qb.post_recv(3, &[sge(&mb, &other)]).unwrap();
        post(&p.qa, SendOp::Send, &[sge(&ma, &buffer)]);
        wait(&p.cq_b, 1);
        let end = QpAttr {
            qp_state: QpState::Err,
            ..QpAttr::default()
        };
        p.qb.modify(&end, QpAttrMask::STATE).unwrap();
        assert_eq!(wait(&p.cq_a, 1)[0].status, 0, "round {round}");
    }
}
