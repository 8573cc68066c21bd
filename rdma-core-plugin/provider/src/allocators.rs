//! The program's own allocators (`ibv_alloc_parent_domain(3)`), and what they are asked for.

use crate::guard::Errno;
use ferroce_cabi::*;
use libc::c_void;
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What memory is asked for: the `resource_type` of the allocators. Its upper half, the driver's
/// number, is zero, as the kernel knows no driver of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Resource {
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
pub(crate) struct Allocators {
    alloc: ibv_pd_alloc,
    free: ibv_pd_free,
    /// The parent domain that they are called with. Everything allocated is freed before the domain
    /// is.
    pd: AtomicPtr<ibv_pd>,
    context: usize,
}

impl Allocators {
    /// Those of a parent domain that has no address yet.
    pub(crate) fn new(alloc: ibv_pd_alloc, free: ibv_pd_free, context: usize) -> Allocators {
        Allocators {
            alloc,
            free,
            pd: AtomicPtr::default(),
            context,
        }
    }

    /// Tells the domain's address, before anything is allocated.
    pub(crate) fn set_domain(&self, pd: *mut ibv_pd) {
        self.pd.store(pd, Ordering::Relaxed);
    }

    /// Memory, or `None` where the program leaves it to us; `ENOMEM` if it has none, `EINVAL` if it
    /// is misaligned.
    pub(crate) fn allocate(
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
    pub(crate) fn release(&self, start: NonNull<u8>, resource: Resource) {
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
