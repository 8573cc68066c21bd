//! Recognises ping-pong traffic, where an ACK may wait for the request that will follow at once.
//!
//! Only a hint: whether an ACK waits, and for how long, is the caller's decision.

use crate::Time;

/// A request counts as an answer if it follows the received message within this time.
const SOON: u64 = 200_000;
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
}

impl Pace {
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
            if took <= SOON {
                self.score = (self.score + 1).min(MOST);
                self.usual = (7 * self.usual + took) / 8;
            } else {
                self.score = self.score.saturating_sub(2);
            }
        }
    }

    /// How long it is worth waiting for an answer, going by the earlier ones.
    pub fn patience(&self) -> Time {
        (LENIENCE * self.usual).min(SOON)
    }

    /// Is the next received message likely to be answered by a request soon?
    pub fn ping_pong(&self) -> bool {
        self.score >= ENOUGH
    }
}
