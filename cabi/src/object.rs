//! The verbs objects of `<infiniband/verbs.h>` and the context with its public function tables.

use crate::Op;
use crate::attr::{
    ibv_cq_init_attr_ex, ibv_qp_init_attr_ex, ibv_qp_open_attr, ibv_qp_rate_limit_attr,
    ibv_srq_init_attr_ex, ibv_xrcd_init_attr,
};
use crate::device::{ibv_device_attr_ex, ibv_port_attr, ibv_query_device_ex_input, ibv_values_ex};
use crate::domain::{
    ibv_alloc_dm_attr, ibv_modify_cq_attr, ibv_mw_bind, ibv_parent_domain_init_attr,
    ibv_td_init_attr,
};
use crate::sge::ibv_sge;
use crate::tag_matching::ibv_ops_wr;
use crate::wr::{ibv_cq_ex, ibv_recv_wr, ibv_send_wr, ibv_wc};
use libc::{c_char, c_int, c_uint, c_void, pthread_cond_t, pthread_mutex_t, size_t};

/// `IBV_SYSFS_NAME_MAX`.
pub const IBV_SYSFS_NAME_MAX: usize = 64;
/// `IBV_SYSFS_PATH_MAX`.
pub const IBV_SYSFS_PATH_MAX: usize = 256;

/// `struct ibv_device`.
#[repr(C)]
#[allow(missing_docs)]
pub struct ibv_device {
    pub _ops: [Op; 2],
    pub node_type: c_int,
    pub transport_type: c_int,
    pub name: [c_char; IBV_SYSFS_NAME_MAX],
    pub dev_name: [c_char; IBV_SYSFS_NAME_MAX],
    pub dev_path: [c_char; IBV_SYSFS_PATH_MAX],
    pub ibdev_path: [c_char; IBV_SYSFS_PATH_MAX],
}

/// `struct ibv_context_ops`: what the inline functions of `verbs.h` call; filled in by libibverbs.
#[repr(C)]
#[allow(missing_docs)]
pub struct ibv_context_ops {
    pub _compat_query_device: Op,
    pub _compat_query_port: Op,
    pub _compat_alloc_pd: Op,
    pub _compat_dealloc_pd: Op,
    pub _compat_reg_mr: Op,
    pub _compat_rereg_mr: Op,
    pub _compat_dereg_mr: Op,
    pub alloc_mw: Option<unsafe extern "C" fn(*mut ibv_pd, c_uint) -> *mut ibv_mw>,
    pub bind_mw: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int>,
    pub dealloc_mw: Option<unsafe extern "C" fn(*mut ibv_mw) -> c_int>,
    pub _compat_create_cq: Op,
    pub poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
    pub _compat_cq_event: Op,
    pub _compat_resize_cq: Op,
    pub _compat_destroy_cq: Op,
    pub _compat_create_srq: Op,
    pub _compat_modify_srq: Op,
    pub _compat_query_srq: Op,
    pub _compat_destroy_srq: Op,
    pub post_srq_recv: Option<
        unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
    >,
    pub _compat_create_qp: Op,
    pub _compat_query_qp: Op,
    pub _compat_modify_qp: Op,
    pub _compat_destroy_qp: Op,
    pub post_send:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int>,
    pub post_recv:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub _compat_create_ah: Op,
    pub _compat_destroy_ah: Op,
    pub _compat_attach_mcast: Op,
    pub _compat_detach_mcast: Op,
    pub _compat_async_event: Op,
}

/// `struct ibv_context`.
#[repr(C)]
#[allow(missing_docs)]
pub struct ibv_context {
    pub device: *mut ibv_device,
    pub ops: ibv_context_ops,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub mutex: pthread_mutex_t,
    pub abi_compat: *mut c_void,
}

/// `struct verbs_context`: grows at its head, so the public [`ibv_context`] stays last.
#[repr(C)]
#[allow(missing_docs)]
pub struct verbs_context {
    pub query_port:
        Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, size_t) -> c_int>,
    pub advise_mr:
        Option<unsafe extern "C" fn(*mut ibv_pd, c_uint, u32, *mut ibv_sge, u32) -> c_int>,
    pub alloc_null_mr: Option<unsafe extern "C" fn(*mut ibv_pd) -> *mut ibv_mr>,
    pub read_counters: Op,
    pub attach_counters_point_flow: Op,
    pub create_counters: Op,
    pub destroy_counters: Op,
    pub reg_dm_mr:
        Option<unsafe extern "C" fn(*mut ibv_pd, *mut ibv_dm, u64, size_t, c_uint) -> *mut ibv_mr>,
    pub alloc_dm:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_alloc_dm_attr) -> *mut ibv_dm>,
    pub free_dm: Option<unsafe extern "C" fn(*mut ibv_dm) -> c_int>,
    pub modify_flow_action_esp: Op,
    pub destroy_flow_action: Op,
    pub create_flow_action_esp: Op,
    pub modify_qp_rate_limit:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_rate_limit_attr) -> c_int>,
    pub alloc_parent_domain: Option<
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd,
    >,
    pub dealloc_td: Option<unsafe extern "C" fn(*mut ibv_td) -> c_int>,
    pub alloc_td:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td>,
    pub modify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, *mut ibv_modify_cq_attr) -> c_int>,
    pub post_srq_ops:
        Option<unsafe extern "C" fn(*mut ibv_srq, *mut ibv_ops_wr, *mut *mut ibv_ops_wr) -> c_int>,
    pub destroy_rwq_ind_table: Op,
    pub create_rwq_ind_table: Op,
    pub destroy_wq: Op,
    pub modify_wq: Op,
    pub create_wq: Op,
    pub query_rt_values:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_values_ex) -> c_int>,
    pub create_cq_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex>,
    pub r#priv: *mut c_void,
    pub query_device_ex: Option<
        unsafe extern "C" fn(
            *mut ibv_context,
            *const ibv_query_device_ex_input,
            *mut ibv_device_attr_ex,
            size_t,
        ) -> c_int,
    >,
    pub ibv_destroy_flow: Op,
    pub ABI_placeholder2: Op,
    pub ibv_create_flow: Op,
    pub ABI_placeholder1: Op,
    pub open_qp:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_open_attr) -> *mut ibv_qp>,
    pub create_qp_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp>,
    pub get_srq_num: Option<unsafe extern "C" fn(*mut ibv_srq, *mut u32) -> c_int>,
    pub create_srq_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq>,
    pub open_xrcd:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd>,
    pub close_xrcd: Option<unsafe extern "C" fn(*mut ibv_xrcd) -> c_int>,
    pub _ABI_placeholder3: u64,
    pub sz: size_t,
    pub context: ibv_context,
}

/// `struct ibv_pd`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ibv_pd {
    pub context: *mut ibv_context,
    pub handle: u32,
}

/// `struct ibv_mr`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ibv_mr {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub addr: *mut c_void,
    pub length: size_t,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

/// `struct ibv_mw`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ibv_mw {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub rkey: u32,
    pub handle: u32,
    /// `enum ibv_mw_type`: [`IBV_MW_TYPE_1`] or [`IBV_MW_TYPE_2`].
    pub r#type: c_uint,
}

/// `IBV_MW_TYPE_1`: bound by `ibv_bind_mw(3)`.
pub const IBV_MW_TYPE_1: c_uint = 1;
/// `IBV_MW_TYPE_2`: bound by a send request.
pub const IBV_MW_TYPE_2: c_uint = 2;

/// `struct ibv_xrcd`.
#[repr(C)]
#[derive(Debug)]
pub struct ibv_xrcd {
    /// The context it was opened on.
    pub context: *mut ibv_context,
}

/// `struct ibv_td`.
#[repr(C)]
#[derive(Debug)]
pub struct ibv_td {
    /// The context it was allocated on.
    pub context: *mut ibv_context,
}

/// `struct ibv_dm`: device memory, with its two copying functions.
#[repr(C)]
#[allow(missing_docs)]
pub struct ibv_dm {
    pub context: *mut ibv_context,
    pub memcpy_to_dm:
        Option<unsafe extern "C" fn(*mut ibv_dm, u64, *const c_void, size_t) -> c_int>,
    pub memcpy_from_dm:
        Option<unsafe extern "C" fn(*mut c_void, *mut ibv_dm, u64, size_t) -> c_int>,
    pub comp_mask: u32,
    pub handle: u32,
}

/// `IBV_DM_MASK_HANDLE`: `handle` of [`ibv_dm`] is filled in.
pub const IBV_DM_MASK_HANDLE: u32 = 1 << 0;

/// `struct ibv_comp_channel`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ibv_comp_channel {
    pub context: *mut ibv_context,
    pub fd: c_int,
    pub refcnt: c_int,
}

/// `struct ibv_cq`.
#[repr(C)]
#[allow(missing_docs)]
pub struct ibv_cq {
    pub context: *mut ibv_context,
    pub channel: *mut ibv_comp_channel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}

/// `struct ibv_srq`.
#[repr(C)]
#[allow(missing_docs)]
pub struct ibv_srq {
    pub context: *mut ibv_context,
    pub srq_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub handle: u32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}

/// `struct ibv_qp`.
#[repr(C)]
#[allow(missing_docs)]
pub struct ibv_qp {
    pub context: *mut ibv_context,
    pub qp_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub handle: u32,
    pub qp_num: u32,
    pub state: c_uint,
    pub qp_type: c_uint,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}

/// `struct ibv_ah`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ibv_ah {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub handle: u32,
}

/// `struct ibv_async_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_async_event {
    /// The object, or the port number.
    pub element: *mut c_void,
    /// `enum ibv_event_type`.
    pub event_type: c_uint,
}
