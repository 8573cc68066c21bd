//! Who takes completions: threads that wait for events, while they look; else the progress thread,
//! which the completion queues must have been asked to wake.
//!
//! A thread that takes its events, does a little and looks again would have it woken each time in
//! between, and for nothing. So the thread that looks last asks for no event where pauses were
//! short of late: the progress thread then looks every now and then, and asks when nobody has come
//! back. That is never done while a thread sleeps.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A pause so short that another such is expected.
const SHORT: Duration = Duration::from_micros(200);
/// The most that short pauses count: a long one takes half of what they count away, so that a
/// thread that loses the processor for a moment does not ask for events at once.
const MOST_BRISK: u32 = 8;
/// How often the progress thread looks whether the lookers are back.
pub(crate) const WATCH: Duration = Duration::from_millis(1);

/// What a thread does that looks no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It has what it waited for and is likely to be back.
    Back,
    /// It sleeps until there is an event, and says when it is awake.
    Sleep,
    /// Neither.
    Away,
}

/// The threads that look and those that sleep.
pub(crate) struct Attention {
    origin: Instant,
    lookers: AtomicUsize,
    sleepers: AtomicUsize,
    /// Looks that have begun.
    looks: AtomicU64,
    /// When the last looker left, in nanoseconds since `origin`.
    left: AtomicU64,
    /// What the short ones of the times that nobody looked count; 0 if the next is not expected to
    /// be one.
    brisk: AtomicU32,
    /// The progress thread watches, instead of events having been asked for.
    watched: AtomicBool,
}

/// Who must see to it that completions are taken, when a thread looks no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Others look, or the progress thread watches already.
    None,
    /// The progress thread, which has to be told to watch.
    Watch,
    /// Events must be asked for.
    Arm,
}

impl Attention {
    /// Nobody looks.
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            lookers: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            looks: AtomicU64::new(0),
            left: AtomicU64::new(0),
            brisk: AtomicU32::new(0),
            watched: AtomicBool::new(false),
        }
    }

    fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// A thread looks from here on.
    pub(crate) fn begin(&self) {
        if self.lookers.fetch_add(1, SeqCst) == 0 {
            let pause = self.now().saturating_sub(self.left.load(SeqCst));
            let brisk = brisk_after(self.brisk.load(SeqCst), pause);
            self.brisk.store(brisk, SeqCst);
        }
        self.looks.fetch_add(1, SeqCst);
    }

    /// It looks no more.
    pub(crate) fn end(&self, next: Next) -> Duty {
        if next == Next::Sleep {
            self.sleepers.fetch_add(1, SeqCst);
        }

        self.left.store(self.now(), SeqCst);

        // Whoever is last sees those that sleep already, and they were not last.
        if self.lookers.fetch_sub(1, SeqCst) > 1 {
            return Duty::None;
        }
        if next != Next::Back || self.brisk.load(SeqCst) == 0 || self.sleepers.load(SeqCst) > 0 {
            return Duty::Arm;
        }

        match self.watched.swap(true, SeqCst) {
            true => Duty::None,
            false => Duty::Watch,
        }
    }

    /// A sleep is over.
    pub(crate) fn awake(&self) {
        self.sleepers.fetch_sub(1, SeqCst);
    }

    /// Whether a thread looks.
    pub(crate) fn looked_for(&self) -> bool {
        self.lookers.load(SeqCst) > 0
    }

    /// Whether the progress thread need not ask for events, as somebody else will.
    pub(crate) fn attended(&self) -> bool {
        self.looked_for() || (self.watched.load(SeqCst) && self.sleepers.load(SeqCst) == 0)
    }
}

/// What short pauses count after another pause, of so many nanoseconds.
fn brisk_after(brisk: u32, pause: u64) -> u32 {
    match pause < SHORT.as_nanos() as u64 {
        true => (brisk + 1).min(MOST_BRISK),
        false => brisk / 2,
    }
}

/// What the progress thread knows of the lookers.
#[derive(Default)]
pub(crate) struct Watcher {
    /// When it looks next, and how many looks there had been at the last time.
    next: Option<(Instant, u64)>,
}

impl Watcher {
    /// Looks, if it is time to. Whether events must be asked for, as nobody has come back; and how
    /// long to wait at most.
    pub(crate) fn watch(
        &mut self,
        attention: &Attention,
        now: Instant,
    ) -> (bool, Option<Duration>) {
        if !attention.watched.load(SeqCst) {
            self.next = None;
            return (false, None);
        }

        let looks = attention.looks.load(SeqCst);
        match self.next {
            Some((when, _)) if now < when => return (false, Some(when - now)),
            Some((_, seen)) if seen == looks && !attention.looked_for() => {
                self.next = None;
                // Whoever leaves from here on says so anew.
                attention.watched.store(false, SeqCst);
                return (true, None);
            }
            _ => self.next = Some((now + WATCH, looks)),
        }

        (false, Some(WATCH))
    }
}

impl Default for Attention {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks once, right after the look before.
    fn look(attention: &Attention, next: Next) -> Duty {
        attention.begin();
        attention.end(next)
    }

    #[test]
    fn a_busy_looker_is_watched_until_it_stays_away() {
        let attention = Attention::new();
        let mut watcher = Watcher::default();
        let start = Instant::now();
        assert_eq!(watcher.watch(&attention, start), (false, None));
        look(&attention, Next::Away);
        assert_eq!(look(&attention, Next::Back), Duty::Watch);
        assert_eq!(look(&attention, Next::Back), Duty::None);
        assert!(attention.attended());
        assert_eq!(watcher.watch(&attention, start), (false, Some(WATCH)));
        look(&attention, Next::Back);
        let soon = start + WATCH / 2;
        assert_eq!(watcher.watch(&attention, soon), (false, Some(WATCH / 2)));
        assert_eq!(
            watcher.watch(&attention, start + WATCH),
            (false, Some(WATCH))
        );

        assert_eq!(watcher.watch(&attention, start + WATCH * 2), (true, None));
        assert!(!attention.attended());
        assert_eq!(watcher.watch(&attention, start + WATCH * 3), (false, None));
    }

    #[test]
    fn nobody_sleeps_without_events() {
        let attention = Attention::new();
        look(&attention, Next::Away);
        assert_eq!(look(&attention, Next::Sleep), Duty::Arm);
        assert_eq!(look(&attention, Next::Back), Duty::Arm);
        attention.begin();
        attention.begin();
        assert_eq!(attention.end(Next::Sleep), Duty::None);
        assert_eq!(attention.end(Next::Back), Duty::Arm);
        attention.awake();
        attention.awake();
        assert_eq!(look(&attention, Next::Back), Duty::Watch);
    }

    #[test]
    fn who_comes_back_late_has_events_asked_for() {
        let attention = Attention::new();
        look(&attention, Next::Away);
        std::thread::sleep(SHORT * 2);
        assert_eq!(look(&attention, Next::Back), Duty::Arm);
    }

    #[test]
    fn one_long_pause_of_a_busy_looker_is_forgiven() {
        let long = SHORT.as_nanos() as u64;
        assert_eq!(brisk_after(0, long), 0);
        assert_eq!(brisk_after(0, long - 1), 1);
        assert_eq!(brisk_after(1, long), 0);

        let mut brisk = (0..100).fold(0, |brisk, _| brisk_after(brisk, 0));
        let mut forgiven = 0;
        while brisk > 0 {
            brisk = brisk_after(brisk, long);
            forgiven += 1;
        }
        assert_eq!(forgiven, MOST_BRISK.ilog2() + 1);
    }

    #[test]
    fn the_progress_thread_is_not_needed_while_a_thread_looks() {
        let attention = Attention::new();
        assert!(!attention.looked_for());
        attention.begin();
        assert!(attention.looked_for());
        // Who leaves asks for events: what came meanwhile has been left to him.
        assert_eq!(attention.end(Next::Sleep), Duty::Arm);
        assert!(!attention.looked_for());
        attention.awake();
    }
}
