//! Attributes of the later verbs of `<infiniband/verbs.h>`: moderation, thread and parent domains,
//! device memory, memory windows, advice.

use crate::object::{ibv_mr, ibv_pd, ibv_td};
use libc::{c_int, c_uint, c_void, size_t};

/// `struct ibv_moderate_cq`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_moderate_cq {
    /// Completions that an event may cover.
    pub cq_count: u16,
    /// Microseconds that an event may be held back.
    pub cq_period: u16,
}

/// `struct ibv_modify_cq_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct ibv_modify_cq_attr {
    pub attr_mask: u32,
    pub moderate: ibv_moderate_cq,
}

/// `IBV_CQ_ATTR_MODERATE`.
pub const IBV_CQ_ATTR_MODERATE: u32 = 1 << 0;

/// `struct ibv_td_init_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_td_init_attr {
    /// Reserved, must be 0.
    pub comp_mask: u32,
}

/// `alloc` of [`ibv_parent_domain_init_attr`]: domain, its context, bytes, alignment, kind of
/// resource. [`IBV_ALLOCATOR_USE_DEFAULT`] leaves the allocation to the provider, null fails it.
pub type ibv_pd_alloc =
    unsafe extern "C" fn(*mut ibv_pd, *mut c_void, size_t, size_t, u64) -> *mut c_void;
/// `free` of [`ibv_parent_domain_init_attr`]: domain, its context, what `alloc` returned, kind of
/// resource.
pub type ibv_pd_free = unsafe extern "C" fn(*mut ibv_pd, *mut c_void, *mut c_void, u64);

/// `struct ibv_parent_domain_init_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct ibv_parent_domain_init_attr {
    pub pd: *mut ibv_pd,
    pub td: *mut ibv_td,
    pub comp_mask: u32,
    pub alloc: Option<ibv_pd_alloc>,
    pub free: Option<ibv_pd_free>,
    pub pd_context: *mut c_void,
}

/// `IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS`.
pub const IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS: u32 = 1 << 0;
/// `IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT`.
pub const IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT: u32 = 1 << 1;
/// `IBV_ALLOCATOR_USE_DEFAULT`, as an address.
pub const IBV_ALLOCATOR_USE_DEFAULT: usize = usize::MAX;

/// `struct ibv_alloc_dm_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct ibv_alloc_dm_attr {
    pub length: size_t,
    pub log_align_req: u32,
    pub comp_mask: u32,
}

/// `struct ibv_mw_bind_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct ibv_mw_bind_info {
    pub mr: *mut ibv_mr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: c_uint,
}

/// `struct ibv_mw_bind`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct ibv_mw_bind {
    pub wr_id: u64,
    pub send_flags: c_uint,
    pub bind_info: ibv_mw_bind_info,
}

/// `enum ib_uverbs_advise_mr_advice`, which `ibv_advise_mr(3)` takes.
#[allow(missing_docs)]
pub mod advise {
    use libc::c_uint;
    pub const PREFETCH: c_uint = 0;
    pub const PREFETCH_WRITE: c_uint = 1;
    pub const PREFETCH_NO_FAULT: c_uint = 2;
    /// `IB_UVERBS_ADVISE_MR_FLAG_FLUSH`.
    pub const FLAG_FLUSH: u32 = 1 << 0;
}

/// `enum ibv_rereg_mr_flags`.
#[allow(missing_docs)]
pub mod rereg {
    use libc::c_int;
    pub const CHANGE_TRANSLATION: c_int = 1 << 0;
    pub const CHANGE_PD: c_int = 1 << 1;
    pub const CHANGE_ACCESS: c_int = 1 << 2;
}

/// The head of `struct ibv_mr_init_attr`, which came with rdma-core v59. `comp_mask` says which
/// fields there are.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct ibv_mr_init_attr {
    pub length: size_t,
    pub access: c_int,
    pub comp_mask: u64,
    pub iova: u64,
    pub addr: *mut c_void,
    pub fd: c_int,
    pub fd_offset: u64,
}

/// `enum ibv_mr_init_attr_mask`, as far as it is known here.
#[allow(missing_docs)]
pub mod reg_mr_mask {
    pub const IOVA: u64 = 1 << 0;
    pub const ADDR: u64 = 1 << 1;
    pub const FD: u64 = 1 << 2;
    pub const FD_OFFSET: u64 = 1 << 3;
}
