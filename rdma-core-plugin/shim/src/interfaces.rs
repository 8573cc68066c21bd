//! `getifaddrs` for libfabric, which looks for RDMA addresses on interfaces and skips those that
//! are marked as loopback: no adapter has one there. A ferroce device may be at 127.0.0.1 or ::1,
//! so an address that is a port's loses the mark. Whatever else libfabric asks (the address's
//! device, its path) goes through librdmacm and is answered as for any address. Programs without
//! libfabric see what the kernel says.

use crate::gid;
use ferroce_cabi::ibv_gid;
use libc::{c_int, c_uint, ifaddrs, sockaddr, sockaddr_in, sockaddr_in6};
use std::ffi::CStr;

/// The library's name; the major version has been 1 since there is one.
const LIBFABRIC: &CStr = c"libfabric.so.1";
const LOOPBACK: c_uint = libc::IFF_LOOPBACK as c_uint;

/// Is libfabric in this process?
pub(crate) fn asked_by_libfabric() -> bool {
    // SAFETY: a constant name; nothing is loaded, and what was found is given back.
    unsafe {
        let library = libc::dlopen(LIBFABRIC.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        !library.is_null() && libc::dlclose(library) == 0
    }
}

/// Takes the mark of loopback from the addresses that are a port's.
///
/// # Safety
/// `list` is what `getifaddrs` answered, and nobody else has it yet.
pub(crate) unsafe fn unmark(mut list: *mut ifaddrs) {
    // SAFETY: as the caller promises.
    while let Some(entry) = unsafe { list.as_mut() } {
        // SAFETY: null, or an address of the list.
        let gid = unsafe { gid_of(entry.ifa_addr) };
        if entry.ifa_flags & LOOPBACK != 0 && gid.is_some_and(|gid| gid::is_a_ports(&gid)) {
            entry.ifa_flags &= !LOOPBACK;
        }
        list = entry.ifa_next;
    }
}

/// The GID that an IP address is on a RoCE v2 port.
///
/// # Safety
/// `address` is null or points to a whole address of its family.
unsafe fn gid_of(address: *const sockaddr) -> Option<ibv_gid> {
    // SAFETY: as the caller promises.
    let family = c_int::from(unsafe { address.as_ref() }?.sa_family);
    let mut gid = ibv_gid::default();
    match family {
        libc::AF_INET => {
            // SAFETY: the family says which address it is; it need not be aligned for its type.
            let v4 = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            gid.raw[10..12].fill(0xff);
            // In network byte order in memory, as in a GID.
            gid.raw[12..].copy_from_slice(&v4.sin_addr.s_addr.to_ne_bytes());
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            gid.raw = v6.sin6_addr.s6_addr;
        }
        _ => return None,
    }

    Some(gid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem;

    #[test]
    fn ip_addresses_are_gids() {
        // SAFETY: all zero is an address of no family.
        let mut v4: sockaddr_in = unsafe { mem::zeroed() };
        v4.sin_family = libc::AF_INET as u16;
        v4.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);

        // SAFETY: as above.
        let mut v6: sockaddr_in6 = unsafe { mem::zeroed() };
        v6.sin6_family = libc::AF_INET6 as u16;
        v6.sin6_addr.s6_addr[15] = 1;

        // SAFETY: whole addresses of their families, and null.
        let (mapped, own, none) = unsafe {
            (
                gid_of((&raw const v4).cast()),
                gid_of((&raw const v6).cast()),
                gid_of(std::ptr::null()),
            )
        };

        let mapped = mapped.map(|gid| gid.raw).unwrap_or_default();
        assert_eq!(mapped[..12], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        assert_eq!(mapped[12..], [127, 0, 0, 1]);
        assert_eq!(own.map(|gid| gid.raw[15]), Some(1));
        assert!(none.is_none());
    }
}
