//! Recognises ping-pong traffic, where an ACK may wait for the request that will follow at once.
//!
//! Only a hint: whether an ACK waits, and for how long, is the caller's decision.

use crate::Time;

/// A request counts as an answer if it follows the received message within this time.
pub(crate) const SOON: Time = 200_000;
/// The same where other programs keep the processors busy: whoever answers may first have to wait for a turn of his, while they have theirs.
const SOON_IN_A_CROWD: Time = 40_000_000;
/// Answers in a row (less twice the misses) from which on the traffic counts as ping-pong.
const ENOUGH: u8 = 4;
const MOST: u8 = 8;
/// How much longer than usual an answer may take, and its ACK still wait for it.
const LENIENCE: u64 = 4;

/// How regularly a request of ours has followed each message of the peer's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    score: u8,
    unanswered: Option<Time>,
    /// How long answers take, the recent ones counting most.
    usual: Time,
    crowded: bool,
}

impl Pace {
    /// Whether other programs keep the processors busy.
    pub fn set_crowded(&mut self, crowded: bool) {
        self.crowded = crowded;
    }

    fn soon(&self) -> Time {
        match self.crowded {
            true => SOON_IN_A_CROWD,
            false => SOON,
        }
    }

    /// The last packet of a message came.
    pub fn message(&mut self, now: Time) {
        if self.unanswered.replace(now).is_some() {
            self.score = self.score.saturating_sub(2);
        }
    }

    /// The first packet of a new request goes out.
    pub fn request(&mut self, now: Time) {
        if let Some(came) = self.unanswered.take() {
            let took = now.saturating_sub(came);
            if took <= self.soon() {
                self.score = (self.score + 1).min(MOST);
                self.usual = (7 * self.usual + took) / 8;
            } else {
                self.score = self.score.saturating_sub(2);
            }
        }
    }

    /// How long it is worth waiting for an answer, going by the earlier ones. In a crowd these tell nothing of the next: who answers at once most of
    /// the time loses his turn now and then.
    pub fn patience(&self) -> Time {
        match self.crowded {
            true => SOON_IN_A_CROWD,
            false => (LENIENCE * self.usual).min(SOON),
        }
    }

    /// Is the next received message likely to be answered by a request soon?
    pub fn ping_pong(&self) -> bool {
        self.score >= ENOUGH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many messages, each answered after so long; returns when the last one was.
    fn play(pace: &mut Pace, rounds: usize, mut now: Time, took: Time) -> Time {
        for _ in 0..rounds {
            pace.message(now);
            now += took;
            pace.request(now);
        }
        now
    }

    #[test]
    fn slow_answers_count_in_a_crowd_only() {
        let mut pace = Pace::default();
        let now = play(&mut pace, 20, 0, 5_000_000);
        assert!(!pace.ping_pong());
        pace.set_crowded(true);
        let now = play(&mut pace, 20, now, 5_000_000);
        assert!(pace.ping_pong());
        assert_eq!(pace.patience(), SOON_IN_A_CROWD);
        // When the others have gone nobody is waited for that long.
        pace.set_crowded(false);
        assert_eq!(pace.patience(), SOON);
        assert!(pace.ping_pong());
        play(&mut pace, 4, now, 5_000_000);
        assert!(!pace.ping_pong());
    }
}
