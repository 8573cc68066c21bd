//! Thread domains and parent domains, with the program's own allocators.
//!
//! A parent domain protects as the domain in it does. What it adds is memory: the objects made in it, and the completions of
//! an extended queue, lie where its allocators say. The send and receive rings grow with use, also in the helper's thread,
//! in which no function of the program may run; they stay on the heap. A thread domain promises that one thread uses its
//! objects, which nothing here depends on.

use crate::guard::{self, Errno};
use crate::live;
use crate::memory::Pd;
use ferroce_cabi::*;
use libc::{c_int, c_void};
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// What memory is asked for: the `resource_type` of the allocators. Its upper half, the driver's number, is zero, as the
/// kernel knows no driver of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Resource {
    /// A queue pair.
    Qp = 1,
    /// A shared receive queue.
    Srq = 2,
    /// A completion queue.
    Cq = 3,
    /// The completions of a completion queue.
    CqEntries = 4,
}

/// The program's allocators.
pub struct Allocators {
    alloc: ibv_pd_alloc,
    free: ibv_pd_free,
    /// The parent domain that they are called with. Everything allocated is freed before the domain is.
    pd: AtomicPtr<ibv_pd>,
    context: usize,
}

impl Allocators {
    /// Memory, or `None` where the program leaves it to us; `ENOMEM` if it has none, `EINVAL` if it is misaligned.
    pub fn allocate(
        &self,
        layout: Layout,
        resource: Resource,
    ) -> Result<Option<NonNull<u8>>, Errno> {
        // Some allocators take an alignment from a pointer's size on only.
        let align = layout.align().max(64);
        // SAFETY: the program's function with the arguments that it was registered for.
        let start = unsafe {
            (self.alloc)(
                self.pd.load(Ordering::Relaxed),
                self.context as *mut c_void,
                layout.size(),
                align,
                resource as u64,
            )
        };
        if start as usize == IBV_ALLOCATOR_USE_DEFAULT {
            return Ok(None);
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno(libc::ENOMEM))?;
        if !(start.as_ptr() as usize).is_multiple_of(align) {
            self.release(start, resource);
            return Err(Errno(libc::EINVAL));
        }
        Ok(Some(start))
    }

    /// Gives back what [`allocate`](Self::allocate) returned.
    pub fn release(&self, start: NonNull<u8>, resource: Resource) {
        // SAFETY: as in `allocate`.
        unsafe {
            (self.free)(
                self.pd.load(Ordering::Relaxed),
                self.context as *mut c_void,
                start.as_ptr().cast(),
                resource as u64,
            );
        }
    }
}

/// What a parent domain has beside a domain.
pub struct Parent {
    td: *mut Td,
    allocators: Option<Arc<Allocators>>,
}

impl Parent {
    /// Its allocators, if it has any.
    pub fn allocators(&self) -> Option<&Arc<Allocators>> {
        self.allocators.as_ref()
    }

    /// Called when the domain goes.
    pub fn leave_thread_domain(&self) {
        // SAFETY: null, or a thread domain that cannot go while this counts among its users.
        if let Some(td) = unsafe { self.td.as_ref() } {
            td.users.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A thread domain.
#[repr(C)]
struct Td {
    ibv: ibv_td,
    users: AtomicU32,
}

pub unsafe extern "C" fn alloc_td(
    context: *mut ibv_context,
    init: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    guard::run(|| {
        // SAFETY: the caller's structure.
        let init = unsafe { init.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        if init.comp_mask != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let td = Td {
            ibv: ibv_td { context },
            users: AtomicU32::new(0),
        };
        // SAFETY: initialised.
        Ok(unsafe { live::enter(Box::into_raw(Box::new(td)).cast()) })
    })
}

/// `EBUSY` while a parent domain has it.
pub unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    guard::run(|| {
        live::check(td)?;
        let object: *mut Td = td.cast();
        // SAFETY: it is alive.
        if unsafe { &(*object).users }.load(Ordering::Relaxed) != 0 {
            return Err(Errno(libc::EBUSY));
        }
        live::leave(td);
        // SAFETY: made by `alloc_td`; the caller may not use it again.
        drop(unsafe { Box::from_raw(object) });
        Ok(0)
    })
}

pub unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    guard::run(|| {
        // SAFETY: the caller's structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        let has = |bit| attr.comp_mask & bit != 0;
        let known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
        if attr.comp_mask & !known != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        // SAFETY: null or a domain of ours.
        let inner = unsafe { Pd::of(attr.pd) }?;
        if !attr.td.is_null() {
            live::check(attr.td)?;
        }
        let td: *mut Td = attr.td.cast();
        // SAFETY: null or a thread domain of ours.
        let foreign = unsafe {
            inner.ibv.context != context || td.as_ref().is_some_and(|td| td.ibv.context != context)
        };
        // A parent domain extends a domain, not another parent domain.
        if foreign || inner.parent.is_some() {
            return Err(Errno(libc::EINVAL));
        }
        let allocators = if has(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
            let (Some(alloc), Some(free)) = (attr.alloc, attr.free) else {
                return Err(Errno(libc::EINVAL));
            };
            Some(Arc::new(Allocators {
                alloc,
                free,
                pd: AtomicPtr::default(),
                context: if has(IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) {
                    attr.pd_context as usize
                } else {
                    0
                },
            }))
        } else {
            None
        };
        // SAFETY: as above.
        if let Some(td) = unsafe { td.as_ref() } {
            td.users.fetch_add(1, Ordering::Relaxed);
        }
        let pd = Pd {
            ibv: ibv_pd {
                context,
                handle: inner.ibv.handle,
            },
            engine: inner.engine.share(),
            parent: Some(Parent {
                td,
                allocators: allocators.clone(),
            }),
        };
        let pd = pd.into_raw();
        if let Some(allocators) = allocators {
            allocators.pd.store(pd, Ordering::Relaxed);
        }
        Ok(pd)
    })
}
