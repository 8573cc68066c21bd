//! Whether a program can learn how those that it starts have ended.
//!
//! A SIGCHLD that is ignored stays so beyond `exec`, and then the kernel tells nobody: waiting for
//! a child ends with `ECHILD`. Supervisors and programs that fork much start others like that.

use std::sync::atomic::{AtomicBool, Ordering};

static IGNORED: AtomicBool = AtomicBool::new(false);

/// Has this process told of its children, whatever whoever has started it does not want to know.
/// To be called before any is started.
pub fn are_waited_for() {
    // SAFETY: no handler is installed, so nothing runs in a signal's context.
    let before = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    IGNORED.store(before == libc::SIG_IGN, Ordering::Relaxed);
}

/// Undoes [`are_waited_for`], for a program that this process becomes.
pub fn are_as_inherited() {
    if IGNORED.load(Ordering::Relaxed) {
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    }
}
