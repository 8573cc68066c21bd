//! Socket addresses, as bytes that are checked before they are believed.

use std::net::Ipv4Addr;

use crate::errno::{Errno, Result};

/// A socket address of IPv4 or IPv6.
#[derive(Clone, Copy)]
pub(crate) struct Address {
    storage: libc::sockaddr_storage,
}

impl Address {
    pub(super) fn unspecified() -> Self {
        // SAFETY: all zeros is a `sockaddr_storage`.
        let storage = unsafe { std::mem::zeroed() };
        Self { storage }
    }

    /// Takes the bytes of an address: `EINVAL` if there are too few, `EAFNOSUPPORT` if it is of
    /// another family.
    pub(crate) fn parse(bytes: &[u8], family: i32) -> Result<Self> {
        let Some(said) = bytes.first_chunk::<2>() else {
            return Err(Errno(libc::EINVAL));
        };
        if i32::from(u16::from_ne_bytes(*said)) != family {
            return Err(Errno(libc::EAFNOSUPPORT));
        }

        let length = Self::size(family);
        if bytes.len() < length {
            return Err(Errno(libc::EINVAL));
        }

        let mut address = Self::unspecified();

        // SAFETY: an address of either family fits into the storage, and any bytes make one.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                (&raw mut address.storage).cast::<u8>(),
                length,
            );
        }

        Ok(address)
    }

    pub(super) fn storage(&self) -> &libc::sockaddr_storage {
        &self.storage
    }

    pub(super) fn storage_mut(&mut self) -> &mut libc::sockaddr_storage {
        &mut self.storage
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        let length = Self::size(i32::from(self.storage.ss_family));
        // SAFETY: the storage is at least that large and initialised.
        unsafe { std::slice::from_raw_parts((&raw const self.storage).cast(), length) }
    }

    /// The same host's with port 0, which is any.
    pub(crate) fn with_any_port(&self) -> Self {
        let mut address = *self;
        let port = address.storage_mut() as *mut libc::sockaddr_storage;
        // SAFETY: the port is at the same place in both families.
        unsafe { (*port.cast::<libc::sockaddr_in>()).sin_port = 0 };
        address
    }

    /// Whether it stands for all of a host's addresses.
    pub(super) fn is_any(&self) -> bool {
        self.host().iter().all(|byte| *byte == 0)
    }

    /// Whether it is a group's.
    pub(crate) fn is_multicast(&self) -> bool {
        match *self.host() {
            [a, b, c, d] => Ipv4Addr::new(a, b, c, d).is_multicast(),
            [first, ..] => first == 0xff,
            [] => false,
        }
    }

    /// The bytes that name a host.
    fn host(&self) -> &[u8] {
        let (at, length) = match i32::from(self.storage.ss_family) {
            libc::AF_INET => (std::mem::offset_of!(libc::sockaddr_in, sin_addr), 4),
            _ => (std::mem::offset_of!(libc::sockaddr_in6, sin6_addr), 16),
        };
        self.bytes().get(at..at + length).unwrap_or_default()
    }

    /// Bytes of an address of a family.
    pub(crate) fn size(family: i32) -> usize {
        match family {
            libc::AF_INET => size_of::<libc::sockaddr_in>(),
            libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
            _ => 2,
        }
    }
}
