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

/// What came of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// This slot is the caller's now.
    Granted(u8),
    /// Nothing is free yet, but something will have rested after this time.
    Wait(Duration),
    /// Every slot is held.
    Full,
}

/// The table of slots. Slot 0 is the daemon's and never handed out; the others come into use in
/// order.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// The states of slots 1, 2, …
    used: Vec<State>,
}

impl Slots {
    /// Claims a slot: the settled one that has been quiet for longest, else one never used, else
    /// the rested one that has been quiet for longest.
    pub(crate) fn claim(&mut self, now: Instant) -> Claim {
        let quietest = |least: Duration| {
            self.used
                .iter()
                .enumerate()
                .filter_map(|(i, state)| match state {
                    State::Resting {
                        released,
                        quiet_since,
                    } if now.saturating_duration_since(*released) >= least => {
                        Some((*quiet_since, i))
                    }
                    _ => None,
                })
                .min()
                .map(|(_, i)| i)
        };

        let index = match quietest(SETTLED) {
            Some(index) => index,
            None if self.used.len() < SLOTS - 1 => {
                self.used.push(State::Claimed);
                self.used.len() - 1
            }
            None => match quietest(REST) {
                Some(index) => index,
                None => return self.next_rested(now),
            },
        };

        self.used[index] = State::Claimed;
        Claim::Granted(slot_of(index))
    }

    fn next_rested(&self, now: Instant) -> Claim {
        self.used
            .iter()
            .filter_map(|state| match state {
                State::Resting { released, .. } => {
                    Some(REST.saturating_sub(now.saturating_duration_since(*released)))
                }
                State::Claimed => None,
            })
            .min()
            .map_or(Claim::Full, Claim::Wait)
    }

    /// Takes a slot from its owner. It begins to rest.
    pub(crate) fn release(&mut self, now: Instant, slot: u8) {
        if let Some(state) = usize::from(slot)
            .checked_sub(1)
            .and_then(|i| self.used.get_mut(i))
        {
            *state = State::Resting {
                released: now,
                quiet_since: now,
            };
        }
    }

    /// Notes that a packet came for a slot that nobody holds.
    pub(crate) fn disturb(&mut self, now: Instant, slot: u8) {
        let state = usize::from(slot)
            .checked_sub(1)
            .and_then(|i| self.used.get_mut(i));
        if let Some(State::Resting { quiet_since, .. }) = state {
            *quiet_since = now;
        }
    }

    /// How many are in which state.
    pub(crate) fn status(&self, now: Instant) -> SlotStatus {
        let mut status = SlotStatus::default();
        for state in &self.used {
            match state {
                State::Claimed => status.claimed += 1,
                State::Resting { released, .. }
                    if now.saturating_duration_since(*released) < REST =>
                {
                    status.resting += 1;
                }
                State::Resting { .. } => {}
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
        let (mut slots, now) = (Slots::default(), Instant::now());
        for n in 1..=255u8 {
            assert_eq!(slots.claim(now), Claim::Granted(n));
        }
        assert_eq!(slots.claim(now), Claim::Full);
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
        let (mut slots, start) = (Slots::default(), Instant::now());
        for _ in 0..255 {
            slots.claim(start);
        }
        slots.release(start, 9);
        slots.release(start + REST / 2, 4);
        assert_eq!(slots.claim(start), Claim::Wait(REST));
        assert_eq!(slots.claim(start + REST / 4), Claim::Wait(REST - REST / 4));
        let later = start + REST * 2;
        slots.disturb(later, 9);
        assert_eq!(slots.claim(later), Claim::Granted(4));
        assert_eq!(slots.claim(later), Claim::Granted(9));
        assert_eq!(slots.claim(later), Claim::Full);
    }

    #[test]
    fn a_settled_slot_is_preferred_to_a_new_one_and_a_new_one_to_a_fresh_grave() {
        let (mut slots, start) = (Slots::default(), Instant::now());
        assert_eq!(slots.claim(start), Claim::Granted(1));
        slots.release(start, 1);
        assert_eq!(slots.claim(start + REST), Claim::Granted(2));
        assert_eq!(slots.claim(start + SETTLED), Claim::Granted(1));
    }

    #[test]
    fn nonsense_changes_nothing() {
        let (mut slots, now) = (Slots::default(), Instant::now());
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

        assert_eq!(slots.claim(now), Claim::Granted(1));
        slots.disturb(now, 1);
        assert_eq!(slots.claim(now), Claim::Granted(2));
    }
}
