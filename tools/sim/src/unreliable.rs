//! Two hosts that talk over UC or UD through a bad link, in virtual time: loss must show as loss
//! and as nothing else.
//!
//! After every packet what the queue pair did is held against the oracle: the completion that is
//! due, and no other. At the end every byte of memory must be as it should.

mod oracle;
mod plan;
mod side;

use crate::link::Link;
use crate::rng::{NANOSECOND, Rng};
use crate::watch;
use crate::wire;
use crate::world::{LIMIT, QPN};
use ferroce_transport::{Duration, Note, QpEvent, QpState, QpType, Time, TransmitOpts, WcStatus};
use ferroce_wire::Packet;
use oracle::Delivery;
use plan::Plan;
use side::Side;

/// The longest pause of a side that was interrupted while it sent, but for a nanosecond.
const PAUSE: Duration = Duration::from_micros(1);

const GRH: [u8; 40] = [0x47; 40];

/// What a run came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Packets sent, and those that arrived whole.
    pub packets: [u64; 2],
    /// Messages sent.
    pub sent: usize,
    /// Messages that came whole.
    pub whole: usize,
    /// Requests that were flushed after an error.
    pub flushed: usize,
}

struct World {
    now: Time,
    plan: Plan,
    sides: [Side; 2],
    link: Link,
    rng: Rng,
    arrived: u64,
}

/// Runs a seed and checks everything; with `trace` it prints what happens.
///
/// # Panics
/// At the first thing that is wrong.
pub fn run(service: QpType, seed: u64, trace: bool) -> Outcome {
    match trace {
        true => watch::watching(|| judged(service, seed)),
        false => judged(service, seed),
    }
}

fn judged(service: QpType, seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let plan = plan::plan(service, &mut rng);
    let clean = plan.link.is_clean();
    let side = |i: usize| Side::new(i, &plan, plan.sides[i].clone());
    let mut world = World {
        now: Time::ZERO,
        sides: [side(0), side(1)],
        link: Link::new(plan.link),
        rng: Rng::new(seed ^ 0x5eed),
        arrived: 0,
        plan,
    };

    while world.step() {
        assert!(world.now < LIMIT, "no end");
    }
    let mut outcome = Outcome {
        packets: [world.link.sent, world.arrived],
        ..Outcome::default()
    };

    for (i, side) in world.sides.iter().enumerate() {
        assert_eq!(side.qp.state(), QpState::Rts, "side {i}");
        assert_eq!(side.posted[0], side.plan.messages.len(), "side {i} hangs");
        let goes = |m: &usize| side.plan.messages[*m].is_sent() && !side.flushed[*m];
        let sent = (0..side.plan.messages.len()).filter(goes).count();
        let begun = side.program.iter().filter(|(_, k)| *k == 0).count();
        assert_eq!(sent, begun, "side {i} did not send everything once");
        let bytes = &side.host.memory.borrow().bytes;
        assert!(*bytes == side.oracle.memory.bytes, "memory of side {i}");
        let whole = world.sides[1 - i].oracle.whole;
        if clean {
            // Then nothing is lost but what the peer could not take, and that is counted, one by
            // one.
            let dropped =
                |n: &&Note| matches!(n, Note::NoReceive | Note::TooLong | Note::QkeyViolation);
            let notes = &world.sides[1 - i].host.notes;
            assert_eq!(
                sent - whole,
                notes.iter().filter(dropped).count(),
                "{notes:?}"
            );
            assert_eq!(notes.len(), sent - whole, "{notes:?}");
        }

        outcome.sent += sent;
        outcome.whole += whole;
        outcome.flushed += side.flushed.iter().filter(|f| **f).count();
    }

    outcome
}

impl World {
    /// One thing happens. Returns whether there was one.
    fn step(&mut self) -> bool {
        let times = self
            .sides
            .iter()
            .flat_map(|s| [s.post_at, s.recv_at, s.again_at, s.plan.drain]);
        let Some(next) = times.chain([self.link.next()]).flatten().min() else {
            return false;
        };

        self.now = self.now.max(next);
        watch::at(self.now);
        if let Some(arrival) = self.link.arrival(self.now) {
            self.receive(arrival.to, &arrival.datagram);
            return true;
        }

        for i in 0..2 {
            self.tick(i);
        }
        true
    }

    fn receive(&mut self, i: usize, datagram: &[u8]) {
        let Some(packet) = wire::open(&wire::flow(1 - i), datagram) else {
            return;
        };

        self.arrived += 1;
        let (me, peer) = match &mut self.sides {
            [a, b] if i == 0 => (a, b),
            [a, b] => (b, a),
        };

        if self.plan.service == QpType::Ud {
            me.qp
                .receive_datagram(self.now, &packet, &GRH, &mut me.host);
        } else {
            me.qp.receive(self.now, &packet, &mut me.host);
        }

        let place = packet.bth.psn.wrapping_sub(peer.plan.psn) & 0xff_ffff;
        let (index, k) = peer.program[place as usize];
        let message = &peer.plan.messages[index];
        let due = me.oracle.arrival(place as usize, index, k, message, &GRH);
        let raised = me.host.receives.get(me.seen[1]).map(|c| {
            assert_eq!((c.status, c.src_qp), (WcStatus::Success, QPN[1 - i]));
            assert_eq!(c.grh, self.plan.service == QpType::Ud);
            Delivery {
                message: index,
                wr_id: c.wr_id,
                opcode: c.opcode,
                byte_len: c.byte_len,
                data: c.data,
                solicited: c.solicited,
            }
        });

        assert_eq!(raised, due, "packet {k} of message {index}");
        if let Some(due) = due {
            me.seen[1] += 1;
            let in_order = me.delivered.is_none_or(|last| last < due.message);
            assert!(in_order || self.plan.service == QpType::Ud);
            me.delivered = Some(due.message);
            let recv = &me.plan.recvs[due.wr_id as usize];
            let memory = me.host.memory.borrow();
            let there = match message.target {
                Some(target) => memory.at(target.va, message.data.len()).to_vec(),
                None => memory.gather(recv)[..due.byte_len as usize].to_vec(),
            };
            let skip = there.len() - message.data.len();
            assert!(
                there[skip..] == message.data,
                "message {index} is not in place"
            );
        }

        assert_eq!(me.host.receives.len(), me.seen[1]);
        assert!(!me.qp.has_pending_ack() && me.qp.next_timeout().is_none());
        self.transmit(i);
    }

    fn tick(&mut self, i: usize) {
        let now = self.now;
        let due = |t: &mut Option<Time>| t.take_if(|t| *t <= now).is_some();
        let side = &mut self.sides[i];
        let mut busy = due(&mut side.again_at);
        if due(&mut side.plan.drain) {
            if side.qp.state() == QpState::Rts {
                side.go(QpState::Sqd);
            }
            busy = true;
        }

        if due(&mut side.recv_at) {
            for _ in 0..=self.rng.below(8) {
                side.post_recv();
            }
            if side.posted[1] < side.plan.recvs.len() {
                side.recv_at = Some(now + NANOSECOND + self.rng.span_up_to(side.plan.pauses[1]));
            }
        }

        if due(&mut side.post_at) {
            for _ in 0..=self.rng.below(4) {
                side.post_send();
            }
            if side.posted[0] < side.plan.messages.len() {
                side.post_at = Some(now + NANOSECOND + self.rng.span_up_to(side.plan.pauses[0]));
            }
            busy = true;
        }

        if busy {
            self.transmit(i);
        }
    }

    fn transmit(&mut self, i: usize) {
        let side = &mut self.sides[i];
        let opts = TransmitOpts {
            window: 1,
            budget: side.plan.budget,
            flush_acks: true,
            fill: false,
            stretch: 0,
        };
        let more = side
            .qp
            .transmit(self.now, opts, &mut side.host, &mut side.sink);
        side.look_at_sends();
        for datagram in std::mem::take(&mut side.sink.out) {
            let packet = Packet::parse(&datagram).expect("a packet");
            side.book(self.plan.service, self.plan.mtu, &packet);
            self.link.send(self.now, i, datagram, &mut self.rng);
        }

        if more {
            side.again_at = Some(self.now + NANOSECOND + self.rng.span_below(PAUSE));
        }

        match side.qp.state() {
            // What failed is put right after a while.
            QpState::Sqe if self.rng.percent(30) || side.posted[0] == side.plan.messages.len() => {
                side.go(QpState::Rts);
                side.broken = false;
                side.again_at = Some(self.now + NANOSECOND);
            }
            QpState::Sqd if side.host.events.last() == Some(&QpEvent::SqDrained) => {
                side.go(QpState::Rts);
                side.again_at = Some(self.now + NANOSECOND);
            }
            _ => {}
        }
    }
}
