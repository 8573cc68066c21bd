//! Whose turn it is to receive (see [`driver`](crate::progress::driver)).

use std::sync::atomic::Ordering;

use super::words::Word;

/// The helper receives.
pub(crate) const HELPER: u32 = 0;
/// The helper receives, and is to give the turn away when it has handled what it has.
const WANTED: u32 = 1;
/// The application receives; the helper stands by.
pub(crate) const APP: u32 = 2;
/// The application receives no more; the helper is to take the turn.
const RETURNED: u32 = 3;

/// The turn, which the helper gives away and takes back.
pub(crate) struct Turn<W>(W);

impl<W: Word<Value = u32>> Turn<W> {
    /// The helper's, if `word` is 0.
    pub(crate) const fn new(word: W) -> Turn<W> {
        Turn(word)
    }

    /// For the application: asks for the turn.
    pub(crate) fn want(&self) {
        self.0.change(HELPER, WANTED);
    }

    /// Whether the application waits for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) == WANTED
    }

    /// For the helper, with nothing received that is not handled: gives it away, if it is wanted.
    pub(crate) fn give(&self) -> bool {
        self.0.change(WANTED, APP)
    }

    /// Whether the application has it. Under the receive lock it stays so as long as that is held.
    pub(crate) fn is_apps(&self) -> bool {
        self.0.load(Ordering::Acquire) == APP
    }

    /// For the application: does not want it any more, or has it no more. `true`: the helper is to be told.
    pub(crate) fn hand_back(&self) -> bool {
        self.0.change(WANTED, HELPER);
        self.0.change(APP, RETURNED)
    }

    /// Whether the application has handed it back.
    pub(crate) fn is_returned(&self) -> bool {
        self.0.load(Ordering::Acquire) == RETURNED
    }

    /// For the helper, under the receive lock, after it gave it away: takes it again.
    pub(crate) fn take(&self) {
        self.0.store(HELPER, Ordering::Release);
    }
}

impl Turn<std::sync::atomic::AtomicU32> {
    /// The word, to wait on as a futex.
    pub(crate) fn word(&self) -> &std::sync::atomic::AtomicU32 {
        &self.0
    }
}
