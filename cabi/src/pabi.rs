//! rdma-core's private provider interface (`libibverbs/driver.h`), from rdma-core v33 on.
//!
//! Here are the structures, which are the same in all versions as far as ferroce touches them; what
//! differs between versions is data in [`LAYOUTS`]. The header is not installed by distributions:
//! `tests/layout` compares with its text where a source tree is at hand, and `tests/observed.rs`
//! looks at what the installed libibverbs does with the tables.

mod layouts;
mod operations;

pub use layouts::*;
pub use operations::Operations;

use crate::Op;
use crate::object::*;
use crate::wr::{ibv_cq_ex, ibv_qp_ex};
use libc::{c_char, c_int, c_uint, c_void, dev_t, size_t};

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

// SAFETY: a constant; libibverbs hands the pointer in it back and follows none.
unsafe impl Sync for verbs_match_ent {}

/// The head of `struct verbs_sysfs_dev`, a device as libibverbs found it in sysfs. What follows
/// differs between versions.
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

// SAFETY: a table of constants; the pointers in it name static data and nothing writes through
// them.
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

/// `struct verbs_qp`, as long as in any version. The union of `ibv_qp` and `ibv_qp_ex` is the
/// latter, whose head is the former.
#[repr(C)]
#[allow(missing_docs)]
pub struct verbs_qp {
    /// Of this the version has what stands before [`Served::qp_mask`].
    pub qp_ex: ibv_qp_ex,
    /// Room for functions that later versions append to `qp_ex`, and for [`verbs_qp_tail`].
    pub room: [usize; 16],
}

/// What follows `qp_ex` in `struct verbs_qp`, at [`Served::qp_mask`].
#[repr(C)]
#[allow(missing_docs)]
pub struct verbs_qp_tail {
    /// [`VERBS_QP_EX`] where `qp_ex` is filled in.
    pub comp_mask: u32,
    pub xrcd: *mut verbs_xrcd,
}

/// `VERBS_QP_XRCD`.
pub const VERBS_QP_XRCD: u32 = 1 << 0;
/// `VERBS_QP_EX`.
pub const VERBS_QP_EX: u32 = 1 << 1;

/// `struct verbs_cq`. The union of `ibv_cq` and `ibv_cq_ex` is the latter, whose head is the
/// former.
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

/// `verbs_register_driver_NN`.
pub type verbs_register_driver = unsafe extern "C" fn(*const verbs_device_ops);
/// `_verbs_init_and_alloc_context`: device, command descriptor (taken over), bytes to allocate,
/// offset of the `verbs_context` in them (as a pointer), driver id. Returns zeroed `malloc` memory,
/// or null with `errno`.
pub type verbs_init_and_alloc_context =
    unsafe extern "C" fn(*mut ibv_device, c_int, size_t, *mut verbs_context, u32) -> *mut c_void;
/// `verbs_uninit_context`: closes the context's descriptors; the memory stays the provider's.
pub type verbs_uninit_context = unsafe extern "C" fn(*mut verbs_context);
/// `verbs_set_ops`, with a table as [`Layout::table`] makes it.
pub type verbs_set_ops = unsafe extern "C" fn(*mut verbs_context, *const Op);
