//! The application's memory: looking before touching, registrations, and the memory of one
//! operation.

mod copy;
mod stack;

use std::sync::Arc;

use parking_lot::Mutex;

use crate::abi::{EXS_MRF_RECV_DISABLE, EXS_MRF_SEND_DISABLE};
use crate::errno::{Errno, Result};
use crate::verbs::{Device, Mr};

pub(crate) use copy::{check, read_bytes, read_string, write_bytes, write_from, zeroed};

/// Memory that the application has registered.
pub(crate) struct Memory {
    address: usize,
    length: usize,
    flags: i32,
    /// One region for each device on which it has been used.
    regions: Mutex<Vec<(Arc<Device>, Arc<Mr>)>>,
}

impl Memory {
    /// Registers it on one device; on the others when they are first used.
    pub(crate) fn register(
        device: &Arc<Device>,
        address: usize,
        length: usize,
        flags: i32,
    ) -> Result<Self> {
        let memory = Self {
            address,
            length,
            flags,
            regions: Mutex::new(Vec::new()),
        };

        memory
            .readable()
            .and_then(|()| memory.region(device).map(drop))
            .map_err(|error| match error {
                // Verbs know one word for both.
                Errno(libc::EFAULT) if mapped(address, length) => Errno(libc::EACCES),
                error => error,
            })?;

        Ok(memory)
    }

    /// Whether what is only sent can be read. Linux before 6.2 lets adapters read pages of a
    /// program whatever their protection; asked to write them, it looks.
    fn readable(&self) -> Result<()> {
        match self.flags & EXS_MRF_RECV_DISABLE {
            0 => Ok(()),
            _ => pieces(self.address, self.length)
                .try_for_each(|(address, length)| check(address, length, Use::Send)),
        }
    }

    fn region(&self, device: &Arc<Device>) -> Result<Arc<Mr>> {
        let mut regions = self.regions.lock();
        if let Some((_, mr)) = regions.iter().find(|(known, _)| Arc::ptr_eq(known, device)) {
            return Ok(Arc::clone(mr));
        }
        let (send, receive) = (
            self.flags & EXS_MRF_SEND_DISABLE == 0,
            self.flags & EXS_MRF_RECV_DISABLE == 0,
        );
        // SAFETY: the application registers it for just that.
        let mr = Arc::new(unsafe { device.register(self.address, self.length, receive, send) }?);
        regions.push((Arc::clone(device), Arc::clone(&mr)));
        Ok(mr)
    }

    /// Whether an operation may use this part of it so: `EINVAL` if it is none, `EACCES` if not.
    fn allows(&self, address: usize, length: usize, used: Use) -> Result<()> {
        let barred = match used {
            Use::Send => EXS_MRF_SEND_DISABLE,
            Use::Receive => EXS_MRF_RECV_DISABLE,
        };
        let end = address.checked_add(length);
        if address < self.address || end.is_none_or(|end| end > self.address + self.length) {
            return Err(Errno(libc::EINVAL));
        }
        match self.flags & barred {
            0 => Ok(()),
            _ => Err(Errno(libc::EACCES)),
        }
    }
}

/// Bytes of which the pages are looked at together: of a range whose length is no memory's, no more
/// is listed than is there.
const PIECE: usize = 4 << 20;

/// A range in pieces: address and length.
fn pieces(address: usize, length: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..length)
        .step_by(PIECE)
        .map(move |at| (address + at, PIECE.min(length - at)))
}

/// Whether there is memory at a range, whatever its protection.
fn mapped(address: usize, length: usize) -> bool {
    // SAFETY: asks the system for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize;
    let mut residence = vec![0_u8; PIECE / page + 1];
    pieces(address, length).all(|(address, length)| {
        let start = address / page * page;
        let whole = (address + length - start).next_multiple_of(page);
        // SAFETY: the vector has a byte for each page of a piece, which may begin within one.
        unsafe { libc::mincore(start as *mut _, whole, residence.as_mut_ptr()) == 0 }
    })
}

/// Which way an operation uses its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Send,
    Receive,
}

/// The memory of one operation.
pub(crate) struct Buffer {
    /// Where it is.
    pub address: usize,
    /// Bytes.
    pub length: usize,
    region: Option<Arc<Mr>>,
    /// Keeps the application's registration in use.
    _registered: Option<Arc<Memory>>,
    /// What it is of, where that is the library's own; dropped after the region.
    _kept: Option<Vec<u8>>,
}

impl Buffer {
    /// Memory that is registered already by ourselves.
    pub(crate) fn of_region(address: usize, length: usize, region: &Arc<Mr>) -> Self {
        Self {
            address,
            length,
            region: Some(Arc::clone(region)),
            _registered: None,
            _kept: None,
        }
    }

    /// The application's: with its registration, or a registration for this operation if it is
    /// large enough.
    pub(crate) fn new(
        device: &Arc<Device>,
        address: usize,
        length: usize,
        registered: Option<Arc<Memory>>,
        used: Use,
    ) -> Result<Self> {
        let mut buffer = Self {
            address,
            length,
            region: None,
            _registered: None,
            _kept: None,
        };

        if let Some(memory) = registered {
            memory.allows(address, length, used)?;
            buffer.region = Some(memory.region(device)?);
            buffer._registered = Some(memory);
        } else if length >= REGISTER_LEAST {
            match buffer.register(device, used) {
                // Too much is registered already: it goes through messages.
                Ok(()) | Err(Errno(libc::ENOMEM | libc::EAGAIN)) => {}
                Err(error) => return Err(error),
            }
        } else {
            check(address, length, used)?;
        }

        Ok(buffer)
    }

    /// The application's to send from, to be copied through messages whatever its size.
    pub(crate) fn copied(
        address: usize,
        length: usize,
        registered: Option<&Memory>,
    ) -> Result<Self> {
        registered.map_or(Ok(()), |memory| memory.allows(address, length, Use::Send))?;
        check(address, length, Use::Send)?;
        Ok(Self {
            address,
            length,
            region: None,
            _registered: None,
            _kept: None,
        })
    }

    /// A copy of the application's to send from, which is free again at once.
    pub(crate) fn kept(
        device: &Arc<Device>,
        address: usize,
        length: usize,
        registered: Option<&Memory>,
    ) -> Result<Self> {
        registered.map_or(Ok(()), |memory| memory.allows(address, length, Use::Send))?;
        let bytes = read_bytes(address, length)?;
        let mut buffer = Self::new(device, bytes.as_ptr() as usize, length, None, Use::Send)?;
        buffer._kept = Some(bytes);
        Ok(buffer)
    }

    /// Registers it for as long as the operation takes.
    pub(crate) fn register(&mut self, device: &Device, used: Use) -> Result<()> {
        let (receive, send) = (used == Use::Receive, used == Use::Send);
        // SAFETY: the application has given the memory to the operation, during which the
        // registration lives.
        let mr = unsafe { device.register(self.address, self.length, receive, send) }?;
        self.region = Some(Arc::new(mr));
        Ok(())
    }

    /// Whether it can be read and written directly.
    pub(crate) fn exposable(&self) -> bool {
        self.region.is_some()
    }

    /// Local and remote key, 0 without a registration.
    pub(crate) fn keys(&self) -> (u32, u32) {
        self.region
            .as_ref()
            .map_or((0, 0), |region| (region.lkey, region.rkey))
    }
}

/// From this size on, registering unregistered memory for one operation costs less than copying it
/// through messages.
const REGISTER_LEAST: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_range_that_is_longer_than_memory_no_list_is_made() {
        static CONSTANT: [u8; 3] = [0; 3];
        let there = CONSTANT.as_ptr() as usize;
        assert!(!mapped(there, usize::MAX / 4));
        let large = vec![0_u8; 2 * PIECE + 1];
        assert!(mapped(large.as_ptr() as usize, large.len()));
        let lengths: Vec<usize> = pieces(there, large.len()).map(|piece| piece.1).collect();
        assert_eq!(lengths, [PIECE, PIECE, 1]);
    }
}
