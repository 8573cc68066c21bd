//! Device memory, and the two functions that copy it.

use crate::context::engine;
use crate::guard::{self, Errno, explain};
use crate::live;
use ferroce_cabi::pabi::verbs_dm;
use ferroce_cabi::*;
use libc::{c_int, c_void, size_t};
use std::sync::Arc;

/// Device memory.
#[repr(C)]
pub(crate) struct Dm {
    verbs: verbs_dm,
    engine: Arc<ferroce_engine::Dm>,
}

impl Dm {
    /// The engine's object behind a C pointer.
    ///
    /// # Safety
    /// Nobody frees it meanwhile.
    pub(crate) unsafe fn of<'a>(dm: *mut ibv_dm) -> Result<&'a Arc<ferroce_engine::Dm>, Errno> {
        live::check(dm)?;
        // SAFETY: it is alive; the C structure is the head of ours.
        Ok(unsafe { &(*dm.cast::<Dm>()).engine })
    }

    fn object(context: *mut ibv_context, engine: Arc<ferroce_engine::Dm>) -> *mut ibv_dm {
        let handle = engine.handle();
        let dm = ibv_dm {
            context,
            memcpy_to_dm: Some(memcpy_to_dm),
            memcpy_from_dm: Some(memcpy_from_dm),
            comp_mask: IBV_DM_MASK_HANDLE,
            handle,
        };
        let verbs = verbs_dm { dm, handle };
        // SAFETY: initialised.
        unsafe { live::enter(Box::into_raw(Box::new(Dm { verbs, engine })).cast()) }
    }
}

pub(crate) unsafe extern "C" fn alloc_dm(
    context: *mut ibv_context,
    attr: *mut ibv_alloc_dm_attr,
) -> *mut ibv_dm {
    guard::run(|| {
        // SAFETY: the caller's structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        if attr.comp_mask != 0 {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: a context of ours.
        let dm = unsafe { engine(context) }
            .alloc_dm(attr.length as u64, attr.log_align_req)
            .map_err(|e| explain("ibv_alloc_dm", e))?;
        Ok(Dm::object(context, dm))
    })
}

pub(crate) unsafe extern "C" fn free_dm(dm: *mut ibv_dm) -> c_int {
    guard::run(|| {
        // SAFETY: device memory of ours.
        unsafe { Dm::of(dm) }?
            .free()
            .map_err(|e| explain("ibv_free_dm", e))?;
        live::leave(dm);
        // SAFETY: made by `object`; the caller may not use it again.
        drop(unsafe { Box::from_raw(dm.cast::<Dm>()) });
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn import_dm(context: *mut ibv_context, handle: u32) -> *mut ibv_dm {
    guard::run(|| {
        // SAFETY: a context of ours.
        let dm = unsafe { engine(context) }
            .import_dm(handle)
            .map_err(|e| explain("ibv_import_dm", e))?;
        Ok(Dm::object(context, dm))
    })
}

/// Forgets an import; the memory lives on.
pub(crate) unsafe extern "C" fn unimport_dm(dm: *mut ibv_dm) {
    let _: c_int = guard::run(|| {
        live::check(dm)?;
        live::leave(dm);
        // SAFETY: made by `object`; the caller may not use it again.
        drop(unsafe { Box::from_raw(dm.cast::<Dm>()) });
        Ok(0)
    });
}

unsafe extern "C" fn memcpy_to_dm(
    dm: *mut ibv_dm,
    offset: u64,
    from: *const c_void,
    length: size_t,
) -> c_int {
    guard::run(|| {
        // SAFETY: device memory of ours, and the caller's buffer.
        unsafe { Dm::of(dm)?.copy_in(offset, from.cast(), length) }?;
        Ok(0)
    })
}

unsafe extern "C" fn memcpy_from_dm(
    to: *mut c_void,
    dm: *mut ibv_dm,
    offset: u64,
    length: size_t,
) -> c_int {
    guard::run(|| {
        // SAFETY: device memory of ours, and the caller's buffer.
        unsafe { Dm::of(dm)?.copy_out(offset, to.cast(), length) }?;
        Ok(0)
    })
}
