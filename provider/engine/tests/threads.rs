//! Threads that share objects: every verb may be called from any thread at any time (`ibv_*(3)`).
//!
//! The tests assert what a consumer may rely on: every request completes once, whoever posts, polls
//! or destroys beside it. Run under ThreadSanitizer (`cargo xtask tsan`) they also look for data
//! races in the engine itself.

mod common;

use std::collections::HashSet;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use common::*;
use ferroce_engine::*;
use parking_lot::Mutex;

/// What a thread that waits for another gives it.
const PATIENCE: Duration = Duration::from_secs(60);

fn request<'a>(wr_id: u64, op: SendOp, data: SendData<'a>) -> SendRequest<'a> {
    SendRequest {
        wr_id,
        op,
        flags: SendFlags::SIGNALED,
        data,
        dest: Dest::Connected,
    }
}

/// Polls until `done` completions were counted by all pollers together.
fn poll_until(cq: &Cq, counted: &AtomicUsize, done: usize, mut take: impl FnMut(&Wc)) {
    let end = Instant::now() + PATIENCE;
    while counted.load(Relaxed) < done {
        let mut wc = [Wc::default(); 7];
        let n = cq.poll(&mut wc).unwrap();
        wc[..n].iter().for_each(&mut take);
        counted.fetch_add(n, Relaxed);
        assert!(Instant::now() < end, "{counted:?} of {done} completed");
    }
}

#[test]
fn threads_post_to_and_poll_from_one_queue_pair_while_keys_and_pairs_come_and_go() {
    const POSTERS: u64 = 3;
    const EACH: u64 = 3000;
    const CELL: usize = 64;

    let (a, b) = (Host::new("127.0.30.1"), Host::new("127.0.30.2"));

    // Room for every completion: a request that is done makes room in the send queue whether or not
    // it was polled for.
    let (cq_a, cq_b) = (a.cq((POSTERS * EACH) as u32), b.cq(16));
    let (qa, qb) = (a.qp(&cq_a, CAP), b.qp(&cq_b, CAP));
    connect((&a, &qa), (&b, &qb));
    let mut target = vec![0u8; (POSTERS * EACH) as usize * CELL];
    let mr = b.mr(&mut target);
    let (base, rkey) = (target.as_ptr() as u64, mr.rkey());

    let all = (POSTERS * EACH) as usize;
    let (counted, seen) = (AtomicUsize::new(0), Mutex::new(HashSet::new()));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for poster in 0..POSTERS {
            let (qa, end) = (&qa, Instant::now() + PATIENCE);
            scope.spawn(move || {
                for i in 0..EACH {
                    let wr_id = poster * EACH + i;
                    let va = base + wr_id * CELL as u64;
                    let bytes = [(wr_id % 251) as u8 + 1; CELL];
                    let write =
                        request(wr_id, SendOp::Write { va, rkey }, SendData::Inline(&bytes));
                    // A full queue is the consumer's own business: it tries again.
                    while qa.post_send(&write).is_err() {
                        assert!(Instant::now() < end, "the queue stays full");
                        std::thread::yield_now();
                    }
                }
            });
        }

        let pollers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    poll_until(&cq_a, &counted, all, |wc| {
                        assert_eq!(wc.status, 0);
                        assert!(seen.lock().insert(wc.wr_id), "{} completed twice", wc.wr_id);
                    });
                })
            })
            .collect();

        scope.spawn(|| {
            let mut spare = vec![0u8; 4096];
            while !over.load(Relaxed) {
                let mr = a.mr(&mut spare);
                let (p, q) = (a.qp(&cq_a, CAP), b.qp(&cq_b, CAP));
                connect((&a, &p), (&b, &q));
                p.close(0).unwrap();
                q.close(0).unwrap();
                mr.dereg().unwrap();
            }
        });

        let ended: Vec<_> = pollers.into_iter().map(|p| p.join()).collect();
        over.store(true, Relaxed);
        ended.into_iter().for_each(|e| e.unwrap());
    });

    assert_eq!(seen.lock().len(), all);
    for (i, cell) in target.chunks(CELL).enumerate() {
        assert!(
            cell.iter().all(|byte| *byte == (i % 251) as u8 + 1),
            "cell {i}"
        );
    }
}

#[test]
fn a_shared_receive_queue_serves_many_pairs_and_threads() {
    const PAIRS: usize = 4;
    const EACH: usize = 1500;

    let (a, b) = (Host::new("127.0.31.1"), Host::new("127.0.31.2"));
    let (cq_a, cq_b) = (a.cq((PAIRS * EACH) as u32), b.cq(4096));
    let srq =
        b.pd.create_srq(SrqInit {
            max_wr: 256,
            max_sge: 1,
            ..SrqInit::default()
        })
        .unwrap();

    let mut senders = Vec::new();
    let mut receivers = Vec::new();
    for _ in 0..PAIRS {
        let (p, q) = (a.qp(&cq_a, CAP), b.qp_with(&cq_b, CAP, Some(srq.clone())));
        connect((&a, &p), (&b, &q));
        senders.push(p);
        receivers.push(q);
    }

    let mut buffers = vec![0u8; 256 * 64];
    let mr = b.mr(&mut buffers);
    let sge = |slot: u64| {
        [Sge {
            addr: buffers.as_ptr() as u64 + slot * 64,
            length: 64,
            lkey: mr.lkey(),
        }]
    };
    for slot in 0..256 {
        srq.post_recv(slot, &sge(slot)).unwrap();
    }
    let all = PAIRS * EACH;
    let (sent, received) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let bytes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for qp in &senders {
            scope.spawn(|| {
                let end = Instant::now() + PATIENCE;
                for i in 0..EACH {
                    let payload = [1u8; 32];
                    let send = request(i as u64, SendOp::Send, SendData::Inline(&payload));
                    while qp.post_send(&send).is_err() {
                        assert!(Instant::now() < end, "the queue stays full");
                        std::thread::yield_now();
                    }
                }
            });
        }

        scope.spawn(|| poll_until(&cq_a, &sent, all, |wc| assert_eq!(wc.status, 0)));

        for _ in 0..2 {
            scope.spawn(|| {
                poll_until(&cq_b, &received, all, |wc| {
                    assert_eq!((wc.status, wc.opcode), (0, 128));
                    bytes.fetch_add(wc.byte_len.into(), Relaxed);
                    srq.post_recv(wc.wr_id, &sge(wc.wr_id)).unwrap();
                });
            });
        }
    });

    assert_eq!(bytes.load(Relaxed), 32 * all as u64);
    for qp in senders.iter().chain(&receivers) {
        qp.close(0).unwrap();
    }
    srq.destroy().unwrap();
}

#[test]
fn queues_that_share_a_channel_are_destroyed_while_others_get_events() {
    const THREADS: u64 = 3;
    const ROUNDS: usize = 60;

    let (a, b) = (Host::new("127.0.32.1"), Host::new("127.0.32.2"));
    let channel = channel();
    let stray = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 1..=THREADS {
            let (a, b, channel, stray) = (&a, &b, &channel, &stray);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let cookie = thread << 32 | round as u64;
                    let fd = Some(channel.as_raw_fd());
                    let (cq, cq_b) = (a.context.create_cq(16, cookie, fd).unwrap(), b.cq(16));
                    let (p, q) = (a.qp(&cq, CAP), b.qp(&cq_b, CAP));
                    connect((a, &p), (b, &q));
                    cq.req_notify(false).unwrap();
                    let nothing = request(
                        cookie,
                        SendOp::Write { va: 0, rkey: 0 },
                        SendData::Inline(&[]),
                    );
                    p.post_send(&nothing).unwrap();
                    assert_eq!(wait(&cq, 1)[0].wr_id, cookie);
                    p.close(0).unwrap();
                    q.close(0).unwrap();

                    // The event is either taken back unread, or somebody (here nobody) must
                    // acknowledge it.
                    let delivered = cq.destroy().unwrap();
                    stray.fetch_add(delivered.comp as usize, Relaxed);
                    cq_b.destroy().unwrap();
                }
            });
        }
    });

    assert_eq!(
        stray.load(Relaxed),
        0,
        "events were neither read nor taken back"
    );

    let mut fd = libc::pollfd {
        fd: channel.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };

    // SAFETY: one valid pollfd.
    let ready = unsafe { libc::poll(&mut fd, 1, 0) };
    assert_eq!(ready, 0, "an event outlived its queue");
}

#[test]
fn a_context_is_used_by_threads_that_open_and_close_it() {
    let host = Arc::new(Host::new("127.0.33.1"));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let host = host.clone();
            std::thread::spawn(move || {
                let mut buffer = vec![0u8; 4096];
                for _ in 0..100 {
                    let context = Context::open(host.hca.clone()).unwrap();
                    let pd = context.alloc_pd().unwrap();
                    let addr = buffer.as_mut_ptr() as u64;
                    let mr = pd.reg_mr(addr, 4096, addr, 0xf).unwrap();
                    assert_eq!(pd.dealloc().unwrap_err().errno(), libc::EBUSY);
                    mr.dereg().unwrap();
                    pd.dealloc().unwrap();
                }
            })
        })
        .collect();

    threads.into_iter().for_each(|t| t.join().unwrap());
}

/// Each thread has a completion vector, and with it a lane (`docs/architecture/lanes.md`): what
/// they share are tables, into which another thread writes meanwhile.
#[test]
fn threads_of_several_vectors_share_keys_that_come_and_go() {
    const EACH: u64 = 3000;
    const LEN: usize = 256;

    let host = Host::new("127.0.30.9");
    assert!(host.hca.vectors() >= 2);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let worker = |vector| {
            let host = &host;
            move || {
                let cq = host.cq_of_vector(64, vector);
                let (qa, qb) = (host.qp(&cq, CAP), host.qp(&cq, CAP));
                connect((host, &qa), (host, &qb));
                let mut memory = vec![0u8; 2 * LEN];
                let mr = host.mr(&mut memory);
                let (va, rkey) = (memory.as_ptr() as u64 + LEN as u64, mr.rkey());
                let local = [Sge {
                    addr: memory.as_ptr() as u64,
                    length: LEN as u32,
                    lkey: mr.lkey(),
                }];
                let done = AtomicUsize::new(0);
                for i in 0..EACH {
                    let write = request(i, SendOp::Write { va, rkey }, SendData::Sges(&local));
                    qa.post_send(&write).unwrap();
                    poll_until(&cq, &done, i as usize + 1, |wc| {
                        assert_eq!((wc.status, wc.wr_id), (0, i));
                    });
                }
                for qp in [&qa, &qb] {
                    qp.close(0).unwrap();
                }
                mr.dereg().unwrap();
                cq.destroy().unwrap();
                qa.qp_num() >> 16
            }
        };
        let workers: Vec<_> = (0..2).map(|vector| scope.spawn(worker(vector))).collect();

        scope.spawn(|| {
            let cq = host.cq(16);
            let mut spare = vec![0u8; 4096];
            while !over.load(Relaxed) {
                let mr = host.mr(&mut spare);
                host.qp(&cq, CAP).close(0).unwrap();
                mr.dereg().unwrap();
            }
        });

        let ended: Vec<_> = workers.into_iter().map(|w| w.join()).collect();
        over.store(true, Relaxed);
        let slots: HashSet<u32> = ended.into_iter().map(|slot| slot.unwrap()).collect();
        assert_eq!(slots.len(), 2, "each lane has a slot");
    });

    // `ibv_create_cq(3)`: a vector is below `num_comp_vectors`.
    let beyond = host.context.create_cq_with(CqInit {
        cqe: 1,
        vector: host.hca.vectors(),
        ..CqInit::default()
    });
    assert_eq!(beyond.err().unwrap().errno(), libc::EINVAL);
}
