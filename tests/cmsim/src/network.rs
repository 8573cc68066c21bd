//! The network between the hosts: delay, loss, duplication and reordering, each from the generator.

use ferroce_fabric::{Av, Mad};
use ferroce_sim::Rng;
use ferroce_wire::time::{Duration, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What the network does. Probabilities are in parts per million.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkConfig {
    /// Least delay.
    pub delay: Duration,
    /// Lost.
    pub loss: u32,
    /// Arrives twice.
    pub duplicate: u32,
    /// Delayed further, by at most `late`.
    pub reorder: u32,
    /// Most that a message, or its copy, is late.
    pub late: Duration,
}

/// A message under way.
struct Flight {
    to: Av,
    mad: Mad,
}

/// All messages under way.
pub struct Network {
    config: NetworkConfig,
    queue: BinaryHeap<Reverse<(Time, u64)>>,
    flights: std::collections::HashMap<u64, Flight>,
    order: u64,
    /// Messages handed to it.
    pub sent: u64,
}

impl Network {
    /// An empty network.
    pub fn new(config: NetworkConfig) -> Network {
        Network {
            config,
            queue: BinaryHeap::new(),
            flights: Default::default(),
            order: 0,
            sent: 0,
        }
    }

    /// Takes a message.
    pub fn send(&mut self, now: Time, to: Av, mad: Mad, rng: &mut Rng) {
        let c = self.config;
        self.sent += 1;
        if rng.ppm(c.loss) {
            return;
        }
        let mut arrival = now + c.delay;
        if rng.ppm(c.reorder) {
            arrival += rng.span_up_to(c.late);
        }
        if rng.ppm(c.duplicate) {
            let again = arrival + rng.span_up_to(c.late);
            self.schedule(again, to, mad);
        }
        self.schedule(arrival, to, mad);
    }

    fn schedule(&mut self, at: Time, to: Av, mad: Mad) {
        self.order += 1;
        self.queue.push(Reverse((at, self.order)));
        self.flights.insert(self.order, Flight { to, mad });
    }

    /// When the next message arrives.
    pub fn next(&self) -> Option<Time> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    /// The next message that has arrived by `now`: where it was sent to, and its bytes.
    pub fn arrival(&mut self, now: Time) -> Option<(Av, Mad)> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, order)) = self.queue.pop()?;
        let flight = self.flights.remove(&order)?;
        Some((flight.to, flight.mad))
    }
}
