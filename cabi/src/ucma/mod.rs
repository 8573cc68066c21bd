//! The kernel's rdma_cm ABI (`<rdma/rdma_user_cm.h>`): the commands that librdmacm writes to
//! `/dev/infiniband/rdma_cm`, and the answers that it finds at the addresses in them.
//!
//! A command is an [`rdma_ucm_cmd_hdr`] and the structure that belongs to its number. Socket
//! addresses are kept as bytes: which family they are is a question for who reads them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `RDMA_USER_CM_ABI_VERSION`.
pub const RDMA_USER_CM_ABI_VERSION: u32 = 4;
/// `RDMA_MAX_PRIVATE_DATA`, bytes.
pub const RDMA_MAX_PRIVATE_DATA: usize = 256;
/// Bytes of a `struct sockaddr_in6`.
pub const SOCKADDR_IN6_LEN: usize = 28;
/// Bytes of a `struct __kernel_sockaddr_storage`.
pub const SOCKADDR_STORAGE_LEN: usize = 128;
/// `AF_IB`.
pub const AF_IB: u16 = 27;

macro_rules! commands {
    ($($name:ident = $value:literal),* $(,)?) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        pub const $name: u32 = $value;
    )*};
}

commands! {
    RDMA_USER_CM_CMD_CREATE_ID = 0,
    RDMA_USER_CM_CMD_DESTROY_ID = 1,
    RDMA_USER_CM_CMD_BIND_IP = 2,
    RDMA_USER_CM_CMD_RESOLVE_IP = 3,
    RDMA_USER_CM_CMD_RESOLVE_ROUTE = 4,
    RDMA_USER_CM_CMD_QUERY_ROUTE = 5,
    RDMA_USER_CM_CMD_CONNECT = 6,
    RDMA_USER_CM_CMD_LISTEN = 7,
    RDMA_USER_CM_CMD_ACCEPT = 8,
    RDMA_USER_CM_CMD_REJECT = 9,
    RDMA_USER_CM_CMD_DISCONNECT = 10,
    RDMA_USER_CM_CMD_INIT_QP_ATTR = 11,
    RDMA_USER_CM_CMD_GET_EVENT = 12,
    RDMA_USER_CM_CMD_GET_OPTION = 13,
    RDMA_USER_CM_CMD_SET_OPTION = 14,
    RDMA_USER_CM_CMD_NOTIFY = 15,
    RDMA_USER_CM_CMD_JOIN_IP_MCAST = 16,
    RDMA_USER_CM_CMD_LEAVE_MCAST = 17,
    RDMA_USER_CM_CMD_MIGRATE_ID = 18,
    RDMA_USER_CM_CMD_QUERY = 19,
    RDMA_USER_CM_CMD_BIND = 20,
    RDMA_USER_CM_CMD_RESOLVE_ADDR = 21,
    RDMA_USER_CM_CMD_JOIN_MCAST = 22,
    RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE = 23,
    RDMA_USER_CM_CMD_WRITE_CM_EVENT = 24,
    RDMA_USER_CM_QUERY_ADDR = 0,
    RDMA_USER_CM_QUERY_PATH = 1,
    RDMA_USER_CM_QUERY_GID = 2,
    RDMA_PS_IPOIB = 0x0002,
    RDMA_PS_IB = 0x013f,
    RDMA_PS_TCP = 0x0106,
    RDMA_PS_UDP = 0x0111,
    RDMA_MC_JOIN_FLAG_FULLMEMBER = 0,
    RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER = 1,
    RDMA_OPTION_ID = 0,
    RDMA_OPTION_IB = 1,
    RDMA_OPTION_ID_TOS = 0,
    RDMA_OPTION_ID_REUSEADDR = 1,
    RDMA_OPTION_ID_AFONLY = 2,
    RDMA_OPTION_ID_ACK_TIMEOUT = 3,
    RDMA_OPTION_IB_PATH = 1,
}

/// Declares structures with C's names and layouts.
macro_rules! structs {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $ty:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                <Self as zerocopy::FromZeros>::new_zeroed()
            }
        }
    )*};
}

mod connection;
mod id;
mod qp;
mod query;

pub use connection::*;
pub use id::*;
pub use qp::*;
pub use query::*;

structs! {
    /// `struct rdma_ucm_cmd_hdr`: the head of every command.
    rdma_ucm_cmd_hdr {
        /// `RDMA_USER_CM_CMD_*`.
        cmd: u32,
        /// Bytes of the command after this head.
        r#in: u16,
        /// Room at the response address, in bytes.
        out: u16,
    }
}
