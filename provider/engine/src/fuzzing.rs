//! The receiving end of a shared-memory ring, for `tests/fuzz`: its sender writes whatever it likes.

use ferroce_control::InboxFds;

use crate::lane;

/// A receiver whose sender is the input: by how much the position grows each time, how often, and what the memory holds.
///
/// # Panics
/// If something is handed on that is not inside the ring, or something is left in it.
pub fn ring(input: &[u8]) {
    let [high, low, shift, times, bytes @ ..] = input else {
        return;
    };
    let fds = InboxFds::create().expect("an inbox");
    let step = u64::from(u16::from_be_bytes([*high, *low])) << (shift % 64);
    lane::hostile(fds, step, *times, bytes);
}
