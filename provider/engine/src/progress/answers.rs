//! Whether a program that has just seen its last request complete waits for its peer's answer, and
//! for how long, as far as waiting has paid.
//!
//! A program that spins on memory for an answer, as `ib_write_lat` does, uses its turn of the
//! processor up where strangers want it too, and has to wait for all of theirs when the answer
//! comes. Asleep it would be preferred. The only calls in which it can be put to sleep are those
//! before: what follows them, it does not say. So it is tried, for longer where answers come, and
//! what was waited in vain stays a small part of the time. Knows no clock and does nothing by
//! itself.

use ferroce_transport::{Duration, Time};

use crate::tuning::{ANSWER_BACKOFF, MAX_ANSWER_WAIT, MIN_ANSWER_WAIT};

/// What became of the last waits.
#[derive(Debug)]
pub(crate) struct Answers {
    patience: Duration,
    off_until: Time,
}

impl Default for Answers {
    fn default() -> Answers {
        Answers {
            patience: MIN_ANSWER_WAIT,
            off_until: Time::ZERO,
        }
    }
}

impl Answers {
    /// How long to wait now, if at all.
    pub(crate) fn worth(&self, now: Time) -> Option<Duration> {
        (now >= self.off_until).then_some(self.patience)
    }

    /// A wait has ended after so long, with an answer or without.
    pub(crate) fn waited(&mut self, now: Time, took: Duration, answered: bool) {
        if answered {
            self.patience = (2 * self.patience).min(MAX_ANSWER_WAIT);
        } else {
            self.patience = (self.patience / 2).max(MIN_ANSWER_WAIT);
            self.off_until = now + ANSWER_BACKOFF * took.max(MIN_ANSWER_WAIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_answered_waits_for_longer() {
        let mut answers = Answers::default();
        let now = Time::from_nanos(1);
        for _ in 0..100 {
            assert!(answers.worth(now).is_some());
            answers.waited(now, Duration::ZERO, true);
        }
        assert_eq!(answers.worth(now), Some(MAX_ANSWER_WAIT));
    }

    /// Whatever the order of waits with an answer and without, as of a stream whose peer answers
    /// now and then.
    #[test]
    fn what_is_waited_in_vain_is_a_small_part_of_the_time() {
        for answers_between in [0, 1, 2, 10] {
            let mut answers = Answers::default();
            let (mut now, mut in_vain) = (Time::from_nanos(1), Duration::ZERO);
            let (end, mut n) = (now + Duration::from_secs(10), 0);
            while now < end {
                if let Some(patience) = answers.worth(now) {
                    n += 1;
                    let answered = n % (answers_between + 1) != 0;
                    let took = if answered { Duration::ZERO } else { patience };
                    now += took;
                    in_vain += if answered { Duration::ZERO } else { took };
                    answers.waited(now, took, answered);
                }
                now += Duration::from_micros(10);
            }

            assert!(in_vain > Duration::ZERO);
            assert!(
                in_vain < Duration::from_secs(10) / ANSWER_BACKOFF,
                "{in_vain:?}"
            );
        }
    }
}
