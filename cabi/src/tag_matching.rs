//! Tag matching: the operations of `ibv_post_srq_ops(3)` and the headers of
//! `<infiniband/tm_types.h>`.

use crate::sge::ibv_sge;
use libc::{c_int, c_uint};

/// `tm.add` of `struct ibv_ops_wr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct ibv_ops_wr_add {
    pub recv_wr_id: u64,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub tag: u64,
    pub mask: u64,
}

/// `struct ibv_ops_wr`; the fields of `tm` stand in it directly.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct ibv_ops_wr {
    pub wr_id: u64,
    pub next: *mut ibv_ops_wr,
    /// `enum ibv_ops_wr_opcode`, see [`ops`].
    pub opcode: c_uint,
    /// [`IBV_OPS_SIGNALED`], [`IBV_OPS_TM_SYNC`].
    pub flags: c_int,
    pub unexpected_cnt: u32,
    pub handle: u32,
    pub add: ibv_ops_wr_add,
}

/// `enum ibv_ops_wr_opcode`.
#[allow(missing_docs)]
pub mod ops {
    use libc::c_uint;
    pub const TAG_ADD: c_uint = 0;
    pub const TAG_DEL: c_uint = 1;
    pub const TAG_SYNC: c_uint = 2;
}

/// `IBV_OPS_SIGNALED`.
pub const IBV_OPS_SIGNALED: c_int = 1 << 0;
/// `IBV_OPS_TM_SYNC`: `unexpected_cnt` counts.
pub const IBV_OPS_TM_SYNC: c_int = 1 << 1;
/// `IBV_TM_CAP_RC`.
pub const IBV_TM_CAP_RC: u32 = 1 << 0;
