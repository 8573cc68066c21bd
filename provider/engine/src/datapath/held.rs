//! Small requests that wait for company.

/// Payload bytes up to which a request is small: it is one packet, or few, and a send of its own costs more than its bytes.
pub(crate) const SMALL: usize = 4096;
/// Packets in flight from which on small requests are gathered; how many at most, and their bytes: about what one GSO send takes.
pub(crate) const PLENTY: u64 = 16;
const HOLD: u32 = 16;
const HOLD_BYTES: usize = 15 * SMALL;

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
        self.requests < HOLD && self.bytes + size <= HOLD_BYTES
    }
}

/// A number that no other living thread has.
pub(crate) fn thread_mark() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_is_gathered_fits_a_send() {
        assert_eq!(gathered(2), HOLD);
        assert_eq!(gathered(2048), HOLD);
        assert_eq!(gathered(SMALL), 15);
        // With headers and ICRCs: a WRITE has 32 bytes of them.
        const { assert!(15 * (SMALL + 32) <= 65_507) };
    }
}
