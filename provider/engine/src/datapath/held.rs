//! Small requests that wait for company.

use crate::tuning::{DEEP_REQUESTS, GATHER, GATHER_BYTES, GATHER_DEEP, Gather, SHALLOW_SENDS};

/// Requests that wait to be sent together with what follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) requests: u32,
    pub(crate) bytes: usize,
}

impl Held {
    /// With these, too.
    pub(crate) fn and(self, more: Held) -> Held {
        Held {
            requests: self.requests + more.requests,
            bytes: self.bytes + more.bytes,
        }
    }

    /// Whether another of that size has room beside, where so many requests wait at most.
    pub(crate) fn has_room(self, size: usize, requests: u32) -> bool {
        self.requests < requests && self.bytes + size <= GATHER_BYTES
    }
}

/// Whether a program keeps its queue deep, as shows in how many of its requests go out together.
///
/// perftest waits for one completion of a hundred requests. By then nearly all that it may have
/// under way are answered, and what it posts next would go out one by one until enough packets are
/// in flight again. A program that has a few requests at a time must not wait for that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Depth {
    /// Sends of few requests until the queue is taken for a shallow one.
    left: u8,
}

impl Depth {
    /// Takes note of what goes out now after it has waited.
    #[inline]
    pub(crate) fn sent(&mut self, held: Held) {
        if held.requests >= DEEP_REQUESTS {
            self.left = SHALLOW_SENDS;
        } else if held.requests > 0 && held.requests < DEEP_REQUESTS / 2 {
            self.left = self.left.saturating_sub(1);
        }
    }

    /// When a small request waits. `known`: the peer is of our kind.
    #[inline]
    pub(crate) fn gather(self, known: bool) -> Gather {
        match known && self.left > 0 {
            true => GATHER_DEEP,
            false => GATHER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::SMALL_REQUEST;

    /// How many requests of a size go out together.
    fn gathered(bytes: usize, gather: Gather) -> u32 {
        let one = Held { requests: 1, bytes };
        let mut held = one;
        while held.has_room(bytes, gather.requests) {
            held = held.and(one);
        }
        held.requests
    }

    #[test]
    fn what_is_gathered_fits_two_sends() {
        for gather in [GATHER, GATHER_DEEP] {
            assert_eq!(gathered(2, gather), gather.requests);
            assert_eq!(gathered(4096, gather), gather.requests.min(30));
            assert_eq!(gathered(8192, gather), 15);
            assert_eq!(gathered(SMALL_REQUEST, gather), 3);
        }
        // With headers and ICRCs: the packet of a WRITE has 32 bytes of them.
        const { assert!(GATHER_BYTES / 4096 * (4096 + 32) <= 2 * 65_507) };
    }

    #[test]
    fn a_deep_queue_is_found_and_forgotten() {
        let requests = |requests| Held { requests, bytes: 0 };
        let mut depth = Depth::default();
        for few in 0..DEEP_REQUESTS {
            depth.sent(requests(few));
            assert_eq!(depth.gather(true), GATHER);
        }

        depth.sent(requests(DEEP_REQUESTS));
        for _ in 1..SHALLOW_SENDS {
            // Nothing has waited, or neither many nor few: that says nothing.
            depth.sent(requests(0));
            depth.sent(requests(DEEP_REQUESTS / 2));
            depth.sent(requests(1));
            assert_eq!(depth.gather(false), GATHER);
            assert_eq!(depth.gather(true), GATHER_DEEP);
        }

        depth.sent(requests(1));
        assert_eq!(depth.gather(true), GATHER);
        // A ping-pong has none in flight when it posts, and never waits.
        const { assert!(GATHER_DEEP.in_flight > 0) };
    }
}
