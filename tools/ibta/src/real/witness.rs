//! A witness of the machine: whether its processors were there all the time, or a wait was long
//! because nobody ran.
//!
//! One thread for each processor that this process may use, bound to it, naps for some milliseconds
//! again and again and notes when it was woken late. A virtual processor that its host took away, a
//! quota that was spent, a program that nobody may interrupt: whoever had a timer on that processor
//! was late by as much, a device that runs beside the tester among them. The kernel's own accounts
//! (`steal` in /proc/stat, /proc/pressure) know only some of these, and say how much, not when.
//!
//! The witness knows this host. Of a device on another it knows nothing, and excuses nothing.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long a thread of the witness naps.
const NAP: Duration = Duration::from_millis(4);
/// Whoever is woken so late has been held up. Less is a scheduler's everyday, and many small delays
/// explain no great one.
const STALL: Duration = Duration::from_millis(10);
/// Stalls that are kept for each processor: those of minutes, even on a machine that has no others.
const KEPT: usize = 10_000;
/// A wait is longer by at most this many times its length, or by `SPARE`, whatever is more, on a
/// machine that stands still.
const STRETCH: u32 = 4;
const SPARE: Duration = Duration::from_secs(1);

/// The witness. Its threads end soon after it is dropped.
pub struct Witness {
    shared: Arc<Shared>,
}

struct Shared {
    processors: Vec<Mutex<Processor>>,
    stop: AtomicBool,
}

impl Witness {
    /// Begins to look. Where there may be no more threads it sees less.
    pub fn new() -> Witness {
        let processors = allowed();
        let now = Instant::now();
        let shared = Arc::new(Shared {
            processors: processors
                .iter()
                .map(|_| Mutex::new(Processor::new(now)))
                .collect(),
            stop: AtomicBool::new(false),
        });

        for (index, processor) in processors.into_iter().enumerate() {
            let for_thread = shared.clone();
            let thread = std::thread::Builder::new()
                .name("witness".to_owned())
                .spawn(move || watch(&for_thread, index, processor));
            if thread.is_err() {
                shared.processor(index).blind = true;
            }
        }

        Witness { shared }
    }

    /// How long the machine stood still between two moments: of all processors, the one that was
    /// away for longest. More than that it took from nobody who needed one processor.
    pub fn stalled(&self, from: Instant, to: Instant) -> Duration {
        let now = Instant::now();
        (0..self.shared.processors.len())
            .map(|index| self.shared.processor(index).stalled(from, to, now))
            .max()
            .unwrap_or_default()
    }
}

impl Drop for Witness {
    // Not joined: a thread whose processor is away has no hurry.
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn processor(&self, index: usize) -> MutexGuard<'_, Processor> {
        self.processors[index]
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }
}

/// A wait of so much time in which the machine runs.
pub(super) struct Wait {
    began: Instant,
    within: Duration,
}

impl Wait {
    /// One that begins now.
    pub(super) fn new(within: Duration) -> Wait {
        Wait {
            began: Instant::now(),
            within,
        }
    }

    /// What is left of it.
    pub(super) fn left(&self, witness: &Witness) -> Duration {
        let now = Instant::now();
        let stalled = witness.stalled(self.began, now);
        left(self.within, now - self.began, stalled)
    }
}

fn left(within: Duration, waited: Duration, stalled: Duration) -> Duration {
    let most = (within * STRETCH).max(SPARE);
    (within + stalled.min(most)).saturating_sub(waited)
}

/// The processors that this process may use; `None` stands for any, where the kernel does not say.
fn allowed() -> Vec<Option<usize>> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU)
            .filter(|processor| set.is_set(*processor))
            .map(Some)
            .collect(),
        Err(_) => vec![None],
    }
}

/// Naps on a processor until the witness goes.
fn watch(shared: &Shared, index: usize, processor: Option<usize>) {
    if let Some(processor) = processor {
        let mut set = CpuSet::new();
        set.set(processor);
        // Where it may not, it looks at whichever processor it is given.
        let _ = sched_setaffinity(None, &set);
    }
    while !shared.stop.load(Ordering::Relaxed) {
        shared.processor(index).woken(Instant::now());
        std::thread::sleep(NAP);
    }
}

/// What is known of a processor.
struct Processor {
    /// When its thread should be woken.
    due: Instant,
    /// When it should have been woken and when it was, of each time that it was late.
    stalls: VecDeque<(Instant, Instant)>,
    /// Nobody looks.
    blind: bool,
}

impl Processor {
    fn new(now: Instant) -> Processor {
        Processor {
            due: now + NAP,
            stalls: VecDeque::new(),
            blind: false,
        }
    }

    /// Its thread runs, and is about to nap again.
    fn woken(&mut self, now: Instant) {
        if let Some(stall) = self.under_way(now) {
            if self.stalls.len() == KEPT {
                self.stalls.pop_front();
            }
            self.stalls.push_back(stall);
        }
        self.due = now + NAP;
    }

    /// The stall that has not ended.
    fn under_way(&self, now: Instant) -> Option<(Instant, Instant)> {
        let late = now.saturating_duration_since(self.due);
        (late >= STALL && !self.blind).then_some((self.due, now))
    }

    /// How much of the time between two moments it was away.
    fn stalled(&self, from: Instant, to: Instant, now: Instant) -> Duration {
        let within = |&(due, woken): &(Instant, Instant)| {
            woken.min(to).saturating_duration_since(due.max(from))
        };
        let under_way = self.under_way(now);
        let latest_first = under_way.iter().chain(self.stalls.iter().rev());
        latest_first
            .take_while(|(_, woken)| *woken > from)
            .map(within)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_late_wake_up_is_a_stall_from_when_it_was_due() {
        let begin = Instant::now();
        let mut processor = Processor::new(begin);
        processor.woken(begin + NAP + ms(9));
        assert!(processor.stalls.is_empty(), "everyday lateness");
        let due = begin + 2 * NAP + ms(9);
        let woken = due + ms(100);
        processor.woken(woken);
        let now = woken;
        assert_eq!(processor.stalled(begin, now, now), ms(100));

        // Of a stall only what lies between the two moments.
        assert_eq!(processor.stalled(due + ms(30), now, now), ms(70));
        assert_eq!(processor.stalled(begin, due + ms(30), now), ms(30));
        assert_eq!(
            processor.stalled(woken, woken + ms(50), now),
            Duration::ZERO
        );
    }

    #[test]
    fn a_stall_that_has_not_ended_counts() {
        let begin = Instant::now();
        let processor = Processor::new(begin);
        let now = begin + NAP + ms(40);
        assert_eq!(processor.stalled(begin, now, now), ms(40));
        let soon = begin + NAP + ms(5);
        assert_eq!(processor.stalled(begin, soon, soon), Duration::ZERO);
    }

    #[test]
    fn nobody_looks_and_nothing_is_seen() {
        let begin = Instant::now();
        let mut processor = Processor::new(begin);
        processor.blind = true;
        let now = begin + ms(1000);
        assert_eq!(processor.stalled(begin, now, now), Duration::ZERO);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut now = Instant::now();
        let mut processor = Processor::new(now);
        for _ in 0..KEPT + 5 {
            now += NAP + STALL;
            processor.woken(now);
        }
        assert_eq!(processor.stalls.len(), KEPT);
    }

    #[test]
    fn a_wait_does_not_count_stalls_and_ends_all_the_same() {
        assert_eq!(left(ms(100), ms(40), Duration::ZERO), ms(60));
        assert_eq!(left(ms(100), ms(140), ms(90)), ms(50));
        assert_eq!(left(ms(100), ms(200), ms(90)), Duration::ZERO);
        // On a processor that never comes back.
        assert_eq!(left(ms(100), ms(1100), ms(1100)), Duration::ZERO);
        let long = Duration::from_secs(5);
        assert_eq!(left(long, 5 * long, 5 * long), Duration::ZERO);
    }

    /// The threads look: whatever this machine does, a look at a time without an end finds no more
    /// than has passed, and a wait of the real witness ends.
    #[test]
    fn a_real_witness_looks() {
        let witness = Witness::new();
        assert!(!witness.shared.processors.is_empty());
        let begin = Instant::now();
        let wait = Wait::new(ms(20));
        while !wait.left(&witness).is_zero() {
            std::thread::sleep(ms(1));
        }
        assert!(begin.elapsed() >= ms(20));
        let stalled = witness.stalled(begin, begin + Duration::from_secs(3600));
        assert!(stalled <= begin.elapsed(), "{stalled:?}");
    }
}
