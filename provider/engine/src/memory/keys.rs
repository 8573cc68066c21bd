//! The key table: every access to the consumer's memory finds its address here, or is refused.
//!
//! A key is looked up, its protection domain, bounds and rights are checked, and only then is an
//! address formed. A key is 32 random bits; its upper 24 are an index that no two regions and
//! windows of a device share, and the lower 8 belong to whoever binds a window (`ibv_inc_rkey(3)`).
//! So a lookup is one probe by the index and one comparison of the whole key.
//!
//! This module touches no memory of the consumer's; the copies are in [`crate::memory::copies`].

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_control::random::random;
use ferroce_transport::{Access, MemoryError, Sge};

use crate::error::{Error, Result};
use crate::memory::copies;
pub(crate) use crate::memory::piece::{Peer, Piece};
use crate::memory::window::Window;
use crate::verbs::limits;

/// Bits of a key that whoever binds a window chooses.
pub(super) const TAG_BITS: u32 = 8;

/// The part of a key that names a region or window.
pub(crate) fn index(key: u32) -> u32 {
    key >> TAG_BITS
}

/// One registered range.
#[derive(Debug, Default)]
pub(crate) struct Region {
    /// Local and remote key, which are the same number.
    pub(crate) key: u32,
    /// Handle of the protection domain.
    pub(crate) pd: u32,
    pub(crate) access: Access,
    /// Discards what is written and reads as zero; no memory belongs to it.
    pub(crate) null: bool,
    /// Where the range begins in this process.
    pub(crate) addr: u64,
    /// The address that peers and work requests use for `addr`.
    pub(crate) iova: u64,
    pub(crate) len: u64,
    /// Windows bound to it.
    pub(crate) windows: AtomicU32,
}

impl Region {
    /// The process address of `[va, va + len)`, if it lies inside.
    pub(crate) fn resolve(&self, va: u64, len: u64) -> Result<u64, MemoryError> {
        let offset = va.checked_sub(self.iova).ok_or(MemoryError::Bounds)?;
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(self.addr + offset),
            _ => Err(MemoryError::Bounds),
        }
    }

    /// Do the region's rights cover the access (C10-57)?
    fn check(&self, access: Access) -> Result<(), MemoryError> {
        if self.access.contains(access) {
            Ok(())
        } else {
            Err(MemoryError::Rights)
        }
    }

    /// Pages may come and go under it: what is sent must be copied, not referred to.
    pub(crate) fn fleeting(&self) -> bool {
        self.access.contains(Access::ON_DEMAND)
    }
}

enum Entry {
    Region(Region),
    Window(Box<Window>),
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
    fn write_u32(&mut self, index: u32) {
        // hashbrown takes its control bits from the top: the 24 bits of an index go there and to
        // the bottom
        self.0 = u64::from(index) << 40 | u64::from(index);
    }
}

/// All regions and windows of a device in this process.
#[derive(Default)]
pub(crate) struct KeyTable {
    entries: HashMap<u32, Entry, BuildHasherDefault<KeyHasher>>,
    regions: u32,
    /// Indexes of the windows.
    windows: HashSet<u32, BuildHasherDefault<KeyHasher>>,
}

impl KeyTable {
    /// A key whose index is free. 0 is what an uninitialised key looks like, and no key has index
    /// 0.
    fn free_key(&self) -> u32 {
        loop {
            let key: u32 = random();
            if index(key) != 0 && !self.entries.contains_key(&index(key)) {
                return key;
            }
        }
    }

    /// Enters a region and returns its new key.
    pub(crate) fn insert(&mut self, mut region: Region) -> Result<u32> {
        if self.regions >= limits::MAX_MR {
            return Err(Error::Full("memory regions"));
        }
        region.key = self.free_key();
        let key = region.key;
        self.entries.insert(index(key), Entry::Region(region));
        self.regions += 1;
        Ok(key)
    }

    /// Enters an unbound window and returns the key that it has until it is bound.
    pub(crate) fn insert_window(&mut self, make: impl FnOnce(u32) -> Window) -> Result<u32> {
        if self.windows.len() >= limits::MAX_MW as usize {
            return Err(Error::Full("memory windows"));
        }
        let key = self.free_key();
        let window = Box::new(make(key));
        self.entries.insert(index(key), Entry::Window(window));
        self.windows.insert(index(key));
        Ok(key)
    }

    pub(crate) fn region(&self, key: u32) -> Option<&Region> {
        match self.entries.get(&index(key)) {
            Some(Entry::Region(region)) if region.key == key => Some(region),
            _ => None,
        }
    }

    pub(crate) fn region_mut(&mut self, key: u32) -> Option<&mut Region> {
        match self.entries.get_mut(&index(key)) {
            Some(Entry::Region(region)) if region.key == key => Some(region),
            _ => None,
        }
    }

    /// The window of this index.
    pub(crate) fn window(&self, index: u32) -> Option<&Window> {
        match self.entries.get(&index) {
            Some(Entry::Window(window)) => Some(window),
            _ => None,
        }
    }

    /// Ends a region (`EBUSY` while windows are bound to it).
    pub(crate) fn remove(&mut self, key: u32) -> Result<()> {
        if let Some(region) = self.region(key) {
            if region.windows.load(Ordering::Relaxed) != 0 {
                return Err(Error::Busy("a memory region with windows bound to it"));
            }
            self.entries.remove(&index(key));
            self.regions -= 1;
        }
        Ok(())
    }

    /// Ends a window, bound or not.
    pub(crate) fn remove_window(&mut self, index: u32) {
        if let Some(window) = self.window(index) {
            window.unbind(self);
            self.entries.remove(&index);
            self.windows.remove(&index);
        }
    }

    /// A queue pair ends, and with it the binds of type 2 windows to it.
    pub(crate) fn forget_qp(&self, qpn: u32) {
        for window in self.windows.iter().filter_map(|w| self.window(*w)) {
            window.forget_qp(self, qpn);
        }
    }

    /// Whether [`forget_qp`](Self::forget_qp) has anything to look at.
    pub(crate) fn has_windows(&self) -> bool {
        !self.windows.is_empty()
    }

    /// The region that a local key names, if domain and rights allow `access`.
    pub(crate) fn local(&self, pd: u32, key: u32, access: Access) -> Result<&Region, MemoryError> {
        let region = self
            .region(key)
            .filter(|r| r.pd == pd)
            .ok_or(MemoryError::Key)?;
        region.check(access)?;
        Ok(region)
    }

    /// Does `f` with the memory that a remote key names, if key, domain, rights and bounds allow
    /// `access`. A window stays bound as it is until `f` has returned.
    #[inline]
    pub(crate) fn remote<R>(
        &self,
        peer: Peer,
        key: u32,
        va: u64,
        len: u64,
        access: Access,
        f: impl FnOnce(Piece) -> Result<R, MemoryError>,
    ) -> Result<R, MemoryError> {
        match self.entries.get(&index(key)) {
            Some(Entry::Region(region)) if region.key == key && region.pd == peer.pd => {
                region.check(access)?;
                f(Piece {
                    addr: region.resolve(va, len)?,
                    len: len as usize,
                    fleeting: region.fleeting(),
                })
            }
            Some(Entry::Window(window)) => window.access(peer, key, va, len, access, f),
            _ => Err(MemoryError::Key),
        }
    }

    /// All that a remote key gives access to: its first address, as peers name it, and its length
    /// in bytes.
    pub(crate) fn extent(&self, peer: Peer, key: u32) -> Result<(u64, u64), MemoryError> {
        match self.entries.get(&index(key)) {
            Some(Entry::Region(region)) if region.key == key && region.pd == peer.pd => {
                Ok((region.iova, region.len))
            }
            Some(Entry::Window(window)) => window.extent(peer, key),
            _ => Err(MemoryError::Key),
        }
    }

    /// Checks every element of a local list.
    pub(crate) fn check_list(
        &self,
        pd: u32,
        sges: &[Sge],
        access: Access,
    ) -> Result<(), MemoryError> {
        sges.iter().filter(|s| s.length != 0).try_for_each(|s| {
            self.local(pd, s.lkey, access)?
                .resolve(s.addr, s.length.into())
                .map(drop)
        })
    }

    /// Calls `f` with each piece of `[offset, offset + len)` of a list's concatenation.
    pub(crate) fn pieces(
        &self,
        pd: u32,
        sges: &[Sge],
        mut offset: u32,
        mut len: u32,
        access: Access,
        mut f: impl FnMut(Piece) -> Result<(), MemoryError>,
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
            let region = self.local(pd, sge.lkey, access)?;
            let base = region.resolve(sge.addr, sge.length.into())?;
            if region.null {
                copies::null_pieces(take as usize, access, &mut f)?;
            } else {
                f(Piece {
                    addr: base + u64::from(offset),
                    len: take as usize,
                    fleeting: region.fleeting(),
                })?;
            }

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

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
