//! Devices, memory regions and completion queues.

use std::ffi::c_void;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};

use super::ffi::{self, Completion};
use super::opens;
use crate::errno::{Errno, Result};

/// Entries of a completion queue.
const CQ_ENTRIES: i32 = 4096;

/// A device that is used: protection domain, completion channel and completion queues. Lives for
/// good.
pub(crate) struct Device {
    verbs: *mut c_void,
    pd: *mut c_void,
    channel: *mut c_void,
    /// Readable when a completion queue has something.
    pub fd: RawFd,
    cqs: RwLock<Vec<Arc<Cq>>>,
}

// SAFETY: verbs objects may be used by any thread.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// The contexts of all devices.
    pub(crate) fn contexts() -> Vec<*mut c_void> {
        opens();
        let mut contexts = [std::ptr::null_mut(); 64];
        // SAFETY: there is room for as many as are asked for.
        let count = unsafe { ffi::xv_devices(contexts.as_mut_ptr(), contexts.len() as i32) };
        contexts[..count.max(0) as usize].to_vec()
    }

    /// Prepares a device.
    pub(crate) fn open(verbs: *mut c_void) -> Result<Self> {
        if verbs.is_null() {
            return Err(Errno(libc::ENODEV));
        }

        let mut fd = -1;

        // SAFETY: a context of librdmacm's, which keeps it open for good.
        let pd = unsafe { ffi::xv_pd(verbs) };
        if pd.is_null() {
            return Err(Errno::last());
        }

        // SAFETY: as above.
        let channel = unsafe { ffi::xv_channel(verbs, &mut fd) };
        if channel.is_null() {
            return Err(Errno::last());
        }

        Ok(Self {
            verbs,
            pd,
            channel,
            fd,
            cqs: RwLock::new(Vec::new()),
        })
    }

    pub(super) fn pd(&self) -> *mut c_void {
        self.pd
    }

    /// Whether it is this context's.
    pub(crate) fn is(&self, verbs: *mut c_void) -> bool {
        self.verbs == verbs
    }

    /// A completion queue with room for another connection of so many completions.
    pub(crate) fn cq(&self, completions: usize) -> Result<Arc<Cq>> {
        let mut cqs = self.cqs.write();
        if let Some(cq) = cqs.iter().find(|cq| cq.reserve(completions)) {
            return Ok(Arc::clone(cq));
        }
        let cq = Arc::new(Cq::new(self, cqs.len() as u64)?);
        if !cq.reserve(completions) {
            return Err(Errno(libc::ENOMEM));
        }
        cq.arm();
        cqs.push(Arc::clone(&cq));
        Ok(cq)
    }

    /// Visits all completion queues.
    pub(crate) fn each_cq(&self, mut each: impl FnMut(&Cq)) {
        // Not under the lock: a completion may need another queue.
        let mut index = 0;
        while let Some(cq) = {
            let cqs = self.cqs.read();
            cqs.get(index).cloned()
        } {
            each(&cq);
            index += 1;
        }
    }

    /// Takes one event: the completion queue that has something.
    pub(crate) fn event(&self) -> Option<Arc<Cq>> {
        let mut context = 0;
        // SAFETY: the channel lives, and `context` is a place for a number.
        if unsafe { ffi::xv_channel_event(self.channel, &mut context) } == 0 {
            return None;
        }
        self.cqs.read().get(context as usize).cloned()
    }

    /// Registers memory of the application's.
    ///
    /// # Safety
    /// With `write` the peer may change the memory while the region lives: nobody else must rely on
    /// its bytes.
    pub(crate) unsafe fn register(
        &self,
        address: usize,
        length: usize,
        write: bool,
        read: bool,
    ) -> Result<Mr> {
        let (mut lkey, mut rkey) = (0, 0);
        let access = i32::from(write) | i32::from(read) << 1;

        // SAFETY: the domain lives; the device checks the range.
        let raw = unsafe {
            ffi::xv_mr(
                self.pd,
                address as *mut c_void,
                length,
                access,
                &mut lkey,
                &mut rkey,
            )
        };

        if raw.is_null() {
            return Err(Errno::last());
        }

        Ok(Mr { raw, lkey, rkey })
    }
}

/// A registered range; dropped with it.
pub(crate) struct Mr {
    raw: *mut c_void,
    /// For our own requests.
    pub lkey: u32,
    /// For the peer's.
    pub rkey: u32,
}

// SAFETY: verbs objects may be used by any thread.
unsafe impl Send for Mr {}
// SAFETY: as above.
unsafe impl Sync for Mr {}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: it is ours, and this is its last use.
        unsafe { ffi::xv_mr_free(self.raw) };
    }
}

/// A completion queue that several connections share.
pub(crate) struct Cq {
    raw: *mut c_void,
    /// Held while completions are taken *and* worked on, so that those of one connection stay in
    /// order.
    polling: Mutex<()>,
    armed: AtomicBool,
    room: usize,
    reserved: AtomicUsize,
}

// SAFETY: verbs objects may be used by any thread.
unsafe impl Send for Cq {}
// SAFETY: as above.
unsafe impl Sync for Cq {}

impl Cq {
    fn new(device: &Device, context: u64) -> Result<Self> {
        // SAFETY: context and channel live for good.
        let raw = unsafe { ffi::xv_cq(device.verbs, CQ_ENTRIES, context, device.channel) };
        if raw.is_null() {
            return Err(Errno::last());
        }
        // SAFETY: it was just made.
        let room = unsafe { ffi::xv_cq_entries(raw) }.max(0) as usize;
        Ok(Self {
            raw,
            polling: Mutex::new(()),
            armed: AtomicBool::new(false),
            room,
            reserved: AtomicUsize::new(0),
        })
    }

    pub(super) fn raw(&self) -> *mut c_void {
        self.raw
    }

    fn reserve(&self, completions: usize) -> bool {
        self.reserved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |reserved| {
                (reserved + completions <= self.room).then_some(reserved + completions)
            })
            .is_ok()
    }

    /// Gives back what a connection had reserved, once its queue pair is gone.
    pub(crate) fn release(&self, completions: usize) {
        self.reserved.fetch_sub(completions, Ordering::Relaxed);
    }

    /// Asks for an event at the next completion, unless that was asked already.
    pub(crate) fn arm(&self) {
        if !self.armed.swap(true, Ordering::SeqCst) {
            // SAFETY: the queue lives for good.
            unsafe { ffi::xv_cq_arm(self.raw) };
        }
    }

    /// Its event has come.
    pub(crate) fn disarmed(&self) {
        self.armed.store(false, Ordering::SeqCst);
    }

    /// Takes what there is and hands it to `each`; answers how many. Without `wait` another thread
    /// at it is left to it.
    pub(crate) fn poll(&self, wait: bool, mut each: impl FnMut(&[Completion])) -> usize {
        let _guard = if wait {
            self.polling.lock()
        } else {
            match self.polling.try_lock() {
                Some(guard) => guard,
                None => return 0,
            }
        };

        let mut completions = [Completion::default(); 32];

        // SAFETY: the queue lives, and there is room for 32.
        let count = unsafe { ffi::xv_cq_poll(self.raw, completions.as_mut_ptr(), 32) };
        let count = count.clamp(0, 32) as usize;
        if count > 0 {
            each(&completions[..count]);
        }

        count
    }
}
