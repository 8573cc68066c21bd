//! Address handles, and what a datagram's destination looks like in a work request.

use crate::convert;
use crate::guard::{self, Errno, explain};
use crate::live;
use crate::memory::Pd;
use ferroce_cabi::*;
use ferroce_engine::{Datagram, Dest};
use libc::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

/// An address handle.
#[repr(C)]
struct Ah {
    ibv: ibv_ah,
    _engine: Arc<ferroce_engine::Ah>,
}

pub(crate) unsafe extern "C" fn create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    guard::run(|| {
        // SAFETY: the caller's structure.
        let av = convert::av_in(unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?);
        let mut place = Box::<Ah>::new_uninit();
        let cookie = cookie(place.as_mut_ptr().cast());

        // SAFETY: a domain of ours.
        let engine = unsafe { Pd::of(pd) }?
            .engine
            .create_ah(&av, cookie)
            .map_err(|e| explain("ibv_create_ah", e))?;

        // libibverbs fills in context and domain.
        let ibv = ibv_ah {
            context: null_mut(),
            pd: null_mut(),
            handle: engine.handle(),
        };

        let ah = Ah {
            ibv,
            _engine: engine,
        };

        // SAFETY: initialised.
        Ok(unsafe { live::enter(Box::into_raw(Box::write(place, ah)).cast()) })
    })
}

pub(crate) unsafe extern "C" fn destroy_ah(ah: *mut ibv_ah) -> c_int {
    guard::run(|| {
        live::check(ah)?;
        live::leave(ah);
        // SAFETY: made by `create_ah`; the caller may not use it again.
        drop(unsafe { Box::from_raw(ah.cast::<Ah>()) });
        Ok(0)
    })
}

/// What the engine knows an address handle by beside its number: where it lies, so that a number
/// that was overwritten is not taken for that of another, nor a copy of the structure for the
/// handle.
fn cookie(ah: *const ibv_ah) -> u32 {
    (ah.addr() >> 4) as u32
}

/// Where a datagram goes. Whether there is such a handle in the queue pair's protection domain, the
/// engine looks.
///
/// # Safety
/// `ah` is null or readable as an `ibv_ah`.
pub(crate) unsafe fn destination(ah: *mut ibv_ah, qpn: u32, qkey: u32) -> Result<Dest, Errno> {
    // SAFETY: as the caller promises.
    let handle = unsafe { ah.as_ref() }.ok_or(Errno(libc::EINVAL))?.handle;
    Ok(Dest::Datagram(Datagram {
        ah: handle,
        cookie: cookie(ah),
        qpn,
        qkey,
    }))
}
