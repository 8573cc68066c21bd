//! The same accesses without any help: a fault ends the process.

use super::Fault;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

pub(super) fn install() {}

pub(super) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) -> Result<(), Fault> {
    // SAFETY: the caller's promise, and that the memory is still mapped.
    unsafe { std::ptr::copy_nonoverlapping(src, dst, len) };
    Ok(())
}

pub(super) unsafe fn copy_past_caches(
    dst: *mut u8,
    src: *const u8,
    len: usize,
) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    unsafe { copy(dst, src, len) }
}

pub(super) const fn has_way_past_caches() -> bool {
    false
}

pub(super) unsafe fn probe(_: *const u8, _: usize) -> Result<(), Fault> {
    Ok(())
}

pub(super) unsafe fn publish(dst: *mut u8, value: u64, size: usize) -> Result<(), Fault> {
    fence(Ordering::Release);
    // SAFETY: the caller's promise: aligned, and still mapped.
    unsafe {
        match size {
            1 => (*dst.cast::<AtomicU8>()).store(value as u8, Ordering::Release),
            2 => (*dst.cast::<AtomicU16>()).store(value as u16, Ordering::Release),
            4 => (*dst.cast::<AtomicU32>()).store(value as u32, Ordering::Release),
            _ => (*dst.cast::<AtomicU64>()).store(value, Ordering::Release),
        }
    }
    Ok(())
}

pub(super) unsafe fn fetch_add(cell: *mut u64, add: u64) -> Result<u64, Fault> {
    // SAFETY: the caller's promise: aligned, and still mapped.
    Ok(unsafe { &*cell.cast::<AtomicU64>() }.fetch_add(add, Ordering::SeqCst))
}

pub(super) unsafe fn compare_swap(cell: *mut u64, compare: u64, swap: u64) -> Result<u64, Fault> {
    // SAFETY: the caller's promise: aligned, and still mapped.
    let cell = unsafe { &*cell.cast::<AtomicU64>() };
    Ok(cell
        .compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst)
        .unwrap_or_else(|before| before))
}
