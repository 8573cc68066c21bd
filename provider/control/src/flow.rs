//! How much unacknowledged traffic is on its way to each receive socket of one address, counted by those who send and those
//! who receive on this machine.
//!
//! UC and UD have no acknowledgements, and what a receive socket has no room for is lost. Over a loopback the kernel never
//! holds a sender back, so senders must know what the receiver has taken. The daemon of an address makes a small file of
//! counters, named after the address and the network namespace, in the system's shared memory; whoever sends to that address
//! from here finds it, whichever daemon he belongs to. For addresses of other machines there is none.
//!
//! The numbers are advice: nothing but the pace of sending depends on them, and nobody waits on them without a limit.

use std::fs::{File, OpenOptions};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use crate::ControlError;

/// Slots of an address, each with two counters.
const SLOTS: usize = 256;
/// Standard files close on exec by themselves.
const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
const PAGE: usize = SLOTS * 2 * size_of::<u64>();

/// The counters of one address. Clones are the same page.
#[derive(Clone, Debug)]
pub struct FlowPage {
    map: Arc<MmapRaw>,
}

/// The file of one address, which goes when this is dropped. For the daemon.
#[derive(Debug)]
pub struct FlowFile {
    path: PathBuf,
}

impl FlowFile {
    /// Makes the file anew. The caller holds the address, so nobody else does.
    pub fn create(ip: IpAddr, scope_id: u32) -> Result<FlowFile, ControlError> {
        let path = name(ip, scope_id)?;
        let io = |source| ControlError::Io {
            what: "creating the counters of an address",
            source,
        };
        let _ = std::fs::remove_file(&path);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(NO_FOLLOW)
            .open(&path)
            .map_err(io)?;
        let made = FlowFile { path };
        file.set_len(PAGE as u64).map_err(io)?;
        Ok(made)
    }
}

impl Drop for FlowFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
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
        let metadata = file.metadata().ok()?;
        if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.len() != PAGE as u64 {
            return None;
        }
        FlowPage::map(&file)
    }

    fn map(file: &File) -> Option<FlowPage> {
        let map = MmapOptions::new().len(PAGE).map_raw(&file.as_fd()).ok()?;
        Some(FlowPage { map: Arc::new(map) })
    }

    /// What has been sent to a slot, in units of the senders' and receivers' choice. It only grows (and wraps).
    pub fn sent(&self, slot: u8) -> &AtomicU64 {
        self.cell(usize::from(slot))
    }

    /// What has been received (or lost) at a slot, in the same units.
    pub fn received(&self, slot: u8) -> &AtomicU64 {
        self.cell(SLOTS + usize::from(slot))
    }

    /// Counts what a slot has received. Senders count before they send, so never more than they have counted: what is found
    /// received twice (once it was taken for lost) is not held against what comes next.
    pub fn take(&self, slot: u8, amount: u64) {
        let before = self.received(slot).fetch_add(amount, Ordering::Relaxed);
        let sent = self.sent(slot).load(Ordering::Relaxed);
        if is_ahead(before.wrapping_add(amount), sent) {
            self.settle(slot, sent);
        }
    }

    /// All that had been sent to a slot when the senders' count was `sent` has been received or lost.
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
        // SAFETY: the mapping is PAGE bytes long, page-aligned, readable and writable, and lives as long as `self`; the index is
        // below 2 * SLOTS. Other processes have it too, and all go through atomics.
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
    Ok(PathBuf::from(format!(
        "/dev/shm/ferroce-{}-{}-{ip}-{scope_id}",
        rustix::process::geteuid().as_raw(),
        namespace.ino()
    )))
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
}
