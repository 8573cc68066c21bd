//! The tables of one loaded object: the slots through which it calls functions of others. Nothing
//! that is read there is believed: what does not lie within the object as its program headers have
//! it, or is of another kind than expected, ends the attempt before anything is changed.

use libc::{Elf64_Phdr, PROT_READ, PROT_WRITE, c_int, c_void, dl_phdr_info};
use std::ffi::CStr;
use std::mem::size_of;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Entries of the dynamic section (`elf.h`).
const DT_NULL: u64 = 0;
const DT_PLTRELSZ: u64 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_RELAENT: u64 = 9;
const DT_STRSZ: u64 = 10;
const DT_SYMENT: u64 = 11;
const DT_PLTREL: u64 = 20;
const DT_JMPREL: u64 = 23;

/// Relocations by which a slot holds a function's address: of a table of procedures, and of one of
/// addresses (`-fno-plt`).
#[cfg(target_arch = "x86_64")]
const JUMP_SLOT: u32 = 7;
#[cfg(target_arch = "x86_64")]
const GLOB_DAT: u32 = 6;
#[cfg(target_arch = "aarch64")]
const JUMP_SLOT: u32 = 1026;
#[cfg(target_arch = "aarch64")]
const GLOB_DAT: u32 = 1025;

/// The longest name of a function that the shim has, and some more.
const NAME_MAX: usize = 64;

/// What belongs into the slot of a function of that name; `None`: what is there.
pub(super) type Find = fn(&[u8]) -> Option<*mut c_void>;

/// A word of the dynamic section.
#[repr(C)]
#[derive(Clone, Copy)]
struct Dynamic {
    tag: u64,
    value: u64,
}

/// `Elf64_Rela`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// `Elf64_Sym`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// An object as it lies in memory.
pub(super) struct Object<'a> {
    base: usize,
    headers: &'a [Elf64_Phdr],
}

/// What of its dynamic section is of use.
#[derive(Default)]
struct Tables {
    symbols: usize,
    names: usize,
    names_len: usize,
    /// Where relocations are, and how many bytes of them.
    relocations: [(usize, usize); 2],
}

impl<'a> Object<'a> {
    /// What `dl_iterate_phdr` tells of.
    ///
    /// # Safety
    /// It is loaded, and stays so for as long as this lives.
    pub(super) unsafe fn new(info: &'a dl_phdr_info) -> Result<Self, &'static CStr> {
        if info.dlpi_phdr.is_null() {
            return Err(c"it has no program headers");
        }
        // SAFETY: as many headers as it says, of an object that stays loaded.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        Ok(Self {
            base: info.dlpi_addr as usize,
            headers,
        })
    }

    /// Puts the functions that `find` has for a name into its slots. Returns how many are new.
    pub(super) fn put(&self, find: Find) -> Result<u32, &'static CStr> {
        let tables = self.tables()?;
        let mut slots = 0;
        // Looked through once before anything is changed.
        for change in [false, true] {
            for (start, len) in tables.relocations {
                for at in (start..start.saturating_add(len)).step_by(size_of::<Relocation>()) {
                    let relocation: Relocation = self.read(at).ok_or(c"relocations lie outside")?;
                    let Some(ours) = self.wanted(&tables, &relocation, find)? else {
                        continue;
                    };
                    let slot = self.slot(&relocation)?;
                    if change && self.replace(slot, ours)? {
                        slots += 1;
                    }
                }
            }
        }
        Ok(slots)
    }

    /// Whether all these bytes are in a segment of the object, with these rights.
    fn has(&self, at: usize, len: usize, rights: u32) -> bool {
        self.headers.iter().any(|header| {
            let start = self.base.wrapping_add(header.p_vaddr as usize);
            let offset = at.wrapping_sub(start);
            let room = (header.p_memsz as usize).checked_sub(offset);
            header.p_type == libc::PT_LOAD
                && header.p_flags & rights == rights
                && room.is_some_and(|room| room >= len)
        })
    }

    fn read<T: Copy>(&self, at: usize) -> Option<T> {
        self.has(at, size_of::<T>(), libc::PF_R).then(|| {
            // SAFETY: within a readable segment; the types read here are integers.
            unsafe { (at as *const T).read_unaligned() }
        })
    }

    /// An address in the dynamic section: glibc has made it one of memory, musl leaves it one of
    /// the file.
    fn address(&self, value: u64) -> usize {
        let value = value as usize;
        match self.has(value, 1, libc::PF_R) {
            true => value,
            false => self.base.wrapping_add(value),
        }
    }

    fn tables(&self) -> Result<Tables, &'static CStr> {
        let header = self.headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC);
        let header = header.ok_or(c"it has no dynamic section")?;
        let start = self.base.wrapping_add(header.p_vaddr as usize);
        let mut tables = Tables::default();
        for n in 0..header.p_memsz as usize / size_of::<Dynamic>() {
            let at = start.wrapping_add(n * size_of::<Dynamic>());
            let entry: Dynamic = self.read(at).ok_or(c"the dynamic section lies outside")?;
            match entry.tag {
                DT_NULL => break,
                DT_SYMTAB => tables.symbols = self.address(entry.value),
                DT_STRTAB => tables.names = self.address(entry.value),
                DT_STRSZ => tables.names_len = entry.value as usize,
                DT_JMPREL => tables.relocations[0].0 = self.address(entry.value),
                DT_PLTRELSZ => tables.relocations[0].1 = entry.value as usize,
                DT_RELA => tables.relocations[1].0 = self.address(entry.value),
                DT_RELASZ => tables.relocations[1].1 = entry.value as usize,
                DT_PLTREL if entry.value != DT_RELA => {
                    return Err(c"its relocations are of another kind");
                }
                DT_RELAENT if entry.value as usize != size_of::<Relocation>() => {
                    return Err(c"its relocations have another size");
                }
                DT_SYMENT if entry.value as usize != size_of::<Symbol>() => {
                    return Err(c"its symbols have another size");
                }
                _ => {}
            }
        }

        match tables.symbols != 0 && self.has(tables.names, tables.names_len, libc::PF_R) {
            true => Ok(tables),
            false => Err(c"it has no symbols"),
        }
    }

    /// What belongs into the slot of a relocation; `None`: it is none of ours.
    fn wanted(
        &self,
        tables: &Tables,
        relocation: &Relocation,
        find: Find,
    ) -> Result<Option<*mut c_void>, &'static CStr> {
        let (kind, index) = (relocation.info as u32, (relocation.info >> 32) as usize);
        if !matches!(kind, JUMP_SLOT | GLOB_DAT) || index == 0 {
            return Ok(None);
        }

        let at = tables.symbols.wrapping_add(index * size_of::<Symbol>());
        let symbol: Symbol = self.read(at).ok_or(c"symbols lie outside")?;
        // A function of its own.
        if symbol.section != 0 {
            return Ok(None);
        }

        let mut name = [0; NAME_MAX];
        let offset = symbol.name as usize;
        let room = tables.names_len.checked_sub(offset);
        let room = room.ok_or(c"names lie outside")?.min(NAME_MAX);
        for (n, byte) in name.iter_mut().take(room).enumerate() {
            *byte = self
                .read(tables.names + offset + n)
                .ok_or(c"names lie outside")?;
            if *byte == 0 {
                let name = name.get(..n).unwrap_or_default();
                return Ok(find(name));
            }
        }
        Ok(None)
    }

    /// The slot of a relocation.
    fn slot(&self, relocation: &Relocation) -> Result<usize, &'static CStr> {
        let slot = self.base.wrapping_add(relocation.offset as usize);
        let rights = libc::PF_R | libc::PF_W;
        match slot.is_multiple_of(size_of::<usize>())
            && relocation.addend == 0
            && self.has(slot, size_of::<usize>(), rights)
        {
            true => Ok(slot),
            false => Err(c"a slot is not where one can be"),
        }
    }

    /// Puts a function into a slot that [`slot`](Self::slot) has found; `false`: it is there.
    fn replace(&self, slot: usize, ours: *mut c_void) -> Result<bool, &'static CStr> {
        // SAFETY: aligned, within a segment that was writable when the object was loaded, and held
        // by code that reads it whole.
        let place = unsafe { AtomicPtr::from_ptr(slot as *mut *mut c_void) };
        if place.load(Ordering::Relaxed) == ours {
            return Ok(false);
        }

        let locked = self.is_locked(slot);
        if locked {
            protect(slot, PROT_READ | PROT_WRITE)?;
        }
        place.store(ours, Ordering::Release);
        if locked {
            protect(slot, PROT_READ)?;
        }
        Ok(true)
    }

    /// Whether the dynamic linker has made it read-only since (`-z relro`).
    fn is_locked(&self, slot: usize) -> bool {
        let page = page();
        self.headers.iter().any(|header| {
            let start = self.base.wrapping_add(header.p_vaddr as usize);
            let end = start.wrapping_add(header.p_memsz as usize);
            // Whole pages: a slot of the last, which is only begun, was not made so.
            let pages = start - start % page..end - end % page;
            header.p_type == libc::PT_GNU_RELRO && pages.contains(&slot)
        })
    }
}

fn page() -> usize {
    // SAFETY: no memory is touched.
    let size = unsafe { libc::getauxval(libc::AT_PAGESZ) };
    match size {
        0 => 4096,
        size => size as usize,
    }
}

/// Gives the page of a slot these rights.
fn protect(slot: usize, rights: c_int) -> Result<(), &'static CStr> {
    let page = page();
    let start = slot - slot % page;
    // SAFETY: a page of the object's table, which nobody executes or writes.
    match unsafe { libc::mprotect(start as *mut c_void, page, rights) } {
        0 => Ok(()),
        _ => Err(c"its table cannot be written"),
    }
}

#[cfg(test)]
#[path = "object_tests.rs"]
mod tests;
