//! The kernel's user MAD ABI (`<rdma/ib_user_mad.h>`): the ioctls by which libibumad registers
//! agents, and the header that stands before every MAD that is written to or read from
//! `/dev/infiniband/umadN`.
//!
//! What the header's fields with a byte order hold is in network order, as the header file says.

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `IB_USER_MAD_ABI_VERSION`.
pub const IB_USER_MAD_ABI_VERSION: u32 = 5;
/// The most agents of one file (`IB_UMAD_MAX_AGENTS` of the kernel).
pub const MAX_AGENTS: usize = 32;
/// `IB_USER_MAD_USER_RMPP`: the program does RMPP itself.
pub const IB_USER_MAD_USER_RMPP: u32 = 1;
/// `IB_USER_MAD_REG_FLAGS_CAP`: all flags of [`ib_user_mad_reg_req2`].
pub const IB_USER_MAD_REG_FLAGS_CAP: u32 = IB_USER_MAD_USER_RMPP;
/// `IB_USER_MAD_REGISTER_AGENT`.
pub const IB_USER_MAD_REGISTER_AGENT: u64 = 0xc01c_1b01;
/// `IB_USER_MAD_UNREGISTER_AGENT`.
pub const IB_USER_MAD_UNREGISTER_AGENT: u64 = 0x4004_1b02;
/// `IB_USER_MAD_ENABLE_PKEY`.
pub const IB_USER_MAD_ENABLE_PKEY: u64 = 0x1b03;
/// `IB_USER_MAD_REGISTER_AGENT2`.
pub const IB_USER_MAD_REGISTER_AGENT2: u64 = 0xc028_1b04;

/// Bytes of the argument of an ioctl: how many are read; those that register an agent are written
/// back whole. `None`: there is no such ioctl.
pub const fn argument_len(request: u64) -> Option<usize> {
    match request {
        IB_USER_MAD_REGISTER_AGENT => Some(size_of::<ib_user_mad_reg_req>()),
        IB_USER_MAD_REGISTER_AGENT2 => Some(size_of::<ib_user_mad_reg_req2>()),
        IB_USER_MAD_UNREGISTER_AGENT => Some(size_of::<u32>()),
        IB_USER_MAD_ENABLE_PKEY => Some(0),
        _ => None,
    }
}

/// `struct ib_user_mad_hdr_old`: the header until `IB_USER_MAD_ENABLE_PKEY`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_user_mad_hdr_old {
    /// The agent.
    pub id: u32,
    /// 0, or the errno of a request that got no response.
    pub status: u32,
    /// Milliseconds to wait for a response; 0: none is awaited.
    pub timeout_ms: u32,
    /// How often to send again.
    pub retries: u32,
    /// Bytes of header and MAD, of what is read.
    pub length: u32,
    /// Remote queue pair.
    pub qpn: U32,
    /// Q_Key to send with.
    pub qkey: U32,
    /// Remote LID.
    pub lid: U16,
    /// Service level.
    pub sl: u8,
    /// Path bits of the local LID.
    pub path_bits: u8,
    /// Whether there is a GRH, which the rest is about.
    pub grh_present: u8,
    /// Local GID index to send with.
    pub gid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Remote GID.
    pub gid: [u8; 16],
    /// Flow label.
    pub flow_label: U32,
}

/// `struct ib_user_mad_hdr`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_user_mad_hdr {
    /// What the old header has.
    pub old: ib_user_mad_hdr_old,
    /// P_Key index.
    pub pkey_index: u16,
    /// Zero.
    pub reserved: [u8; 6],
}

/// `struct ib_user_mad_reg_req`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_user_mad_reg_req {
    /// The agent; filled in.
    pub id: u32,
    /// 128 bits: the methods of unsolicited MADs that it wants.
    pub method_mask: [u32; 4],
    /// 0 or 1.
    pub qpn: u8,
    /// Management class; 0: nothing unsolicited.
    pub mgmt_class: u8,
    /// Its version.
    pub mgmt_class_version: u8,
    /// IEEE OUI, of classes 0x30 to 0x4f.
    pub oui: [u8; 3],
    /// 0: no RMPP.
    pub rmpp_version: u8,
    /// Padding.
    pub pad: u8,
}

/// `struct ib_user_mad_reg_req2`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_user_mad_reg_req2 {
    /// The agent; filled in.
    pub id: u32,
    /// 0 or 1.
    pub qpn: u32,
    /// Management class; 0: nothing unsolicited.
    pub mgmt_class: u8,
    /// Its version.
    pub mgmt_class_version: u8,
    /// Ignored.
    pub res: u16,
    /// `IB_USER_MAD_*`; those that are known are filled in when there is an unknown one.
    pub flags: u32,
    /// 128 bits: the methods of unsolicited MADs that it wants.
    pub method_mask: [u64; 2],
    /// IEEE OUI, of classes 0x30 to 0x4f.
    pub oui: u32,
    /// 0: no RMPP.
    pub rmpp_version: u8,
    /// Zero.
    pub reserved: [u8; 3],
}
