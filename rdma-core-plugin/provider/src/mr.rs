//! Memory regions of every kind: ordinary, null, device memory, dma-buf; and advice about them.

use crate::dm::Dm;
use crate::guard::{self, Errno, explain};
use crate::live;
use crate::memory::Pd;
use crate::requests;
use ferroce_cabi::pabi::{mr_type, verbs_mr};
use ferroce_cabi::*;
use ferroce_engine::{Access, Advice};
use libc::{c_int, c_uint, c_void, size_t};
use std::ptr::null_mut;
use std::sync::Arc;

/// A memory region.
#[repr(C)]
pub(crate) struct Mr {
    verbs: verbs_mr,
    engine: Arc<ferroce_engine::Mr>,
}

impl Mr {
    /// Makes the C object of a region.
    ///
    /// # Safety
    /// `pd` is a domain of ours.
    pub(crate) unsafe fn object(
        pd: *mut ibv_pd,
        engine: Arc<ferroce_engine::Mr>,
        mr_type: c_uint,
        access: c_int,
        addr: *mut c_void,
        length: size_t,
    ) -> *mut ibv_mr {
        let ibv_mr = ibv_mr {
            // SAFETY: as the caller promises.
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
            mr_type,
            access,
        };

        // SAFETY: initialised.
        unsafe { live::enter(Box::into_raw(Box::new(Mr { verbs, engine })).cast()) }
    }

    /// # Safety
    /// It is alive, and the caller may not use it again.
    unsafe fn free(mr: *mut ibv_mr) {
        live::leave(mr);
        // SAFETY: made by `object`.
        drop(unsafe { Box::from_raw(mr.cast::<Mr>()) });
    }
}

pub(crate) unsafe extern "C" fn reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: size_t,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    guard::run(|| {
        // SAFETY: a domain of ours.
        unsafe {
            let engine = Pd::of(pd)?
                .engine
                .reg_mr(addr as u64, length as u64, iova, access as u32)
                .map_err(|e| explain("ibv_reg_mr", e))?;
            Ok(Mr::object(pd, engine, mr_type::MR, access, addr, length))
        }
    })
}

pub(crate) unsafe extern "C" fn alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr {
    guard::run(|| {
        // SAFETY: a domain of ours.
        unsafe {
            let engine = Pd::of(pd)?
                .engine
                .alloc_null_mr()
                .map_err(|e| explain("ibv_alloc_null_mr", e))?;
            let access = Access::LOCAL_WRITE.bits() as c_int;
            let (kind, all) = (mr_type::NULL_MR, size_t::MAX);
            Ok(Mr::object(pd, engine, kind, access, null_mut(), all))
        }
    })
}

pub(crate) unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: size_t,
    access: c_uint,
) -> *mut ibv_mr {
    guard::run(|| {
        // SAFETY: a domain and device memory of ours.
        unsafe {
            let engine = Pd::of(pd)?
                .engine
                .reg_dm_mr(Dm::of(dm)?, offset, length as u64, access)
                .map_err(|e| explain("ibv_reg_dm_mr", e))?;
            // Addresses count from zero, so there is none to tell.
            let kind = mr_type::MR;
            let access = access as c_int;
            Ok(Mr::object(pd, engine, kind, access, null_mut(), length))
        }
    })
}

pub(crate) unsafe extern "C" fn reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: size_t,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut ibv_mr {
    guard::run(|| {
        // SAFETY: a domain of ours.
        unsafe {
            let engine = Pd::of(pd)?
                .engine
                .reg_dmabuf_mr(fd, offset, length as u64, iova, access as u32)
                .map_err(|e| explain("ibv_reg_dmabuf_mr", e))?;
            let (kind, start) = (mr_type::DMABUF_MR, offset as *mut c_void);
            Ok(Mr::object(pd, engine, kind, access, start, length))
        }
    })
}

/// Registers memory or a dma-buf, as the mask says. DMA handles have no meaning here: `EOPNOTSUPP`.
pub(crate) unsafe extern "C" fn reg_mr_ex(
    pd: *mut ibv_pd,
    attr: *mut ibv_mr_init_attr,
) -> *mut ibv_mr {
    use reg_mr_mask::{ADDR, FD, FD_OFFSET, IOVA};

    guard::run(|| {
        // SAFETY: the caller's structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        let has = |bits| attr.comp_mask & bits == bits;
        if attr.comp_mask & !(IOVA | ADDR | FD | FD_OFFSET) != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }

        // SAFETY: a domain of ours.
        let mr = unsafe {
            match (has(ADDR), has(FD), has(FD_OFFSET)) {
                (true, false, false) => {
                    let iova = if has(IOVA) {
                        attr.iova
                    } else {
                        attr.addr as u64
                    };
                    reg_mr(pd, attr.addr, attr.length, iova, attr.access)
                }
                (false, true, true) if has(IOVA) => {
                    let (offset, iova) = (attr.fd_offset, attr.iova);
                    reg_dmabuf_mr(pd, offset, attr.length, iova, attr.fd, attr.access)
                }
                _ => return Err(Errno(libc::EINVAL)),
            }
        };

        match mr.is_null() {
            true => Err(guard::errno()),
            false => Ok(mr),
        }
    })
}

pub(crate) unsafe extern "C" fn import_mr(pd: *mut ibv_pd, handle: u32) -> *mut ibv_mr {
    guard::run(|| {
        // SAFETY: a domain of ours.
        unsafe {
            let engine = Pd::of(pd)?
                .engine
                .import_mr(handle)
                .map_err(|e| explain("ibv_import_mr", e))?;
            let length = size_t::try_from(engine.length()).unwrap_or(size_t::MAX);
            let kind = mr_type::IMPORTED_MR;
            Ok(Mr::object(pd, engine, kind, 0, null_mut(), length))
        }
    })
}

/// Forgets an import; the region lives on.
pub(crate) unsafe extern "C" fn unimport_mr(mr: *mut ibv_mr) {
    let _: c_int = guard::run(|| {
        live::check(mr)?;
        // SAFETY: it is alive; the caller may not use it again.
        unsafe { Mr::free(mr) };
        Ok(0)
    });
}

pub(crate) unsafe extern "C" fn advise_mr(
    pd: *mut ibv_pd,
    advice: c_uint,
    flags: u32,
    list: *mut ibv_sge,
    count: u32,
) -> c_int {
    guard::run(|| {
        let advice = match advice {
            advise::PREFETCH => Advice::Prefetch,
            advise::PREFETCH_WRITE => Advice::PrefetchWrite,
            advise::PREFETCH_NO_FAULT => Advice::PrefetchNoFault,
            _ => return Err(Errno(libc::ENOTSUP)),
        };

        if flags & !advise::FLAG_FLUSH != 0 {
            return Err(Errno(libc::EINVAL));
        }

        // SAFETY: a domain of ours, and the caller's list of that many elements.
        unsafe {
            let mut copy = Vec::new();
            let list = requests::sges(list, count as usize, &mut copy)?;
            Pd::of(pd)?
                .engine
                .advise(advice, flags & advise::FLAG_FLUSH != 0, list)
                .map_err(|e| explain("ibv_advise_mr", e))?;
        }

        Ok(0)
    })
}

/// Changes a region in place; the keys stay. On an error nothing has changed.
pub(crate) unsafe extern "C" fn rereg_mr(
    mr: *mut verbs_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: size_t,
    access: c_int,
) -> c_int {
    guard::run(|| {
        live::check(mr.cast::<ibv_mr>())?;

        // SAFETY: it is alive; libibverbs has no other reference meanwhile.
        let mr = unsafe { &mut *mr.cast::<Mr>() };
        let has = |flag| flags & flag != 0;
        if flags == 0 {
            return Err(Errno(libc::EINVAL));
        }

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

pub(crate) unsafe extern "C" fn dereg_mr(mr: *mut verbs_mr) -> c_int {
    guard::run(|| {
        let mr: *mut ibv_mr = mr.cast();
        live::check(mr)?;
        // SAFETY: it is alive.
        unsafe { &*mr.cast::<Mr>() }
            .engine
            .dereg()
            .map_err(|e| explain("ibv_dereg_mr", e))?;
        // SAFETY: found above; the caller may not use it again.
        unsafe { Mr::free(mr) };
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use reg_mr_mask::{ADDR, FD, FD_OFFSET, IOVA};

    // Versions of libibverbs that are installed where the C programs run may not have this verb.
    #[test]
    fn regions_that_cannot_be_are_refused_with_an_errno() {
        let refused = |comp_mask: u64, due| {
            // SAFETY: all bits zero is a valid value of this structure of integers and a pointer.
            let mut attr: ibv_mr_init_attr = unsafe { std::mem::zeroed() };
            attr.comp_mask = comp_mask;
            guard::set_errno(Errno(0));
            // SAFETY: the attributes are the test's, and no domain is refused.
            let mr = unsafe { reg_mr_ex(null_mut(), &mut attr) };
            assert!(mr.is_null());
            assert_eq!(guard::errno(), Errno(due), "{comp_mask:#x}");
        };

        refused(IOVA | ADDR | FD_OFFSET << 1, libc::EOPNOTSUPP);
        for mask in [0, IOVA, FD, FD | FD_OFFSET, ADDR | FD, IOVA | FD] {
            refused(mask, libc::EINVAL);
        }

        // These are in order; the domain is not.
        for mask in [ADDR, ADDR | IOVA, FD | FD_OFFSET | IOVA] {
            refused(mask, libc::EINVAL);
        }

        // SAFETY: nothing is looked at.
        let mr = unsafe { reg_mr_ex(null_mut(), null_mut()) };
        assert!(mr.is_null());
        assert_eq!(guard::errno(), Errno(libc::EINVAL));
    }
}
