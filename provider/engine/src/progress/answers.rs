//! Whether a program that has just seen its last request complete waits for its peer's answer, and for how long, as far as waiting
//! has paid.
//!
//! A program that spins on memory for an answer, as `ib_write_lat` does, uses its turn of the processor up where strangers want it
//! too, and has to wait for all of theirs when the answer comes. Asleep it would be preferred. The only calls in which it can be
//! put to sleep are those before: what follows them, it does not say. So it is tried, for longer where answers come, and less and
//! less where none does. Knows no clock and does nothing by itself.

use ferroce_transport::{Duration, Time};

use crate::tuning::{
    ANSWER_TRIES, MAX_ANSWER_BACKOFF, MAX_ANSWER_WAIT, MIN_ANSWER_BACKOFF, MIN_ANSWER_WAIT,
};

/// What became of the last waits.
#[derive(Debug)]
pub(crate) struct Answers {
    patience: Duration,
    in_vain: u32,
    backoff: Duration,
    off_until: Time,
}

impl Default for Answers {
    fn default() -> Answers {
        Answers {
            patience: MIN_ANSWER_WAIT,
            in_vain: 0,
            backoff: MIN_ANSWER_BACKOFF,
            off_until: Time::ZERO,
        }
    }
}

impl Answers {
    /// How long to wait now, if at all.
    pub(crate) fn worth(&self, now: Time) -> Option<Duration> {
        (now >= self.off_until).then_some(self.patience)
    }

    /// A wait has ended, with an answer or without.
    pub(crate) fn waited(&mut self, now: Time, answered: bool) {
        if answered {
            self.patience = (2 * self.patience).min(MAX_ANSWER_WAIT);
            self.in_vain = 0;
            self.backoff = MIN_ANSWER_BACKOFF;
            return;
        }

        self.patience = (self.patience / 2).max(MIN_ANSWER_WAIT);
        self.in_vain += 1;
        if self.in_vain >= ANSWER_TRIES {
            self.off_until = now + self.backoff;
            self.backoff = (2 * self.backoff).min(MAX_ANSWER_BACKOFF);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_answered_waits_for_longer() {
        let mut answers = Answers::default();
        for n in (0..100).map(Time::from_nanos) {
            assert!(answers.worth(n).is_some());
            answers.waited(n, true);
        }
        let now = Time::from_nanos(100);
        assert_eq!(answers.worth(now), Some(MAX_ANSWER_WAIT));

        // Its peer lost the processor.
        answers.waited(now, false);
        answers.waited(now, false);
        assert_eq!(answers.worth(now), Some(MAX_ANSWER_WAIT / 4));
        answers.waited(now, true);
        assert_eq!(answers.worth(now), Some(MAX_ANSWER_WAIT / 2));
    }

    #[test]
    fn one_that_is_not_waits_less_and_less_and_one_answer_ends_that() {
        let mut answers = Answers::default();
        let (mut now, mut waited) = (Time::ZERO, Duration::ZERO);
        while now < Time::from_nanos(10_000_000_000) {
            if let Some(patience) = answers.worth(now) {
                waited += patience;
                now += patience;
                answers.waited(now, false);
            }
            now += MIN_ANSWER_WAIT;
        }
        // Of ten seconds.
        assert!((2_000..8_000).contains(&waited.as_micros()), "{waited:?}");

        now += MAX_ANSWER_BACKOFF;
        answers.waited(now, true);
        answers.waited(now, false);
        assert!(answers.worth(now).is_some());
    }
}
