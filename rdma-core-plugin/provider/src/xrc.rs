//! XRC domains.

use crate::context::engine;
use crate::guard::{self, Errno, explain};
use crate::live;
use ferroce_cabi::pabi::verbs_xrcd;
use ferroce_cabi::*;
use libc::c_int;
use std::sync::Arc;

/// An XRC domain.
#[repr(C)]
pub(crate) struct Xrcd {
    verbs: verbs_xrcd,
    pub engine: Arc<ferroce_engine::Xrcd>,
}

/// `VERBS_XRCD_HANDLE`: the handle is filled in.
const VERBS_XRCD_HANDLE: u32 = 1 << 0;

impl Xrcd {
    /// The object behind a C pointer.
    ///
    /// # Safety
    /// Nobody closes it meanwhile.
    pub(crate) unsafe fn of<'a>(xrcd: *mut ibv_xrcd) -> Result<&'a Xrcd, Errno> {
        live::check(xrcd)?;
        // SAFETY: it is alive; the C structure is the head of ours.
        Ok(unsafe { &*xrcd.cast::<Xrcd>() })
    }
}

pub(crate) unsafe extern "C" fn open_xrcd(
    context: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    guard::run(|| {
        // SAFETY: the caller's structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        let both = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
        if attr.comp_mask & !both != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        if attr.comp_mask != both {
            return Err(Errno(libc::EINVAL));
        }

        let fd = (attr.fd != -1).then_some(attr.fd);

        // SAFETY: a context of ours.
        let engine = unsafe { engine(context) }
            .open_xrcd(fd, attr.oflags)
            .map_err(|e| explain("ibv_open_xrcd", e))?;
        let verbs = verbs_xrcd {
            xrcd: ibv_xrcd { context },
            comp_mask: VERBS_XRCD_HANDLE,
            handle: engine.handle(),
        };

        // SAFETY: initialised.
        Ok(unsafe { live::enter(Box::into_raw(Box::new(Xrcd { verbs, engine })).cast()) })
    })
}

pub(crate) unsafe extern "C" fn close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    guard::run(|| {
        // SAFETY: a domain of ours.
        unsafe { Xrcd::of(xrcd) }?
            .engine
            .close()
            .map_err(|e| explain("ibv_close_xrcd", e))?;
        live::leave(xrcd);
        // SAFETY: made by `open_xrcd`; the caller may not use it again.
        drop(unsafe { Box::from_raw(xrcd.cast::<Xrcd>()) });
        Ok(0)
    })
}
