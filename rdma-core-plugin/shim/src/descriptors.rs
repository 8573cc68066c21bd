//! Which descriptors of this process were opened on the image's device files.
//!
//! The table is a hint that makes the common case cheap. Descriptors also close behind our back
//! (`close_range`, the C library's own calls), so whoever acts on an entry first asks the kernel
//! whether the descriptor still is what it was.

use libc::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

const SIZE: usize = 1 << 16;

/// Of a channel of `rdma_cm`, with its number below.
const RDMA_CM: u32 = 1 << 16;
/// The entry of a umad file.
const UMAD: u32 = 1 << 17;
/// The entry of an issm file.
const ISSM: u32 = UMAD + 1;
/// Added to the entry of a channel that was closed.
const CLOSED: u32 = 1 << 18;
/// The entry of a netlink socket, with the options that are set below.
const NETLINK: u32 = 1 << 19;
/// The entry of a completion channel, or of what asynchronous events are read from.
const COMPLETIONS: u32 = 1 << 20;

/// For each descriptor 0, the number of its uverbs device plus one, or one of the above.
static KINDS: [AtomicU32; SIZE] = [const { AtomicU32::new(0) }; SIZE];

fn entry(fd: c_int) -> Option<&'static AtomicU32> {
    KINDS.get(usize::try_from(fd).ok()?)
}

/// The uverbs device of a descriptor, by the table.
#[inline]
pub(crate) fn uverbs(fd: c_int) -> Option<u16> {
    Some(kind(fd).filter(|kind| *kind < RDMA_CM)?.checked_sub(1)? as u16)
}

/// The number of the channel of `rdma_cm` that a descriptor is, or was until it was closed, by the
/// table.
#[inline]
pub(crate) fn rdma_cm(fd: c_int) -> Option<u16> {
    kind(fd)
        .map(|kind| kind & !CLOSED)
        .filter(|kind| (RDMA_CM..UMAD).contains(kind))
        .map(|kind| kind as u16)
}

/// Is this descriptor a umad file, by the table?
#[inline]
pub(crate) fn umad(fd: c_int) -> bool {
    kind(fd) == Some(UMAD)
}

/// Is this descriptor a completion channel, by the table?
#[inline]
pub(crate) fn completions(fd: c_int) -> bool {
    kind(fd) == Some(COMPLETIONS)
}

/// The options that are set of a descriptor that is a netlink socket, by the table.
#[inline]
pub(crate) fn netlink(fd: c_int) -> Option<u16> {
    kind(fd)
        .filter(|kind| kind & NETLINK != 0)
        .map(|kind| kind as u16)
}

/// Is this descriptor a socket that stands for a device file, by the table?
#[inline]
pub(crate) fn device_socket(fd: c_int) -> bool {
    kind(fd).is_some_and(|kind| (RDMA_CM..CLOSED).contains(&kind))
}

#[inline]
fn kind(fd: c_int) -> Option<u32> {
    Some(entry(fd)?.load(Ordering::Relaxed))
}

/// Enters a new descriptor as a channel of `rdma_cm`. `false`: the table has no room for it.
pub(crate) fn set_rdma_cm(fd: c_int, channel: u16) -> bool {
    set_kind(fd, RDMA_CM | u32::from(channel))
}

/// Enters a new descriptor as a umad file, or else an issm file. `false`: the table has no room for
/// it.
pub(crate) fn set_umad(fd: c_int, umad: bool) -> bool {
    set_kind(fd, if umad { UMAD } else { ISSM })
}

/// Enters a descriptor as a netlink socket with some options set. `false`: the table has no room
/// for it.
pub(crate) fn set_netlink(fd: c_int, options: u16) -> bool {
    set_kind(fd, NETLINK | u32::from(options))
}

/// Enters a new descriptor as a completion channel, if the table has room for it.
pub(crate) fn set_completions(fd: c_int) {
    set_kind(fd, COMPLETIONS);
}

#[inline]
fn set_kind(fd: c_int, kind: u32) -> bool {
    entry(fd).map(|entry| change(entry, kind)).is_some()
}

/// Changes an entry, unless its table is borrowed: descriptors that a child of `vfork(2)` closes
/// and opens before it becomes another program are its own, and not those of its parent, whose
/// memory it has. Python closes all of its parent's so (`subprocess`).
#[inline]
fn change(entry: &AtomicU32, kind: u32) {
    if entry.load(Ordering::Relaxed) != kind && !ferroce_process::is_borrower() {
        entry.store(kind, Ordering::Relaxed);
    }
}

/// Enters a copy of a descriptor as what that one is. A copy beyond the table keeps what it was
/// opened on, but is not served.
pub(crate) fn copy(from: c_int, to: c_int) {
    set_kind(to, kind(from).unwrap_or(0));
}

/// Enters what a new descriptor is. `false`: the table has no room for it.
pub(crate) fn set(fd: c_int, uverbs: Option<u16>) -> bool {
    let kind = uverbs.map_or(0, |n| u32::from(n.saturating_add(1)));
    set_kind(fd, kind) || kind == 0
}

/// A descriptor is about to be closed. A channel's entry stays, marked, until the number is another
/// file's: what another thread writes meanwhile must not go into the socket that stands for the
/// channel.
pub(crate) fn closing(fd: c_int) {
    let kind = rdma_cm(fd).map_or(0, |number| CLOSED | RDMA_CM | u32::from(number));
    set_kind(fd, kind);
}

/// Forgets the descriptors of a range, both ends included.
pub(crate) fn clear_range(first: u32, last: u32) {
    for entry in KINDS.iter().take(last as usize + 1).skip(first as usize) {
        change(entry, 0);
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

        assert!(set_rdma_cm(65_002, 0) && uverbs(65_002).is_none());
        assert_eq!(rdma_cm(65_002), Some(0));
        assert!(set_rdma_cm(65_002, 65_535) && uverbs(65_002).is_none());
        assert_eq!(rdma_cm(65_002), Some(65_535));
        assert!(set(65_003, Some(3)));
        copy(65_003, 65_002);
        assert_eq!((rdma_cm(65_002), uverbs(65_002)), (None, Some(3)));
        assert!(!set_rdma_cm(1 << 20, 0) && rdma_cm(1 << 20).is_none());

        assert!(set_umad(65_004, true) && umad(65_004) && uverbs(65_004).is_none());
        assert!(set_umad(65_004, false) && !umad(65_004) && device_socket(65_004));
        assert!(rdma_cm(65_004).is_none() && !set_umad(1 << 20, true));

        assert!(set_netlink(65_005, 3) && netlink(65_005) == Some(3));
        assert!(!umad(65_005) && !device_socket(65_005) && uverbs(65_005).is_none());
        assert!(rdma_cm(65_005).is_none() && netlink(65_004).is_none());
        closing(65_005);
        assert_eq!(netlink(65_005), None);

        set_completions(65_006);
        assert!(completions(65_006) && !device_socket(65_006) && uverbs(65_006).is_none());
        assert!(!umad(65_006) && rdma_cm(65_006).is_none() && netlink(65_006).is_none());
        closing(65_006);
        assert!(!completions(65_006) && !completions(-1));
    }

    #[test]
    fn a_closed_channel_is_known_but_looks_like_what_it_is() {
        assert!(set_rdma_cm(65_010, 9) && device_socket(65_010));
        closing(65_010);
        assert_eq!((rdma_cm(65_010), device_socket(65_010)), (Some(9), false));
        assert!(set(65_010, Some(0)));
        closing(65_010);
        assert_eq!((rdma_cm(65_010), uverbs(65_010)), (None, None));
    }
}
