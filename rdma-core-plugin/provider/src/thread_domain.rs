//! Thread domains. One promises that a single thread uses its objects, which nothing here depends
//! on.

use crate::guard::{self, Errno};
use crate::live;
use ferroce_cabi::*;
use libc::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

/// A thread domain.
#[repr(C)]
pub(crate) struct Td {
    pub ibv: ibv_td,
    /// Parent domains that have it.
    pub users: AtomicU32,
}

pub(crate) unsafe extern "C" fn alloc_td(
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
pub(crate) unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
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
