//! The application's memory: looking before touching, registrations, and the memory of one
//! operation.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::abi::{EXS_MRF_RECV_DISABLE, EXS_MRF_SEND_DISABLE};
use crate::errno::{Errno, Result};
use crate::verbs::{Device, Mr};

/// What memory is there in pieces of, or of whole ones of which.
const PAGE: usize = 4096;

/// Copies out of memory that may not be there: `EFAULT` instead of a fault.
pub(crate) fn read_bytes(address: usize, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0_u8; length];
    if length > 0 {
        let local = iovec(bytes.as_mut_ptr() as usize, length);
        let remote = iovec(address, length);
        // SAFETY: the local range is ours; the kernel checks the other.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        // SAFETY: only where the kernel does not offer the check; then as any C function would.
        whole(read, length, || unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), length);
        })?;
    }
    Ok(bytes)
}

/// Copies a string without its end out of memory that may not be there; `ENAMETOOLONG` from `most`
/// bytes on.
pub(crate) fn read_string(address: usize, most: usize) -> Result<Vec<u8>> {
    let mut string = Vec::new();
    while string.len() < most {
        let at = address
            .checked_add(string.len())
            .ok_or(Errno(libc::EFAULT))?;
        // Not beyond a page: the string may end with it, and nothing come after it.
        let length = (PAGE - at % PAGE).min(most - string.len());
        let bytes = read_bytes(at, length)?;
        if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            string.extend_from_slice(&bytes[..end]);
            return Ok(string);
        }
        string.extend_from_slice(&bytes);
    }

    Err(Errno(libc::ENAMETOOLONG))
}

/// Copies into memory that may not be there, or not be writable.
pub(crate) fn write_bytes(address: usize, bytes: &[u8]) -> Result<()> {
    // SAFETY: the slice's own bytes.
    unsafe { write_from(address, bytes.as_ptr(), bytes.len()) }
}

/// The same from memory whose bytes need not all be set, as those of a structure with gaps.
///
/// # Safety
/// There are `length` bytes at `from`.
pub(crate) unsafe fn write_from(address: usize, from: *const u8, length: usize) -> Result<()> {
    if length == 0 {
        return Ok(());
    }
    let local = iovec(from as usize, length);
    let remote = iovec(address, length);
    // SAFETY: the local range is only read; the kernel checks the other.
    let written = unsafe { libc::process_vm_writev(libc::getpid(), &local, 1, &remote, 1, 0) };
    // SAFETY: as above.
    whole(written, length, || unsafe {
        std::ptr::copy_nonoverlapping(from, address as *mut u8, length);
    })
}

/// Whether a range can be read, and for a receive written: `EFAULT` if not. Its bytes stay what
/// they are, and nobody else may be changing them: the range belongs to the call.
pub(crate) fn check(address: usize, length: usize, used: Use) -> Result<()> {
    let last = address
        .checked_add(length.max(1) - 1)
        .ok_or(Errno(libc::EFAULT))?;

    // One byte of each page.
    let places: Vec<usize> = std::iter::once(address)
        .chain((address / PAGE + 1..=last / PAGE).map(|page| page * PAGE))
        .collect();
    for places in places.chunks(64) {
        let mut bytes = [0_u8; 64];
        let remote: Vec<_> = places.iter().map(|place| iovec(*place, 1)).collect();
        let local = iovec(bytes.as_mut_ptr() as usize, places.len());
        let (pieces, process) = (remote.len() as libc::c_ulong, std::process::id() as i32);
        // SAFETY: the local range is ours; the kernel checks the others.
        let read =
            unsafe { libc::process_vm_readv(process, &local, 1, remote.as_ptr(), pieces, 0) };
        whole(read, places.len(), || ())?;
        if used == Use::Receive && read > 0 {
            // SAFETY: as above; the bytes are those that were there.
            let written =
                unsafe { libc::process_vm_writev(process, &local, 1, remote.as_ptr(), pieces, 0) };
            whole(written, places.len(), || ())?;
        }
    }

    Ok(())
}

fn iovec(base: usize, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: base as *mut _,
        iov_len: length,
    }
}

fn whole(done: isize, wanted: usize, otherwise: impl FnOnce()) -> Result<()> {
    match done {
        done if done == wanted as isize => Ok(()),
        -1 => match Errno::last() {
            // Sandboxes may forbid the call.
            Errno(libc::ENOSYS | libc::EPERM) => {
                otherwise();
                Ok(())
            }
            error => Err(error),
        },
        _ => Err(Errno(libc::EFAULT)),
    }
}

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
            _ => check(self.address, self.length, Use::Send),
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

    fn covers(&self, address: usize, length: usize) -> bool {
        address >= self.address
            && address
                .checked_add(length)
                .is_some_and(|end| end <= self.address + self.length)
    }
}

/// Whether there is memory at a range, whatever its protection.
fn mapped(address: usize, length: usize) -> bool {
    // SAFETY: asks the system for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize;
    let start = address / page * page;
    let pages = (address + length - start).div_ceil(page);
    let mut residence = vec![0_u8; pages];
    // SAFETY: the vector has a byte for each page.
    unsafe { libc::mincore(start as *mut _, pages * page, residence.as_mut_ptr()) == 0 }
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
}

impl Buffer {
    /// Memory that is registered already by ourselves.
    pub(crate) fn of_region(address: usize, length: usize, region: &Arc<Mr>) -> Self {
        Self {
            address,
            length,
            region: Some(Arc::clone(region)),
            _registered: None,
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
        };

        if let Some(memory) = registered {
            let barred = match used {
                Use::Send => EXS_MRF_SEND_DISABLE,
                Use::Receive => EXS_MRF_RECV_DISABLE,
            };
            if !memory.covers(address, length) {
                return Err(Errno(libc::EINVAL));
            }
            if memory.flags & barred != 0 {
                return Err(Errno(libc::EACCES));
            }
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

    /// The application's, to be copied through messages whatever its size.
    pub(crate) fn copied(address: usize, length: usize) -> Result<Self> {
        check(address, length, Use::Send)?;
        Ok(Self {
            address,
            length,
            region: None,
            _registered: None,
        })
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
    fn memory_that_is_not_there_is_a_fault() {
        let bytes = [1_u8, 2, 3];
        assert_eq!(read_bytes(bytes.as_ptr() as usize, 3), Ok(vec![1, 2, 3]));
        assert_eq!(read_bytes(8, 3), Err(Errno(libc::EFAULT)));
        let mut place = [0_u8; 3];
        assert_eq!(write_bytes(place.as_mut_ptr() as usize, &bytes), Ok(()));
        assert_eq!(place, bytes);
        assert_eq!(write_bytes(16, &bytes), Err(Errno(libc::EFAULT)));
        let far = vec![b'x'; PAGE + 10];
        let text = [&far[..], b"\0rest"].concat();
        assert_eq!(
            read_string(text.as_ptr() as usize, text.len()),
            Ok(far.clone())
        );

        assert_eq!(
            read_string(text.as_ptr() as usize, PAGE),
            Err(Errno(libc::ENAMETOOLONG))
        );

        assert_eq!(read_string(8, PAGE), Err(Errno(libc::EFAULT)));

        // There, but not to be written.
        static CONSTANT: [u8; 3] = [0; 3];

        assert_eq!(
            write_bytes(CONSTANT.as_ptr() as usize, &bytes),
            Err(Errno(libc::EFAULT))
        );

        assert!(mapped(CONSTANT.as_ptr() as usize, 3));
        assert!(!mapped(4096, 3));
        let fault = Err(Errno(libc::EFAULT));
        let mut large = vec![7_u8; 300_000];
        assert_eq!(
            check(large.as_mut_ptr() as usize, 300_000, Use::Receive),
            Ok(())
        );

        assert!(large.iter().all(|byte| *byte == 7));
        assert_eq!(check(CONSTANT.as_ptr() as usize, 3, Use::Send), Ok(()));
        assert_eq!(check(CONSTANT.as_ptr() as usize, 3, Use::Receive), fault);
        assert_eq!(check(16, 3, Use::Send), fault);
        assert_eq!(check(usize::MAX - 2, 30, Use::Send), fault);
    }
}
