//! Which process this is, without a system call each time.
//!
//! What a process owns is its own no more in a child that `fork(2)` made, and most of what asks
//! does so many times. So the number stands in a page that such a child finds empty
//! (`MADV_WIPEONFORK`, Linux 4.14). Where there is no such page the kernel is asked each time.
//!
//! The kernel's number tells not all of them apart: in a new PID namespace a child can have its
//! parent's. By whom something is owned, a [`generation`] says.
//!
//! All of it may be called in signal handlers, and before constructors have run.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// What a child that `fork(2)` made finds empty.
#[repr(C)]
struct Page {
    /// This process's number; 0: nobody has asked yet.
    owner: AtomicU32,
    /// This process's generation; 0: nobody has asked yet.
    generation: AtomicU32,
}

/// The page; null: not made yet.
static PAGE: AtomicPtr<Page> = AtomicPtr::new(null_mut());

/// Stands for a page where there can be none: always empty.
static NOTHING: Page = Page {
    owner: AtomicU32::new(0),
    generation: AtomicU32::new(0),
};

/// The latest generation that somebody has, of this process and those that it descends from.
static GENERATIONS: AtomicU32 = AtomicU32::new(0);
/// How often this process and those that it descends from were forked, since [`remember`].
static FORKS: AtomicU32 = AtomicU32::new(0);
/// How many bits a process's number has: `PID_MAX_LIMIT`.
const PID_BITS: u32 = 22;

/// The process whose memory this is. A child of `vfork(2)`, who borrows it, sees its parent's
/// number.
#[inline]
#[must_use]
pub fn owner() -> u32 {
    let page = page();
    match page.owner.load(Ordering::Relaxed) {
        0 => enter(page),
        owner => owner,
    }
}

/// Which of the processes this is that have had this memory one after the other: another one in a
/// child that `fork(2)` made than in all that it descends from, whatever PID namespaces they are
/// in; never 0, and never `u32::MAX`. A child of `vfork(2)` sees its parent's.
#[inline]
#[must_use]
pub fn generation() -> u32 {
    let page = page();
    match page.generation.load(Ordering::Acquire) {
        0 => descend(page),
        generation => generation,
    }
}

/// Whether the caller is a child of `vfork(2)`, and what it changes is its parent's. This does ask
/// the kernel. For the answer to be right in a child of a child, [`remember`] has been called.
#[must_use]
pub fn is_borrower() -> bool {
    // The owner first: where it has not asked yet, it is taken for whoever asks.
    owner() != asked()
}

/// Has this process's number known, and that of each child that `fork(3)` makes, before anybody
/// who borrows its memory can ask.
pub fn remember() {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
        let _ = owner();
    }

    let _ = owner();
    // SAFETY: a function that stays, as long as this library does. Without room for it, the first
    // who asks in a child is taken for it.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

#[cold]
fn enter(page: &Page) -> u32 {
    let asked = asked();
    if !std::ptr::eq(page, &NOTHING) {
        page.owner.store(asked, Ordering::Relaxed);
    }
    asked
}

#[cold]
fn descend(page: &Page) -> u32 {
    if std::ptr::eq(page, &NOTHING) {
        // Which fork it was stands above the number, and comes again after 512 of them.
        let forks = FORKS.load(Ordering::Relaxed) % (1 << (u32::BITS - PID_BITS - 1));
        return forks << PID_BITS | asked();
    }

    // Counted before it is anybody's: whoever is forked meanwhile counts on from there.
    let next = GENERATIONS.fetch_add(1, Ordering::AcqRel) + 1;
    let others = (Ordering::AcqRel, Ordering::Acquire);
    match page
        .generation
        .compare_exchange(0, next, others.0, others.1)
    {
        Ok(_) => next,
        Err(another_threads) => another_threads,
    }
}

/// By the kernel, whatever a preloaded library makes of `getpid()`.
fn asked() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::syscall(libc::SYS_getpid) as u32 }
}

#[inline]
fn page() -> &'static Page {
    // SAFETY: null, or a page that stays.
    match unsafe { PAGE.load(Ordering::Acquire).as_ref() } {
        Some(page) => page,
        None => make(),
    }
}

#[cold]
fn make() -> &'static Page {
    let made = new_page().unwrap_or((&raw const NOTHING).cast_mut());
    let exchanged = PAGE.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
    match exchanged {
        // SAFETY: a page that stays from now on.
        Ok(_) => unsafe { &*made },
        Err(other) => {
            if !std::ptr::eq(made, &NOTHING) {
                // SAFETY: the page from above, which nobody else has seen.
                unsafe { libc::syscall(libc::SYS_munmap, made, page_size()) };
            }
            // SAFETY: as for who made it.
            unsafe { &*other }
        }
    }
}

fn new_page() -> Option<*mut Page> {
    let (access, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: new memory where the kernel likes, and advice about it. Called directly, so that
    // nobody's function in front of the C library's is met.
    unsafe {
        let at = libc::syscall(
            libc::SYS_mmap,
            0usize,
            page_size(),
            access as libc::c_long,
            flags as libc::c_long,
            -1 as libc::c_long,
            0usize,
        );
        if at == -1 {
            return None;
        }
        let advice = libc::MADV_WIPEONFORK as libc::c_long;
        match libc::syscall(libc::SYS_madvise, at, page_size(), advice) {
            0 => Some(at as *mut Page),
            _ => {
                libc::syscall(libc::SYS_munmap, at, page_size());
                None
            }
        }
    }
}

fn page_size() -> usize {
    // SAFETY: asks the C library for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(1 << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a child ends with, and by which way it was made.
    fn child_of(make: unsafe fn() -> libc::pid_t, ends_with: fn() -> bool) -> bool {
        // SAFETY: the child does nothing but look and end.
        unsafe {
            match make() {
                0 => libc::_exit(ends_with().into()),
                child => {
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &mut status, 0), child);
                    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1
                }
            }
        }
    }

    unsafe fn fork() -> libc::pid_t {
        // SAFETY: as the caller's.
        unsafe { libc::fork() }
    }

    /// Without the C library, whose handlers then do not run.
    unsafe fn raw_fork() -> libc::pid_t {
        // SAFETY: as the caller's.
        unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t }
    }

    #[test]
    fn children_have_numbers_of_their_own() {
        remember();
        assert_eq!(owner(), std::process::id());
        assert!(!is_borrower());

        for make in [fork as unsafe fn() -> libc::pid_t, raw_fork] {
            assert!(child_of(make, || owner() == asked() && !is_borrower()));
        }

        assert_eq!(owner(), std::process::id());
    }

    /// Whatever their numbers are: in a new PID namespace they may be the same.
    #[test]
    fn children_are_of_generations_of_their_own() {
        /// The parent's, and its child's.
        static BEFORE: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
        fn is_new() -> bool {
            let known = BEFORE.iter().map(|known| known.load(Ordering::Relaxed));
            generation() == generation() && !known.collect::<Vec<_>>().contains(&generation())
        }

        BEFORE[0].store(generation(), Ordering::Relaxed);
        for make in [fork as unsafe fn() -> libc::pid_t, raw_fork] {
            assert!(child_of(make, is_new));
            assert!(child_of(make, || {
                BEFORE[1].store(generation(), Ordering::Relaxed);
                child_of(fork, is_new) && child_of(raw_fork, is_new)
            }));
        }
        assert_eq!(generation(), BEFORE[0].load(Ordering::Relaxed));
    }

    #[test]
    fn without_a_page_the_kernel_is_asked() {
        assert_eq!(enter(&NOTHING), std::process::id());
        assert_eq!(NOTHING.owner.load(Ordering::Relaxed), 0);
        assert!(![0, u32::MAX].contains(&descend(&NOTHING)));
        assert_eq!(NOTHING.generation.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_borrows_memory_is_known() {
        /// What the child saw.
        static SAW: AtomicU32 = AtomicU32::new(0);
        extern "C" fn child(_: *mut libc::c_void) -> libc::c_int {
            SAW.store(owner(), Ordering::Relaxed);
            is_borrower().into()
        }

        remember();
        let mut stack = vec![0_u128; 8192];
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let mut status = 0;
        // SAFETY: the child has a stack of its own, and the parent waits until it has ended.
        unsafe {
            let end = stack.as_mut_ptr_range().end.cast();
            let id = libc::clone(child, end, flags, null_mut());
            assert!(id > 0);
            assert_eq!(libc::waitpid(id, &mut status, 0), id);
        }

        assert_eq!(
            (libc::WIFEXITED(status), libc::WEXITSTATUS(status)),
            (true, 1)
        );
        assert_eq!(SAW.load(Ordering::Relaxed), std::process::id());
        assert!(!is_borrower());
    }
}
