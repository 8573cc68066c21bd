//! Small requests that wait for company.

use crate::tuning::{GATHER_BYTES, GATHER_REQUESTS};

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

    /// Whether another of that size has room in the same send.
    pub(crate) fn has_room(self, size: usize) -> bool {
        self.requests < GATHER_REQUESTS && self.bytes + size <= GATHER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::SMALL_REQUEST;

    /// How many requests of a size go out together.
    fn gathered(bytes: usize) -> u32 {
        let one = Held { requests: 1, bytes };
        let mut held = one;
        while held.has_room(bytes) {
            held = held.and(one);
        }
        held.requests
    }

    #[test]
    fn what_is_gathered_fits_two_sends() {
        assert_eq!(gathered(2), GATHER_REQUESTS);
        assert_eq!(gathered(4096), GATHER_REQUESTS);
        assert_eq!(gathered(8192), 15);
        assert_eq!(gathered(SMALL_REQUEST), 3);
        // With headers and ICRCs: the packet of a WRITE has 32 bytes of them.
        const { assert!(GATHER_BYTES / 4096 * (4096 + 32) <= 2 * 65_507) };
    }
}
