//! Whether a thread that polls in vain offers its processor (`make_room`), or sleeps for a moment.
//!
//! While processors are free it offers its own by `sched_yield`, which costs nothing then and lets
//! a peer or a helper on the same processor answer. Where strangers keep the processors busy, each
//! of them would take a turn of milliseconds first, while whoever sleeps until something comes is
//! preferred when it does. But an offer may also take long because the peer itself is slow, as on
//! an emulated processor, and there a sleep costs more than it gives. The two look alike from
//! here; what tells them apart is what gets done. So after an offer that took long the thread
//! sleeps for a while, then offers for a moment, and goes on with what brings more completions.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ferroce_transport::{Duration, Time};
use parking_lot::Mutex;

use crate::tuning::{
    CROWD_CREDIT, CROWD_MARGIN, CROWD_TRIAL, MAX_CROWD_TRIAL, MAX_YIELD, MAX_YIELD_BACKOFF,
    MIN_YIELD_BACKOFF, POLLS_AMONG_OTHERS, POLLS_BEFORE_SLEEP, POLLS_BEFORE_YIELD, TAKEN_OFFER,
};

/// [`POLLS_BEFORE_YIELD`] halved so often is [`POLLS_AMONG_OTHERS`].
const MAX_TAKEN: u32 = (POLLS_BEFORE_YIELD / POLLS_AMONG_OTHERS).ilog2();

/// What a thread that polls in vain does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    /// Offers; none has taken long.
    #[default]
    Offers,
    /// Sleeps, after one that has.
    Sleeps,
    /// Offers, to see whether that brings more than sleeping has.
    Tries,
    /// Offers, though that takes long, as it does.
    Insists,
}

/// What is known of that, by the calls that say what happened.
#[derive(Default)]
pub(crate) struct Crowd {
    /// Whether it is any way but [`Way::Offers`].
    suspected: AtomicBool,
    /// Whether it is [`Way::Sleeps`], unless its time has passed.
    sleeping: AtomicBool,
    /// Polls that found completions meanwhile.
    found: AtomicU32,
    /// How often the polls before an offer are halved: somebody has taken one a short while ago.
    taken: AtomicU32,
    judgement: Mutex<Judgement>,
}

#[derive(Debug, Default)]
struct Judgement {
    way: Way,
    /// Since when it is this.
    since: Time,
    /// What had been found then.
    found: u32,
    /// How long the last sleeping was to be.
    sleeping: Duration,
    /// How long the last insisting was to be.
    insisting: Duration,
    /// How long it took for something to be found while sleeping, if anything was.
    pace: Option<Duration>,
    /// Whether an offer of the trial has taken long.
    long: bool,
}

impl Crowd {
    /// Whether a thread that polls in vain sleeps instead of offering.
    pub(super) fn is_there(&self, now: Time) -> bool {
        if !self.is_suspected() {
            return false;
        }

        self.judge(|judgement, found| judgement.advance(now, found)) == Way::Sleeps
    }

    /// Whether an offer has taken long and it is not settled yet that this is over: without a look
    /// at the clock.
    #[inline]
    pub(super) fn is_suspected(&self) -> bool {
        self.suspected.load(Ordering::Relaxed)
    }

    /// Whether a thread that polls in vain has been sleeping: without a look at the clock.
    #[inline]
    pub(super) fn was_there(&self) -> bool {
        self.sleeping.load(Ordering::Relaxed)
    }

    /// A poll has found completions, while it is suspected.
    pub(super) fn found(&self) {
        self.found.fetch_add(1, Ordering::Relaxed);
    }

    /// Empty polls in a row before the next offer. Where several threads wait for each other on a
    /// processor, each looks around only once it is its turn, and all others wait for that.
    #[inline]
    pub(super) fn polls_before_offer(&self) -> u32 {
        match self.was_there() {
            true => POLLS_BEFORE_SLEEP,
            false => POLLS_BEFORE_YIELD >> self.taken.load(Ordering::Relaxed),
        }
    }

    /// An offer was made and has ended.
    pub(super) fn offered(&self, before: Time, after: Time) {
        let taken = match after - before > TAKEN_OFFER {
            true => MAX_TAKEN,
            false => self.taken.load(Ordering::Relaxed).saturating_sub(1),
        };
        self.taken.store(taken, Ordering::Relaxed);

        let long = after - before > MAX_YIELD;
        if !long && !self.is_suspected() {
            return;
        }

        self.judge(|judgement, found| judgement.offered(after, found, long));
    }

    /// Changes the judgement in view of what has been found; returns what it is then.
    fn judge(&self, change: impl FnOnce(&mut Judgement, u32)) -> Way {
        let mut judgement = self.judgement.lock();
        // Under the lock, so that it is never less than what a judgement has begun with.
        let found = self.found.load(Ordering::Relaxed);
        change(&mut judgement, found);
        let way = judgement.way;
        self.suspected.store(way != Way::Offers, Ordering::Relaxed);
        self.sleeping.store(way == Way::Sleeps, Ordering::Relaxed);
        way
    }
}

impl Judgement {
    /// Ends what has had its time.
    fn advance(&mut self, now: Time, found: u32) {
        match self.way {
            Way::Sleeps if now >= self.since + self.sleeping => {
                self.pace = self.sleeping.checked_div(self.brought(found));
                self.long = false;
                self.begin(Way::Tries, now, found);
            }
            Way::Insists if now >= self.since + self.insisting => {
                self.begin(Way::Offers, now, found);
            }
            _ => {}
        }
    }

    fn offered(&mut self, now: Time, found: u32, long: bool) {
        self.advance(now, found);
        match self.way {
            Way::Offers if long => {
                self.sleeping = MIN_YIELD_BACKOFF;
                self.begin(Way::Sleeps, now, found);
            }
            Way::Tries => {
                self.long |= long;
                self.try_on(now, found);
            }
            // Strangers may have come.
            Way::Insists if long && self.is_slower(2 * CROWD_MARGIN, CROWD_CREDIT, now, found) => {
                self.settle(now, found, false);
            }
            _ => {}
        }
    }

    /// Ends the trial if it is clear what it shows. In doubt it is for the offers: where the peer
    /// sleeps, too, one of the two has to begin.
    fn try_on(&mut self, now: Time, found: u32) {
        let over = self.brought(found) >= CROWD_TRIAL
            || now - self.since > MAX_CROWD_TRIAL
            || self.is_slower(CROWD_MARGIN, CROWD_CREDIT, now, found);
        if over {
            let pays = !self.is_slower(CROWD_MARGIN, 0, now, found);
            self.settle(now, found, pays);
        }
    }

    /// Whether what offers have brought, and so many finds more, takes over so many times as long
    /// as sleeping. Where sleeping brought nothing there is nothing to hope for.
    fn is_slower(&self, times: u32, granted: u32, now: Time, found: u32) -> bool {
        // A program whose polls all find something may be long without an offer.
        let brought = self.brought(found).saturating_add(granted);
        self.pace
            .is_none_or(|pace| now - self.since > pace * times.saturating_mul(brought))
    }

    /// What has been found since it is this way.
    fn brought(&self, found: u32) -> u32 {
        found.wrapping_sub(self.found)
    }

    /// The trial has ended.
    fn settle(&mut self, now: Time, found: u32, pays: bool) {
        match (self.long, pays) {
            (false, _) => self.begin(Way::Offers, now, found),
            (true, true) => {
                self.insisting = (2 * self.insisting).clamp(MIN_YIELD_BACKOFF, MAX_YIELD_BACKOFF);
                self.begin(Way::Insists, now, found);
            }
            (true, false) => {
                self.insisting = Duration::ZERO;
                self.sleeping = (2 * self.sleeping).min(MAX_YIELD_BACKOFF);
                self.begin(Way::Sleeps, now, found);
            }
        }
    }

    fn begin(&mut self, way: Way, now: Time, found: u32) {
        self.way = way;
        self.since = now;
        self.found = found;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One thread that polls for messages; how long each takes with either way is given.
    struct Poller {
        crowd: Crowd,
        now: Time,
        /// What an offer takes, and whether a message is there after it.
        offer: (Duration, bool),
        /// The same of a sleep.
        sleep: (Duration, bool),
        offers: u32,
        messages: u32,
    }

    impl Poller {
        fn new(offer: (Duration, bool), sleep: (Duration, bool)) -> Poller {
            Poller {
                crowd: Crowd::default(),
                now: Time::ZERO,
                offer,
                sleep,
                offers: 0,
                messages: 0,
            }
        }

        fn run(&mut self, time: Duration) {
            let until = self.now + time;
            (self.offers, self.messages) = (0, 0);
            while self.now < until {
                let found = match self.crowd.is_there(self.now) {
                    true => {
                        self.now += self.sleep.0;
                        self.sleep.1
                    }
                    false => {
                        let before = self.now;
                        self.now += self.offer.0;
                        self.crowd.offered(before, self.now);
                        self.offers += 1;
                        self.offer.1
                    }
                };
                if found {
                    self.messages += 1;
                    self.crowd.found();
                }
            }
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn who_has_the_processors_to_himself_goes_on_offering() {
        let mut poller = Poller::new((MAX_YIELD, true), (SECOND, true));
        poller.run(SECOND);
        assert_eq!(poller.offers, 5_000);
    }

    #[test]
    fn an_offer_that_is_taken_is_made_again_soon() {
        let crowd = Crowd::default();
        let mut now = Time::from_nanos(1 << 30);
        let mut offer = |taken: Duration| {
            crowd.offered(now, now + taken);
            now += taken;
            crowd.polls_before_offer()
        };
        assert_eq!(offer(TAKEN_OFFER), POLLS_BEFORE_YIELD);
        let somebody_ran = TAKEN_OFFER + Duration::from_nanos(1);
        assert_eq!(offer(somebody_ran), POLLS_AMONG_OTHERS);
        assert_eq!(offer(somebody_ran), POLLS_AMONG_OTHERS);
        for doubled in 1..=MAX_TAKEN {
            assert_eq!(offer(TAKEN_OFFER), POLLS_AMONG_OTHERS << doubled);
        }
        assert_eq!(offer(TAKEN_OFFER), POLLS_BEFORE_YIELD);
        // Strangers keep the processor for long.
        offer(2 * MAX_YIELD);
        assert!(crowd.is_there(now) && crowd.polls_before_offer() == POLLS_BEFORE_SLEEP);
    }

    #[test]
    fn among_strangers_offers_become_rare_and_short_ones_end_that() {
        let mut poller = Poller::new((Duration::from_millis(10), true), (MAX_YIELD, true));
        poller.run(10 * SECOND);

        // Of ten seconds, less than one in twenty.
        assert!((10..50).contains(&poller.offers), "{}", poller.offers);

        poller.offer.0 = Duration::from_micros(1);
        poller.run(2 * MAX_YIELD_BACKOFF);
        assert!(!poller.crowd.is_suspected());

        // As at the beginning.
        let now = poller.now;
        poller.crowd.offered(now, now + 2 * MAX_YIELD);
        assert!(poller.crowd.is_there(now + MIN_YIELD_BACKOFF));
        assert!(
            !poller
                .crowd
                .is_there(now + 2 * MAX_YIELD + MIN_YIELD_BACKOFF)
        );
    }

    #[test]
    fn where_nothing_comes_long_offers_become_rare_too() {
        let mut poller = Poller::new((Duration::from_millis(10), false), (MAX_YIELD, false));
        poller.run(10 * SECOND);
        assert!((10..50).contains(&poller.offers), "{}", poller.offers);
    }

    #[test]
    fn offers_that_bring_more_than_sleeping_go_on_though_they_take_long() {
        let mut poller = Poller::new((2 * MAX_YIELD, true), (Duration::from_millis(2), true));
        poller.run(10 * SECOND);

        let all = 10 * SECOND.as_micros() as u32 / (2 * MAX_YIELD.as_micros() as u32);
        assert!(
            poller.messages > all * 9 / 10,
            "{} of {all}",
            poller.messages
        );
    }

    #[test]
    fn strangers_who_come_later_are_noticed() {
        let mut poller = Poller::new((2 * MAX_YIELD, true), (Duration::from_millis(2), true));
        poller.run(10 * SECOND);
        poller.offer.0 = Duration::from_millis(10);
        poller.sleep.0 = MAX_YIELD;
        poller.run(10 * SECOND);
        assert!(poller.offers < 60, "{}", poller.offers);
    }

    #[test]
    fn a_trial_without_an_offer_may_bring_any_number() {
        let mut judgement = Judgement {
            way: Way::Tries,
            pace: Some(MAX_YIELD_BACKOFF),
            long: true,
            ..Judgement::default()
        };
        judgement.offered(Time::ZERO + SECOND, u32::MAX, true);
        assert_eq!(judgement.way, Way::Insists);
    }
}
