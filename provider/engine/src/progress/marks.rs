//! Marks of rings with something in them, and the sleep of who empties them: between processes.

use std::sync::atomic::Ordering;

use super::words::{Bits, Word};

/// Marks a ring, after what was put in has been published. `true`: the receiver sleeps, and is to
/// be woken by us.
pub(crate) fn mark(pending: &impl Bits, bit: u64, sleeping: &impl Word<Value = u32>) -> bool {
    // The receiver clears the mark and then looks at the tail; he says that he sleeps and then
    // looks at the mark. Each of these is ordered, so one of us always sees the other.
    pending.fetch_or(bit, Ordering::SeqCst);
    sleeping.load(Ordering::SeqCst) != 0 && sleeping.swap(0, Ordering::SeqCst) != 0
}

/// Takes the marks of a word. Whoever looks into the rings next sees what was published before they
/// were made.
pub(crate) fn take(pending: &impl Bits) -> u64 {
    match pending.load(Ordering::Relaxed) {
        0 => 0,
        _ => pending.swap(0, Ordering::SeqCst),
    }
}

/// Announces the receiver's sleep. `false`: there is something to take first.
pub(crate) fn announce<W: Word<Value = u32>>(
    sleeping: &W,
    is_marked: impl FnOnce() -> bool,
) -> bool {
    sleeping.store(1, Ordering::SeqCst);
    W::fence();
    !is_marked()
}

/// The receiver is awake.
pub(crate) fn over(sleeping: &impl Word<Value = u32>) {
    sleeping.store(0, Ordering::Relaxed);
}

/// Shows the receiver how far a ring is filled, and at which position it last began at its start.
pub(crate) fn publish<W: Word<Value = u64>>(tail: (&W, u64), restart: (&W, u64)) {
    // Whoever finds anything in the ring finds this: it changes only while there is nothing.
    restart.0.store(restart.1, Ordering::Relaxed);
    tail.0.store(tail.1, Ordering::Release);
}

/// How far a ring is filled, and at which position it last began, unless all has been taken: then
/// neither is to be believed.
pub(crate) fn published<W: Word<Value = u64>>(
    tail: &W,
    restart: &W,
    taken: u64,
) -> Option<(u64, u64)> {
    let tail = tail.load(Ordering::Acquire);
    (tail != taken).then(|| (tail, restart.load(Ordering::Relaxed)))
}
