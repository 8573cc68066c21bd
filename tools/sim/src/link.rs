//! A link in virtual time: rate, delay, loss, duplication, reordering and corruption, each from the
//! generator.

use crate::rng::Rng;
use ferroce_transport::{Duration, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What the link does to a datagram. Probabilities are in parts per million.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkConfig {
    /// From end to end.
    pub delay: Duration,
    /// Picoseconds a byte takes on the wire.
    pub byte_time: u64,
    /// Lost.
    pub loss: u32,
    /// Arrives twice.
    pub duplicate: u32,
    /// Delayed further, by at most `late`.
    pub reorder: u32,
    /// Most that a reordered datagram is late.
    pub late: Duration,
    /// One bit flips.
    pub corrupt: u32,
}

impl LinkConfig {
    /// Does it deliver everything once, in order and unharmed?
    pub fn is_clean(&self) -> bool {
        self.loss | self.duplicate | self.reorder | self.corrupt == 0
    }
}

/// A datagram that has arrived.
pub struct Arrival {
    /// Host that it is for.
    pub to: usize,
    /// Its bytes.
    pub datagram: Vec<u8>,
}

/// Both directions of a link.
pub struct Link {
    config: LinkConfig,
    queue: BinaryHeap<Reverse<(Time, u64, usize)>>,
    slots: Vec<Vec<u8>>,
    free: Vec<usize>,
    order: u64,
    busy_until: [Time; 2],
    /// Datagrams handed to it.
    pub sent: u64,
}

impl Link {
    /// An empty link.
    pub fn new(config: LinkConfig) -> Link {
        Link {
            config,
            queue: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            order: 0,
            busy_until: [Time::ZERO; 2],
            sent: 0,
        }
    }

    /// Sends a datagram from host `from`.
    pub fn send(&mut self, now: Time, from: usize, mut datagram: Vec<u8>, rng: &mut Rng) {
        let c = self.config;
        self.sent += 1;
        let wire = Duration::from_nanos((datagram.len() as u64 + 66) * c.byte_time / 1000);
        let start = self.busy_until[from].max(now);
        self.busy_until[from] = start + wire;
        if rng.ppm(c.loss) {
            return;
        }

        if rng.ppm(c.corrupt) {
            let bit = rng.below(datagram.len() as u64 * 8) as usize;
            datagram[bit / 8] ^= 1 << (bit % 8);
        }

        let mut arrival = start + wire + c.delay;
        if rng.ppm(c.reorder) {
            arrival += rng.span_up_to(c.late);
        }

        if rng.ppm(c.duplicate) {
            let again = arrival + rng.span_up_to(c.late);
            self.schedule(again, 1 - from, datagram.clone());
        }

        self.schedule(arrival, 1 - from, datagram);
    }

    fn schedule(&mut self, at: Time, to: usize, datagram: Vec<u8>) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = datagram;
                slot
            }
            None => {
                self.slots.push(datagram);
                self.slots.len() - 1
            }
        };
        self.order += 1;
        self.queue.push(Reverse((at, self.order, slot << 1 | to)));
    }

    /// When the next datagram arrives.
    pub fn next(&self) -> Option<Time> {
        self.queue.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next datagram that has arrived by `now`.
    pub fn arrival(&mut self, now: Time) -> Option<Arrival> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, _, tagged)) = self.queue.pop()?;
        let slot = tagged >> 1;
        self.free.push(slot);
        Some(Arrival {
            to: tagged & 1,
            datagram: std::mem::take(&mut self.slots[slot]),
        })
    }
}
