//! Protection domains, memory regions and address handles.

use crate::context::engine;
use crate::convert;
use crate::guard::{self, Errno, explain};
use crate::parent_domain::{Allocators, Parent};
use ferroce_cabi::pabi34::verbs_mr;
use ferroce_cabi::*;
use libc::{c_int, c_void, size_t};
use std::ptr::null_mut;
use std::sync::Arc;

/// A protection domain.
#[repr(C)]
pub struct Pd {
    pub ibv: ibv_pd,
    pub engine: Arc<ferroce_engine::Pd>,
    /// What a parent domain has beside that.
    pub parent: Option<Parent>,
}

impl Pd {
    /// The object behind a C pointer.
    ///
    /// # Safety
    /// `pd` was made by [`alloc_pd`] and not freed.
    pub unsafe fn of<'a>(pd: *mut ibv_pd) -> Result<&'a Pd, Errno> {
        // SAFETY: as the caller promises; the C structure is the head of ours.
        unsafe { pd.cast::<Pd>().as_ref() }.ok_or(Errno(libc::EINVAL))
    }

    /// Where the program wants what is made in this domain.
    pub fn allocators(&self) -> Option<&Arc<Allocators>> {
        self.parent.as_ref()?.allocators()
    }
}

pub unsafe extern "C" fn alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    guard::run(|| {
        // SAFETY: a context of ours.
        let engine = unsafe { engine(context) }
            .alloc_pd()
            .map_err(|e| explain("ibv_alloc_pd", e))?;
        let ibv = ibv_pd {
            context,
            handle: engine.handle(),
        };
        Ok(Box::into_raw(Box::new(Pd {
            ibv,
            engine,
            parent: None,
        }))
        .cast())
    })
}

pub unsafe extern "C" fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
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
        // SAFETY: made by `alloc_pd` or `alloc_parent_domain`; the caller may not use it again.
        drop(unsafe { Box::from_raw(pd.cast::<Pd>()) });
        Ok(0)
    })
}

/// A memory region.
#[repr(C)]
struct Mr {
    verbs: verbs_mr,
    engine: Arc<ferroce_engine::Mr>,
}

pub unsafe extern "C" fn reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: size_t,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    guard::run(|| {
        // SAFETY: a domain of ours.
        let engine = unsafe { Pd::of(pd) }?
            .engine
            .reg_mr(addr as u64, length as u64, iova, access as u32)
            .map_err(|e| explain("ibv_reg_mr", e))?;
        let ibv_mr = ibv_mr {
            // SAFETY: as above.
            context: unsafe { (*pd).context },
            pd,
            addr,
            length,
            handle: engine.handle(),
            lkey: engine.lkey(),
            rkey: engine.rkey(),
        };
        let verbs = verbs_mr {
            ibv_mr,
            mr_type: 0,
            access,
        };
        Ok(Box::into_raw(Box::new(Mr { verbs, engine })).cast())
    })
}

/// Changes a region in place; the keys stay. On an error nothing has changed.
pub unsafe extern "C" fn rereg_mr(
    mr: *mut verbs_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: size_t,
    access: c_int,
) -> c_int {
    guard::run(|| {
        // SAFETY: a region of ours; libibverbs has no other reference meanwhile.
        let mr = unsafe { mr.cast::<Mr>().as_mut() }.ok_or(Errno(libc::EINVAL))?;
        let has = |flag| flags & flag != 0;
        let domain = if has(rereg::CHANGE_PD) {
            // SAFETY: a domain of ours, or null.
            Some(&unsafe { Pd::of(pd) }?.engine)
        } else {
            None
        };
        let range =
            has(rereg::CHANGE_TRANSLATION).then_some((addr as u64, length as u64, addr as u64));
        let rights = has(rereg::CHANGE_ACCESS).then_some(access as u32);
        mr.engine
            .rereg(domain, range, rights)
            .map_err(|e| explain("ibv_rereg_mr", e))?;
        if has(rereg::CHANGE_ACCESS) {
            mr.verbs.access = access;
        }
        Ok(0)
    })
}

pub unsafe extern "C" fn dereg_mr(mr: *mut verbs_mr) -> c_int {
    guard::run(|| {
        // SAFETY: a region of ours.
        unsafe { mr.cast::<Mr>().as_ref() }
            .ok_or(Errno(libc::EINVAL))?
            .engine
            .dereg()
            .map_err(|e| explain("ibv_dereg_mr", e))?;
        // SAFETY: made by `reg_mr`; the caller may not use it again.
        drop(unsafe { Box::from_raw(mr.cast::<Mr>()) });
        Ok(0)
    })
}

/// An address handle.
#[repr(C)]
struct Ah {
    ibv: ibv_ah,
    engine: Arc<ferroce_engine::Ah>,
}

pub unsafe extern "C" fn create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    guard::run(|| {
        // SAFETY: the caller's structure.
        let av = convert::av_in(unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?);
        // SAFETY: a domain of ours.
        let engine = unsafe { Pd::of(pd) }?
            .engine
            .create_ah(&av)
            .map_err(|e| explain("ibv_create_ah", e))?;
        // libibverbs fills in context and domain.
        let ibv = ibv_ah {
            context: null_mut(),
            pd: null_mut(),
            handle: engine.handle(),
        };
        Ok(Box::into_raw(Box::new(Ah { ibv, engine })).cast())
    })
}

pub unsafe extern "C" fn destroy_ah(ah: *mut ibv_ah) -> c_int {
    guard::run(|| {
        // SAFETY: made by `create_ah`; the caller may not use it again.
        drop(unsafe { Box::from_raw(ah.cast::<Ah>()) });
        Ok(0)
    })
}
