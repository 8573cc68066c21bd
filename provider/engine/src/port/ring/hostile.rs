//! A sender that writes what it likes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferroce_control::{InboxFds, RING_BYTES};

use super::{ALIGN, Arrived, Inbox, RingSender, Rings};

/// For `fuzzing`: a ring whose sender writes `bytes` to its start again and again, each time says
/// that it has put in `step` bytes more, and marks it. What makes no sense is thrown away, and the
/// ring is empty afterwards. Returns whether anything made sense.
pub(crate) fn hostile(fds: InboxFds, step: u64, times: u8, bytes: &[u8]) -> bool {
    let theirs = fds.duplicate().expect("the inbox's descriptors");
    let sender = RingSender::open(theirs, 1, Arc::default()).expect("the ring");
    let inbox = Inbox::new(fds.memory).expect("the inbox");
    let mut rings = Rings::default();
    let mut taken = false;
    for n in 1..=u64::from(times % 16) {
        let len = bytes.len().min(RING_BYTES);

        // SAFETY: the ring has RING_BYTES bytes, and nobody reads or writes them at the moment.
        unsafe {
            let start = sender.memory.bytes();
            start.copy_from_nonoverlapping(bytes.as_ptr(), len);
        }

        let tail = step.wrapping_mul(n);
        sender.memory.tail().store(tail, Ordering::Release);
        let (word, bit) = sender.mark;
        inbox.head.pending(word).fetch_or(bit, Ordering::SeqCst);

        let mut records = 0;
        let each = |arrived: Arrived<'_>| {
            assert!(arrived.bytes.len() <= RING_BYTES);
            records += 1;
            true
        };
        inbox.take(&mut rings, each, || {});
        assert!(records <= RING_BYTES / ALIGN);
        assert_eq!(sender.taken(), tail, "something is left");
        taken |= records > 0;
    }

    taken
}
