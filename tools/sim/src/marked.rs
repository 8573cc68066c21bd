//! Senders that share a bottleneck whose switch marks packets (ECN) by the length of its queue:
//! what congestion control makes of it. Nothing is lost, and nothing is carried but lengths.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::rng::Rng;
use ferroce_transport::congestion::{Aimd, Controller, Dcqcn};
use ferroce_transport::{Duration, PathSignal, Time};

/// Bytes of a packet.
const PACKET: u64 = 4096;
/// Picoseconds a byte: links of 25 Gb/s to a bottleneck of 10 Gb/s.
const LINK: u64 = 320;
const BOTTLENECK: u64 = 800;
/// In one direction, without the queue.
const DELAY: Duration = Duration::from_micros(10);
/// The published thresholds of marking in bytes, and the most that is marked between them, in
/// thousandths.
const MARK_FROM: u64 = 5_000;
const MARK_ALL: u64 = 200_000;
const MARK_MOST: u64 = 10;
/// The least time between two CNPs to a sender.
const CNP_INTERVAL: Duration = Duration::from_micros(50);
/// Of AIMD, and of the part of DCQCN that it is, in bytes.
const CEILING: u32 = 3 << 20;

/// What a sender goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The window alone. Nothing is marked.
    Aimd,
    /// A rate beside it.
    Dcqcn,
}

/// What was seen in the second half of the time.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Gb/s of each sender.
    pub goodput: Vec<f64>,
    /// Bytes in the queue as a packet came, on average.
    pub queue: u64,
    /// The same at most.
    pub longest: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A sender may go on.
    Ask,
    /// A packet of its comes to the queue.
    Comes {
        sent: Time,
    },
    /// It is at its receiver.
    Delivered {
        sent: Time,
        marked: bool,
    },
    Acked {
        sent: Time,
    },
    Cnp,
}

struct Sender {
    controller: Box<dyn Controller>,
    in_flight: u64,
    waits: bool,
    next_cnp: Time,
    delivered: u64,
}

struct Bottleneck {
    /// Packets may be marked.
    capable: bool,
    rng: Rng,
    events: BinaryHeap<Reverse<(Time, usize, Event)>>,
    senders: Vec<Sender>,
    free_at: Time,
    half: Time,
    /// Sum, number and greatest of the queue's lengths.
    seen: (u64, u64, u64),
}

fn takes(picoseconds: u64) -> Duration {
    Duration::from_nanos(PACKET * picoseconds / 1000)
}

impl Bottleneck {
    fn at(&mut self, at: Time, of: usize, event: Event) {
        self.events.push(Reverse((at, of, event)));
    }

    fn ask(&mut self, now: Time, of: usize) {
        let sender = &mut self.senders[of];
        if sender.in_flight + PACKET > u64::from(sender.controller.window()) {
            sender.waits = true;
            return;
        }
        match sender.controller.allowance(now) {
            Err(later) => self.at(later, of, Event::Ask),
            Ok(_) => {
                sender.controller.sent(now, PACKET as usize, false);
                sender.in_flight += PACKET;
                self.at(now + DELAY, of, Event::Comes { sent: now });
                self.at(now + takes(LINK), of, Event::Ask);
            }
        }
    }

    fn comes(&mut self, now: Time, of: usize, sent: Time) {
        let queue = (self.free_at - now).as_nanos() as u64 * 1000 / BOTTLENECK;
        if now >= self.half {
            let (sum, n, most) = self.seen;
            self.seen = (sum + queue, n + 1, most.max(queue));
        }
        let marked = match queue {
            _ if !self.capable => false,
            ..MARK_FROM => false,
            MARK_ALL.. => true,
            between => {
                let share = (between - MARK_FROM) * MARK_MOST;
                self.rng.below(1000 * (MARK_ALL - MARK_FROM)) < share
            }
        };
        self.free_at = self.free_at.max(now) + takes(BOTTLENECK);
        self.at(self.free_at + DELAY, of, Event::Delivered { sent, marked });
    }

    fn delivered(&mut self, now: Time, of: usize, sent: Time, marked: bool) {
        let sender = &mut self.senders[of];
        if now >= self.half {
            sender.delivered += PACKET;
        }
        if marked && now >= sender.next_cnp {
            sender.next_cnp = now + CNP_INTERVAL;
            self.at(now + DELAY, of, Event::Cnp);
        }
        self.at(now + DELAY, of, Event::Acked { sent });
    }

    fn happens(&mut self, now: Time, of: usize, event: Event) {
        match event {
            Event::Ask => self.ask(now, of),
            Event::Comes { sent } => self.comes(now, of, sent),
            Event::Delivered { sent, marked } => self.delivered(now, of, sent, marked),
            Event::Cnp => self.senders[of]
                .controller
                .signal(now, PathSignal::Notified),
            Event::Acked { sent } => {
                let sender = &mut self.senders[of];
                sender.in_flight -= PACKET;
                let (bytes, rtt) = (PACKET as u32, Some(now - sent));
                (sender.controller).signal(now, PathSignal::Acked { bytes, rtt });
                if std::mem::take(&mut sender.waits) {
                    self.ask(now, of);
                }
            }
        }
    }
}

/// So many senders, which begin one after the other within a millisecond.
pub fn run(seed: u64, control: Control, senders: usize, duration: Duration) -> Outcome {
    let sender = |_| Sender {
        controller: match control {
            Control::Aimd => Box::new(Aimd::new(CEILING)),
            Control::Dcqcn => Box::new(Dcqcn::new(CEILING)),
        },
        in_flight: 0,
        waits: false,
        next_cnp: Time::ZERO,
        delivered: 0,
    };
    // Not at 0, which is no time for controllers.
    let start = Time::from_nanos(1_000_000);
    let mut way = Bottleneck {
        capable: control == Control::Dcqcn,
        rng: Rng::new(seed),
        events: BinaryHeap::new(),
        senders: (0..senders).map(sender).collect(),
        free_at: start,
        half: start + duration / 2,
        seen: (0, 0, 0),
    };
    for of in 0..senders {
        let begins = start + way.rng.span_up_to(Duration::from_millis(1));
        way.at(begins, of, Event::Ask);
    }

    let end = start + duration;
    while let Some(Reverse((now, of, event))) = way.events.pop()
        && now < end
    {
        way.happens(now, of, event);
    }

    let half = (duration / 2).as_nanos() as f64;
    let (sum, n, longest) = way.seen;
    let goodput = |sender: &Sender| sender.delivered as f64 * 8.0 / half;
    Outcome {
        goodput: way.senders.iter().map(goodput).collect(),
        queue: sum / n.max(1),
        longest,
    }
}
