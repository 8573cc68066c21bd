//! Memory windows, and the requests that bind them.

use crate::guard::{self, Errno, explain};
use crate::live;
use crate::memory::Pd;
use crate::qp::Qp;
use ferroce_cabi::*;
use ferroce_engine::{Access, Dest, MwType, SendData, SendFlags, SendOp, SendRequest, WindowBind};
use libc::{c_int, c_uint};
use std::sync::Arc;

/// A memory window.
#[repr(C)]
struct Mw {
    ibv: ibv_mw,
    engine: Arc<ferroce_engine::Mw>,
}

pub(crate) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, kind: c_uint) -> *mut ibv_mw {
    guard::run(|| {
        let engine_kind = match kind {
            IBV_MW_TYPE_1 => MwType::One,
            IBV_MW_TYPE_2 => MwType::Two,
            _ => return Err(Errno(libc::EINVAL)),
        };

        // SAFETY: a domain of ours.
        let engine = unsafe { Pd::of(pd) }?
            .engine
            .alloc_mw(engine_kind)
            .map_err(|e| explain("ibv_alloc_mw", e))?;

        let ibv = ibv_mw {
            // SAFETY: as above.
            context: unsafe { (*pd).context },
            pd,
            rkey: engine.first_rkey(),
            handle: engine.handle(),
            r#type: kind,
        };

        // SAFETY: initialised.
        Ok(unsafe { live::enter(Box::into_raw(Box::new(Mw { ibv, engine })).cast()) })
    })
}

pub(crate) unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    guard::run(|| {
        live::check(mw)?;
        // SAFETY: it is alive.
        unsafe { &*mw.cast::<Mw>() }.engine.dealloc();
        live::leave(mw);
        // SAFETY: made by `alloc_mw`; the caller may not use it again.
        drop(unsafe { Box::from_raw(mw.cast::<Mw>()) });
        Ok(0)
    })
}

/// The rights that a bind asks for. What is defined and no window can have is the queue pair's to
/// refuse; a bit that nobody has defined is no right at all, and is refused at once.
fn rights(flags: c_uint) -> Result<Access, Errno> {
    // Bits 20 to 29 may be set for devices that know them (`IBV_ACCESS_OPTIONAL_RANGE`). None of
    // them says anything about a window.
    const OPTIONAL: c_uint = 0x3ff << 20;
    Access::from_bits(flags & !OPTIONAL).ok_or(Errno(libc::EINVAL))
}

/// What a request asks to be bound.
///
/// # Safety
/// Nobody frees the window or the region meanwhile.
unsafe fn bind(
    mw: *const ibv_mw,
    kind: c_uint,
    rkey: u32,
    info: &ibv_mw_bind_info,
) -> Result<WindowBind, Errno> {
    live::check(mw)?;
    if !info.mr.is_null() {
        live::check(info.mr)?;
    }

    // SAFETY: both are alive, but for a region that is not named.
    let (mw, mr) = unsafe { (&*mw, info.mr.as_ref()) };
    if mw.r#type != kind || mr.is_none() && (info.addr != 0 || info.length != 0) {
        return Err(Errno(libc::EINVAL));
    }

    Ok(WindowBind {
        window: mw.handle,
        rkey,
        lkey: mr.map_or(0, |mr| mr.lkey),
        access: rights(info.mw_access_flags)?,
        addr: info.addr,
        len: info.length,
    })
}

/// The operation of `IBV_WR_BIND_MW`, which binds windows of type 2 only.
///
/// # Safety
/// Nobody frees the window or the region meanwhile.
pub(crate) unsafe fn bind_type_2(
    mw: *const ibv_mw,
    rkey: u32,
    info: &ibv_mw_bind_info,
) -> Result<SendOp, Errno> {
    // SAFETY: as the caller promises.
    unsafe { bind(mw, IBV_MW_TYPE_2, rkey, info) }.map(SendOp::BindMw)
}

/// Posts a bind of a type 1 window. The window has its new key when this returns, though the bind
/// may fail later.
pub(crate) unsafe extern "C" fn bind_mw(
    qp: *mut ibv_qp,
    mw: *mut ibv_mw,
    request: *mut ibv_mw_bind,
) -> c_int {
    // SAFETY: a queue pair of ours.
    let object = unsafe { Qp::of(qp) };
    object.health.run(|| {
        object.check_handle()?;

        // SAFETY: the caller's request, a window that `bind` finds alive, and the queue pair's own
        // type, which never changes.
        let (request, bound, qp_type) = unsafe {
            let request = request.as_ref().ok_or(Errno(libc::EINVAL))?;
            let mut bound = bind(mw, IBV_MW_TYPE_1, 0, &request.bind_info)?;
            let rkey = (*mw).rkey;
            bound.rkey = rkey & !0xff | rkey.wrapping_add(1) & 0xff;
            (request, bound, (*qp).qp_type)
        };
        if ![qp_type::RC, qp_type::UC, qp_type::XRC_SEND].contains(&qp_type) {
            return Err(Errno(libc::EINVAL));
        }

        let flags = SendFlags::from_bits_truncate(request.send_flags);
        object.engine.post_send(&SendRequest {
            wr_id: request.wr_id,
            op: SendOp::BindMw(bound),
            flags: flags & (SendFlags::FENCE | SendFlags::SIGNALED),
            data: SendData::Sges(&[]),
            dest: Dest::Connected,
        })?;

        // SAFETY: the caller's window.
        unsafe { (*mw).rkey = bound.rkey };
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_that_nobody_has_defined_is_refused() {
        let defined = Access::REMOTE_READ | Access::HUGETLB;
        for optional in [0, Access::RELAXED_ORDERING.bits(), 1 << 29] {
            assert_eq!(rights(defined.bits() | optional).ok(), Some(defined));
        }
        for bit in [10, 15, 19, 30, 31] {
            let refused = rights(defined.bits() | 1 << bit);
            assert_eq!(refused.err().map(|errno| errno.0), Some(libc::EINVAL));
        }
    }
}
