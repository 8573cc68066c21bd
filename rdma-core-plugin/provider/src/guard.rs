//! The C boundary: errors become an errno, and panics end here.
//!
//! A panic is a defect of ours. It is reported once, the verb fails with `EIO`, and the object that
//! it happened on fails every later call the same way, as its state can no longer be trusted. The
//! process lives.

use ferroce_engine::Error;
use ferroce_signals::Uncancelled;
use libc::c_int;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::debug;

/// A positive errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub c_int);

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        Errno(error.errno())
    }
}

/// How a C function reports that it failed.
pub(crate) trait Failure {
    /// The value, with `errno` set.
    fn failure(errno: Errno) -> Self;
}

impl Failure for c_int {
    fn failure(errno: Errno) -> Self {
        // Verbs that the kernel carries out leave it behind too, and programs say `perror` after
        // them.
        set_errno(errno);
        errno.0
    }
}

impl<T> Failure for *mut T {
    fn failure(errno: Errno) -> Self {
        set_errno(errno);
        std::ptr::null_mut()
    }
}

/// The calling thread's `errno`.
pub(crate) fn errno() -> Errno {
    // SAFETY: the C library returns a valid pointer to the calling thread's errno.
    Errno(unsafe { *libc::__errno_location() })
}

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(errno: Errno) {
    // SAFETY: the C library returns a valid pointer to the calling thread's errno.
    unsafe { *libc::__errno_location() = errno.0 };
}

/// Whether an object can still be trusted.
#[derive(Default)]
pub(crate) struct Health {
    dead: AtomicBool,
}

impl Health {
    /// Does the work of one verb on this object.
    #[inline]
    #[track_caller]
    pub(crate) fn run<R: Failure>(&self, work: impl FnOnce() -> Result<R, Errno>) -> R {
        if self.dead.load(Ordering::Relaxed) {
            return R::failure(Errno(libc::EIO));
        }
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(value)) => value,
            Ok(Err(errno)) => refused(errno),
            Err(_) => {
                self.dead.store(true, Ordering::Relaxed);
                R::failure(report())
            }
        }
    }
}

/// Does the work of a verb of the control path on an object that was looked up.
#[track_caller]
pub(crate) fn on<T: AsRef<Health>, R: Failure>(
    object: Result<&T, Errno>,
    work: impl FnOnce(&T) -> Result<R, Errno>,
) -> R {
    match object {
        Ok(object) => object.as_ref().run(|| undisturbed(|| work(object))),
        Err(errno) => refused(errno),
    }
}

/// Does the work of a verb that creates or ends an object.
#[track_caller]
pub(crate) fn run<R: Failure>(work: impl FnOnce() -> Result<R, Errno>) -> R {
    match catch_unwind(AssertUnwindSafe(|| undisturbed(work))) {
        Ok(Ok(value)) => value,
        Ok(Err(errno)) => refused(errno),
        Err(_) => R::failure(report()),
    }
}

/// Does what is no verb, and leaves `errno` as it was. `otherwise`: what becomes of it if that
/// fails. A thread that is cancelled meanwhile is so afterwards: unwinding must not meet what
/// catches panics.
pub(crate) fn quietly<R>(otherwise: R, work: impl FnOnce() -> R) -> R {
    let _uncancelled = Uncancelled::begin();
    let before = errno();
    let value = catch_unwind(AssertUnwindSafe(work));
    set_errno(before);
    value.unwrap_or_else(|_| {
        report();
        otherwise
    })
}

/// Does the work of a verb of the control path. Leaves `errno` as it was if it succeeds: librdmacm
/// undoes with such verbs what it had begun, and then has `errno` say why. The thread is not
/// cancelled meanwhile, as in the kernel, where such a verb is a call that is no cancellation
/// point.
fn undisturbed<R>(work: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    let _uncancelled = Uncancelled::begin();
    let before = errno();
    let value = work()?;
    set_errno(before);
    Ok(value)
}

#[cold]
fn report() -> Errno {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        eprintln!("ferroce: internal error (see the panic message above); the verbs object it met is unusable now");
    });
    Errno(libc::EIO)
}

/// An error of a verb of the control path, with its text for who watches: an errno says little.
#[cold]
pub(crate) fn explain(verb: &str, error: Error) -> Errno {
    debug!("{verb} is refused: {error}");
    error.into()
}

/// The failure of a verb, and where in the source it was found for who watches.
#[cold]
#[track_caller]
fn refused<R: Failure>(errno: Errno) -> R {
    let Errno(number) = errno;
    let said = std::io::Error::from_raw_os_error(number);
    debug!("a verb at {} fails: {said}", Location::caller());
    R::failure(errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_kills_the_object_and_not_the_process() {
        let health = Health::default();
        assert_eq!(health.run(|| Ok(7)), 7);
        assert_eq!(
            health.run::<c_int>(|| Err(Errno(libc::EINVAL))),
            libc::EINVAL
        );
        assert_eq!(errno(), Errno(libc::EINVAL));
        assert_eq!(health.run::<c_int>(|| panic!("on purpose")), libc::EIO);
        assert_eq!(health.run(|| Ok(7)), libc::EIO);
        let null: *mut u8 = run(|| Err(Errno(libc::ENOMEM)));
        assert!(null.is_null());
        assert_eq!(errno(), Errno(libc::ENOMEM));
    }

    #[test]
    fn a_verb_that_succeeds_leaves_errno_alone() {
        let clobbering = || {
            set_errno(Errno(libc::EAGAIN));
            Ok(0)
        };
        set_errno(Errno(libc::EINVAL));
        assert_eq!(run::<c_int>(clobbering), 0);
        assert_eq!(errno(), Errno(libc::EINVAL));
    }
}
