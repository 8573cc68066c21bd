//! Memory regions: registration checks, the key table, and the copies into and out of registered memory.
//!
//! Everything that touches the consumer's memory goes through [`KeyTable`]: a key is looked up, its protection domain,
//! bounds and rights are checked, and only then is an address formed.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use ferroce_transport::{Access, MemoryError, Sge};

use crate::error::{Error, Result};
use crate::guard::{self, Fault};
use crate::limits;

/// One registered range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    /// Where the range begins in this process.
    pub(crate) addr: u64,
    /// The address that peers and work requests use for `addr`.
    pub(crate) iova: u64,
    pub(crate) len: u64,
    pub(crate) access: Access,
    /// Handle of the protection domain.
    pub(crate) pd: u32,
}

impl Region {
    /// The process address of `[va, va + len)`, if it lies inside.
    fn resolve(&self, va: u64, len: u64) -> Result<u64, MemoryError> {
        let offset = va.checked_sub(self.iova).ok_or(MemoryError::Bounds)?;
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(self.addr + offset),
            _ => Err(MemoryError::Bounds),
        }
    }
}

/// Keys are random already: hashing them again would only cost time.
#[derive(Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = self.0 << 8 | u64::from(b);
        }
    }
    fn write_u32(&mut self, key: u32) {
        // hashbrown takes its control bits from the top: spread the key over both halves
        self.0 = u64::from(key) << 32 | u64::from(key);
    }
}

/// All regions of a device in this process, by key (a region's lkey and rkey are the same number).
#[derive(Default)]
pub(crate) struct KeyTable {
    regions: HashMap<u32, Region, BuildHasherDefault<KeyHasher>>,
}

impl KeyTable {
    pub(crate) fn insert(&mut self, region: Region) -> Result<u32> {
        if self.regions.len() >= limits::MAX_MR as usize {
            return Err(Error::Full("memory regions"));
        }
        // 0 is what an uninitialised key looks like, and is never given out.
        let key = loop {
            let key: u32 = rand::random();
            if key != 0 && !self.regions.contains_key(&key) {
                break key;
            }
        };
        self.regions.insert(key, region);
        Ok(key)
    }

    pub(crate) fn region(&self, key: u32) -> Option<Region> {
        self.regions.get(&key).copied()
    }

    pub(crate) fn region_mut(&mut self, key: u32) -> Option<&mut Region> {
        self.regions.get_mut(&key)
    }

    pub(crate) fn remove(&mut self, key: u32) {
        self.regions.remove(&key);
    }

    fn find(&self, pd: u32, key: u32, access: Access) -> Result<&Region, MemoryError> {
        let region = self
            .regions
            .get(&key)
            .filter(|r| r.pd == pd)
            .ok_or(MemoryError::Key)?;
        if !region.access.contains(access) {
            return Err(MemoryError::Rights);
        }
        Ok(region)
    }

    /// The process address of a range, if key, domain, rights and bounds allow it.
    pub(crate) fn resolve(
        &self,
        pd: u32,
        key: u32,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<u64, MemoryError> {
        self.find(pd, key, access)?.resolve(va, len)
    }

    /// Checks every element of a local list.
    pub(crate) fn check_list(
        &self,
        pd: u32,
        sges: &[Sge],
        access: Access,
    ) -> Result<(), MemoryError> {
        sges.iter().filter(|s| s.length != 0).try_for_each(|s| {
            self.resolve(pd, s.lkey, s.addr, s.length.into(), access)
                .map(drop)
        })
    }

    /// Calls `f` with the process address and length of each piece of `[offset, offset + len)` of a list's concatenation.
    pub(crate) fn pieces(
        &self,
        pd: u32,
        sges: &[Sge],
        mut offset: u32,
        mut len: u32,
        access: Access,
        mut f: impl FnMut(u64, usize) -> Result<(), MemoryError>,
    ) -> Result<(), MemoryError> {
        for sge in sges {
            if len == 0 {
                break;
            }
            if offset >= sge.length {
                offset -= sge.length;
                continue;
            }
            let take = (sge.length - offset).min(len);
            let base = self.resolve(pd, sge.lkey, sge.addr, sge.length.into(), access)?;
            f(base + u64::from(offset), take as usize)?;
            len -= take;
            offset = 0;
        }
        if len == 0 {
            Ok(())
        } else {
            Err(MemoryError::Bounds)
        }
    }
}

/// Copies `src` to registered memory in address order and publishes its end last.
///
/// Programs poll the last byte (or an aligned last word) of an incoming message, so it becomes visible after everything before it.
///
/// # Safety
/// `[dst, dst + src.len())` is in a registered region.
pub(crate) unsafe fn place(dst: u64, src: &[u8]) -> Result<(), MemoryError> {
    let n = src.len();
    let end = dst + n as u64;
    let tail = match n {
        0 => return Ok(()),
        _ if n >= 8 && end.is_multiple_of(8) => 8,
        _ if n >= 4 && end.is_multiple_of(4) => 4,
        _ if n >= 2 && end.is_multiple_of(2) => 2,
        _ => 1,
    };
    let (body, last) = src.split_at(n - tail);
    let mut value = [0; 8];
    value[..tail].copy_from_slice(last);
    // SAFETY: the caller vouches for the destination; `src` is the receive buffer, which is not registered. The tail's
    // address is aligned to its size by the choice above.
    unsafe {
        guard::copy(dst as *mut u8, body.as_ptr(), body.len())?;
        guard::publish(
            (end - tail as u64) as *mut u8,
            u64::from_le_bytes(value),
            tail,
        )?;
    }
    Ok(())
}

impl From<Fault> for MemoryError {
    fn from(_: Fault) -> MemoryError {
        MemoryError::Fault
    }
}

/// Whether an atomic operation can be done at a process address: one in an MR whose I/O virtual address is aligned may not be.
pub(crate) fn atomic_cell(addr: u64) -> Result<*mut u64, MemoryError> {
    if addr.is_multiple_of(8) {
        Ok(addr as *mut u64)
    } else {
        Err(MemoryError::Fault)
    }
}

/// Verifies that a range is mapped (and writable, if `write`), and faults its pages in as pinning would.
pub(crate) fn validate(addr: u64, len: u64, write: bool) -> Result<()> {
    let bad = Error::BadMemory { addr, len };
    if len == 0 {
        return Ok(());
    }
    let Some(end) = addr.checked_add(len) else {
        return Err(bad);
    };
    // SAFETY: sysconf has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let start = addr & !(page - 1);
    let Some(stop) = end.checked_next_multiple_of(page) else {
        return Err(bad);
    };
    let advice = if write {
        libc::MADV_POPULATE_WRITE
    } else {
        libc::MADV_POPULATE_READ
    };
    // SAFETY: populating changes no content; the kernel checks the range.
    if unsafe { libc::madvise(start as *mut _, (stop - start) as usize, advice) } == 0 {
        return Ok(());
    }
    match std::io::Error::last_os_error().raw_os_error() {
        // Before Linux 5.14, or a mapping that cannot be populated (device memory): ask the map itself.
        Some(libc::EINVAL) if mapped(start, stop, write) => Ok(()),
        _ => Err(bad),
    }
}

/// Whether `/proc/self/maps` shows all of `[start, stop)` readable (and writable, if `write`).
fn mapped(start: u64, stop: u64, write: bool) -> bool {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        return false;
    };
    let mut need = start;
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(perms)) = (words.next(), words.next()) else {
            continue;
        };
        let Some((lo, hi)) = range.split_once('-') else {
            continue;
        };
        let (Ok(lo), Ok(hi)) = (u64::from_str_radix(lo, 16), u64::from_str_radix(hi, 16)) else {
            continue;
        };
        if hi <= need {
            continue;
        }
        if lo > need || !perms.starts_with('r') || (write && perms.as_bytes().get(1) != Some(&b'w'))
        {
            return false;
        }
        need = hi;
        if need >= stop {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(len: u64) -> (KeyTable, u32) {
        let mut t = KeyTable::default();
        let region = Region {
            addr: 0x1000,
            iova: 0x9000,
            len,
            access: Access::REMOTE_READ,
            pd: 7,
        };
        let key = t.insert(region).unwrap();
        (t, key)
    }

    #[test]
    fn bounds_rights_and_domain_are_checked() {
        let (t, k) = table(100);
        assert_eq!(
            t.resolve(7, k, 0x9000, 100, Access::REMOTE_READ),
            Ok(0x1000)
        );
        assert_eq!(t.resolve(7, k, 0x9064, 0, Access::REMOTE_READ), Ok(0x1064));
        assert_eq!(
            t.resolve(7, k, 0x9001, 100, Access::REMOTE_READ),
            Err(MemoryError::Bounds)
        );
        assert_eq!(
            t.resolve(7, k, 0x8fff, 1, Access::REMOTE_READ),
            Err(MemoryError::Bounds)
        );
        assert_eq!(
            t.resolve(7, k, u64::MAX, 2, Access::REMOTE_READ),
            Err(MemoryError::Bounds)
        );
        assert_eq!(
            t.resolve(7, k, 0x9000, u64::MAX, Access::REMOTE_READ),
            Err(MemoryError::Bounds)
        );
        assert_eq!(
            t.resolve(7, k, 0x9000, 1, Access::REMOTE_WRITE),
            Err(MemoryError::Rights)
        );
        assert_eq!(
            t.resolve(8, k, 0x9000, 1, Access::REMOTE_READ),
            Err(MemoryError::Key)
        );
        assert_eq!(
            t.resolve(7, !k, 0x9000, 1, Access::REMOTE_READ),
            Err(MemoryError::Key)
        );
    }

    #[test]
    fn pieces_cover_a_window_of_a_list() {
        let (t, k) = table(100);
        let sges = [
            Sge {
                addr: 0x9000,
                length: 10,
                lkey: k,
            },
            Sge {
                addr: 0x9020,
                length: 0,
                lkey: 0,
            },
            Sge {
                addr: 0x9030,
                length: 20,
                lkey: k,
            },
        ];
        let mut got = Vec::new();
        t.pieces(7, &sges, 4, 16, Access::empty(), |a, n| {
            got.push((a, n));
            Ok(())
        })
        .unwrap();
        assert_eq!(got, [(0x1004, 6), (0x1030, 10)]);
        assert_eq!(
            t.pieces(7, &sges, 20, 11, Access::empty(), |_, _| Ok(())),
            Err(MemoryError::Bounds)
        );
    }

    #[test]
    fn place_copies_every_length_and_alignment() {
        let src: Vec<u8> = (1..=64).collect();
        for start in 0..16 {
            for len in 0..=40 {
                let mut dst = [0u64; 16];
                let base = dst.as_mut_ptr() as u64;
                // SAFETY: 16 + 40 bytes fit the 128 of `dst`.
                unsafe { place(base + start, &src[..len]) }.unwrap();
                let bytes: Vec<u8> = dst.iter().flat_map(|w| w.to_ne_bytes()).collect();
                assert_eq!(&bytes[start as usize..start as usize + len], &src[..len]);
                assert!(
                    bytes[..start as usize]
                        .iter()
                        .chain(&bytes[start as usize + len..])
                        .all(|b| *b == 0)
                );
            }
        }
    }

    #[test]
    fn validate_tells_unmapped_and_read_only_memory() {
        // SAFETY: a fresh anonymous mapping of two pages, of which the second is unmapped again.
        let p = unsafe {
            let p = libc::mmap(
                std::ptr::null_mut(),
                8192,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(p, libc::MAP_FAILED);
            libc::munmap(p.add(4096), 4096);
            p as u64
        };
        assert!(validate(p, 4096, false).is_ok());
        assert_eq!(validate(p, 4096, true).unwrap_err().errno(), libc::EFAULT);
        assert_eq!(validate(p, 4097, false).unwrap_err().errno(), libc::EFAULT);
        assert_eq!(
            validate(u64::MAX - 5, 100, false).unwrap_err().errno(),
            libc::EFAULT
        );
        assert!(
            mapped(p, p + 4096, false) && !mapped(p, p + 4096, true) && !mapped(p, p + 8192, false)
        );
    }
}
