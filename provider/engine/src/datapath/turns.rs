//! Whose turn it is to send requests, of the queue pairs of one path.
//!
//! As long as the window has room for a run of each, all that have something to send do so at once,
//! and share the window. Of more than that each would have a sliver: a packet at a time, each a
//! send, an acknowledgement and two visits of its own, and all of them together more than the way
//! takes. So then as many have a turn as the window has runs, and the others wait in a queue. A
//! turn is so many bytes; it ends when they are acknowledged, or when there is nothing left to
//! send, and goes to the first who waits. One who waits costs nothing.
//!
//! Those with one small request have a queue of their own, which takes turns with the other: they
//! do not wait for bulk, nor bulk for them. As long as no bulk waits there are more turns for them,
//! as they take little of the window.
//!
//! Knows no clock and no queue pair but by its index, and does nothing by itself.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;

use ferroce_transport::Duration;
use parking_lot::Mutex;

use crate::datapath::turn_count::TurnCount;
use crate::tuning::{LITTLE_TURNS, MAX_TURN_PATIENCE, TURN_PATIENCE};

/// The turn of a queue pair. Those of an earlier round were written off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    round: u32,
}

/// A queue pair's part in the turns of its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Part {
    /// It has nothing to send, and nothing on its way.
    #[default]
    None,
    Waits,
    /// It has a turn, since so many bytes were sent.
    Has {
        turn: Turn,
        since: u64,
    },
}

/// What a queue pair that wants to send is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    Turn(Turn),
    /// It has to wait. `alone`: nobody looks yet whether turns end.
    Waits {
        alone: bool,
    },
}

/// What a look at those who wait has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// There are none, and no need to look again.
    Nobody,
    /// Turns have ended since the last look.
    Moving,
    /// None has: all of them were written off.
    Stalled,
}

pub(crate) struct Turns {
    count: TurnCount<AtomicU64>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// Who has little to send, and who has more: first come, first served.
    little: VecDeque<u16>,
    much: VecDeque<u16>,
    /// The last turn went to one who had little.
    little_last: bool,
    /// A turn has ended since the last look.
    moved: bool,
    /// Somebody looks.
    watched: bool,
    /// Looks in a row that have found nothing moved.
    stalls: u32,
}

impl Waiting {
    fn len(&self) -> usize {
        self.little.len() + self.much.len()
    }

    /// Takes the first who waits.
    fn pop(&mut self) -> Option<u16> {
        let little_first = !self.little_last || self.much.is_empty();
        let next = match little_first {
            true => self.little.pop_front(),
            false => None,
        };
        self.little_last = next.is_some();
        next.or_else(|| self.much.pop_front())
    }
}

/// How many turns there are, of `limit` for all, as long as only those with little are concerned.
fn limit_for(little_only: bool, limit: u32) -> u32 {
    match little_only {
        true => limit.saturating_mul(LITTLE_TURNS),
        false => limit,
    }
}

impl Default for Turns {
    fn default() -> Turns {
        Turns {
            count: TurnCount::new(AtomicU64::new(0)),
            waiting: Mutex::default(),
        }
    }
}

impl Turns {
    /// Turns that are taken.
    #[inline]
    pub(crate) fn taken(&self) -> u32 {
        self.count.taken()
    }

    /// Whether somebody waits for one.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        self.count.are_wanted()
    }

    /// A queue pair that has no turn, and does not wait, wants to send; `limit` turns there are,
    /// and more for those with `little`.
    #[inline]
    pub(crate) fn begin(&self, index: u16, limit: u32, little: bool) -> Begun {
        // Taken only while nobody waits.
        match self.count.take(limit_for(little, limit)) {
            Some(round) => Begun::Turn(Turn { round }),
            None => self.wait(index, limit, little),
        }
    }

    #[cold]
    fn wait(&self, index: u16, limit: u32, little: bool) -> Begun {
        let mut waiting = self.waiting.lock();
        let limit = limit_for(little && waiting.much.is_empty(), limit);
        if let Err(round) = self.count.want(limit) {
            return Begun::Turn(Turn { round });
        }

        match little {
            true => waiting.little.push_back(index),
            false => waiting.much.push_back(index),
        }
        let alone = !std::mem::replace(&mut waiting.watched, true);
        Begun::Waits { alone }
    }

    /// A turn is over.
    #[inline]
    pub(crate) fn end(&self, turn: Turn) {
        if !self.count.give_back(turn.round) {
            self.end_before_others(turn);
        }
    }

    #[cold]
    fn end_before_others(&self, turn: Turn) {
        let mut waiting = self.waiting.lock();
        waiting.moved = true;
        self.count.give_back_locked(turn.round);
    }

    /// Gives a turn that nobody has to the first who waits; `limit` as in [`begin`](Self::begin).
    #[inline]
    pub(crate) fn next(&self, limit: u32) -> Option<(u16, Turn)> {
        match self.are_wanted() {
            false => None,
            true => self.pass_on(limit),
        }
    }

    #[cold]
    fn pass_on(&self, limit: u32) -> Option<(u16, Turn)> {
        let mut waiting = self.waiting.lock();
        let last = match waiting.len() {
            0 => return None,
            many => many == 1,
        };
        let limit = limit_for(waiting.much.is_empty(), limit);
        let round = self.count.pass_on(limit, last)?;
        Some((waiting.pop()?, Turn { round }))
    }

    /// Whether a turn counts, or was written off.
    #[inline]
    pub(crate) fn counts(&self, turn: Turn) -> bool {
        self.count.round() == turn.round
    }

    /// Looks whether turns end while others wait, and writes those off that do not: a peer may be
    /// silent for as long as it likes, and others of the path are not to wait for it.
    pub(crate) fn look(&self) -> Look {
        let mut waiting = self.waiting.lock();
        if waiting.len() == 0 {
            waiting.watched = false;
            return Look::Nobody;
        }
        if std::mem::take(&mut waiting.moved) {
            waiting.stalls = 0;
            return Look::Moving;
        }

        waiting.stalls += 1;
        self.count.write_off();
        Look::Stalled
    }

    /// How long until the next look.
    pub(crate) fn patience(&self) -> Duration {
        let stalls = self.waiting.lock().stalls;
        (TURN_PATIENCE * (1 << stalls.min(8))).min(MAX_TURN_PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(turns: &Turns, index: u16, limit: u32) -> Turn {
        match turns.begin(index, limit, false) {
            Begun::Turn(turn) => turn,
            waits => panic!("{waits:?}"),
        }
    }

    /// There is no turn for it; returns whether nobody else waits.
    fn waits(turns: &Turns, index: u16, little: bool) -> bool {
        match turns.begin(index, turns.taken(), little) {
            Begun::Waits { alone } => alone,
            turn => panic!("{turn:?}"),
        }
    }

    #[test]
    fn those_beyond_the_limit_wait_and_are_served_as_they_came() {
        let turns = Turns::default();
        let first = begin(&turns, 1, 2);
        let second = begin(&turns, 2, 2);
        assert!(!turns.are_wanted());
        assert!(waits(&turns, 3, false));
        assert!(!waits(&turns, 4, false), "one looks after all of them");
        assert_eq!(turns.next(2), None);

        turns.end(first);
        // Who comes now is behind them.
        assert!(!waits(&turns, 1, false));
        let (index, third) = turns.next(2).unwrap();
        assert_eq!((index, turns.next(2)), (3, None));
        turns.end(second);
        turns.end(third);
        assert_eq!(turns.next(2).unwrap().0, 4);
        assert_eq!(turns.next(2).unwrap().0, 1);
        assert!(!turns.are_wanted());
        assert_eq!((turns.next(2), turns.taken()), (None, 2));
    }

    #[test]
    fn little_and_much_take_turns() {
        let turns = Turns::default();
        let mut turn = begin(&turns, 0, 1);
        for index in 1..=3 {
            waits(&turns, index, false);
            waits(&turns, 10 + index, true);
        }
        let mut order = Vec::new();
        loop {
            turns.end(turn);
            let Some((index, next)) = turns.next(1) else {
                break;
            };
            order.push(index);
            turn = next;
        }
        assert_eq!(order, [11, 1, 12, 2, 13, 3]);
    }

    #[test]
    fn there_are_more_turns_for_little_until_much_waits() {
        let turns = Turns::default();
        let little = |index| turns.begin(index, 2, true);
        let first = begin(&turns, 0, 2);
        let some: Vec<_> = (1..2 * LITTLE_TURNS as u16)
            .map(|index| match little(index) {
                Begun::Turn(turn) => turn,
                waits => panic!("{waits:?}"),
            })
            .collect();
        assert!(matches!(little(100), Begun::Waits { .. }));
        turns.end(first);
        assert_eq!(turns.next(2).unwrap().0, 100);
        assert!(!turns.are_wanted());

        // One with much waits until there are as few as without those with little, who come after
        // it now.
        assert!(matches!(turns.begin(200, 2, false), Begun::Waits { .. }));
        assert!(matches!(little(101), Begun::Waits { .. }));
        let mut left = some.into_iter();
        let next = loop {
            turns.end(left.next().unwrap());
            if let Some((index, _)) = turns.next(2) {
                break index;
            }
            assert!(turns.taken() >= 2);
        };
        assert_eq!((next, turns.taken()), (200, 2));
        // Nobody waits any more that has much.
        assert_eq!(turns.next(2).unwrap().0, 101);
    }

    #[test]
    fn turns_that_do_not_end_are_written_off() {
        let turns = Turns::default();
        assert_eq!(turns.look(), Look::Nobody);
        let stuck = begin(&turns, 1, 1);
        waits(&turns, 2, false);
        waits(&turns, 3, false);
        assert_eq!(turns.look(), Look::Stalled);
        assert!(!turns.counts(stuck));
        let (index, turn) = turns.next(1).unwrap();
        assert_eq!((index, turns.next(1)), (2, None));

        // What ends after all is no other's turn, but shows that something moves.
        turns.end(stuck);
        assert_eq!((turns.taken(), turns.next(1)), (1, None));
        assert_eq!(turns.look(), Look::Moving);
        assert_eq!(turns.look(), Look::Stalled);
        assert_eq!(turns.next(1).unwrap().0, 3);
        turns.end(turn);
        assert_eq!(turns.taken(), 1);
        assert_eq!(turns.look(), Look::Nobody);
        assert!(waits(&turns, 4, false), "and is looked at again");
    }
}
