//! Memory regions: registration, its checks, and what changes or ends it.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_control::faults::Verb;
use ferroce_control::objects::{Listing, Object};
use ferroce_transport::Access;
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::memory::dmabuf::DmaBuf;
use crate::memory::keys::Region;
use crate::memory::paging;
use crate::memory::persist;
use crate::verbs::context::Pd;
use crate::verbs::dm::Dm;
use crate::verbs::handles::Kind;
use crate::verbs::limits;

/// The length of a region that is the whole address space (`SIZE_MAX`).
const IMPLICIT_LEN: u64 = u64::MAX;

/// What a region's memory belongs to.
enum Backing {
    /// The consumer's own memory.
    Consumer,
    /// The whole address space, on demand.
    Implicit,
    /// Nothing: a null region.
    Null,
    /// Device memory, which cannot be freed meanwhile.
    Device(Arc<Dm>),
    /// A mapping of a dma-buf of ours.
    /// It ends with this.
    DmaBuf(#[expect(dead_code)] DmaBuf),
}

/// What can change of a region, or end with it.
struct Life {
    pd: Arc<Pd>,
    backing: Backing,
    gone: bool,
}

/// A memory region.
pub struct Mr {
    life: Mutex<Life>,
    key: u32,
    handle: u32,
    listing: Listing,
}

impl Pd {
    /// Registers `len` bytes at `addr`; peers and work requests address them from `iova`. `access`
    /// is `enum ibv_access_flags`.
    ///
    /// Unmapped memory, or memory that is not writable though it must be, is `EFAULT`;
    /// contradicting rights are `EINVAL`, and so are an `iova` with another offset in its page than
    /// `addr` and persistent flush access to memory that is not of a mapped file. With on-demand
    /// access the memory is not looked at; then `addr` 0 and `len` `SIZE_MAX` register the whole
    /// address space.
    pub fn reg_mr(
        self: &Arc<Self>,
        addr: u64,
        len: u64,
        iova: u64,
        access: u32,
    ) -> Result<Arc<Mr>> {
        let access = check_access(access)?;
        check_offset(addr, iova)?;
        let implicit = check_range(addr, len, iova, access)?;
        check_memory(addr, len, access, implicit)?;
        let backing = if implicit {
            Backing::Implicit
        } else {
            Backing::Consumer
        };
        self.add_region(
            Region {
                addr,
                iova: base(iova, access),
                len,
                access,
                ..Region::default()
            },
            backing,
        )
    }

    /// Makes a region that discards what is written and reads as zero, at every address. It has no
    /// remote rights.
    pub fn alloc_null_mr(self: &Arc<Self>) -> Result<Arc<Mr>> {
        self.add_region(
            Region {
                len: u64::MAX,
                access: Access::LOCAL_WRITE,
                null: true,
                ..Region::default()
            },
            Backing::Null,
        )
    }

    /// Registers `len` bytes of device memory from `offset`. Addresses count from zero, and
    /// `access` must say so (`EINVAL`).
    pub fn reg_dm_mr(
        self: &Arc<Self>,
        dm: &Arc<Dm>,
        offset: u64,
        len: u64,
        access: u32,
    ) -> Result<Arc<Mr>> {
        let access = check_access(access)?;
        if !access.contains(Access::ZERO_BASED) {
            return Err(Error::Invalid("device memory is registered zero-based"));
        }
        if access.intersects(Access::ON_DEMAND | Access::HUGETLB) {
            return Err(Error::Invalid("device memory has no pages"));
        }
        if access.contains(Access::FLUSH_PERSISTENT) {
            return Err(Error::Invalid("device memory is not persistent"));
        }
        if !self.context().shares_with(dm.context()) {
            return Err(Error::Invalid("the device memory is of another context"));
        }
        let addr = dm.range(offset, len)?;
        dm.add_user()?;
        let region = Region {
            addr,
            len,
            access,
            ..Region::default()
        };
        self.add_region(region, Backing::Device(dm.clone()))
            .inspect_err(|_| dm.remove_user())
    }

    /// Registers `len` bytes from `offset` of the dma-buf `fd`; peers and work requests address
    /// them from `iova`.
    ///
    /// `EBADF`: no such descriptor. `EINVAL`: not a dma-buf, a range outside of it, an `iova` with
    /// another offset in its page than `offset`, or rights that a dma-buf cannot have.
    pub fn reg_dmabuf_mr(
        self: &Arc<Self>,
        fd: RawFd,
        offset: u64,
        len: u64,
        iova: u64,
        access: u32,
    ) -> Result<Arc<Mr>> {
        let access = check_access(access)?;
        if access.intersects(
            Access::MW_BIND
                | Access::ZERO_BASED
                | Access::ON_DEMAND
                | Access::HUGETLB
                | Access::FLUSH_PERSISTENT,
        ) {
            return Err(Error::Invalid("rights that a dma-buf cannot have"));
        }
        if len == 0 || iova.checked_add(len).is_none() {
            return Err(Error::Invalid(
                "the range is empty or wraps around the address space",
            ));
        }
        let mapping = DmaBuf::map(fd, offset, len, iova, access.contains(Access::LOCAL_WRITE))?;
        let region = Region {
            addr: mapping.addr(),
            iova,
            len,
            access,
            ..Region::default()
        };
        self.add_region(region, Backing::DmaBuf(mapping))
    }

    fn add_region(self: &Arc<Self>, region: Region, backing: Backing) -> Result<Arc<Mr>> {
        let hca = self.context().hca();
        hca.allows(Verb::RegMr)?;
        let region = Region {
            pd: self.handle(),
            ..region
        };
        let len = region.len;
        let key = hca.keys.write().insert(region)?;
        self.add_user();
        let mr = Arc::new(Mr {
            life: Mutex::new(Life {
                pd: self.clone(),
                backing,
                gone: false,
            }),
            key,
            handle: hca.new_handle(),
            listing: hca.objects.enter(listed(self, key, len)),
        });
        let shared = self.context().shared();
        shared.add(Kind::Region, mr.handle(), &mr);
        Ok(mr)
    }
}

/// What others are told of a region.
fn listed(pd: &Pd, key: u32, len: u64) -> Object {
    Object::Mr {
        pd: pd.listed_number(),
        key,
        len,
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

/// No adapter could translate it, and the kernel refuses it for all of them, a zero-based region's
/// too.
fn check_offset(addr: u64, iova: u64) -> Result<()> {
    if !paging::same_offset(addr, iova) {
        return Err(Error::Invalid("iova and address differ within the page"));
    }
    Ok(())
}

/// Checks the numbers of a range; `true` if it is the whole address space.
fn check_range(addr: u64, len: u64, iova: u64, access: Access) -> Result<bool> {
    if len == IMPLICIT_LEN && access.contains(Access::ON_DEMAND) {
        if addr != 0 || iova != 0 || access.contains(Access::HUGETLB) {
            return Err(Error::Invalid(
                "an implicit region begins at 0 and has no page size",
            ));
        }
        return Ok(true);
    }
    if len == 0 || addr.checked_add(len).is_none() || iova.checked_add(len).is_none() {
        return Err(Error::Invalid(
            "the range is empty or wraps around the address space",
        ));
    }
    if len > limits::MAX_MR_SIZE {
        return Err(Error::Invalid("the length exceeds max_mr_size"));
    }
    Ok(false)
}

fn check_memory(addr: u64, len: u64, access: Access, implicit: bool) -> Result<()> {
    if access.contains(Access::FLUSH_PERSISTENT) {
        persist::check(addr, len)?;
    }
    if !access.contains(Access::ON_DEMAND) {
        return paging::validate(addr, len, access.contains(Access::LOCAL_WRITE));
    }
    if !implicit && access.contains(Access::HUGETLB) {
        return paging::validate_huge(addr, len);
    }
    Ok(())
}

fn base(iova: u64, access: Access) -> u64 {
    if access.contains(Access::ZERO_BASED) {
        0
    } else {
        iova
    }
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

    /// Its length in bytes; 0 when it has ended.
    pub fn length(&self) -> u64 {
        let hca = self.life.lock().pd.context().hca().clone();
        let keys = hca.keys.read();
        keys.region(self.key).map_or(0, |r| r.len)
    }

    /// Whether it is in the domain that `pd` is, or is an import of.
    pub fn is_of(&self, pd: &Pd) -> bool {
        self.life.lock().pd.handle() == pd.handle()
    }

    /// Ends the registration (`EBUSY` while windows are bound to it). When it returns, the engine
    /// touches the memory no more.
    pub fn dereg(&self) -> Result<()> {
        let mut life = self.life.lock();
        if life.gone {
            return Ok(());
        }
        life.pd.context().hca().keys.write().remove(self.key)?;
        life.gone = true;
        self.listing.remove();
        if let Backing::Device(dm) = &life.backing {
            dm.remove_user();
        }
        life.backing = Backing::Null;
        let shared = life.pd.context().shared();
        shared.forget(Kind::Region, self.handle);
        life.pd.remove_user();
        Ok(())
    }

    /// Changes domain, range (address, length, I/O virtual address) or rights in place; the keys
    /// stay. On an error nothing has changed. `EBUSY` while windows are bound to it.
    pub fn rereg(
        &self,
        pd: Option<&Arc<Pd>>,
        range: Option<(u64, u64, u64)>,
        access: Option<u32>,
    ) -> Result<()> {
        let mut life = self.life.lock();
        let hca = life.pd.context().hca().clone();
        if pd.is_some_and(|pd| !pd.context().shares_with(life.pd.context())) {
            return Err(Error::Invalid(
                "the protection domain is of another context",
            ));
        }
        let consumer = matches!(life.backing, Backing::Consumer);
        if !consumer && (range.is_some() || access.is_some()) {
            return Err(Error::Unsupported(
                "changing range or rights of a region that is not of ordinary memory",
            ));
        }
        let mut after = {
            let keys = hca.keys.read();
            let before = keys.region(self.key).ok_or(Error::Dead)?;
            Region {
                key: self.key,
                pd: before.pd,
                access: before.access,
                null: before.null,
                addr: before.addr,
                iova: before.iova,
                len: before.len,
                windows: AtomicU32::new(0),
            }
        };
        if let Some(access) = access {
            after.access = check_access(access)?;
        }
        if let Some((addr, len, iova)) = range {
            check_offset(addr, iova)?;
            (after.addr, after.len, after.iova) = (addr, len, base(iova, after.access));
        }
        if let Some(pd) = pd {
            after.pd = pd.handle();
        }
        if range.is_some() || access.is_some() {
            if check_range(after.addr, after.len, after.iova, after.access)? {
                return Err(Error::Unsupported("making a region an implicit one"));
            }
            check_memory(after.addr, after.len, after.access, false)?;
        }
        let mut listed_len = 0;
        if let Some(region) = hca.keys.write().region_mut(self.key) {
            if region.windows.load(Ordering::Relaxed) != 0 {
                return Err(Error::Busy("a memory region with windows bound to it"));
            }
            listed_len = after.len;
            *region = after;
        }
        if let Some(pd) = pd {
            pd.add_user();
            life.pd.remove_user();
            life.pd = pd.clone();
        }
        self.listing.set(listed(&life.pd, self.key, listed_len));
        Ok(())
    }
}
