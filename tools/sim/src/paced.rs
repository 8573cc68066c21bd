//! Unacknowledged traffic by UC into a socket's receive buffer, to see what a pace leaves of it and
//! what is lost.
//!
//! The sender goes through the same steps as the engine: it asks for its allowance, sends that much
//! at most in one run, counts it, and asks again when the run is on the link. The receiver takes
//! runs out of its buffer as fast as it can while it is awake.

use crate::nothing::Nothing;
use crate::world::QPN;
use ferroce_transport::congestion::{
    Controller, Gauge, Pacer, Unknown, allowance_of_buffer, buffer_cost,
};
use ferroce_transport::state::transition;
use ferroce_transport::{
    Dest, Duration, Gather, MemoryError, PathSignal, Qp, QpAttr, QpAttrMask, QpCap, QpConfig,
    QpState, QpType, SendData, SendFlags, SendOp, SendRequest, Sge, Sink, Time, TransmitOpts,
    TxPacket,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of a message, which is one packet.
const MESSAGE: u32 = 4096;
/// Picoseconds that a byte takes on the link: 25 Gb/s.
const BYTE_TIME: u64 = 320;
/// From the link's end to the receiver's buffer.
const DELAY: Duration = Duration::from_micros(10);
/// Most bytes of a run, as of one send of the engine's.
const RUN: u32 = 64 << 10;

/// What bounds the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// What the receiver has not taken yet, which both count.
    Counted,
    /// Time, as nothing is known of the receiver.
    Unknown,
    /// Nothing.
    None,
}

/// A receiver.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    /// Bytes that its buffer holds, which accounts twice the payload.
    pub buffer: u32,
    /// Picoseconds for a byte while it is awake.
    pub byte_time: u64,
    /// It wakes this often…
    pub cycle: Duration,
    /// …and is then awake for so long.
    pub awake: Duration,
}

/// What became of the bytes that were sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Bytes that left.
    pub sent: u64,
    /// Bytes that the receiver has taken.
    pub taken: u64,
    /// Bytes that its buffer had no room for.
    pub lost: u64,
}

/// Counters that both ends keep.
#[derive(Default)]
struct Counters {
    sent: AtomicU64,
    taken: AtomicU64,
}

/// The sender's look at them.
struct Shared(Arc<Counters>);

impl Gauge for Shared {
    fn room(&self, limit: u64) -> Option<u64> {
        let in_flight = self.0.sent.load(Relaxed) - self.0.taken.load(Relaxed);
        Some(limit.saturating_sub(in_flight))
    }

    fn taken(&self) -> u64 {
        self.0.taken.load(Relaxed)
    }

    fn sent(&self, cost: u64) {
        self.0.sent.fetch_add(cost, Relaxed);
    }
}

/// A controller that bounds nothing.
struct Unbounded;

impl Controller for Unbounded {
    fn signal(&self, _: Time, _: PathSignal) {}

    fn window(&self) -> u32 {
        u32::MAX
    }
}

/// Adds up the packets of a run.
#[derive(Default)]
struct Sum(u64);

impl Sink for Sum {
    fn packet(&mut self, packet: &TxPacket<'_>) -> Result<(), MemoryError> {
        if let Gather::Sges { len, .. } = packet.payload {
            self.0 += u64::from(len);
        }
        Ok(())
    }
}

/// The sender: a queue pair that always has something to send.
struct Sender {
    qp: Qp,
    host: Nothing,
}

impl Sender {
    fn new() -> Sender {
        let config = QpConfig {
            qpn: QPN[0],
            qp_type: QpType::Uc,
            cap: QpCap {
                max_send_wr: 64,
                max_send_sge: 1,
                ..QpCap::default()
            },
            mtu: MESSAGE,
            ..QpConfig::default()
        };

        let mut sender = Sender {
            qp: Qp::new(config),
            host: Nothing::default(),
        };

        for (from, to) in [
            (QpState::Reset, QpState::Init),
            (QpState::Init, QpState::Rtr),
            (QpState::Rtr, QpState::Rts),
        ] {
            let attr = QpAttr {
                qp_state: to,
                path_mtu: MESSAGE,
                dest_qp_num: QPN[1],
                port_num: 1,
                ..QpAttr::default()
            };
            let row = transition(QpType::Uc, from, to).expect("a way to RTS");
            let mask = row.required | QpAttrMask::STATE;
            (sender.qp)
                .modify(&attr, mask, Time::ZERO, &mut sender.host)
                .expect("modify");
        }

        sender
    }

    /// Sends about so many bytes; returns how many.
    fn send(&mut self, now: Time, budget: u32) -> u64 {
        let place = [Sge {
            addr: 0,
            length: MESSAGE,
            lkey: 0,
        }];

        let request = SendRequest {
            wr_id: 0,
            op: SendOp::Send,
            flags: SendFlags::empty(),
            data: SendData::Sges(&place),
            dest: Dest::Connected,
        };
        while self.qp.send_room() > 0 {
            self.qp.post_send(&request).expect("there is room");
        }
        let opts = TransmitOpts {
            window: u32::MAX,
            budget,
            flush_acks: true,
            fill: false,
            stretch: 0,
        };

        let mut sum = Sum::default();
        self.qp.transmit(now, opts, &mut self.host, &mut sum);
        sum.0
    }
}

/// The receiver's buffer.
struct Buffer {
    receiver: Receiver,
    runs: VecDeque<u64>,
    bytes: u64,
    /// When the run that is being taken will have been.
    busy_until: Option<Time>,
}

impl Buffer {
    /// Begins to take the next run, if there is one, and the receiver is awake or when it wakes.
    fn take_next(&mut self, now: Time) {
        let Some(run) = self.runs.front() else {
            return;
        };
        let Receiver { cycle, awake, .. } = self.receiver;
        let cycles = (now - Time::ZERO).as_nanos() / cycle.as_nanos();
        let woken = Time::ZERO + cycle * cycles as u32;
        let begin = match now - woken < awake {
            true => now,
            false => woken + cycle,
        };
        self.busy_until = Some(begin + span(*run, self.receiver.byte_time));
    }
}

/// What so many bytes take, of which each takes so many picoseconds.
fn span(bytes: u64, byte_time: u64) -> Duration {
    Duration::from_nanos(bytes * byte_time / 1000)
}

/// Sends for so long in virtual time.
pub fn run(pace: Pace, receiver: Receiver, duration: Duration) -> Outcome {
    let counters = Arc::new(Counters::default());
    let limit = allowance_of_buffer(receiver.buffer);
    let controller: Box<dyn Controller> = match pace {
        Pace::Counted => Box::new(Pacer::new(Shared(counters.clone()), limit)),
        Pace::Unknown => Box::new(Pacer::new(Unknown, limit)),
        Pace::None => Box::new(Unbounded),
    };

    let mut sender = Sender::new();
    let mut buffer = Buffer {
        receiver,
        runs: VecDeque::new(),
        bytes: 0,
        busy_until: None,
    };

    let mut outcome = Outcome::default();
    let mut on_the_way: BinaryHeap<Reverse<(Time, u64)>> = BinaryHeap::new();
    let mut ask_at = Time::ZERO;

    loop {
        let arrives = on_the_way.peek().map(|Reverse((at, _))| *at);
        let now = [Some(ask_at), arrives, buffer.busy_until];
        let now = now.into_iter().flatten().min().unwrap_or(ask_at);
        if now - Time::ZERO >= duration {
            return outcome;
        }

        if buffer.busy_until == Some(now) {
            let run = buffer.runs.pop_front().unwrap_or(0);
            buffer.bytes -= run;
            buffer.busy_until = None;
            outcome.taken += run;
            let cost = buffer_cost(run as usize, true);
            counters.taken.fetch_add(cost, Relaxed);
            buffer.take_next(now);
        } else if arrives == Some(now) {
            let Some(Reverse((_, run))) = on_the_way.pop() else {
                continue;
            };
            if 2 * (buffer.bytes + run) > u64::from(receiver.buffer) {
                outcome.lost += run;
                continue;
            }
            buffer.bytes += run;
            buffer.runs.push_back(run);
            if buffer.busy_until.is_none() {
                buffer.take_next(now);
            }
        } else {
            match controller.allowance(now) {
                Err(later) => ask_at = later,
                Ok(bytes) => {
                    let budget = u32::try_from(bytes).unwrap_or(u32::MAX).min(RUN);
                    let run = sender.send(now, budget);
                    controller.sent(now, run as usize, true);
                    outcome.sent += run;
                    ask_at = now + span(run, BYTE_TIME);
                    on_the_way.push(Reverse((ask_at + DELAY, run)));
                }
            }
        }
    }
}
