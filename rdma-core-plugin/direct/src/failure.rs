//! What a function fails with: an errno, and in words.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ferroce_signals::Uncancelled;
use std::{error, io};

use ferroce_control::ControlError;

/// Why a function failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A positive errno.
    errno: c_int,
    why: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, why: impl Into<String>) -> Failure {
        let why = why.into();
        Failure { errno, why }
    }

    /// What the provider has answered, who has no words for it.
    pub(crate) fn of(answer: c_int, words: &[(c_int, &str)]) -> Result<(), Failure> {
        if answer == 0 {
            return Ok(());
        }
        let known = words.iter().find(|(errno, _)| *errno == answer);
        let why = match known {
            Some((_, why)) => (*why).to_owned(),
            None => io::Error::from_raw_os_error(answer).to_string(),
        };
        Err(Failure::new(answer, why))
    }

    /// The positive errno that it is in C.
    pub fn errno(&self) -> i32 {
        self.errno
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl error::Error for Failure {}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Failure {
        Failure::new(error.errno(), error.to_string())
    }
}

impl From<ferroce_capture::Error> for Failure {
    fn from(error: ferroce_capture::Error) -> Failure {
        Failure::new(error.errno(), error.to_string())
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> io::Error {
        io::Error::from_raw_os_error(failure.errno)
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// In words, what last failed in the calling thread; it stays until something else does.
pub(crate) fn last() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

/// Carries out what a C function is to do: 0, or the errno, which is in `errno`, too.
pub(crate) fn answer(work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match guarded(work) {
        Ok(()) => 0,
        Err(errno) => errno,
    }
}

/// The same with a value, or the errno. No function is a cancellation point.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, c_int> {
    let _uncancelled = Uncancelled::begin();
    let done = catch_unwind(AssertUnwindSafe(work));
    let failure = match done {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(libc::EIO, "internal error (see the panic message)"),
    };

    let errno = failure.errno;
    let text = CString::new(failure.why.replace('\0', " ")).unwrap_or_default();
    // At the end of a thread there may be no place for it any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
    // SAFETY: the C library returns a valid pointer to the calling thread's errno.
    unsafe { *libc::__errno_location() = errno };
    Err(errno)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn said() -> String {
        // SAFETY: a text of this thread's, which ends in NUL.
        let text = unsafe { CStr::from_ptr(last()) };
        text.to_str().unwrap().to_owned()
    }

    #[test]
    fn what_failed_last_is_told_until_something_else_does() {
        assert_eq!(said(), "");
        assert_eq!(
            answer(|| Err(Failure::new(libc::EINVAL, "wrong"))),
            libc::EINVAL
        );
        assert_eq!(answer(|| Ok(())), 0);
        assert_eq!(said(), "wrong");
        let table = [(libc::ENODATA, "nobody measures")];
        assert_eq!(answer(|| Failure::of(libc::ENODATA, &table)), libc::ENODATA);
        assert_eq!(said(), "nobody measures");
        assert_eq!(answer(|| panic!("on purpose")), libc::EIO);
        assert!(said().contains("panic"));
    }
}
