//! Whether a program that has just seen its last request complete waits for its peer's answer, and for how long, as far as waiting
//! has paid.
//!
//! A program that spins on memory for an answer, as `ib_write_lat` does, uses its turn of the processor up where strangers want it
//! too, and has to wait for all of theirs when the answer comes. Asleep it would be preferred. The only calls in which it can be
//! put to sleep are those before: what follows them, it does not say. So it is tried, for longer where answers come, and less and
//! less where none does. Knows no clock and does nothing by itself.

use ferroce_transport::Time;

/// The shortest and the longest wait. While the peer, too, has to wait for strangers' turns of the processor an answer takes that
/// long: who gave up before would spend his own turn in vain, and keep the peer waiting the next time.
const SHORTEST: Time = 200_000;
const LONGEST: Time = 32_000_000;
/// Waits in vain, in a row, after which none is tried for a while.
const TRIES: u32 = 3;
/// That while at first, and at most: it doubles with every further wait in vain.
const BREAK: Time = 10_000_000;
const LONGEST_BREAK: Time = 640_000_000;

/// What became of the last waits.
#[derive(Debug)]
pub(crate) struct Answers {
    patience: Time,
    in_vain: u32,
    pause: Time,
    paused_until: Time,
}

impl Default for Answers {
    fn default() -> Answers {
        Answers {
            patience: SHORTEST,
            in_vain: 0,
            pause: BREAK,
            paused_until: 0,
        }
    }
}

impl Answers {
    /// How long to wait now, if at all.
    pub(crate) fn worth(&self, now: Time) -> Option<Time> {
        (now >= self.paused_until).then_some(self.patience)
    }

    /// A wait has ended, with an answer or without.
    pub(crate) fn waited(&mut self, now: Time, answered: bool) {
        if answered {
            self.patience = (2 * self.patience).min(LONGEST);
            self.in_vain = 0;
            self.pause = BREAK;
            return;
        }

        self.patience = (self.patience / 2).max(SHORTEST);
        self.in_vain += 1;
        if self.in_vain >= TRIES {
            self.paused_until = now + self.pause;
            self.pause = (2 * self.pause).min(LONGEST_BREAK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_answered_waits_for_longer() {
        let mut answers = Answers::default();
        for n in 0..100 {
            assert!(answers.worth(n).is_some());
            answers.waited(n, true);
        }
        assert_eq!(answers.worth(100), Some(LONGEST));

        // Its peer lost the processor.
        answers.waited(100, false);
        answers.waited(100, false);
        assert_eq!(answers.worth(100), Some(LONGEST / 4));
        answers.waited(100, true);
        assert_eq!(answers.worth(100), Some(LONGEST / 2));
    }

    #[test]
    fn one_that_is_not_waits_less_and_less_and_one_answer_ends_that() {
        let mut answers = Answers::default();
        let (mut now, mut waited) = (0, 0);
        while now < 10_000_000_000 {
            if let Some(patience) = answers.worth(now) {
                waited += patience;
                now += patience;
                answers.waited(now, false);
            }
            now += SHORTEST;
        }
        // Of ten seconds.
        assert!((2_000_000..8_000_000).contains(&waited), "{waited}");

        now += LONGEST_BREAK;
        answers.waited(now, true);
        answers.waited(now, false);
        assert!(answers.worth(now).is_some());
    }
}
