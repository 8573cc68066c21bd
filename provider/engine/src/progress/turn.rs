//! Whose turn it is to receive (see [`driver`](crate::progress::driver)).

use std::sync::atomic::Ordering;

use super::words::Word;

/// The helper receives.
pub(super) const HELPER: u32 = 0;
/// The helper receives, and is to give the turn away when it has handled what it has.
const WANTED: u32 = 1;
/// The application receives; the helper stands by.
pub(super) const APP: u32 = 2;
/// The application receives no more; the helper is to take the turn.
const RETURNED: u32 = 3;

/// The turn, which the helper gives away and takes back.
pub(crate) struct Turn<W> {
    word: W,
    /// What wakes the helper was cleared during the application's turn, and the helper may not have
    /// seen it.
    cleared: W,
}

impl<W: Word<Value = u32>> Turn<W> {
    /// The helper's, if `word` is 0; `cleared` is.
    pub(crate) const fn new(word: W, cleared: W) -> Turn<W> {
        Turn { word, cleared }
    }

    /// For the application: asks for the turn.
    pub(crate) fn want(&self) {
        self.word.change(HELPER, WANTED);
    }

    /// Whether the application waits for it.
    pub(super) fn is_wanted(&self) -> bool {
        self.word.load(Ordering::Relaxed) == WANTED
    }

    /// For the helper, with nothing received that is not handled: gives it away, if it is wanted.
    pub(crate) fn give(&self) -> bool {
        self.word.change(WANTED, APP)
    }

    /// Whether the application has it. Under the receive lock it stays so as long as that is held.
    pub(super) fn is_apps(&self) -> bool {
        self.word.load(Ordering::Acquire) == APP
    }

    /// For the application: does not want it any more, or has it no more. `true`: the helper is to
    /// be told.
    pub(super) fn hand_back(&self) -> bool {
        self.word.change(WANTED, HELPER);
        self.word.change(APP, RETURNED)
    }

    /// Whether the application has handed it back.
    pub(super) fn is_returned(&self) -> bool {
        self.word.load(Ordering::Acquire) == RETURNED
    }

    /// For the helper, after it gave it away: naps until it is handed back, or `nap` says that it
    /// is to be taken. A nap ends when the word that it is given is not [`APP`] any more, for who
    /// hands back wakes all who wait for that.
    pub(super) fn stand_by(&self, mut nap: impl FnMut(&W) -> bool) {
        while nap(&self.word) && !self.is_returned() {}
    }

    /// For a thread that has the application's turn and the receive lock: it clears what wakes the
    /// helper, which hears of it when the turn is its own.
    pub(super) fn clears(&self) {
        self.cleared.store(1, Ordering::Relaxed);
    }

    /// For the helper, under the receive lock, after it gave it away: takes it again. `true`: what
    /// wakes it was cleared meanwhile.
    pub(crate) fn take(&self) -> bool {
        self.word.store(HELPER, Ordering::Release);
        self.cleared.swap(0, Ordering::Relaxed) != 0
    }

    /// What who hands it back wakes the helper by.
    pub(crate) fn word(&self) -> &W {
        &self.word
    }
}
