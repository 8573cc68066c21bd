//! Contexts, protection domains, memory regions and address handles.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ferroce_transport::{Access, AddressVector};
use parking_lot::Mutex;

use crate::cq::{Cq, CqInit};
use crate::error::{Error, Result};
use crate::events::{self, EventPipe};
use crate::hca::Hca;
use crate::limits;
use crate::memory::{self, Region};
use crate::path::gid_address;
use crate::qp::{Qp, QpInit};
use crate::srq::{Srq, SrqInit};

/// An opened device: its own asynchronous event queue on the process's shared [`Hca`].
pub struct Context {
    hca: Arc<Hca>,
    events: EventPipe<16>,
    async_fd: OwnedFd,
    /// Orders taking back against writing of one object's events.
    order: Mutex<()>,
}

impl Context {
    /// Opens a context.
    pub fn open(hca: Arc<Hca>) -> Result<Arc<Context>> {
        let async_fd = events::pipe_rdwr()?;
        let events = EventPipe::attach(async_fd.as_raw_fd())?;
        let context = Arc::new(Context {
            hca,
            events,
            async_fd,
            order: Mutex::new(()),
        });
        context.hca.add_context(&context);
        Ok(context)
    }

    /// The descriptor that delivers `struct ib_uverbs_async_event_desc` records. It closes with the context.
    pub fn async_fd(&self) -> RawFd {
        self.async_fd.as_raw_fd()
    }

    /// The device.
    pub fn hca(&self) -> &Arc<Hca> {
        &self.hca
    }

    /// Creates a protection domain.
    pub fn alloc_pd(self: &Arc<Self>) -> Result<Arc<Pd>> {
        self.hca
            .count
            .pd
            .take(limits::MAX_PD, "protection domains")?;
        Ok(Arc::new(Pd {
            context: self.clone(),
            handle: self.hca.new_handle(),
            users: AtomicU32::new(0),
            gone: AtomicBool::new(false),
            base: None,
        }))
    }

    /// Creates a completion queue of at least `cqe` entries. `cookie` is what events name it by; `channel` a completion channel.
    pub fn create_cq(
        self: &Arc<Self>,
        cqe: u32,
        cookie: u64,
        channel: Option<RawFd>,
    ) -> Result<Arc<Cq>> {
        self.create_cq_with(CqInit {
            cqe,
            cookie,
            channel,
            ..CqInit::default()
        })
    }

    /// Creates a completion queue with everything that can be said of one.
    pub fn create_cq_with(self: &Arc<Self>, init: CqInit) -> Result<Arc<Cq>> {
        Cq::new(self, init)
    }

    /// Queues an asynchronous event; `false` if the consumer left thousands unread and it was lost.
    pub(crate) fn async_event(&self, element: u64, event: u32) -> bool {
        let _order = self.order.lock();
        self.events.push(&events::async_record(element, event))
    }

    /// Removes up to all of the `written` unread events that name `cookie`; returns how many.
    pub(crate) fn take_back_events(&self, cookie: u64, written: u32) -> u32 {
        if written == 0 {
            return 0;
        }
        let _order = self.order.lock();
        // Port events carry a small port number where others carry an address, so the two never meet.
        self.events.take_back(|r| r[..8] == cookie.to_ne_bytes())
    }
}

/// A protection domain.
pub struct Pd {
    context: Arc<Context>,
    handle: u32,
    users: AtomicU32,
    gone: AtomicBool,
    /// The domain whose protection this one shares.
    base: Option<Arc<Pd>>,
}

impl Pd {
    /// A domain with the same protection, which counts what is made in it for itself (`ibv_alloc_parent_domain(3)`). The one
    /// that it is made from stays in use as long.
    pub fn share(self: &Arc<Self>) -> Arc<Pd> {
        self.add_user();
        Arc::new(Pd {
            context: self.context.clone(),
            handle: self.handle,
            users: AtomicU32::new(0),
            gone: AtomicBool::new(false),
            base: Some(self.clone()),
        })
    }

    /// A number that identifies the domain in this process.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn add_user(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_user(&self) {
        self.users.fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends the domain (`EBUSY` while regions, queue pairs, shared receive queues or address handles are in it).
    pub fn dealloc(&self) -> Result<()> {
        if self.users.load(Ordering::Relaxed) != 0 {
            return Err(Error::Busy("protection domain"));
        }
        if !self.gone.swap(true, Ordering::Relaxed) {
            match &self.base {
                Some(base) => base.remove_user(),
                None => self.context.hca.count.pd.give_back(),
            }
        }
        Ok(())
    }

    /// Registers `len` bytes at `addr`; peers and work requests address them from `iova`. `access` is `enum ibv_access_flags`.
    ///
    /// Unmapped memory, or memory that is not writable though it must be, is `EFAULT`; contradicting rights are `EINVAL`.
    pub fn reg_mr(
        self: &Arc<Self>,
        addr: u64,
        len: u64,
        iova: u64,
        access: u32,
    ) -> Result<Arc<Mr>> {
        let access = check_access(access)?;
        check_range(addr, len, iova, access)?;
        let iova = base(iova, access);
        let key = self.context.hca.keys.write().insert(Region {
            addr,
            iova,
            len,
            access,
            pd: self.handle,
        })?;
        self.add_user();
        Ok(Arc::new(Mr {
            pd: Mutex::new(self.clone()),
            key,
            handle: self.context.hca.new_handle(),
            gone: AtomicBool::new(false),
        }))
    }

    /// Creates a shared receive queue.
    pub fn create_srq(self: &Arc<Self>, init: SrqInit) -> Result<Arc<Srq>> {
        Srq::new(self, init)
    }

    /// Creates a queue pair in RESET.
    pub fn create_qp(self: &Arc<Self>, init: QpInit) -> Result<Arc<Qp>> {
        Qp::create(self, init)
    }

    /// Creates an address handle; the source GID must exist and be of the destination's family.
    pub fn create_ah(self: &Arc<Self>, av: &AddressVector) -> Result<Arc<Ah>> {
        let hca = &self.context.hca;
        if av.port_num != 1 {
            return Err(Error::Invalid("the device has port 1 only"));
        }
        if !av.is_global {
            return Err(Error::Invalid(
                "RoCE needs a GRH: set is_global and the destination GID",
            ));
        }
        if hca.gid(av.sgid_index)?.addr.is_ipv4() != gid_address(av.dgid).is_ipv4() {
            return Err(Error::Invalid(
                "source and destination GID are of different families",
            ));
        }
        hca.count.ah.take(limits::MAX_AH, "address handles")?;
        self.add_user();
        Ok(Arc::new(Ah {
            pd: self.clone(),
            av: *av,
            handle: hca.new_handle(),
        }))
    }
}

/// Remote write and remote atomic need local write; optional flags (bits 20 to 29) may be unknown.
fn check_access(access: u32) -> Result<Access> {
    const OPTIONAL: u32 = 0x3ff << 20;
    let access =
        Access::from_bits_retain(access & !OPTIONAL | access & Access::RELAXED_ORDERING.bits());
    if !limits::known_access().contains(access) {
        return Err(Error::Unsupported("this access flag"));
    }
    if access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC)
        && !access.contains(Access::LOCAL_WRITE)
    {
        return Err(Error::Invalid(
            "remote write and remote atomic access need local write access",
        ));
    }
    Ok(access)
}

fn check_range(addr: u64, len: u64, iova: u64, access: Access) -> Result<()> {
    if len == 0 || addr.checked_add(len).is_none() || iova.checked_add(len).is_none() {
        return Err(Error::Invalid(
            "the range is empty or wraps around the address space",
        ));
    }
    memory::validate(addr, len, access.contains(Access::LOCAL_WRITE))
}

fn base(iova: u64, access: Access) -> u64 {
    if access.contains(Access::ZERO_BASED) {
        0
    } else {
        iova
    }
}

/// A memory region.
pub struct Mr {
    pd: Mutex<Arc<Pd>>,
    key: u32,
    handle: u32,
    gone: AtomicBool,
}

impl Mr {
    /// Local key.
    pub fn lkey(&self) -> u32 {
        self.key
    }

    /// Remote key.
    pub fn rkey(&self) -> u32 {
        self.key
    }

    /// A number that identifies the region in this process.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Ends the registration. When it returns, the engine touches the memory no more.
    pub fn dereg(&self) -> Result<()> {
        if !self.gone.swap(true, Ordering::Relaxed) {
            let pd = self.pd.lock();
            pd.context.hca.keys.write().remove(self.key);
            pd.remove_user();
        }
        Ok(())
    }

    /// Changes domain, range (address, length, I/O virtual address) or rights in place; the keys stay.
    /// On an error nothing has changed.
    pub fn rereg(
        &self,
        pd: Option<&Arc<Pd>>,
        range: Option<(u64, u64, u64)>,
        access: Option<u32>,
    ) -> Result<()> {
        let mut owner = self.pd.lock();
        let hca = owner.context.hca.clone();
        if pd.is_some_and(|pd| !Arc::ptr_eq(&pd.context, &owner.context)) {
            return Err(Error::Invalid(
                "the protection domain is of another context",
            ));
        }
        let before = hca
            .keys
            .read_recursive()
            .region(self.key)
            .ok_or(Error::Dead)?;
        let mut after = before;
        if let Some(access) = access {
            after.access = check_access(access)?;
        }
        if let Some((addr, len, iova)) = range {
            (after.addr, after.len, after.iova) = (addr, len, base(iova, after.access));
        }
        if let Some(pd) = pd {
            after.pd = pd.handle;
        }
        check_range(after.addr, after.len, after.iova, after.access)?;
        if let Some(region) = hca.keys.write().region_mut(self.key) {
            *region = after;
        }
        if let Some(pd) = pd {
            pd.add_user();
            owner.remove_user();
            *owner = pd.clone();
        }
        Ok(())
    }
}

/// An address handle.
pub struct Ah {
    pd: Arc<Pd>,
    av: AddressVector,
    handle: u32,
}

impl Ah {
    /// Where it leads.
    pub fn address_vector(&self) -> &AddressVector {
        &self.av
    }

    /// A number that identifies the handle in this process.
    pub fn handle(&self) -> u32 {
        self.handle
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        self.pd.remove_user();
        self.pd.context.hca.count.ah.give_back();
    }
}
