//! What other processes and hosts feed the engine, for `tests/fuzz`: the shared-memory ring whose
//! sender writes whatever it likes, and messages for tagged buffers. Each returns whether something
//! of the input got past the first check.

use ferroce_control::InboxFds;

use crate::port::ring;
use crate::verbs::tag_matching;

/// A receiver whose sender is the input: by how much the position grows each time, how often, and
/// what the memory holds.
///
/// # Panics
/// If something is handed on that is not inside the ring, or something is left in it.
pub fn ring(input: &[u8]) -> bool {
    let [high, low, shift, times, bytes @ ..] = input else {
        return false;
    };
    let fds = InboxFds::create().expect("an inbox");
    let step = u64::from(u16::from_be_bytes([*high, *low])) << (shift % 64);
    ring::hostile(fds, step, *times, bytes)
}

/// A shared receive queue's tagged buffers and the messages that come for them.
///
/// # Panics
/// If a message takes another buffer than the one that it matches, or more of it than there is.
pub fn tag_matching(input: &[u8]) -> bool {
    tag_matching::fuzzing::tag_matching(input)
}
