//! Who holds which slot, and which may be handed out next. Pure bookkeeping: no sockets, no clock.

use std::time::{Duration, Instant};

use ferroce_control::SlotStatus;

/// The number of slots: all values of a queue pair number's top byte.
pub(crate) const SLOTS: usize = 256;

/// How long a slot rests at least after its owner has gone: packets to the dead may still be under
/// way.
pub(crate) const REST: Duration = Duration::from_millis(500);

/// How long a slot must have rested to be preferred to one that was never used. Sockets of a new
/// slot cost memory for ever, so a daemon with few clients should not wander through all of them.
const SETTLED: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug)]
enum State {
    Claimed,
    Resting {
        released: Instant,
        quiet_since: Instant,
    },
}

/// A slot that is, or was, somebody's.
#[derive(Debug)]
struct Used {
    state: State,
    /// Whoever has had it, and has sockets of it; the last of them as the last. `None` where users
    /// are not told apart.
    users: Vec<Option<u32>>,
}

/// How well a rested slot suits a user: it was his the last time, at some time, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Suits {
    Last,
    Once,
    Never,
}

impl Used {
    fn suits(&self, user: Option<u32>) -> Suits {
        match self.users.last() == Some(&user) {
            true => Suits::Last,
            false if self.users.contains(&user) => Suits::Once,
            false => Suits::Never,
        }
    }

    /// For how long it rests yet until it may be somebody's who wants this much rest; `None`: it is
    /// held.
    fn rests_for(&self, now: Instant, least: Duration) -> Option<Duration> {
        match self.state {
            State::Claimed => None,
            State::Resting { released, .. } => {
                Some(least.saturating_sub(now.saturating_duration_since(released)))
            }
        }
    }
}

/// What came of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// This slot is the caller's now.
    Granted(u8),
    /// Nothing is free yet, but something will have rested after this time.
    Wait(Duration),
    /// Every slot is held.
    Full,
    /// Every slot is held, or stays another user's.
    Others,
}

/// The table of slots. Slot 0 is the daemon's and never handed out; the others come into use in
/// order.
#[derive(Debug)]
pub(crate) struct Slots {
    /// Slots 1, 2, …
    used: Vec<Used>,
    /// Whether a slot that one user has had may become another's.
    pass_on: bool,
}

impl Slots {
    /// No slot is anybody's. `pass_on`: one that was may become another user's.
    pub(crate) fn new(pass_on: bool) -> Self {
        Self {
            used: Vec::new(),
            pass_on,
        }
    }

    /// Claims a slot: the settled one that has been quiet for longest, else one never used, else
    /// the rested one that has been quiet for longest.
    ///
    /// `user`: where users are told apart, of those that others have had since he gets none as long
    /// as there are more. What they have kept of it has to be taken from them.
    pub(crate) fn claim(&mut self, now: Instant, user: Option<u32>) -> Claim {
        let worst = match self.pass_on {
            true => Suits::Never,
            false => Suits::Last,
        };
        let index = match self.best(now, user, SETTLED, Suits::Last) {
            Some(index) => index,
            None if self.used.len() < SLOTS - 1 => {
                self.used.push(Used {
                    state: State::Claimed,
                    users: Vec::new(),
                });
                self.used.len() - 1
            }
            None => match self.best(now, user, REST, worst) {
                Some(index) => index,
                None => return self.next_rested(now, user, worst),
            },
        };

        let slot = &mut self.used[index];
        slot.state = State::Claimed;
        slot.users.retain(|other| *other != user);
        slot.users.push(user);
        Claim::Granted(slot_of(index))
    }

    /// The slot that suits a user best, and no worse than `worst`, of those that have rested.
    fn best(
        &self,
        now: Instant,
        user: Option<u32>,
        least: Duration,
        worst: Suits,
    ) -> Option<usize> {
        let rested = self.used.iter().enumerate().filter_map(|(i, slot)| {
            let suits = slot.suits(user);
            match slot.state {
                State::Resting { quiet_since, .. }
                    if slot.rests_for(now, least) == Some(Duration::ZERO) && suits <= worst =>
                {
                    Some((suits, quiet_since, i))
                }
                _ => None,
            }
        });
        rested.min().map(|(_, _, i)| i)
    }

    fn next_rested(&self, now: Instant, user: Option<u32>, worst: Suits) -> Claim {
        let rests = |slot: &Used| slot.rests_for(now, REST);
        let suitable = self.used.iter().filter(|slot| slot.suits(user) <= worst);
        match suitable.filter_map(rests).min() {
            Some(time) => Claim::Wait(time),
            None if self.used.iter().any(|slot| rests(slot).is_some()) => Claim::Others,
            None => Claim::Full,
        }
    }

    /// Takes a slot from its owner. It begins to rest.
    pub(crate) fn release(&mut self, now: Instant, slot: u8) {
        if let Some(slot) = usize::from(slot)
            .checked_sub(1)
            .and_then(|i| self.used.get_mut(i))
        {
            slot.state = State::Resting {
                released: now,
                quiet_since: now,
            };
        }
    }

    /// Notes that a packet came for a slot that nobody holds.
    pub(crate) fn disturb(&mut self, now: Instant, slot: u8) {
        let slot = usize::from(slot)
            .checked_sub(1)
            .and_then(|i| self.used.get_mut(i));
        if let Some(State::Resting { quiet_since, .. }) = slot.map(|slot| &mut slot.state) {
            *quiet_since = now;
        }
    }

    /// How many are in which state.
    pub(crate) fn status(&self, now: Instant) -> SlotStatus {
        let mut status = SlotStatus::default();
        for slot in &self.used {
            match slot.rests_for(now, REST) {
                None => status.claimed += 1,
                Some(Duration::ZERO) => {}
                Some(_) => status.resting += 1,
            }
        }
        status.free = (SLOTS - 1) as u32 - status.claimed - status.resting;
        status
    }
}

fn slot_of(index: usize) -> u8 {
    u8::try_from(index + 1).expect("there are never more than 255 slots in use")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_in_order_and_are_never_shared() {
        let (mut slots, now) = (Slots::new(true), Instant::now());
        for n in 1..=255u8 {
            assert_eq!(slots.claim(now, None), Claim::Granted(n));
        }
        assert_eq!(slots.claim(now, None), Claim::Full);
        assert_eq!(
            slots.status(now),
            SlotStatus {
                claimed: 255,
                free: 0,
                resting: 0
            }
        );
    }

    #[test]
    fn a_released_slot_rests_and_the_longest_quiet_comes_first() {
        let (mut slots, start) = (Slots::new(true), Instant::now());
        for _ in 0..255 {
            slots.claim(start, None);
        }
        slots.release(start, 9);
        slots.release(start + REST / 2, 4);
        assert_eq!(slots.claim(start, None), Claim::Wait(REST));
        assert_eq!(
            slots.claim(start + REST / 4, None),
            Claim::Wait(REST - REST / 4)
        );
        let later = start + REST * 2;
        slots.disturb(later, 9);
        assert_eq!(slots.claim(later, None), Claim::Granted(4));
        assert_eq!(slots.claim(later, None), Claim::Granted(9));
        assert_eq!(slots.claim(later, None), Claim::Full);
    }

    #[test]
    fn a_settled_slot_is_preferred_to_a_new_one_and_a_new_one_to_a_fresh_grave() {
        let (mut slots, start) = (Slots::new(true), Instant::now());
        assert_eq!(slots.claim(start, None), Claim::Granted(1));
        slots.release(start, 1);
        assert_eq!(slots.claim(start + REST, None), Claim::Granted(2));
        assert_eq!(slots.claim(start + SETTLED, None), Claim::Granted(1));
    }

    #[test]
    fn nonsense_changes_nothing() {
        let (mut slots, now) = (Slots::new(true), Instant::now());
        slots.release(now, 0);
        slots.release(now, 200);
        slots.disturb(now, 0);
        assert_eq!(
            slots.status(now),
            SlotStatus {
                claimed: 0,
                free: 255,
                resting: 0
            }
        );

        assert_eq!(slots.claim(now, None), Claim::Granted(1));
        slots.disturb(now, 1);
        assert_eq!(slots.claim(now, None), Claim::Granted(2));
    }

    #[test]
    fn a_user_gets_his_own_slots_and_new_ones_before_those_of_others() {
        let (mut slots, start) = (Slots::new(true), Instant::now());
        let (a, b) = (Some(1), Some(2));
        assert_eq!(slots.claim(start, a), Claim::Granted(1));
        slots.release(start, 1);
        let later = start + SETTLED;
        assert_eq!(slots.claim(later, b), Claim::Granted(2));
        assert_eq!(slots.claim(later, a), Claim::Granted(1));
        for n in 3..=255 {
            assert_eq!(slots.claim(later, a), Claim::Granted(n));
        }

        // Only now those of others, and of these one that the user had at some time.
        for n in [1, 2, 3] {
            slots.release(later, n);
        }
        assert_eq!(slots.claim(later, a), Claim::Wait(REST));
        let (now, c) = (later + REST, Some(3));
        assert_eq!(slots.claim(now, b), Claim::Granted(2));
        assert_eq!(slots.claim(now, c), Claim::Granted(1));
        slots.release(now, 1);
        let now = now + REST;
        slots.disturb(now, 1);
        assert_eq!(slots.claim(now, a), Claim::Granted(3));
        assert_eq!(slots.claim(now, a), Claim::Granted(1));
        assert_eq!(slots.claim(now, a), Claim::Full);
    }

    #[test]
    fn slots_that_cannot_be_taken_from_a_user_stay_his() {
        let (mut slots, start) = (Slots::new(false), Instant::now());
        let (a, b) = (Some(1), Some(2));
        for n in 1..=255 {
            assert_eq!(slots.claim(start, a), Claim::Granted(n));
        }
        assert_eq!(slots.claim(start, b), Claim::Full);
        slots.release(start, 7);
        assert_eq!(slots.claim(start, a), Claim::Wait(REST));
        assert_eq!(slots.claim(start + REST, b), Claim::Others);
        assert_eq!(slots.claim(start + REST, a), Claim::Granted(7));
    }
}
