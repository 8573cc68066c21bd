//! Completion events in a ping-pong, as a program sees them that waits for one event at a time on
//! one channel for all its queues (`ib_send_lat -e`): with the answer to a message in its queue,
//! the message itself has been completed.
//!
//! The InfiniBand transport does not promise that, as acknowledgements may be lost or late. Between
//! an adapter and another it is so, and programs count on it.

mod common;

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use common::*;
use ferroce_engine::*;

const SEND: u64 = 1;
const RECV: u64 = 2;
const ROUNDS: usize = 1000;

/// One end of the ping-pong.
struct End {
    host: Host,
    channel: OwnedFd,
    send_cq: Arc<Cq>,
    recv_cq: Arc<Cq>,
    qp: Arc<Qp>,
}

impl End {
    fn new(ip: &str) -> End {
        let host = Host::new(ip);
        let channel = channel();
        let fd = Some(channel.as_raw_fd());
        let send_cq = host.context.create_cq(64, SEND, fd).unwrap();
        let recv_cq = host.context.create_cq(64, RECV, fd).unwrap();
        for cq in [&send_cq, &recv_cq] {
            cq.req_notify(false).unwrap();
        }
        let init = QpInit {
            qp_type: 2,
            send_cq: Some(send_cq.clone()),
            recv_cq: Some(recv_cq.clone()),
            cap: QpCap {
                max_recv_wr: ROUNDS as u32,
                ..CAP
            },
            sq_sig_all: true,
            ..QpInit::default()
        };

        let qp = host.pd.create_qp(init).unwrap();
        End {
            host,
            channel,
            send_cq,
            recv_cq,
            qp,
        }
    }

    /// Waits for one event, whichever comes, and asks for the next of its queue. Returns which
    /// queue's it was.
    fn event(&self, what: &str) -> u64 {
        let mut fd = libc::pollfd {
            fd: self.channel.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };

        let mut cookie = 0u64;

        // SAFETY: one valid pollfd, and room for the eight bytes of a record.
        unsafe {
            assert_eq!(libc::poll(&mut fd, 1, 20_000), 1, "{what}: no event");
            assert_eq!(libc::read(fd.fd, (&raw mut cookie).cast(), 8), 8);
        }

        let raised = match cookie {
            SEND => &self.send_cq,
            RECV => &self.recv_cq,
            other => panic!("an event of queue {other}"),
        };
        raised.req_notify(false).unwrap();
        cookie
    }

    /// Waits for one event, whichever comes, and takes one completion of `cq`.
    fn next_of(&self, cq: &Cq, what: &str) {
        let cookie = self.event(what);
        let mut wc = [Wc::default()];
        assert_eq!(cq.poll(&mut wc).unwrap(), 1, "{what}: an event of {cookie}");
        assert_eq!(wc[0].status, 0, "{what}");
    }

    /// Throws the events away that nobody has waited for.
    fn drain(&self) {
        let mut fd = libc::pollfd {
            fd: self.channel.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid pollfd.
        while unsafe { libc::poll(&mut fd, 1, 0) } == 1 {
            self.event("left over");
        }
    }

    /// Posts `n` messages at once.
    fn send(&self, message: &[Sge], n: usize) {
        let request = SendRequest {
            wr_id: 0,
            op: SendOp::Send,
            flags: SendFlags::SIGNALED,
            data: SendData::Sges(message),
            dest: Dest::Connected,
        };
        let mut queue = self.qp.send_queue();
        for _ in 0..n {
            queue.post(&request).unwrap();
        }
        queue.doorbell();
    }

    fn play(&self, serves: bool, message: &[Sge]) {
        for round in 0..ROUNDS {
            let receive = || self.next_of(&self.recv_cq, &format!("receive {round}"));
            if serves {
                receive();
            }
            self.send(message, 1);
            self.next_of(&self.send_cq, &format!("send {round}"));
            if !serves {
                receive();
            }
        }
    }
}

/// Has this thread and those that it starts share one processor.
fn crowd() {
    // SAFETY: a zeroed set is a valid one, and outlives both calls.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of_val(&set);
        assert_eq!(libc::sched_getaffinity(0, size, &mut set), 0);
        let one = (0..1024).find(|cpu| libc::CPU_ISSET(*cpu, &set)).unwrap();
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(one, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size, &set), 0);
    }
}

/// Has the engine's threads, which this one starts, give way to whom they wake, in the middle of
/// what they are doing.
fn yield_to_all() {
    // SAFETY: takes numbers; 0 is the calling thread.
    assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) }, 0);
}

/// Two connected ends, each with a buffer of that size and `receives` requests posted to receive
/// into it.
fn ends(net: u8, size: usize, receives: usize) -> [(End, [Sge; 1], Arc<Mr>); 2] {
    let [a, b] = [1, 2].map(|host| {
        let end = End::new(&format!("127.0.{net}.{host}"));
        // What it holds does not matter here.
        let buffer = Box::leak(vec![0u8; size.max(1)].into_boxed_slice());
        let mr = end.host.mr(buffer);
        let sge = Sge {
            addr: buffer.as_ptr() as u64,
            length: size as u32,
            lkey: mr.lkey(),
        };
        (end, [sge], mr)
    });

    // The engine's threads give way to everybody else on their processor, so that answers may take
    // seconds, without having been lost.
    connect_with(20, (&a.0.host, &a.0.qp), (&b.0.host, &b.0.qp));
    for (end, sges, _) in [&a, &b] {
        for _ in 0..receives {
            end.qp.post_recv(0, sges).unwrap();
        }
    }

    [a, b]
}

/// An event goes out when all that came with its completion has been handled: of sixty messages
/// that come in one send, who is woken by the first finds the last.
#[test]
fn what_comes_in_one_send_is_there_when_its_event_comes() {
    const ANSWERS: usize = 60;
    const ROUNDS: usize = 300;

    // Enough requests that the credits never hold the answers up.
    let [(a, message, _a), (b, answer, _b)] = ends(34, 1024, 10 * ANSWERS);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                wait(&b.recv_cq, 1);
                b.qp.post_recv(0, &answer).unwrap();
                b.send(&answer, ANSWERS);
                wait(&b.send_cq, ANSWERS);
            }
        });

        for round in 0..ROUNDS {
            a.send(&message, 1);
            while a.event("an answer") != RECV {}
            let mut wc = [Wc::default(); ANSWERS];
            assert_eq!(a.recv_cq.poll(&mut wc).unwrap(), ANSWERS, "round {round}");
            for _ in 0..ANSWERS {
                a.qp.post_recv(0, &message).unwrap();
            }
            wait(&a.send_cq, 1);
            a.drain();
        }
    });
}

/// Plays with the engine's threads giving way to whom they wake.
fn ping_pong(net: u8, size: usize) {
    crowd();
    let set_up = move || {
        yield_to_all();
        ends(net, size, ROUNDS)
    };
    let [(a, ping, _a), (b, pong, _b)] = std::thread::spawn(set_up).join().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| b.play(true, &pong));
        a.play(false, &ping);
    });
}

/// The ACK cannot share the send of a message that is shorter than it is itself,
#[test]
fn an_answer_without_payload_does_not_overtake_the_acknowledgement() {
    ping_pong(35, 0);
}

/// nor that of one whose last packet is shorter than the others.
#[test]
fn an_answer_of_unequal_packets_does_not_overtake_the_acknowledgement() {
    ping_pong(36, 6000);
}
