//! How the sender of a flow numbers its IPv4 packets, as far as its packets have shown.
//!
//! A UDP socket does not see the Identification, and [`Flow::verify`](crate::icrc::Flow::verify)
//! finds the one that explains the ICRC. One damaged packet in 65,536 is explained by some
//! Identification; but hardly by one that its sender would have used.

/// Linux cuts at most so many datagrams from one send, numbered from 0.
const RUN: u16 = 64;
/// Packets in a row from which a habit is taken to be one. As many that only count up cannot all be
/// below [`RUN`], even if a network delivers a few of them twice.
const PROVEN: u8 = RUN as u8 + 16;
/// How far ahead of the last packet one of a sender that counts may be. Linux counts all packets
/// between two addresses together, so others may have had the numbers between; who reads late sees
/// two of one flow next to each other.
const AHEAD: u16 = 3 << 12;
/// How far behind it: a network may let so many packets overtake one.
const BEHIND: u16 = 1 << 12;
/// So many packets in a row that do not fit are no damage: the sender has changed.
const CHANGED: u8 = 2;

/// What a flow has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Habit {
    /// The last that was taken.
    last: u16,
    /// Packets in a row that were numbered as unconnected Linux sockets do it, or always with 0.
    small: u8,
    /// Packets in a row that were not far from the one before.
    counting: u8,
    /// Packets in a row that did not fit.
    odd: u8,
}

impl Habit {
    /// What to try first for the packet at this place of a run that the kernel has merged; of a
    /// single packet that is 0.
    #[inline]
    pub fn guess(&self, place: u16) -> u16 {
        match self.counts() {
            true => self.last.wrapping_add(1),
            false => place,
        }
    }

    /// Takes notice of the Identification that explains a packet's ICRC. `false`: this sender would
    /// not have used it, so the packet is damaged.
    #[inline]
    pub fn takes(&mut self, id: u16) -> bool {
        let small = id < RUN;
        let near = id.wrapping_sub(self.last).wrapping_add(BEHIND) < BEHIND + AHEAD;
        let fits = match (self.small == PROVEN, self.counts()) {
            (true, _) => small,
            (false, true) => near,
            (false, false) => true,
        };

        if !fits {
            self.odd += 1;
            if self.odd == CHANGED {
                *self = Habit {
                    last: id,
                    ..Habit::default()
                };
            }
            return false;
        }

        self.last = id;
        self.odd = 0;
        let more = |streak: u8, goes_on| match goes_on {
            true => (streak + 1).min(PROVEN),
            false => 0,
        };
        self.small = more(self.small, small);
        self.counting = more(self.counting, near);
        true
    }

    fn counts(&self) -> bool {
        self.small != PROVEN && self.counting == PROVEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ids: impl IntoIterator<Item = u16>) -> Habit {
        let mut habit = Habit::default();
        for id in ids {
            assert!(habit.takes(id), "{id} after {habit:?}");
        }
        habit
    }

    /// Numbers without a pattern.
    struct Random(u32);

    impl Random {
        fn below(&mut self, end: u32) -> u32 {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (self.0 >> 16) % end
        }
    }

    /// How many of all Identifications would be taken next.
    fn taken(habit: Habit) -> usize {
        (0..=u16::MAX)
            .filter(|id| {
                let mut habit = habit;
                habit.takes(*id)
            })
            .count()
    }

    #[test]
    fn who_sends_zero_or_runs_is_held_to_it() {
        let zeros = after([0; 100]);
        assert_eq!(taken(zeros), 64);
        // Runs of one sender, the kernel having merged them as it likes, with losses and out of
        // order.
        let runs = (0..40u16).flat_map(|run| (0..64).filter(move |id| (id * 7 + run) % 11 != 0));
        let runs = after(runs);
        assert_eq!(taken(runs), 64);
        // From single packets to runs, at once.
        let mut habit = zeros;
        assert!((0..64).all(|id| habit.takes(id)));
        assert_eq!(habit.guess(5), 5);
    }

    #[test]
    fn who_counts_is_held_to_it() {
        // Round the end, with packets of others between and some lost.
        let counting = after((0..1000u32).map(|n| (60_000 + n * 37) as u16));
        assert_eq!(taken(counting), usize::from(BEHIND + AHEAD));
        assert_eq!(counting.guess(3), counting.last + 1);
        let after_a_loss = counting.last.wrapping_add(5000);
        let mut habit = counting;
        assert!(habit.takes(after_a_loss));
        assert_eq!(habit.guess(0), after_a_loss + 1);
    }

    #[test]
    fn who_is_overtaken_is_not_damaged() {
        // rdma_rxe's window over a network that hands on 3 % of the packets at once and the others
        // a millisecond later: what came first was taken to show that the expected packet, which it
        // overtook, was damaged, each time that it was sent.
        let mut random = Random(1);
        let window: Vec<u32> = (0..128).collect();
        let rounds = (0..200u32).flat_map(|round| {
            let (first, rest): (Vec<u32>, Vec<u32>) =
                window.iter().partition(|_| random.below(100) < 3);
            [first, rest]
                .concat()
                .into_iter()
                .map(move |n| (65_000 + round * 128 + n) as u16)
        });

        let counting = after(rounds);
        assert!(counting.counts());
        assert_eq!(taken(counting), usize::from(BEHIND + AHEAD));
    }

    #[test]
    fn who_has_no_habit_is_held_to_none() {
        let mut random = Random(1);
        let ids = (0..1000).map(|_| random.below(1 << 16) as u16);
        assert_eq!(taken(after(ids)), 1 << 16);
        assert_eq!(taken(after([0; PROVEN as usize - 1])), 1 << 16);
    }

    #[test]
    fn damage_changes_no_habit_and_a_new_sender_does() {
        let mut habit = after([0; 100]);
        for _ in 0..100 {
            assert!(!habit.takes(777));
            assert!(habit.takes(0));
        }
        let mut counting = after(1000..2000);
        for id in 2000..2100 {
            assert!(!counting.takes(30_000));
            assert!(counting.takes(id));
        }
        // Another sender has the address and the port now.
        let lost = (0..1000u16).filter(|n| !habit.takes(30_000 + n)).count();
        assert_eq!(lost, usize::from(CHANGED));
        assert_eq!(taken(habit), usize::from(BEHIND + AHEAD));
    }

    #[test]
    fn who_counts_through_zero_loses_nothing() {
        after(0..1000);
        // Nobody else has the numbers below 64, all of them come, and some come twice.
        let counting = after((0..200_000u32).map(|n| n as u16));
        assert_eq!(taken(counting), usize::from(BEHIND + AHEAD));
        after((0..80_000u32).flat_map(|n| vec![n as u16; 1 + usize::from(n % 8 == 0)]));
    }
}
