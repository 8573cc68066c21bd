//! Protection domains.

use crate::allocators::Allocators;
use crate::context::engine;
use crate::guard::{self, Errno, explain};
use crate::live;
use crate::thread_domain::Td;
use ferroce_cabi::*;
use libc::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A protection domain.
#[repr(C)]
pub(crate) struct Pd {
    pub ibv: ibv_pd,
    pub engine: Arc<ferroce_engine::Pd>,
    /// What a parent domain has beside that.
    pub parent: Option<Parent>,
}

/// What a parent domain has beside a domain.
pub(crate) struct Parent {
    pub td: *mut Td,
    pub allocators: Option<Arc<Allocators>>,
}

impl Parent {
    /// Called when the domain goes.
    fn leave_thread_domain(&self) {
        // SAFETY: null, or a thread domain that cannot go while this counts among its users.
        if let Some(td) = unsafe { self.td.as_ref() } {
            td.users.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Pd {
    /// The object behind a C pointer.
    ///
    /// # Safety
    /// Nobody frees it meanwhile.
    pub(crate) unsafe fn of<'a>(pd: *mut ibv_pd) -> Result<&'a Pd, Errno> {
        live::check(pd)?;
        // SAFETY: it is alive; the C structure is the head of ours.
        Ok(unsafe { &*pd.cast::<Pd>() })
    }

    /// Hands a domain over to C code.
    pub(crate) fn into_raw(self) -> *mut ibv_pd {
        // SAFETY: initialised.
        unsafe { live::enter(Box::into_raw(Box::new(self)).cast()) }
    }

    /// # Safety
    /// It is alive, and the caller may not use it again.
    unsafe fn free(pd: *mut ibv_pd) {
        live::leave(pd);
        // SAFETY: made by `into_raw`.
        drop(unsafe { Box::from_raw(pd.cast::<Pd>()) });
    }

    /// Where the program wants what is made in this domain.
    pub(crate) fn allocators(&self) -> Option<&Arc<Allocators>> {
        self.parent.as_ref()?.allocators.as_ref()
    }
}

pub(crate) unsafe extern "C" fn alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    guard::run(|| {
        // SAFETY: a context of ours.
        let engine = unsafe { engine(context) }
            .alloc_pd()
            .map_err(|e| explain("ibv_alloc_pd", e))?;
        let ibv = ibv_pd {
            context,
            handle: engine.handle(),
        };
        let pd = Pd {
            ibv,
            engine,
            parent: None,
        };
        Ok(pd.into_raw())
    })
}

pub(crate) unsafe extern "C" fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
    guard::run(|| {
        // SAFETY: a domain of ours.
        let domain = unsafe { Pd::of(pd) }?;
        domain
            .engine
            .dealloc()
            .map_err(|e| explain("ibv_dealloc_pd", e))?;
        if let Some(parent) = &domain.parent {
            parent.leave_thread_domain();
        }
        // SAFETY: found above; the caller may not use it again.
        unsafe { Pd::free(pd) };
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd {
    guard::run(|| {
        // SAFETY: a context of ours.
        let engine = unsafe { engine(context) }
            .import_pd(handle)
            .map_err(|e| explain("ibv_import_pd", e))?;
        let ibv = ibv_pd { context, handle };
        let pd = Pd {
            ibv,
            engine,
            parent: None,
        };
        Ok(pd.into_raw())
    })
}

/// Forgets an import; the domain lives on.
pub(crate) unsafe extern "C" fn unimport_pd(pd: *mut ibv_pd) {
    let _: c_int = guard::run(|| {
        live::check(pd)?;
        // SAFETY: it is alive; the caller may not use it again.
        unsafe { Pd::free(pd) };
        Ok(0)
    });
}
