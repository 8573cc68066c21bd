//! Which descriptors of this process were opened on the image's device files.
//!
//! The table is a hint that makes the common case cheap. Descriptors also close behind our back (`close_range`, the C
//! library's own calls), so whoever acts on an entry first asks the kernel whether the descriptor still is what it was.

use libc::c_int;
use std::sync::atomic::{AtomicU16, Ordering};

const SIZE: usize = 1 << 16;

/// For each descriptor 0, or the number of its uverbs device plus one.
static KINDS: [AtomicU16; SIZE] = [const { AtomicU16::new(0) }; SIZE];

fn entry(fd: c_int) -> Option<&'static AtomicU16> {
    KINDS.get(usize::try_from(fd).ok()?)
}

/// The uverbs device of a descriptor, by the table.
#[inline]
pub fn uverbs(fd: c_int) -> Option<u16> {
    entry(fd)?.load(Ordering::Relaxed).checked_sub(1)
}

/// Enters what a new descriptor is. `false`: the table has no room for it.
pub fn set(fd: c_int, uverbs: Option<u16>) -> bool {
    let kind = uverbs.map_or(0, |n| n.saturating_add(1));
    match entry(fd) {
        Some(entry) => {
            if entry.load(Ordering::Relaxed) != kind {
                entry.store(kind, Ordering::Relaxed);
            }
            true
        }
        None => kind == 0,
    }
}

/// Forgets the descriptors of a range, both ends included.
pub fn clear_range(first: u32, last: u32) {
    for entry in KINDS.iter().take(last as usize + 1).skip(first as usize) {
        entry.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_kept_by_descriptor() {
        assert_eq!(uverbs(65_000), None);
        assert!(set(65_000, Some(0)));
        assert!(set(65_001, Some(7)));
        assert_eq!((uverbs(65_000), uverbs(65_001)), (Some(0), Some(7)));
        clear_range(65_001, u32::MAX - 1);
        assert_eq!((uverbs(65_000), uverbs(65_001)), (Some(0), None));
        assert!(set(65_000, None));
        assert_eq!(uverbs(65_000), None);
        assert_eq!((uverbs(-1), uverbs(1 << 20)), (None, None));
        assert!(set(1 << 20, None) && !set(1 << 20, Some(0)));
    }
}
