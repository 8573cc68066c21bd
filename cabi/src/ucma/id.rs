//! What makes an id, binds it, finds its way and sets its options.

use super::*;

structs! {
    /// `struct rdma_ucm_create_id`.
    rdma_ucm_create_id {
        /// What events of the id shall bear.
        uid: u64,
        /// Address of an [`rdma_ucm_create_id_resp`].
        response: u64,
        /// `RDMA_PS_*`.
        ps: u16,
        /// `enum ibv_qp_type`, for `RDMA_PS_IB`.
        qp_type: u8,
        /// Zero.
        reserved: [u8; 5],
    }
    /// `struct rdma_ucm_create_id_resp`.
    rdma_ucm_create_id_resp {
        /// The id, or that of a multicast group.
        id: u32,
    }
    /// `struct rdma_ucm_destroy_id`, also of `LEAVE_MCAST`.
    rdma_ucm_destroy_id {
        /// Address of an [`rdma_ucm_destroy_id_resp`].
        response: u64,
        /// The id.
        id: u32,
        /// Zero.
        reserved: u32,
    }
    /// `struct rdma_ucm_destroy_id_resp`.
    rdma_ucm_destroy_id_resp {
        /// How many of its events were handed out.
        events_reported: u32,
    }
    /// `struct rdma_ucm_bind_ip`.
    rdma_ucm_bind_ip {
        /// Unused.
        response: u64,
        /// A `sockaddr_in6` or shorter.
        addr: [u8; SOCKADDR_IN6_LEN],
        /// The id.
        id: u32,
    }
    /// `struct rdma_ucm_bind`.
    rdma_ucm_bind {
        /// The id.
        id: u32,
        /// Bytes of the address.
        addr_size: u16,
        /// Zero.
        reserved: u16,
        /// The address.
        addr: [u8; SOCKADDR_STORAGE_LEN],
    }
    /// `struct rdma_ucm_resolve_ip`.
    rdma_ucm_resolve_ip {
        /// Family 0: any.
        src_addr: [u8; SOCKADDR_IN6_LEN],
        /// The destination.
        dst_addr: [u8; SOCKADDR_IN6_LEN],
        /// The id.
        id: u32,
        /// Milliseconds.
        timeout_ms: u32,
    }
    /// `struct rdma_ucm_resolve_addr`.
    rdma_ucm_resolve_addr {
        /// The id.
        id: u32,
        /// Milliseconds.
        timeout_ms: u32,
        /// Bytes of the source address, 0: any.
        src_size: u16,
        /// Bytes of the destination address.
        dst_size: u16,
        /// Zero.
        reserved: u32,
        /// The source.
        src_addr: [u8; SOCKADDR_STORAGE_LEN],
        /// The destination.
        dst_addr: [u8; SOCKADDR_STORAGE_LEN],
    }
    /// `struct rdma_ucm_resolve_route`.
    rdma_ucm_resolve_route {
        /// The id.
        id: u32,
        /// Milliseconds.
        timeout_ms: u32,
    }
    /// `struct rdma_ucm_set_option`.
    rdma_ucm_set_option {
        /// Address of the value.
        optval: u64,
        /// The id.
        id: u32,
        /// `RDMA_OPTION_ID` or `RDMA_OPTION_IB`.
        level: u32,
        /// `RDMA_OPTION_ID_*` or `RDMA_OPTION_IB_*`.
        optname: u32,
        /// Bytes of the value.
        optlen: u32,
    }
    /// `struct rdma_ucm_migrate_id`.
    rdma_ucm_migrate_id {
        /// Address of an [`rdma_ucm_migrate_resp`].
        response: u64,
        /// The id.
        id: u32,
        /// The descriptor where it is now.
        fd: u32,
    }
    /// `struct rdma_ucm_migrate_resp`.
    rdma_ucm_migrate_resp {
        /// How many of its events were handed out.
        events_reported: u32,
    }
    /// `struct sockaddr_ib`.
    sockaddr_ib {
        /// [`AF_IB`].
        sib_family: u16,
        /// Big-endian.
        sib_pkey_be: u16,
        /// Big-endian.
        sib_flowinfo_be: u32,
        /// A GID.
        sib_addr: [u8; 16],
        /// Service ID, big-endian.
        sib_sid_be: u64,
        /// Big-endian.
        sib_sid_mask_be: u64,
        /// Unused.
        sib_scope_id: u64,
    }
}
