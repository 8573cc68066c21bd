//! Waiting, before an object goes away, until the consumer has acknowledged the events that it was
//! given.

use libc::{pthread_cond_t, pthread_mutex_t};
use std::ptr::null;

/// Prepares the lock and the condition of a C object.
///
/// # Safety
/// Both are writable and not in use.
pub(crate) unsafe fn prepare(mutex: *mut pthread_mutex_t, cond: *mut pthread_cond_t) {
    // SAFETY: as the caller promises.
    unsafe {
        libc::pthread_mutex_init(mutex, null());
        libc::pthread_cond_init(cond, null());
    }
}

/// Blocks until each counter has reached its number; libibverbs counts under `mutex` and signals
/// `cond`.
///
/// # Safety
/// A live C object's lock, condition and counters.
pub(crate) unsafe fn acknowledged(
    mutex: *mut pthread_mutex_t,
    cond: *mut pthread_cond_t,
    counters: &[(*const u32, u32)],
) {
    // SAFETY: the counters are written under the lock, which is held here whenever they are read.
    let reached = || unsafe {
        // Counters wrap; the difference does not.
        counters
            .iter()
            .all(|(counter, number)| counter.read_volatile().wrapping_sub(*number) as i32 >= 0)
    };

    // SAFETY: as the caller promises.
    unsafe {
        libc::pthread_mutex_lock(mutex);
        while !reached() {
            libc::pthread_cond_wait(cond, mutex);
        }
        libc::pthread_mutex_unlock(mutex);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Shared(pthread_mutex_t, pthread_cond_t, u32);

    #[test]
    fn it_returns_when_the_last_event_is_acknowledged() {
        let mut shared = Shared(
            libc::PTHREAD_MUTEX_INITIALIZER,
            libc::PTHREAD_COND_INITIALIZER,
            u32::MAX - 1,
        );
        let address = &raw mut shared as usize;

        // SAFETY: the other thread ends before `shared` does, and both use the lock.
        unsafe {
            let p = address as *mut Shared;
            acknowledged(
                &raw mut (*p).0,
                &raw mut (*p).1,
                &[(&raw const (*p).2, u32::MAX - 1)],
            );

            let acknowledger = std::thread::spawn(move || {
                let p = address as *mut Shared;
                for _ in 0..3 {
                    libc::pthread_mutex_lock(&raw mut (*p).0);
                    (*p).2 = (*p).2.wrapping_add(1);
                    libc::pthread_cond_signal(&raw mut (*p).1);
                    libc::pthread_mutex_unlock(&raw mut (*p).0);
                }
            });

            acknowledged(&raw mut (*p).0, &raw mut (*p).1, &[(&raw const (*p).2, 1)]);
            acknowledger.join().unwrap();
            assert_eq!((*p).2, 1);
        }
    }
}
