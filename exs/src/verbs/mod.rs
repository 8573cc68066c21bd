//! The verbs layer: devices, memory regions, completion queues and connection identifiers as owned Rust values over
//! the C shim. It decides nothing about sockets and knows nothing of the protocol.

mod ffi;

use std::ffi::c_void;
use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};

pub use ffi::{CmEvent, Completion, Work};

use crate::errno::{Errno, Result};

/// Opcodes of [`Work`].
pub const SEND: u32 = 0;
/// RDMA WRITE.
pub const WRITE: u32 = 1;
/// RDMA READ.
pub const READ: u32 = 2;
/// A flag of [`Work`]: the bytes are copied when it is posted.
pub const INLINE: u32 = 1;

/// Completions that one connection can have outstanding, and the entries of a completion queue.
pub const CQ_ENTRIES: i32 = 4096;

/// The connection manager's channel: its events come out of a descriptor.
pub struct CmChannel {
    raw: NonNull<c_void>,
    /// Readable when there are events.
    pub fd: RawFd,
}

// SAFETY: librdmacm is thread-safe; the channel lives as long as the process.
unsafe impl Send for CmChannel {}
// SAFETY: as above.
unsafe impl Sync for CmChannel {}

impl CmChannel {
    /// Opens it; `ENODEV` and the like where there is no RDMA.
    pub fn open() -> Result<Self> {
        let mut fd = -1;
        // SAFETY: `fd` is a place for an int.
        let raw = unsafe { ffi::xv_cm_channel(&mut fd) };
        let raw = NonNull::new(raw).ok_or_else(Errno::last)?;
        Ok(Self { raw, fd })
    }

    /// Takes the next event, if there is one.
    pub fn next(&self) -> Option<CmEvent> {
        let mut event = CmEvent::default();
        // SAFETY: the channel is open and `event` is a place for one.
        let found = unsafe { ffi::xv_cm_event(self.raw.as_ptr(), &mut event) };
        (found == 1).then_some(event)
    }

    /// A new identifier, whose events carry `context`.
    pub fn id(&self, context: u64) -> Result<CmId> {
        // SAFETY: the channel is open.
        let raw = unsafe { ffi::xv_id_create(self.raw.as_ptr(), context) };
        NonNull::new(raw).map(CmId::new).ok_or_else(Errno::last)
    }
}

/// A connection identifier, with its queue pair once it has one. Both go when it is dropped.
pub struct CmId {
    raw: NonNull<c_void>,
    has_qp: bool,
}

// SAFETY: librdmacm and libibverbs are thread-safe, and `&mut` guards what is not atomic.
unsafe impl Send for CmId {}

impl CmId {
    fn new(raw: NonNull<c_void>) -> Self {
        Self { raw, has_qp: false }
    }

    /// The identifier of a connection request.
    ///
    /// # Safety
    /// `event` is a connection request that no one has adopted yet.
    pub unsafe fn adopt(event: &CmEvent, context: u64) -> Option<Self> {
        let raw = NonNull::new(event.id)?;
        // SAFETY: the caller says that it is a live identifier, which is ours from here on.
        unsafe { ffi::xv_id_context(raw.as_ptr(), context) };
        Some(Self::new(raw))
    }

    /// Binds to an address; `bytes` is a whole `sockaddr` of its family.
    pub fn bind(&mut self, bytes: &Address, reuse: bool) -> Result<()> {
        if reuse {
            // An older kernel without the option binds all the same.
            // SAFETY: the identifier lives.
            unsafe { ffi::xv_id_reuse(self.raw.as_ptr()) };
        }
        // SAFETY: the identifier lives; the storage is as large as any address.
        check(unsafe { ffi::xv_id_bind(self.raw.as_ptr(), &bytes.storage) })
    }

    /// Listens for requests.
    pub fn listen(&mut self, backlog: i32) -> Result<()> {
        // SAFETY: the identifier lives.
        check(unsafe { ffi::xv_id_listen(self.raw.as_ptr(), backlog) })
    }

    /// Starts to find device and path towards an address.
    pub fn resolve_address(&mut self, to: &Address, ms: i32) -> Result<()> {
        // SAFETY: the identifier lives; the storage is as large as any address.
        check(unsafe { ffi::xv_id_resolve_address(self.raw.as_ptr(), &to.storage, ms) })
    }

    /// Starts to find the route.
    pub fn resolve_route(&mut self, ms: i32) -> Result<()> {
        // SAFETY: the identifier lives.
        check(unsafe { ffi::xv_id_resolve_route(self.raw.as_ptr(), ms) })
    }

    /// Sends the connection request.
    pub fn connect(&mut self, private: &[u8]) -> Result<()> {
        // SAFETY: the identifier lives; the bytes are there.
        check(unsafe {
            ffi::xv_id_connect(self.raw.as_ptr(), private.as_ptr(), private.len() as u8)
        })
    }

    /// Accepts a request.
    pub fn accept(&mut self, private: &[u8]) -> Result<()> {
        // SAFETY: as above.
        check(unsafe {
            ffi::xv_id_accept(self.raw.as_ptr(), private.as_ptr(), private.len() as u8)
        })
    }

    /// Refuses a request.
    pub fn reject(&mut self) {
        // SAFETY: the identifier lives. That it fails when the peer is gone already changes nothing.
        unsafe { ffi::xv_id_reject(self.raw.as_ptr()) };
    }

    /// Ends the connection, or answers the peer's end; the queue pair goes into the error state.
    pub fn disconnect(&mut self) {
        // SAFETY: the identifier lives. It fails when there is no connection (any more), which is as good.
        unsafe { ffi::xv_id_disconnect(self.raw.as_ptr()) };
    }

    /// The peer's address.
    pub fn peer(&self) -> Address {
        let mut address = Address::unspecified();
        // SAFETY: the identifier lives; the storage is as large as any address.
        unsafe { ffi::xv_id_peer(self.raw.as_ptr(), &mut address.storage) };
        address
    }

    /// The device's context; null before it is known.
    pub fn verbs(&self) -> *mut c_void {
        // SAFETY: the identifier lives.
        unsafe { ffi::xv_id_verbs(self.raw.as_ptr()) }
    }

    /// Makes the queue pair; answers how many bytes can be posted inline.
    pub fn create_qp(
        &mut self,
        device: &Device,
        cq: &Cq,
        sends: usize,
        receives: usize,
    ) -> Result<u32> {
        let mut inline = 64;
        // SAFETY: identifier, domain and completion queue live, and outlive the queue pair.
        check(unsafe {
            ffi::xv_qp(
                self.raw.as_ptr(),
                device.pd,
                cq.raw,
                sends as i32,
                receives as i32,
                &mut inline,
            )
        })?;
        self.has_qp = true;
        Ok(inline)
    }

    /// Takes the queue pair away: nothing of it is used any more, nothing of it completes any more.
    pub fn destroy_qp(&mut self) {
        if std::mem::take(&mut self.has_qp) {
            // SAFETY: it was created and not destroyed.
            unsafe { ffi::xv_qp_destroy(self.raw.as_ptr()) };
        }
    }

    /// Posts to the send queue.
    ///
    /// # Safety
    /// The memory that the works name stays as it is until they complete or the queue pair is destroyed.
    pub unsafe fn post(&mut self, works: &[Work]) -> Result<()> {
        if !self.has_qp {
            return Err(Errno(libc::ENOTCONN));
        }
        // SAFETY: there is a queue pair; the caller answers for the memory.
        check(unsafe { ffi::xv_post(self.raw.as_ptr(), works.as_ptr(), works.len() as i32) })
    }

    /// Posts a receive slot.
    ///
    /// # Safety
    /// The memory is only used when the receive has completed or the queue pair is destroyed.
    pub unsafe fn post_receive(
        &mut self,
        wr_id: u64,
        address: u64,
        length: usize,
        lkey: u32,
    ) -> Result<()> {
        if !self.has_qp {
            return Err(Errno(libc::ENOTCONN));
        }
        // SAFETY: as above.
        check(unsafe {
            ffi::xv_post_receive(self.raw.as_ptr(), wr_id, address, length as u32, lkey)
        })
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        self.destroy_qp();
        // SAFETY: it is ours, and this is its last use.
        unsafe { ffi::xv_id_destroy(self.raw.as_ptr()) };
    }
}

/// A socket address of IPv4 or IPv6.
#[derive(Clone, Copy)]
pub struct Address {
    storage: libc::sockaddr_storage,
}

impl Address {
    fn unspecified() -> Self {
        // SAFETY: all zeros is a `sockaddr_storage`.
        let storage = unsafe { std::mem::zeroed() };
        Self { storage }
    }

    /// Takes the bytes of an address: `EINVAL` if there are too few, `EAFNOSUPPORT` if it is of another family.
    pub fn parse(bytes: &[u8], family: i32) -> Result<Self> {
        let Some(said) = bytes.first_chunk::<2>() else {
            return Err(Errno(libc::EINVAL));
        };
        if i32::from(u16::from_ne_bytes(*said)) != family {
            return Err(Errno(libc::EAFNOSUPPORT));
        }
        let length = size_of_family(family);
        if bytes.len() < length {
            return Err(Errno(libc::EINVAL));
        }
        let mut address = Self::unspecified();
        // SAFETY: an address of either family fits into the storage, and any bytes make one.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                (&raw mut address.storage).cast::<u8>(),
                length,
            );
        }
        Ok(address)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        let length = size_of_family(i32::from(self.storage.ss_family));
        // SAFETY: the storage is at least that large and initialised.
        unsafe { std::slice::from_raw_parts((&raw const self.storage).cast(), length) }
    }
}

fn size_of_family(family: i32) -> usize {
    match family {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => 2,
    }
}

/// A device that is used: protection domain, completion channel and completion queues. Lives for good.
pub struct Device {
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
    pub fn contexts() -> Vec<*mut c_void> {
        let mut contexts = [std::ptr::null_mut(); 64];
        // SAFETY: there is room for as many as are asked for.
        let count = unsafe { ffi::xv_devices(contexts.as_mut_ptr(), contexts.len() as i32) };
        contexts[..count.max(0) as usize].to_vec()
    }

    /// Prepares a device.
    pub fn open(verbs: *mut c_void) -> Result<Self> {
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

    /// Whether it is this context's.
    pub fn is(&self, verbs: *mut c_void) -> bool {
        self.verbs == verbs
    }

    /// A completion queue with room for another connection of so many completions.
    pub fn cq(&self, completions: usize) -> Result<Arc<Cq>> {
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
    pub fn each_cq(&self, mut each: impl FnMut(&Cq)) {
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
    pub fn event(&self) -> Option<Arc<Cq>> {
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
    /// With `write` the peer may change the memory while the region lives: nobody else must rely on its bytes.
    pub unsafe fn register(
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
pub struct Mr {
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
pub struct Cq {
    raw: *mut c_void,
    /// Held while completions are taken *and* worked on, so that those of one connection stay in order.
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

    fn reserve(&self, completions: usize) -> bool {
        self.reserved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |reserved| {
                (reserved + completions <= self.room).then_some(reserved + completions)
            })
            .is_ok()
    }

    /// Gives back what a connection had reserved, once its queue pair is gone.
    pub fn release(&self, completions: usize) {
        self.reserved.fetch_sub(completions, Ordering::Relaxed);
    }

    /// Asks for an event at the next completion, unless that was asked already.
    pub fn arm(&self) {
        if !self.armed.swap(true, Ordering::SeqCst) {
            // SAFETY: the queue lives for good.
            unsafe { ffi::xv_cq_arm(self.raw) };
        }
    }

    /// Its event has come.
    pub fn disarmed(&self) {
        self.armed.store(false, Ordering::SeqCst);
    }

    /// Takes what there is and hands it to `each`; answers how many. Without `wait` another thread at it is left to it.
    pub fn poll(&self, wait: bool, mut each: impl FnMut(&[Completion])) -> usize {
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

fn check(answer: i32) -> Result<()> {
    match answer {
        0 => Ok(()),
        positive if positive > 0 => Err(Errno(positive)),
        _ => Err(Errno::from(io::Error::last_os_error())),
    }
}
