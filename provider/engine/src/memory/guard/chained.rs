//! The handler of faults in front of the one that was there before, which then runs as the kernel
//! would run it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// What there was before, by signal.
static BEFORE: OnceLock<[libc::sigaction; 2]> = OnceLock::new();
/// Whether a handler that was to run once (`SA_RESETHAND`) has.
static SPENT: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

pub(super) type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// What becomes of a signal.
enum Disposition<'a> {
    Default,
    Ignored,
    Handled(&'a libc::sigaction),
}

fn of(action: &libc::sigaction) -> Disposition<'_> {
    match action.sa_sigaction {
        libc::SIG_DFL => Disposition::Default,
        libc::SIG_IGN => Disposition::Ignored,
        _ => Disposition::Handled(action),
    }
}

/// Puts the handler in front, once a process. It passes on what is not ours.
pub(super) fn install(on_fault: Handler) {
    let before = SIGNALS.map(|signal| {
        // SAFETY: all zeroes is a valid sigaction, and the call only reads the disposition.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut before);
            before
        }
    });

    if BEFORE.set(before).is_err() {
        return;
    }

    for (signal, before) in SIGNALS.into_iter().zip(before) {
        // SAFETY: the handler has the signature that SA_SIGINFO calls for and is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            // What the kernel does around a handler it does for the one behind ours, too.
            match of(&before) {
                Disposition::Handled(before) => {
                    action.sa_mask = before.sa_mask;
                    action.sa_flags |= before.sa_flags & libc::SA_RESTART;
                }
                _ => action.sa_flags |= libc::SA_RESTART,
            }
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Whether no access has faulted: a process has sent the signal, or the kernel tells of a page that
/// has gone bad, which nobody has read.
pub(super) fn is_sent(signal: libc::c_int, info: &libc::siginfo_t) -> bool {
    info.si_code <= 0 || (signal, info.si_code) == (libc::SIGBUS, libc::BUS_MCEERR_AO)
}

/// Does what would have happened without us.
pub(super) fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let index = usize::from(signal != SIGNALS[0]);
    let before = BEFORE.get().map(|before| &before[index]);
    // SAFETY: `info` is valid in a handler.
    let is_sent = is_sent(signal, unsafe { &*info });
    match before.map_or(Disposition::Default, of) {
        // A fault that is ignored ends the process nevertheless.
        Disposition::Ignored if is_sent => {}
        Disposition::Handled(action) if !is_spent(action, index) => {
            // SAFETY: these are a handler's arguments.
            unsafe { run(action, signal, info, context) };
        }
        _ => end(signal, is_sent),
    }
}

/// Whether a handler that runs once has run before. Ours stays in front of what comes then.
fn is_spent(action: &libc::sigaction, index: usize) -> bool {
    action.sa_flags & libc::SA_RESETHAND != 0 && SPENT[index].swap(true, Ordering::Relaxed)
}

/// Runs the program's handler.
///
/// # Safety
/// The arguments are a signal handler's.
unsafe fn run(
    action: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the sets are initialised, and the program installed a handler of the signature that
    // its flags tell.
    unsafe {
        // Blocked for ours, which must not meet itself; the mask of before comes back when ours
        // returns, or where the program's jumps to.
        if action.sa_flags & libc::SA_NODEFER != 0
            && libc::sigismember(&action.sa_mask, signal) != 1
        {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        }
        if action.sa_flags & libc::SA_SIGINFO != 0 {
            let handler: Handler = std::mem::transmute(action.sa_sigaction);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(libc::c_int) = std::mem::transmute(action.sa_sigaction);
            handler(signal);
        }
    }
}

/// Has the signal end the process: the instruction runs again and does so. A signal that was sent
/// has no instruction to run again, so it is raised anew.
fn end(signal: libc::c_int, is_sent: bool) {
    // SAFETY: all zeroes is the default disposition.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &default, std::ptr::null_mut());
        if is_sent {
            libc::raise(signal);
        }
    }
}
