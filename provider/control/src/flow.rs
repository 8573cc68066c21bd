//! How much unacknowledged traffic is on its way to each receive socket of one address, counted by
//! those who send and those who receive on this machine.
//!
//! UC and UD have no acknowledgements, and what a receive socket has no room for is lost. Over a
//! loopback the kernel never holds a sender back, so senders must know what the receiver has taken.
//! The daemon of an address makes a small file of counters, named after the address and the network
//! namespace, in the system's shared memory; whoever sends to that address from here finds it,
//! whichever daemon he belongs to. For addresses of other machines there is none.
//!
//! The numbers are advice: nothing but the pace of sending depends on them, and nobody waits on
//! them without a limit.
//!
//! A daemon holds a lock on its files. One that was killed leaves them behind; the next daemon of
//! that user, whatever its address and its namespace, removes those that nobody holds.
//!
//! A multicast group has such a file as well, made by whoever comes first ([`GroupFile`]).

mod group;

use std::fs::{File, OpenOptions};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::Resource;

pub use group::{GroupFile, Member};

use crate::ControlError;

/// Slots of an address, each with two counters.
const SLOTS: usize = 256;
/// Standard files close on exec by themselves.
const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits() as i32;
/// The system's shared memory.
const DIRECTORY: &str = "/dev/shm";
const PAGE: usize = SLOTS * 2 * size_of::<u64>();

/// The counters of one address. Clones are the same page.
#[derive(Clone, Debug)]
pub struct FlowPage {
    map: Arc<MmapRaw>,
    /// What is sent goes to all, and is counted once.
    is_group: bool,
}

/// The file of one address, which goes when this is dropped. For the daemon.
#[derive(Debug)]
pub struct FlowFile {
    path: PathBuf,
    /// Locked for as long as it is open.
    _file: File,
}

impl FlowFile {
    /// Makes the file anew. The caller holds the address, so nobody else does. `ENOSPC` where the
    /// shared memory is full.
    pub fn create(ip: IpAddr, scope_id: u32) -> Result<FlowFile, ControlError> {
        sweep();
        FlowFile::make(name(ip, scope_id)?)
    }

    /// Whether such files can be made, for who asks before there is an address.
    pub fn check() -> Result<(), ControlError> {
        let name = format!("{}check-{}", prefix(), std::process::id());
        FlowFile::make(Path::new(DIRECTORY).join(name)).map(drop)
    }

    fn make(path: PathBuf) -> Result<FlowFile, ControlError> {
        let io = |source| ControlError::Io {
            what: "creating the counters of an address",
            source,
        };

        // Of an earlier owner, who has gone; whoever sweeps it this moment has gone on when the
        // lock is ours.
        remove(&path, true);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(NO_FOLLOW)
            .open(&path)
            .map_err(io)?;

        // Until it has its length, nobody takes it for left behind.
        flock(&file, FlockOperation::LockExclusive).map_err(|errno| io(errno.into()))?;
        let made = FlowFile { path, _file: file };
        back(&made._file).map_err(io)?;
        Ok(made)
    }
}

/// Gives a new file its length, and memory with it. Whoever touches a page for which the shared
/// memory has no room left is killed (SIGBUS). What else processes share is memory of
/// `memfd_create(2)`, which is on no file system that could be full, and the daemon makes it.
fn back(file: &File) -> std::io::Result<()> {
    // Beyond the limit the kernel sends SIGXFSZ besides, which a program has not asked for.
    let limit = rustix::process::getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < PAGE as u64) {
        return Err(Errno::FBIG.into());
    }
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, PAGE as u64) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.write_all_at(&[0; PAGE], 0),
        backed => backed.map_err(Into::into),
    }
}

/// Whether a file is this user's, and is a page that has memory.
fn is_page(metadata: &std::fs::Metadata) -> bool {
    /// What `stat(2)` counts in.
    const BLOCK: u64 = 512;
    metadata.uid() == rustix::process::geteuid().as_raw()
        && metadata.len() == PAGE as u64
        && metadata.blocks() * BLOCK >= PAGE as u64
}

/// Removes the files of this user's daemons that were killed. What cannot be looked at stays.
fn sweep() {
    let Ok(entries) = std::fs::read_dir(DIRECTORY) else {
        return;
    };
    let prefix = prefix();
    for entry in entries.flatten() {
        let ours = entry.file_name();
        if ours.to_str().is_some_and(|name| name.starts_with(&prefix)) {
            remove(&entry.path(), false);
        }
    }
}

/// Removes what nobody holds, unless it is another file by the time that it is locked. One without
/// its length is just being made, unless the caller holds the address (`ours`) and so is the only
/// one who could.
fn remove(path: &Path, ours: bool) {
    let mut options = OpenOptions::new();

    // What others have put there must neither lead elsewhere nor make the daemon wait.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let Ok(file) = options
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
    else {
        return;
    };

    let mine = |metadata: &std::fs::Metadata| metadata.uid() == rustix::process::geteuid().as_raw();
    let how = match ours {
        true => FlockOperation::LockExclusive,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    if !file.metadata().is_ok_and(|metadata| mine(&metadata)) || flock(&file, how).is_err() {
        return;
    }

    let is_made = |file: &File| {
        file.metadata()
            .is_ok_and(|there| there.len() == PAGE as u64)
    };
    if (ours || is_made(&file)) && is_at(&file, path) {
        let _ = std::fs::remove_file(path);
    }
}

/// Whether a file is the one at that path.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let there = std::fs::symlink_metadata(path).map(id);
    matches!((file.metadata().map(id), there), (Ok(ours), Ok(there)) if ours == there)
}

impl Drop for FlowFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        // Of programs that were killed.
        sweep();
    }
}

impl FlowPage {
    /// The counters of an address of this machine; `None` if no daemon of this user serves it here.
    pub fn open(ip: IpAddr, scope_id: u32) -> Option<FlowPage> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(NO_FOLLOW)
            .open(name(ip, scope_id).ok()?)
            .ok()?;
        if !is_page(&file.metadata().ok()?) {
            return None;
        }
        FlowPage::map(&file)
    }

    fn map(file: &File) -> Option<FlowPage> {
        let map = MmapOptions::new().len(PAGE).map_raw(&file.as_fd()).ok()?;
        Some(FlowPage {
            map: Arc::new(map),
            is_group: false,
        })
    }

    /// What has been sent to a slot, in units of the senders' and receivers' choice. It only grows
    /// (and wraps).
    pub fn sent(&self, slot: u8) -> &AtomicU64 {
        self.cell(match self.is_group {
            true => 0,
            false => usize::from(slot),
        })
    }

    /// What has been received (or lost) at a slot, in the same units.
    pub fn received(&self, slot: u8) -> &AtomicU64 {
        self.cell(SLOTS + usize::from(slot))
    }

    /// Counts what a slot has received. Senders count before they send, so never more than they
    /// have counted: what is found received twice (once it was taken for lost) is not held against
    /// what comes next.
    pub fn take(&self, slot: u8, amount: u64) {
        let before = self.received(slot).fetch_add(amount, Ordering::Relaxed);
        let sent = self.sent(slot).load(Ordering::Relaxed);
        if is_ahead(before.wrapping_add(amount), sent) {
            self.settle(slot, sent);
        }
    }

    /// All that had been sent to a slot when the senders' count was `sent` has been received or
    /// lost.
    pub fn settle(&self, slot: u8, sent: u64) {
        self.received(slot).store(sent, Ordering::Relaxed);
    }

    /// What is on its way to a slot, as far as anybody knows.
    pub fn in_flight(&self, slot: u8) -> u64 {
        let received = self.received(slot).load(Ordering::Relaxed);
        let sent = self.sent(slot).load(Ordering::Relaxed);
        if is_ahead(received, sent) {
            0
        } else {
            sent.wrapping_sub(received)
        }
    }

    fn cell(&self, index: usize) -> &AtomicU64 {
        let base = self.map.as_mut_ptr().cast::<u64>();
        // SAFETY: the mapping is PAGE bytes long, page-aligned, readable and writable, and lives as
        // long as `self`; the index is below 2 * SLOTS. Other processes have it too, and all go
        // through atomics.
        unsafe { AtomicU64::from_ptr(base.add(index)) }
    }
}

/// Whether a receiver's count is beyond its senders'. Both wrap.
fn is_ahead(received: u64, sent: u64) -> bool {
    sent.wrapping_sub(received) > u64::MAX / 2
}

/// Where the counters of an address are.
fn name(ip: IpAddr, scope_id: u32) -> Result<PathBuf, ControlError> {
    let namespace = std::fs::metadata("/proc/self/ns/net").map_err(|source| ControlError::Io {
        what: "looking at the network namespace",
        source,
    })?;
    let (prefix, namespace) = (prefix(), namespace.ino());
    Ok(Path::new(DIRECTORY).join(format!("{prefix}{namespace}-{ip}-{scope_id}")))
}

/// Part of the files' names: programs of other builds look for the same files, so another order of
/// the counters is another number.
const LAYOUT: u32 = 1;

/// How the names of all files of this user begin.
fn prefix() -> String {
    let user = rustix::process::geteuid().as_raw();
    format!("ferroce-flow{LAYOUT}-{user}-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_see_what_is_on_its_way() {
        let ip = IpAddr::from([192, 0, 2, 91]);
        assert!(FlowPage::open(ip, 0).is_none());
        let file = FlowFile::create(ip, 0).unwrap();
        let (a, b) = (
            FlowPage::open(ip, 0).unwrap(),
            FlowPage::open(ip, 0).unwrap(),
        );
        a.sent(255).fetch_add(700, Ordering::Relaxed);
        b.received(255).fetch_add(300, Ordering::Relaxed);
        assert_eq!((a.in_flight(255), b.in_flight(255)), (400, 400));
        assert_eq!(a.in_flight(0), 0);
        b.take(0, 1);
        assert_eq!(a.in_flight(0), 0, "a receiver that is ahead owes nothing");
        a.sent(0).fetch_add(10, Ordering::Relaxed);
        assert_eq!(a.in_flight(0), 10, "and gets nothing in advance for it");
        b.take(0, 4);
        assert_eq!(a.in_flight(0), 6);
        b.settle(0, a.sent(0).load(Ordering::Relaxed));
        assert_eq!(a.in_flight(0), 0);
        drop(file);
        assert!(FlowPage::open(ip, 0).is_none());
        assert_eq!(a.in_flight(255), 400, "who has it keeps it");
    }

    #[test]
    fn the_order_of_the_counters_is_that_of_the_number_in_the_name() {
        let ip = IpAddr::from([192, 0, 2, 96]);
        let file = FlowFile::create(ip, 0).unwrap();
        let page = FlowPage::open(ip, 0).unwrap();
        page.sent(3).store(7, Ordering::Relaxed);
        page.received(3).store(8, Ordering::Relaxed);
        let bytes = std::fs::read(&file.path).unwrap();
        let word = |index: usize| u64::from_ne_bytes(bytes[8 * index..][..8].try_into().unwrap());
        assert_eq!(bytes.len(), 4096);
        assert_eq!((word(3), word(256 + 3)), (7, 8));
        assert_eq!(LAYOUT, 1);
    }

    #[test]
    fn who_finds_a_page_without_memory_has_none() {
        let ip = IpAddr::from([192, 0, 2, 97]);
        let path = name(ip, 0).unwrap();
        File::create(&path).unwrap().set_len(PAGE as u64).unwrap();
        assert!(FlowPage::open(ip, 0).is_none());
        let file = FlowFile::create(ip, 0).unwrap();
        assert!(FlowPage::open(ip, 0).is_some());
        drop(file);
        FlowFile::check().unwrap();
    }

    #[test]
    fn what_a_killed_daemon_leaves_is_removed_by_another() {
        let [dead, alive, new, young] = [92, 93, 94, 95].map(|n| IpAddr::from([192, 0, 2, n]));
        let left = |ip, len| {
            let path = name(ip, 0).unwrap();
            let file = File::create(&path).unwrap();
            file.set_len(len).unwrap();
            path
        };

        let kept = FlowFile::create(alive, 0).unwrap();
        let (gone, begun) = (left(dead, PAGE as u64), left(young, 0));
        let made = FlowFile::create(new, 0).unwrap();
        assert!(!gone.exists(), "nobody holds it");
        assert!(kept.path.exists() && made.path.exists());
        assert!(begun.exists(), "somebody is making it");

        // But not who has the address: it can be nobody else.
        let again = FlowFile::create(young, 0).unwrap();
        assert!(FlowPage::open(young, 0).is_some());
        drop((kept, made, again));
        assert!(!begun.exists());
    }
}
