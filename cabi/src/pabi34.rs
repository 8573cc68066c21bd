//! rdma-core's private provider interface, version 34 (`IBVERBS_PRIVATE_34`: rdma-core v22 to v56).
//!
//! The header (`libibverbs/driver.h`) is not installed by distributions. Besides `tests/layout`, which compares with its
//! text where a source tree is at hand, `tests/observed.rs` checks these tables against the installed libibverbs by what it does.
//! Not for other versions: each gets a module of its own.

use crate::Op;
use crate::attr::*;
use crate::device::*;
use crate::domain::*;
use crate::object::*;
use crate::tag_matching::ibv_ops_wr;
use crate::wr::*;
use libc::{c_char, c_int, c_uint, c_void, dev_t, size_t, timespec};

/// The number in `verbs_register_driver_34` and `IBVERBS_PRIVATE_34`.
pub const VERSION: u32 = 34;

/// `struct list_node` of ccan.
#[repr(C)]
#[allow(missing_docs)]
pub struct list_node {
    pub next: *mut list_node,
    pub prev: *mut list_node,
}

/// `struct verbs_match_ent`.
#[repr(C)]
#[allow(missing_docs)]
pub struct verbs_match_ent {
    pub driver_data: *mut c_void,
    /// `modalias` (a pointer) or `driver_id`.
    pub u: u64,
    pub vendor: u16,
    pub device: u16,
    pub kind: u8,
}

/// `struct verbs_sysfs_dev`: a device as libibverbs found it in sysfs.
#[repr(C)]
#[allow(missing_docs)]
pub struct verbs_sysfs_dev {
    pub entry: list_node,
    pub provider_data: *mut c_void,
    pub r#match: *const verbs_match_ent,
    pub flags: c_uint,
    pub sysfs_name: [c_char; IBV_SYSFS_NAME_MAX],
    pub sysfs_cdev: dev_t,
    pub ibdev_name: [c_char; IBV_SYSFS_NAME_MAX],
    pub ibdev_path: [c_char; IBV_SYSFS_PATH_MAX],
    pub modalias: [c_char; 512],
    pub node_guid: u64,
    pub driver_id: u32,
    pub node_type: c_int,
    pub ibdev_idx: c_int,
    pub num_ports: u32,
    pub abi_ver: u32,
    pub time_created: timespec,
}

/// `struct verbs_device_ops`: what a provider registers.
#[repr(C)]
#[allow(missing_docs)]
pub struct verbs_device_ops {
    pub name: *const c_char,
    pub match_min_abi_version: u32,
    pub match_max_abi_version: u32,
    pub match_table: *const verbs_match_ent,
    pub static_providers: *const *const verbs_device_ops,
    pub match_device: Option<unsafe extern "C" fn(*mut verbs_sysfs_dev) -> bool>,
    pub alloc_context:
        Option<unsafe extern "C" fn(*mut ibv_device, c_int, *mut c_void) -> *mut verbs_context>,
    pub import_context: Option<unsafe extern "C" fn(*mut ibv_device, c_int) -> *mut verbs_context>,
    pub alloc_device: Option<unsafe extern "C" fn(*mut verbs_sysfs_dev) -> *mut verbs_device>,
    pub uninit_device: Option<unsafe extern "C" fn(*mut verbs_device)>,
}

// SAFETY: a table of constants; the pointers in it name static data and nothing writes through them.
unsafe impl Sync for verbs_device_ops {}

/// `struct verbs_device`.
#[repr(C)]
#[allow(missing_docs)]
pub struct verbs_device {
    pub device: ibv_device,
    pub ops: *const verbs_device_ops,
    /// `atomic_int`, libibverbs' own.
    pub refcount: c_int,
    pub entry: list_node,
    pub sysfs: *mut verbs_sysfs_dev,
    /// `IB_UVERBS_CORE_SUPPORT_*`.
    pub core_support: u64,
}

/// `IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS`: access flags from bit 20 reach the provider.
pub const CORE_SUPPORT_OPTIONAL_MR_ACCESS: u64 = 1 << 0;

/// `enum ibv_mr_type`.
#[allow(missing_docs)]
pub mod mr_type {
    use libc::c_uint;
    pub const MR: c_uint = 0;
    pub const NULL_MR: c_uint = 1;
    pub const IMPORTED_MR: c_uint = 2;
    pub const DMABUF_MR: c_uint = 3;
}

/// `struct verbs_mr`.
#[repr(C)]
#[allow(missing_docs)]
pub struct verbs_mr {
    pub ibv_mr: ibv_mr,
    /// `enum ibv_mr_type`, see [`mr_type`].
    pub mr_type: c_uint,
    pub access: c_int,
}

/// `struct verbs_xrcd`.
#[repr(C)]
#[allow(missing_docs)]
pub struct verbs_xrcd {
    pub xrcd: ibv_xrcd,
    pub comp_mask: u32,
    pub handle: u32,
}

/// `VERBS_XRCD_HANDLE`.
pub const VERBS_XRCD_HANDLE: u32 = 1 << 0;

/// `struct verbs_srq`.
#[repr(C)]
#[allow(missing_docs)]
pub struct verbs_srq {
    pub srq: ibv_srq,
    pub srq_type: c_uint,
    pub xrcd: *mut verbs_xrcd,
    pub cq: *mut ibv_cq,
    pub srq_num: u32,
}

/// `struct verbs_qp`. The union of `ibv_qp` and `ibv_qp_ex` is the latter, whose head is the former.
#[repr(C)]
#[allow(missing_docs)]
pub struct verbs_qp {
    pub qp_ex: ibv_qp_ex,
    /// [`VERBS_QP_EX`] where `qp_ex` is filled in.
    pub comp_mask: u32,
    pub xrcd: *mut verbs_xrcd,
}

/// `VERBS_QP_XRCD`.
pub const VERBS_QP_XRCD: u32 = 1 << 0;
/// `VERBS_QP_EX`.
pub const VERBS_QP_EX: u32 = 1 << 1;

/// `struct verbs_cq`. The union of `ibv_cq` and `ibv_cq_ex` is the latter, whose head is the former.
#[repr(C)]
#[allow(missing_docs)]
pub struct verbs_cq {
    pub cq_ex: ibv_cq_ex,
}

/// `struct verbs_dm`.
#[repr(C)]
#[allow(missing_docs)]
pub struct verbs_dm {
    pub dm: ibv_dm,
    pub handle: u32,
}

/// `struct verbs_context_ops`: every operation that a provider may offer, in alphabetical order.
/// A slot left `None` keeps libibverbs' default, which fails with `EOPNOTSUPP` and calls no kernel.
#[repr(C)]
#[allow(missing_docs)]
pub struct verbs_context_ops {
    pub advise_mr:
        Option<unsafe extern "C" fn(*mut ibv_pd, c_uint, u32, *mut ibv_sge, u32) -> c_int>,
    pub alloc_dm:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_alloc_dm_attr) -> *mut ibv_dm>,
    pub alloc_mw: Option<unsafe extern "C" fn(*mut ibv_pd, c_uint) -> *mut ibv_mw>,
    pub alloc_null_mr: Option<unsafe extern "C" fn(*mut ibv_pd) -> *mut ibv_mr>,
    pub alloc_parent_domain: Option<
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd,
    >,
    pub alloc_pd: Option<unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_pd>,
    pub alloc_td:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td>,
    pub async_event: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_async_event)>,
    pub attach_counters_point_flow: Op,
    pub attach_mcast: Option<unsafe extern "C" fn(*mut ibv_qp, *const ibv_gid, u16) -> c_int>,
    pub bind_mw: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int>,
    pub close_xrcd: Option<unsafe extern "C" fn(*mut ibv_xrcd) -> c_int>,
    pub cq_event: Option<unsafe extern "C" fn(*mut ibv_cq)>,
    pub create_ah: Option<unsafe extern "C" fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah>,
    pub create_counters: Op,
    pub create_cq: Option<
        unsafe extern "C" fn(*mut ibv_context, c_int, *mut ibv_comp_channel, c_int) -> *mut ibv_cq,
    >,
    pub create_cq_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex>,
    pub create_flow: Op,
    pub create_flow_action_esp: Op,
    pub create_qp: Option<unsafe extern "C" fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp>,
    pub create_qp_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp>,
    pub create_rwq_ind_table: Op,
    pub create_srq:
        Option<unsafe extern "C" fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq>,
    pub create_srq_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq>,
    pub create_wq: Op,
    pub dealloc_mw: Option<unsafe extern "C" fn(*mut ibv_mw) -> c_int>,
    pub dealloc_pd: Option<unsafe extern "C" fn(*mut ibv_pd) -> c_int>,
    pub dealloc_td: Option<unsafe extern "C" fn(*mut ibv_td) -> c_int>,
    pub dereg_mr: Option<unsafe extern "C" fn(*mut verbs_mr) -> c_int>,
    pub destroy_ah: Option<unsafe extern "C" fn(*mut ibv_ah) -> c_int>,
    pub destroy_counters: Op,
    pub destroy_cq: Option<unsafe extern "C" fn(*mut ibv_cq) -> c_int>,
    pub destroy_flow: Op,
    pub destroy_flow_action: Op,
    pub destroy_qp: Option<unsafe extern "C" fn(*mut ibv_qp) -> c_int>,
    pub destroy_rwq_ind_table: Op,
    pub destroy_srq: Option<unsafe extern "C" fn(*mut ibv_srq) -> c_int>,
    pub destroy_wq: Op,
    pub detach_mcast: Option<unsafe extern "C" fn(*mut ibv_qp, *const ibv_gid, u16) -> c_int>,
    pub free_context: Option<unsafe extern "C" fn(*mut ibv_context)>,
    pub free_dm: Option<unsafe extern "C" fn(*mut ibv_dm) -> c_int>,
    pub get_srq_num: Option<unsafe extern "C" fn(*mut ibv_srq, *mut u32) -> c_int>,
    pub import_dm: Option<unsafe extern "C" fn(*mut ibv_context, u32) -> *mut ibv_dm>,
    pub import_mr: Option<unsafe extern "C" fn(*mut ibv_pd, u32) -> *mut ibv_mr>,
    pub import_pd: Option<unsafe extern "C" fn(*mut ibv_context, u32) -> *mut ibv_pd>,
    pub modify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, *mut ibv_modify_cq_attr) -> c_int>,
    pub modify_flow_action_esp: Op,
    pub modify_qp: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int>,
    pub modify_qp_rate_limit: Op,
    pub modify_srq: Option<unsafe extern "C" fn(*mut ibv_srq, *mut ibv_srq_attr, c_int) -> c_int>,
    pub modify_wq: Op,
    pub open_qp:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_open_attr) -> *mut ibv_qp>,
    pub open_xrcd:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd>,
    pub poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
    pub post_recv:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub post_send:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int>,
    pub post_srq_ops:
        Option<unsafe extern "C" fn(*mut ibv_srq, *mut ibv_ops_wr, *mut *mut ibv_ops_wr) -> c_int>,
    pub post_srq_recv: Option<
        unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
    >,
    pub query_device_ex: Option<
        unsafe extern "C" fn(
            *mut ibv_context,
            *const ibv_query_device_ex_input,
            *mut ibv_device_attr_ex,
            size_t,
        ) -> c_int,
    >,
    pub query_ece: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_ece) -> c_int>,
    pub query_port: Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int>,
    pub query_qp: Option<
        unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int,
    >,
    pub query_qp_data_in_order: Option<unsafe extern "C" fn(*mut ibv_qp, c_uint, u32) -> c_int>,
    pub query_rt_values:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_values_ex) -> c_int>,
    pub query_srq: Option<unsafe extern "C" fn(*mut ibv_srq, *mut ibv_srq_attr) -> c_int>,
    pub read_counters: Op,
    pub reg_dm_mr:
        Option<unsafe extern "C" fn(*mut ibv_pd, *mut ibv_dm, u64, size_t, c_uint) -> *mut ibv_mr>,
    pub reg_dmabuf_mr:
        Option<unsafe extern "C" fn(*mut ibv_pd, u64, size_t, u64, c_int, c_int) -> *mut ibv_mr>,
    pub reg_mr:
        Option<unsafe extern "C" fn(*mut ibv_pd, *mut c_void, size_t, u64, c_int) -> *mut ibv_mr>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
    pub rereg_mr: Option<
        unsafe extern "C" fn(
            *mut verbs_mr,
            c_int,
            *mut ibv_pd,
            *mut c_void,
            size_t,
            c_int,
        ) -> c_int,
    >,
    pub resize_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
    pub set_ece: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_ece) -> c_int>,
    pub unimport_dm: Option<unsafe extern "C" fn(*mut ibv_dm)>,
    pub unimport_mr: Option<unsafe extern "C" fn(*mut ibv_mr)>,
    pub unimport_pd: Option<unsafe extern "C" fn(*mut ibv_pd)>,
}

// SAFETY: a table of function pointers.
unsafe impl Sync for verbs_context_ops {}

impl verbs_context_ops {
    /// A table that leaves every default in place.
    pub const fn empty() -> Self {
        // SAFETY: every field is an `Option` of a function pointer, for which all bits zero is `None`.
        unsafe { std::mem::zeroed() }
    }
}

/// `verbs_register_driver_34`.
pub type verbs_register_driver = unsafe extern "C" fn(*const verbs_device_ops);
/// `_verbs_init_and_alloc_context`: device, command descriptor (taken over), bytes to allocate, offset of the
/// `verbs_context` in them (as a pointer), driver id. Returns zeroed `malloc` memory, or null with `errno`.
pub type verbs_init_and_alloc_context =
    unsafe extern "C" fn(*mut ibv_device, c_int, size_t, *mut verbs_context, u32) -> *mut c_void;
/// `verbs_uninit_context`: closes the context's descriptors; the memory stays the provider's.
pub type verbs_uninit_context = unsafe extern "C" fn(*mut verbs_context);
/// `verbs_set_ops`.
pub type verbs_set_ops = unsafe extern "C" fn(*mut verbs_context, *const verbs_context_ops);
/// `verbs_init_cq`.
pub type verbs_init_cq =
    unsafe extern "C" fn(*mut ibv_cq, *mut ibv_context, *mut ibv_comp_channel, *mut c_void);
