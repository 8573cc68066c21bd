//! A host's memory: bytes, and the regions that say who may touch which of them.

use crate::rng::Rng;
use ferroce_transport::{Access, MemoryError, Sge, WindowBind};
use std::collections::BTreeMap;
use std::ops::Range;

/// Address of the first byte.
pub const BASE: u64 = 0x7f12_3400_0000;
/// Bytes between buffers that nobody may touch.
const GUARD: usize = 24;

/// A registered region.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Start address.
    pub va: u64,
    /// Bytes.
    pub len: u64,
    /// Rights.
    pub access: Access,
    /// Cleared when the key is invalidated.
    pub valid: bool,
    /// Protection domain.
    pub pd: u32,
}

/// A buffer with a region of its own. `key` is its local and remote key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Start address.
    pub va: u64,
    /// Bytes.
    pub len: u32,
    /// Key of the region, which covers just the buffer.
    pub key: u32,
}

impl Buffer {
    /// As a scatter/gather element.
    pub fn sge(&self) -> Sge {
        Sge {
            addr: self.va,
            length: self.len,
            lkey: self.key,
        }
    }
}

/// Bytes and regions.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The bytes, from [`BASE`] on.
    pub bytes: Vec<u8>,
    /// The regions; a key is made from the index.
    pub regions: Vec<Region>,
    /// Bound memory windows of type 2, by remote key.
    pub windows: BTreeMap<u32, Region>,
    /// Shared receive queues of XRC domains, and the protection domain of each.
    pub srqs: BTreeMap<u32, u32>,
    /// Protection domain of what is registered from now on.
    pub pd: u32,
}

impl Memory {
    fn index(key: u32) -> Option<usize> {
        let k = key.checked_sub(0x105)?;
        k.is_multiple_of(8).then_some((k / 8) as usize)
    }

    /// Registers `len` bytes at `va`, which need not exist.
    pub fn register(&mut self, va: u64, len: u64, access: Access) -> u32 {
        self.regions.push(Region {
            va,
            len,
            access,
            valid: true,
            pd: self.pd,
        });
        0x105 + 8 * (self.regions.len() as u32 - 1)
    }

    /// A new buffer (8-byte aligned) filled with random bytes.
    pub fn alloc(&mut self, len: u32, access: Access, rng: &mut Rng) -> Buffer {
        let start = (self.bytes.len() + GUARD).next_multiple_of(8);
        let more = start + len as usize - self.bytes.len();
        self.bytes.extend_from_slice(&rng.bytes(more));
        let va = BASE + start as u64;
        let key = self.register(va, u64::from(len), access);
        Buffer { va, len, key }
    }

    /// The region of a key.
    pub fn region(&self, key: u32) -> Option<&Region> {
        match Memory::index(key).and_then(|i| self.regions.get(i)) {
            Some(region) => Some(region),
            None => self.windows.get(&key),
        }
    }

    /// Binds a window of type 2, under a key that is not in use.
    pub fn bind(&mut self, bind: &WindowBind) -> Result<(), MemoryError> {
        let region = *self
            .region(bind.lkey)
            .filter(|r| r.valid)
            .ok_or(MemoryError::Key)?;
        if !region.access.contains(Access::MW_BIND) {
            return Err(MemoryError::Rights);
        }
        if self.region(bind.rkey).is_some_and(|r| r.valid) {
            return Err(MemoryError::Key);
        }

        let end = bind.addr.checked_add(bind.len);
        if bind.addr < region.va || end.is_none_or(|end| end > region.va + region.len) {
            return Err(MemoryError::Bounds);
        }

        let window = Region {
            va: bind.addr,
            len: bind.len,
            access: bind.access,
            ..region
        };
        self.windows.insert(bind.rkey, window);
        Ok(())
    }

    /// Makes a key invalid.
    pub fn invalidate(&mut self, key: u32) -> Result<(), MemoryError> {
        let region = match Memory::index(key).and_then(|i| self.regions.get_mut(i)) {
            Some(region) => Some(region),
            None => self.windows.get_mut(&key),
        };
        let region = region.filter(|r| r.valid).ok_or(MemoryError::Key)?;
        region.valid = false;
        Ok(())
    }

    /// As [`range`](Self::range), if the key is of the protection domain `pd`.
    pub fn range_in(
        &self,
        pd: u32,
        key: u32,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<Range<usize>, MemoryError> {
        if self.region(key).is_some_and(|r| r.pd != pd) {
            return Err(MemoryError::Key);
        }
        self.range(key, va, len, access)
    }

    /// The bytes of a READ response for the shared receive queue `srq` (0: none).
    pub fn response(
        &self,
        srq: u32,
        key: u32,
        va: u64,
        len: u32,
    ) -> Result<Range<usize>, MemoryError> {
        let pd = match srq {
            0 => 0,
            srq => *self.srqs.get(&srq).ok_or(MemoryError::Key)?,
        };
        self.range_in(pd, key, va, u64::from(len), Access::REMOTE_READ)
    }

    /// The bytes that `access` to `len` bytes at `va` under `key` touches.
    pub fn range(
        &self,
        key: u32,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<Range<usize>, MemoryError> {
        let region = self
            .region(key)
            .filter(|r| r.valid)
            .ok_or(MemoryError::Key)?;
        if !region.access.contains(access) {
            return Err(MemoryError::Rights);
        }

        let inside = va >= region.va
            && va
                .checked_add(len)
                .is_some_and(|end| end <= region.va + region.len);
        if !inside {
            return Err(MemoryError::Bounds);
        }

        let start = (va - BASE) as usize;
        let range = start..start + len as usize;
        if range.end > self.bytes.len() {
            Err(MemoryError::Fault)
        } else {
            Ok(range)
        }
    }

    /// Where `len` bytes at `offset` of a list's concatenation lie.
    pub fn pieces(
        &self,
        sges: &[Sge],
        offset: u32,
        len: u32,
        access: Access,
    ) -> Result<Vec<Range<usize>>, MemoryError> {
        let (mut skip, mut left) = (u64::from(offset), u64::from(len));
        let mut pieces = Vec::with_capacity(sges.len());
        for sge in sges {
            let length = u64::from(sge.length);
            if skip >= length {
                skip -= length;
                continue;
            }
            let n = (length - skip).min(left);
            if n > 0 {
                pieces.push(self.range(sge.lkey, sge.addr + skip, n, access)?);
            }
            left -= n;
            skip = 0;
        }

        assert_eq!(left, 0, "the transport went past the end of a list");
        Ok(pieces)
    }

    /// The bytes of a list.
    pub fn gather(&self, sges: &[Sge]) -> Vec<u8> {
        let mut out = Vec::new();
        for sge in sges {
            let start = (sge.addr - BASE) as usize;
            out.extend_from_slice(&self.bytes[start..start + sge.length as usize]);
        }
        out
    }

    /// The bytes at an address.
    pub fn at(&self, va: u64, len: usize) -> &[u8] {
        let start = (va - BASE) as usize;
        &self.bytes[start..start + len]
    }

    /// Writes bytes at an address, whatever the regions say.
    pub fn put(&mut self, va: u64, data: &[u8]) {
        let start = (va - BASE) as usize;
        self.bytes[start..start + data.len()].copy_from_slice(data);
    }
}
