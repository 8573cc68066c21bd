//! Descriptors that a call opens for itself and closes at its end, also where the thread is
//! cancelled in between.

use super::close;
use libc::{c_int, c_void};
use std::ptr::without_provenance_mut;
use std::sync::OnceLock;

/// Such a descriptor, one of a thread at a time. It has nothing to drop, as a frame with something
/// to drop is no place for a thread to be cancelled at: what a thread has at its end is closed
/// then.
#[must_use]
pub(crate) struct Lent(c_int);

impl Lent {
    /// Notes that the calling thread is to close it.
    pub(crate) fn new(fd: c_int) -> Lent {
        note(fd + 1);
        Lent(fd)
    }

    /// Its number.
    pub(crate) fn fd(&self) -> c_int {
        self.0
    }

    /// The descriptor stays.
    pub(crate) fn keep(self) -> c_int {
        note(0);
        self.0
    }

    /// Closes it.
    pub(crate) fn close(self) {
        close(self.keep());
    }
}

/// Has the number, less one, closed at the end of the calling thread, unless it is 0. Where a
/// process has no key left for that, what a thread has when it is cancelled stays open.
fn note(number: c_int) {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: a place for the key, and a function that takes what is noted under it.
        let made = unsafe { libc::pthread_key_create(&raw mut key, Some(at_end)) };
        (made == 0).then_some(key)
    });
    if let Some(key) = key {
        let value = without_provenance_mut::<c_void>(number.unsigned_abs() as usize);
        // SAFETY: a key that stays; the value is a number.
        unsafe { libc::pthread_setspecific(*key, value) };
    }
}

unsafe extern "C" fn at_end(value: *mut c_void) {
    close(value.addr() as c_int - 1);
}
