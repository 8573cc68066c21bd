//! Recognises ping-pong traffic, where an ACK may wait for the request that will follow at once.
//!
//! Only a hint: whether an ACK waits, and for how long, is the caller's decision.

use crate::tuning::{ACK_DELAY_FACTOR, MAX_ACK_DELAY, MAX_ANSWERS, PING_PONG_ANSWERS};
use crate::{Duration, Time};

/// How regularly a request of ours has followed each message of the peer's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PingPong {
    score: u8,
    unanswered: Option<Time>,
    /// How long answers take, the recent ones counting most.
    usual: Duration,
}

impl PingPong {
    /// The last packet of a message came.
    pub(crate) fn message(&mut self, now: Time) {
        if self.unanswered.replace(now).is_some() {
            self.score = self.score.saturating_sub(2);
        }
    }

    /// The first packet of a new request goes out.
    pub(crate) fn request(&mut self, now: Time) {
        if let Some(received_at) = self.unanswered.take() {
            let took = now - received_at;
            if took <= MAX_ACK_DELAY {
                self.score = (self.score + 1).min(MAX_ANSWERS);
                self.usual = (7 * self.usual + took) / 8;
            } else {
                self.score = self.score.saturating_sub(2);
            }
        }
    }

    /// How long it is worth waiting for an answer, going by the earlier ones.
    pub(crate) fn patience(&self) -> Duration {
        (ACK_DELAY_FACTOR * self.usual).min(MAX_ACK_DELAY)
    }

    /// Is the next received message likely to be answered by a request soon?
    pub(crate) fn is_likely(&self) -> bool {
        self.score >= PING_PONG_ANSWERS
    }
}
