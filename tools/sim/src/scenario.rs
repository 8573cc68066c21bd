//! A seed's scenario: random settings, a random plan, the run, and the verdict at the end.

use crate::link::LinkConfig;
use crate::memory::BASE;
use crate::plan::{self, Cell, SRQS, Shape, SidePlan};
use crate::rng::Rng;
use crate::side::{Fills, SideOptions, choose_recovery};
use crate::watch;
use crate::world::{Action, LIMIT, Options, World};
use ferroce_transport::{Duration, QpAttr, QpCap, QpState, QpType, SendOp, Time, WcStatus};

/// What a run came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Virtual nanoseconds.
    pub time: Time,
    /// Packets received.
    pub packets: u64,
    /// Requests that succeeded, both sides.
    pub succeeded: usize,
    /// A side ended in ERR.
    pub broken: bool,
    /// Requests that ran out of retries.
    pub exhausted: usize,
}

/// Runs a seed and checks everything; with `trace` it prints what happens.
///
/// # Panics
/// At the first thing that is wrong.
pub fn run(seed: u64, trace: bool) -> Outcome {
    match trace {
        true => watch::watching(|| judged(seed, true)),
        false => judged(seed, false),
    }
}

fn judged(seed: u64, trace: bool) -> Outcome {
    let mut rng = Rng::new(seed);
    let (options, shape) = settings(&mut rng, seed);
    if trace {
        println!("{options:#?}\n{shape:#?}");
    }

    let plans = plan::plan(&mut rng, shape);
    let judge = Judge::new(&plans, &options, &shape);
    let mut world = World::new(options, plans);
    world.run();
    if trace {
        for (i, side) in world.sides.iter().enumerate() {
            println!(
                "side {i}: {:?} {:?} {:?}",
                side.qp.state(),
                side.host.model.send,
                side.host.events
            );
        }
    }

    judge.verdict(&world)
}

pub(crate) fn settings(rng: &mut Rng, seed: u64) -> (Options, Shape) {
    let mtu = rng.pick(&[256, 512, 1024, 2048, 4096, 4096]);
    let link = link(rng);
    let clean = link.is_clean();
    let fault = rng.percent(15);
    let max_sge = rng.range(1, 4) as u32;
    let max_inline = rng.pick(&[0, 64, 400]);
    let psn = [
        rng.next() as u32 & 0xff_ffff,
        0xff_ffff - rng.below(40) as u32,
    ];

    let resources = [rng.pick(&[1, 2, 4, 16]), rng.pick(&[1, 2, 4, 16])];
    let patient = rng.percent(90);
    let xrc = match rng.percent(25) {
        true => rng.range(1, SRQS.len() as u64) as usize,
        false => 0,
    };

    let side = |rng: &mut Rng, i: usize| {
        let timeout = if clean && !fault && patient && rng.percent(10) {
            0
        } else {
            rng.range(9, 13) as u8
        };

        let rnr_retry = if patient { 7 } else { rng.below(7) as u8 };
        SideOptions {
            attr: QpAttr {
                path_mtu: mtu,
                sq_psn: psn[i],
                rq_psn: psn[1 - i],
                max_rd_atomic: resources[i],
                max_dest_rd_atomic: resources[1 - i],
                min_rnr_timer: rng.range(1, 16) as u8,
                timeout,
                retry_cnt: if rng.percent(90) {
                    7
                } else {
                    rng.below(7) as u8
                },
                rnr_retry,
                ..QpAttr::default()
            },
            cap: QpCap {
                max_send_wr: rng.pick(&[1, 3, 8, 64]),
                max_recv_wr: rng.pick(&[1, 2, 7, 64]),
                max_send_sge: max_sge,
                max_recv_sge: max_sge,
                max_inline_data: max_inline,
            },
            all_signaled: rng.percent(30),
            srq: rng.percent(30) || xrc > 0,
            service: match (xrc, i) {
                (0, _) => QpType::Rc,
                (_, 0) => QpType::XrcSend,
                _ => QpType::XrcRecv,
            },
            window: rng.pick(&[1, 4_096, 20_000, 1 << 20]),
            fickle: rng.percent(20),
            budget: rng.pick(&[1, 3_000, 16_384, 1 << 20]),
            defer: rng.percent(40).then_some(Duration::from_micros(30)),
            pause: Duration::from_micros(rng.pick(&[0, 1, 30])),
            recv_pause: Duration::from_micros(rng.pick(&[0, 0, 5, 200])),
            selective: None,
            introduced_at: Time::ZERO,
            fills: Fills::Nothing,
            stretch: 0,
            ready_at: Time::ZERO,
        }
    };

    let mut sides = [side(rng, 0), side(rng, 1)];
    if rng.percent(30) {
        sides[1].ready_at = Time::from_nanos(rng.below(200_000));
    }

    choose_recovery(seed, &mut sides);

    let sends = sends(rng, xrc);
    let shape = Shape {
        sends,
        mtu,
        longest: rng.pick(&[20_000, 20_000, 20_000, 60_000, 60_000, 200_000, 400_000]),
        max_sge,
        max_inline,
        all_signaled: [sides[0].all_signaled, sides[1].all_signaled],
        xrc,
        fault: fault.then(|| one_of(rng, sends)),
    };

    (
        Options {
            seed,
            link,
            sides,
            action: action(rng, &sides),
            limit: LIMIT,
            record: false,
        },
        shape,
    )
}

/// A request of a side that sends any, and the side.
fn one_of(rng: &mut Rng, sends: [usize; 2]) -> (usize, usize) {
    let side = match sends[1] {
        0 => 0,
        _ => rng.below(2) as usize,
    };
    (side, rng.below(sends[side] as u64) as usize)
}

/// A link that is as bad as may be, or not at all.
fn link(rng: &mut Rng) -> LinkConfig {
    let bad = |rng: &mut Rng, most: u64| match rng.below(3) {
        0 => 0,
        1 => rng.below(most / 10) as u32,
        _ => rng.below(most) as u32,
    };

    let mut link = LinkConfig {
        delay: Duration::from_nanos(rng.pick(&[500, 3_000, 20_000])),
        byte_time: rng.pick(&[0, 80, 800]),
        late: Duration::from_micros(rng.pick(&[1, 10, 100])),
        ..LinkConfig::default()
    };

    if rng.percent(75) {
        link.loss = bad(rng, 200_000);
        link.duplicate = bad(rng, 100_000);
        link.reorder = bad(rng, 200_000);
        link.corrupt = bad(rng, 30_000);
    }

    link
}

/// How many requests each side sends.
fn sends(rng: &mut Rng, xrc: usize) -> [usize; 2] {
    let most = rng.pick(&[10, 30, 60, 100]);
    [
        rng.below(most) as usize + 1,
        if rng.percent(60) && xrc == 0 {
            rng.below(most) as usize
        } else {
            0
        },
    ]
}

/// What the consumer of one side does to its queue pair meanwhile, if anything.
fn action(rng: &mut Rng, sides: &[SideOptions; 2]) -> Option<(Time, usize, Action)> {
    let no_wait = sides.iter().all(|s| s.attr.timeout != 0);
    (no_wait && rng.percent(10)).then(|| {
        let action = rng.pick(&[Action::Error, Action::Reset, Action::Drain, Action::Drain]);
        let at = Time::from_nanos(rng.below(1_000_000));
        (at, rng.below(2) as usize, action)
    })
}

/// What is needed to judge a finished world.
struct Judge {
    start: [Vec<u8>; 2],
    finally: [Vec<u8>; 2],
    cells: [Vec<Cell>; 2],
    fault: Option<(usize, usize)>,
    action: Option<(Time, usize, Action)>,
    clean: bool,
    patient: [bool; 2],
}

impl Judge {
    fn new(plans: &[SidePlan; 2], options: &Options, shape: &Shape) -> Judge {
        let each = |f: fn(&SidePlan) -> Vec<u8>| [f(&plans[0]), f(&plans[1])];
        Judge {
            start: each(|p| p.memory.bytes.clone()),
            finally: each(|p| p.finally.clone()),
            cells: [plans[0].cells.clone(), plans[1].cells.clone()],
            fault: shape.fault,
            action: options.action.filter(|a| a.2 != Action::Drain),
            clean: options.link.is_clean(),
            patient: [0, 1].map(|i| options.sides[i].attr.rnr_retry == 7),
        }
    }

    fn verdict(&self, world: &World) -> Outcome {
        let state = [0, 1].map(|i| world.sides[i].qp.state());
        let whole = state == [QpState::Rts; 2];
        for (i, state) in state.into_iter().enumerate() {
            self.completions(world, i, state);
            self.memory(world, i, whole);
        }

        if self.clean && self.fault.is_none() && self.action.is_none() && self.patient == [true; 2]
        {
            assert!(whole, "an error on a clean link: {state:?}");
            for side in &world.sides {
                assert_eq!(
                    (side.host.losses, side.host.timeouts),
                    (0, 0),
                    "losses on a clean link"
                );
            }
        }

        let sends = world.sides.iter().map(|s| &s.host.model.send);
        Outcome {
            time: world.now,
            packets: world.packets,
            succeeded: sends.clone().map(|s| s.good).sum(),
            broken: !whole,
            exhausted: sends
                .filter(|s| {
                    matches!(
                        s.failed,
                        Some((_, WcStatus::RetryExcErr | WcStatus::RnrRetryExcErr))
                    )
                })
                .count(),
        }
    }

    fn completions(&self, world: &World, i: usize, state: QpState) {
        let side = &world.sides[i];
        let model = &side.host.model;
        if let Some((index, status)) = model.send.failed {
            let planned = side.sends[index].expect.fault;
            let peer_alive = world.sides[1 - i].qp.state() == QpState::Rts;
            let allowed = planned == Some(status)
                || status == WcStatus::RnrRetryExcErr && !self.patient[i]
                || status == WcStatus::RetryExcErr && (!self.clean || !peer_alive);
            assert!(
                allowed,
                "request {index} of side {i}: {status:?}, planned {planned:?}"
            );
        }

        match state {
            QpState::Rts => {
                assert_eq!(side.posted, side.sends.len(), "side {i} could not post all");
                let silent = |n: usize| model.sends[n..].iter().all(|s| !s.signaled);
                assert!(
                    !model.send.broken && silent(model.send.next),
                    "side {i} hangs: {:?}",
                    model.send
                );
            }
            QpState::Err => {
                let last = side.posted;
                let done = model.send.next == last
                    || !model.send.broken
                        && model.sends[model.send.next..last]
                            .iter()
                            .all(|s| !s.signaled);

                assert!(
                    done,
                    "side {i}: not all flushed, {:?} of {last}",
                    model.send
                );

                if !side.options.srq {
                    assert_eq!(
                        model.recv.next, side.recv_posted,
                        "side {i}: receives not flushed"
                    );
                }
            }
            QpState::Reset => assert_eq!(self.action.map(|a| a.1), Some(i)),
            _ => panic!("side {i} is left in {state:?}"),
        }
    }

    /// Memory ends as planned; where not everything succeeded, each byte is as planned or as it
    /// was.
    fn memory(&self, world: &World, i: usize, whole: bool) {
        let side = &world.sides[i];
        let mut memory = side.host.memory.borrow().clone();
        if whole {
            assert!(
                memory.bytes == self.finally[i],
                "memory of side {i} is not as planned"
            );

            let sent = &world.sides[1 - i].sends;
            let words = sent
                .iter()
                .filter(|s| matches!(s.op, SendOp::AtomicWrite { .. }));
            assert_eq!(side.host.words as usize, words.count(), "each word once");
            let flushes = sent.iter().filter_map(|s| match s.op {
                SendOp::Flush(flush) => Some(flush),
                _ => None,
            });
            let flushes: Vec<_> = flushes.collect();
            assert_eq!(side.host.flushes, flushes, "each FLUSH once, in order");
            return;
        }

        let done = &world.sides[1 - i];
        for cell in &self.cells[i] {
            let mut word = [0; 8];
            word.copy_from_slice(memory.at(cell.buffer.va, 8));
            let value = u64::from_ne_bytes(word);

            // Exactly once: the value is one of those that the ATOMICs give in turn, not before
            // those that completed.
            let completed = done.sends[..done.host.model.send.good].iter().filter(|s| {
                use ferroce_transport::SendOp::*;
                matches!(s.op, FetchAdd { va, .. } | CompareSwap { va, .. } if va == cell.buffer.va)
            });
            let least = completed.count();
            assert!(
                cell.values[least..].contains(&value),
                "an ATOMIC was lost or repeated"
            );

            let start = (cell.buffer.va - BASE) as usize;
            memory.bytes[start..start + 8].copy_from_slice(&self.start[i][start..start + 8]);
        }

        let strange = memory
            .bytes
            .iter()
            .zip(self.start[i].iter().zip(&self.finally[i]))
            .position(|(now, (start, end))| now != start && now != end);

        assert_eq!(
            strange, None,
            "side {i}: memory was changed where it should not be"
        );
    }
}
