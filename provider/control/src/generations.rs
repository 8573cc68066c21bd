//! Which of the connection manager's ids have changed: a number for each, in a page that programs
//! can read.
//!
//! Beside an event the daemon tells the program what it would answer if it were asked about the id
//! now. The program's side may answer from that for as long as the id's number is what it was; the
//! daemon counts it up whenever an answer may have changed, whoever changed it. Nothing but the
//! validity of such answers depends on the numbers.
//!
//! A second number of each id, its *life*, changes with the id's end, and its lowest bit says
//! whether the id has a connection.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, Mode, SealFlags};

use crate::ControlError;

/// How many ids have a number.
pub const GENERATIONS: usize = 1 << 16;
/// Generations, then lives.
const LEN: usize = 2 * GENERATIONS * size_of::<u32>();
/// The bit of a life that says that there is a connection.
const CONNECTED: u32 = 1;

/// The daemon's view of the page.
#[derive(Debug)]
pub struct Generations {
    map: MmapRaw,
    shared: OwnedFd,
}

impl Generations {
    /// A new page of zeros. Memory is taken as ids come into use.
    pub fn create() -> Result<Self, ControlError> {
        let doing = "creating the page of generations";
        let io = |source| ControlError::Io {
            what: doing,
            source,
        };

        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("ferroce-generations", flags)
            .map_err(ControlError::io(doing))?;
        rustix::fs::ftruncate(&fd, LEN as u64).map_err(ControlError::io(doing))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals).map_err(ControlError::io(doing))?;
        let map = MmapOptions::new()
            .len(LEN)
            .map_raw(&fd.as_fd())
            .map_err(io)?;

        // Another user's program shall not open it for writing by way of `/proc`.
        rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR).map_err(ControlError::io(doing))?;
        // Through this one a program can only read.
        let shared = File::open(format!("/proc/thread-self/fd/{}", fd.as_raw_fd())).map_err(io)?;
        Ok(Self {
            map,
            shared: shared.into(),
        })
    }

    /// The descriptor for programs, open for reading only.
    pub fn shared(&self) -> &OwnedFd {
        &self.shared
    }

    /// The number of an id now; 0 for what is no id.
    pub fn of(&self, id: u32) -> u32 {
        self.cell(id).map_or(0, |cell| cell.load(Ordering::Acquire))
    }

    /// Says that answers about an id may have changed.
    pub fn touch(&self, id: u32) {
        if let Some(cell) = self.cell(id) {
            cell.fetch_add(1, Ordering::Release);
        }
    }

    /// The life of an id now; 0 for what is no id.
    pub fn life(&self, id: u32) -> u32 {
        let cell = self.life_cell(id);
        cell.map_or(0, |cell| cell.load(Ordering::Acquire))
    }

    /// Says whether an id has a connection.
    pub fn set_connected(&self, id: u32, connected: bool) {
        if let Some(cell) = self.life_cell(id) {
            match connected {
                true => cell.fetch_or(CONNECTED, Ordering::Release),
                false => cell.fetch_and(!CONNECTED, Ordering::Release),
            };
        }
    }

    /// Ends an id: the next of its name has another life, and no connection yet.
    pub fn end(&self, id: u32) {
        if let Some(cell) = self.life_cell(id) {
            let next = (cell.load(Ordering::Relaxed) & !CONNECTED).wrapping_add(CONNECTED + 1);
            cell.store(next, Ordering::Release);
        }
    }

    fn cell(&self, id: u32) -> Option<&AtomicU32> {
        let index = usize::try_from(id).ok().filter(|i| *i < GENERATIONS)?;
        Some(self.at(index))
    }

    fn life_cell(&self, id: u32) -> Option<&AtomicU32> {
        let index = usize::try_from(id).ok().filter(|i| *i < GENERATIONS)?;
        Some(self.at(GENERATIONS + index))
    }

    /// A number of the page, of `2 * GENERATIONS`.
    fn at(&self, index: usize) -> &AtomicU32 {
        assert!(index < 2 * GENERATIONS);
        let base = self.map.as_mut_ptr().cast::<u32>();
        // SAFETY: the mapping is LEN bytes long, page-aligned, readable and writable, and lives as
        // long as `self`; the index is inside. Other processes only read it, through atomics too.
        unsafe { AtomicU32::from_ptr(base.add(index)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_users_cannot_open_the_page_for_writing() {
        let page = Generations::create().unwrap();
        let mode = rustix::fs::fstat(page.shared()).unwrap().st_mode;
        assert_eq!(mode & 0o077, 0);
    }

    #[test]
    fn each_id_has_its_number_and_programs_cannot_write() {
        let page = Generations::create().unwrap();
        page.touch(0);
        page.touch(65_535);
        page.touch(65_535);
        page.touch(65_536);
        assert_eq!((page.of(0), page.of(1)), (1, 0));
        assert_eq!((page.of(65_535), page.of(65_536)), (2, 0));
        assert_eq!((page.life(65_535), page.life(65_536)), (0, 0));
        let shared = page.shared().try_clone().unwrap();
        let map = MmapOptions::new().len(LEN).map_raw(&shared.as_fd());
        assert!(map.is_err(), "mapped for writing");
        let map = MmapOptions::new()
            .len(LEN)
            .map_raw_read_only(&shared.as_fd());
        assert!(map.is_ok());
    }

    #[test]
    fn a_life_ends_once_and_knows_of_its_connection() {
        let page = Generations::create().unwrap();
        let first = page.life(65_535);
        page.set_connected(65_535, true);
        assert_eq!(page.life(65_535), first | CONNECTED);
        page.set_connected(65_535, false);
        assert_eq!(page.life(65_535), first);
        page.set_connected(65_535, true);
        page.end(65_535);
        let second = page.life(65_535);
        assert_eq!(second & CONNECTED, 0);
        assert_ne!(second, first);
        // Others have nothing to do with it.
        assert_eq!((page.life(65_534), page.of(65_535), page.of(0)), (0, 0, 0));
    }
}
