//! The connection manager: its channel, and identifiers with their queue pairs.

use std::ffi::c_void;
use std::os::fd::RawFd;
use std::ptr::NonNull;

use super::ffi::{self, CmEvent, Work};
use super::{Address, Cq, Device, check, opens};
use crate::errno::{Errno, Result};

/// The connection manager's channel: its events come out of a descriptor.
pub(crate) struct CmChannel {
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
    pub(crate) fn open() -> Result<Self> {
        let mut fd = -1;
        // SAFETY: `fd` is a place for an int.
        let raw = unsafe { ffi::xv_cm_channel(&mut fd) };
        let raw = NonNull::new(raw).ok_or_else(Errno::last)?;
        Ok(Self { raw, fd })
    }

    /// Takes the next event, if there is one.
    pub(crate) fn next(&self) -> Option<CmEvent> {
        let mut event = CmEvent::default();
        // SAFETY: the channel is open and `event` is a place for one.
        let found = unsafe { ffi::xv_cm_event(self.raw.as_ptr(), &mut event) };
        (found == 1).then_some(event)
    }

    /// A new identifier, whose events carry `context`.
    pub(crate) fn id(&self, context: u64) -> Result<CmId> {
        opens();
        // SAFETY: the channel is open.
        let raw = unsafe { ffi::xv_id_create(self.raw.as_ptr(), context) };
        NonNull::new(raw).map(CmId::new).ok_or_else(Errno::last)
    }
}

/// A connection identifier, with its queue pair once it has one. Both go when it is dropped.
pub(crate) struct CmId {
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
    pub(crate) unsafe fn adopt(event: &CmEvent, context: u64) -> Option<Self> {
        let raw = NonNull::new(event.id)?;
        // SAFETY: the caller says that it is a live identifier, which is ours from here on.
        unsafe { ffi::xv_id_context(raw.as_ptr(), context) };
        Some(Self::new(raw))
    }

    /// Binds to an address; `bytes` is a whole `sockaddr` of its family.
    pub(crate) fn bind(&mut self, bytes: &Address, reuse: bool) -> Result<()> {
        if reuse {
            // An older kernel without the option binds all the same.
            // SAFETY: the identifier lives.
            unsafe { ffi::xv_id_reuse(self.raw.as_ptr()) };
        }
        // The connection manager takes ::1 for all addresses, of IPv4 too.
        if !bytes.is_any() {
            // SAFETY: the identifier lives.
            unsafe { ffi::xv_id_own_family(self.raw.as_ptr()) };
        }
        // SAFETY: the identifier lives; the storage is as large as any address.
        check(unsafe { ffi::xv_id_bind(self.raw.as_ptr(), bytes.storage()) })
    }

    /// Listens for requests, as many as the connection manager holds: what it has no place for it
    /// lets pass without an answer, and whoever asked would wait and ask again.
    pub(crate) fn listen(&mut self) -> Result<()> {
        // SAFETY: the identifier lives.
        check(unsafe { ffi::xv_id_listen(self.raw.as_ptr()) })
    }

    /// Starts to find device and path towards an address.
    pub(crate) fn resolve_address(&mut self, to: &Address, ms: i32) -> Result<()> {
        // SAFETY: the identifier lives; the storage is as large as any address.
        check(unsafe { ffi::xv_id_resolve_address(self.raw.as_ptr(), to.storage(), ms) })
    }

    /// Starts to find the route.
    pub(crate) fn resolve_route(&mut self, ms: i32) -> Result<()> {
        // SAFETY: the identifier lives.
        check(unsafe { ffi::xv_id_resolve_route(self.raw.as_ptr(), ms) })
    }

    /// Sends the connection request.
    pub(crate) fn connect(&mut self, private: &[u8]) -> Result<()> {
        // SAFETY: the identifier lives; the bytes are there.
        check(unsafe {
            ffi::xv_id_connect(self.raw.as_ptr(), private.as_ptr(), private.len() as u8)
        })
    }

    /// Accepts a request.
    pub(crate) fn accept(&mut self, private: &[u8]) -> Result<()> {
        // SAFETY: as above.
        check(unsafe {
            ffi::xv_id_accept(self.raw.as_ptr(), private.as_ptr(), private.len() as u8)
        })
    }

    /// Refuses a request.
    pub(crate) fn reject(&mut self) {
        // SAFETY: the identifier lives. That it fails when the peer is gone already changes
        // nothing.
        unsafe { ffi::xv_id_reject(self.raw.as_ptr()) };
    }

    /// Ends the connection, or answers the peer's end; the queue pair goes into the error state.
    pub(crate) fn disconnect(&mut self) {
        // SAFETY: the identifier lives. It fails when there is no connection (any more), which is
        // as good.
        unsafe { ffi::xv_id_disconnect(self.raw.as_ptr()) };
    }

    /// The peer's address.
    pub(crate) fn peer(&self) -> Address {
        let mut address = Address::unspecified();
        // SAFETY: the identifier lives; the storage is as large as any address.
        unsafe { ffi::xv_id_peer(self.raw.as_ptr(), address.storage_mut()) };
        address
    }

    /// The device's context; null before it is known.
    pub(crate) fn verbs(&self) -> *mut c_void {
        // SAFETY: the identifier lives.
        unsafe { ffi::xv_id_verbs(self.raw.as_ptr()) }
    }

    /// Makes the queue pair; answers how many bytes can be posted inline.
    pub(crate) fn create_qp(
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
                device.pd(),
                cq.raw(),
                sends as i32,
                receives as i32,
                &mut inline,
            )
        })?;
        self.has_qp = true;
        Ok(inline)
    }

    /// Takes the queue pair away: nothing of it is used any more, nothing of it completes any more.
    pub(crate) fn destroy_qp(&mut self) {
        if std::mem::take(&mut self.has_qp) {
            // SAFETY: it was created and not destroyed.
            unsafe { ffi::xv_qp_destroy(self.raw.as_ptr()) };
        }
    }

    /// Posts to the send queue.
    ///
    /// # Safety
    /// The memory that the works name stays as it is until they complete or the queue pair is
    /// destroyed.
    pub(crate) unsafe fn post(&mut self, works: &[Work]) -> Result<()> {
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
    pub(crate) unsafe fn post_receive(
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
