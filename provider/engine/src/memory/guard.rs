//! Access to the consumer's memory that survives its being unmapped.
//!
//! Registration checks that a range is mapped, but nothing keeps the program from unmapping it
//! afterwards. An adapter would go on with the pages it pinned; here the access would fault. So
//! every access to registered memory is made by a few instructions of known address, and a handler
//! for SIGSEGV and SIGBUS turns a fault in them into an error. All other faults go where they went
//! before. The signals are unblocked in each thread that comes here (`fault_mask`). Where the
//! program replaces the handler, where the thread blocks the signal anew, or on processors without
//! this code, such a fault ends the process as any wild access does. What has been mapped there
//! since is no fault, and is reached.

#[cfg_attr(target_arch = "x86_64", path = "guard/x86_64.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "guard/other.rs")]
mod imp;

#[cfg(target_arch = "x86_64")]
mod chained;

use std::sync::Once;

/// The access faulted: the memory is no longer mapped with the rights it was registered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault;

/// Whether a fault in an access becomes an error rather than the end of the process.
pub(crate) const EFFECTIVE: bool = cfg!(target_arch = "x86_64");

/// Makes the guard effective in this process.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(imp::install);
}

/// Makes the guard effective in the calling thread, which each calls before it makes guarded
/// accesses. Costs next to nothing after the first time.
pub(crate) fn admit_thread() {
    #[cfg(target_arch = "x86_64")]
    crate::memory::fault_mask::admit();
}

/// Copies `len` bytes in address order.
///
/// # Safety
/// One side is the engine's own and valid for `len` bytes; the other is in a registered range. They
/// do not overlap.
#[inline]
pub(crate) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    unsafe { imp::copy(dst, src, len) }
}

/// The same by stores that go to memory and not to the caches, in order before all stores after
/// it: for what another processor reads next.
///
/// # Safety
/// As for [`copy`].
#[inline]
pub(crate) unsafe fn copy_past_caches(
    dst: *mut u8,
    src: *const u8,
    len: usize,
) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    unsafe { imp::copy_past_caches(dst, src, len) }
}

/// Whether [`copy_past_caches`] is anything else than [`copy`] on this processor.
pub(crate) fn has_way_past_caches() -> bool {
    imp::has_way_past_caches()
}

/// Reads a byte of every page of `len` bytes (at least 1), so that a reader need not expect a
/// fault.
///
/// # Safety
/// The range is in a registered range.
#[inline]
pub(crate) unsafe fn probe(src: *const u8, len: usize) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    unsafe { imp::probe(src, len) }
}

/// Stores the low `size` bytes (1, 2, 4 or 8) of `value` at once, after all stores before it.
///
/// # Safety
/// `dst` is in a registered range and aligned to `size`.
#[inline]
pub(crate) unsafe fn publish(dst: *mut u8, value: u64, size: usize) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    unsafe { imp::publish(dst, value, size) }
}

/// Atomically adds; returns the value before.
///
/// # Safety
/// `cell` is in a registered range and 8-byte aligned.
pub(crate) unsafe fn fetch_add(cell: *mut u64, add: u64) -> Result<u64, Fault> {
    // SAFETY: the caller's promise.
    unsafe { imp::fetch_add(cell, add) }
}

/// Atomically compares and swaps; returns the value before.
///
/// # Safety
/// As for [`fetch_add`].
pub(crate) unsafe fn compare_swap(cell: *mut u64, compare: u64, swap: u64) -> Result<u64, Fault> {
    // SAFETY: the caller's promise.
    unsafe { imp::compare_swap(cell, compare, swap) }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn unmapped_memory_is_an_error_and_mapped_memory_is_not() {
        install();

        // SAFETY: a fresh mapping of two pages; the second becomes inaccessible.
        let p = unsafe {
            let (rw, anon) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            );
            let p = libc::mmap(std::ptr::null_mut(), 8192, rw, anon, -1, 0).cast::<u8>();
            libc::mprotect(p.add(4096).cast(), 4096, libc::PROT_NONE);
            p
        };

        let mut own = [7u8; 64];
        let mut long = [7u8; 4097];
        for len in (0..300).chain([4095, 4096, 4159]) {
            let from: Vec<u8> = (0..len).map(|i| i as u8 ^ 0x5a).collect();
            for copy in imp::COPIES {
                let mut to = vec![0u8; len + 1];
                // SAFETY: both are as long.
                assert_eq!(unsafe { copy(to.as_mut_ptr(), from.as_ptr(), len) }, Ok(()));
                assert_eq!((&to[..len], to[len]), (&from[..], 0));
            }
        }

        // SAFETY: the first page is mapped; accesses to the second are what is tested.
        unsafe {
            for copy in imp::COPIES.into_iter().chain([copy as _]) {
                assert_eq!(copy(p.add(4096 - 64), own.as_ptr(), 64), Ok(()));
                assert_eq!(copy(p.add(4096 - 63), own.as_ptr(), 64), Err(Fault));
                assert_eq!(copy(own.as_mut_ptr(), p.add(4096 - 1), 2), Err(Fault));
                // Long enough for the loops of those that have some.
                assert_eq!(copy(p, long.as_ptr(), 4096), Ok(()));
                assert_eq!(copy(p, long.as_ptr(), 4097), Err(Fault));
                assert_eq!(copy(long.as_mut_ptr(), p.add(1), 4095), Ok(()));
                assert_eq!(copy(long.as_mut_ptr(), p.add(1), 4096), Err(Fault));
            }

            assert_eq!(probe(p, 4096), Ok(()));
            assert_eq!(probe(p, 4097), Err(Fault));
            assert_eq!(probe(p.add(100), 8000), Err(Fault));
            for size in [1, 2, 4, 8] {
                assert_eq!(publish(p, u64::MAX, size), Ok(()));
                assert_eq!(publish(p.add(4096), 1, size), Err(Fault));
            }

            assert_eq!(fetch_add(p.cast(), 2), Ok(u64::MAX));
            assert_eq!(compare_swap(p.cast(), 1, 5), Ok(1));
            assert_eq!(compare_swap(p.cast(), 1, 6), Ok(5));
            assert_eq!(fetch_add(p.add(4096).cast(), 1), Err(Fault));
            assert_eq!(compare_swap(p.add(4096).cast(), 1, 1), Err(Fault));
            assert_eq!(*p.add(4095), 7);
        }
    }
}
