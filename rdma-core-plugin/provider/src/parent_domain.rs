//! Parent domains.
//!
//! A parent domain protects as the domain in it does. What it adds is memory: the objects made in
//! it, and the completions of an extended queue, lie where its allocators say. The send and receive
//! rings grow with use, also in the helper's thread, in which no function of the program may run;
//! they stay on the heap.

use crate::allocators::Allocators;
use crate::guard::{self, Errno};
use crate::live;
use crate::memory::{Parent, Pd};
use crate::thread_domain::Td;
use ferroce_cabi::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) unsafe extern "C" fn alloc_parent_domain(
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
            let context = if has(IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) {
                attr.pd_context as usize
            } else {
                0
            };
            Some(Arc::new(Allocators::new(alloc, free, context)))
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
            allocators.set_domain(pd);
        }

        Ok(pd)
    })
}
