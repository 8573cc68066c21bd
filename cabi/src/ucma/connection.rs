//! What begins, answers and ends a connection, and the events that tell of it; multicast groups.

use super::*;

structs! {
    /// `struct rdma_ucm_conn_param`.
    rdma_ucm_conn_param {
        /// The QP's number.
        qp_num: u32,
        /// For datagrams over `AF_IB`.
        qkey: u32,
        /// The first `private_data_len` bytes count.
        private_data: [u8; RDMA_MAX_PRIVATE_DATA],
        /// Bytes.
        private_data_len: u8,
        /// Whether the QP has an SRQ.
        srq: u8,
        /// READs and atomics that this side can take.
        responder_resources: u8,
        /// READs and atomics that this side wants to have outstanding.
        initiator_depth: u8,
        /// End-to-end flow control.
        flow_control: u8,
        /// Retries, 0 to 7.
        retry_count: u8,
        /// Retries after RNR NAK, 0 to 7.
        rnr_retry_count: u8,
        /// Whether the structure says anything.
        valid: u8,
    }
    /// `struct rdma_ucm_ud_param`.
    rdma_ucm_ud_param {
        /// The peer's QP.
        qp_num: u32,
        /// Its Q_Key.
        qkey: u32,
        /// How to reach it.
        ah_attr: ib_uverbs_ah_attr,
        /// The first `private_data_len` bytes count.
        private_data: [u8; RDMA_MAX_PRIVATE_DATA],
        /// Bytes.
        private_data_len: u8,
        /// Zero.
        reserved: [u8; 7],
    }
    /// `struct rdma_ucm_ece`.
    rdma_ucm_ece {
        /// OUI; 0: no enhanced connection establishment.
        vendor_id: u32,
        /// The vendor's options.
        attr_mod: u32,
    }
    /// `struct rdma_ucm_connect`.
    rdma_ucm_connect {
        /// How to connect.
        conn_param: rdma_ucm_conn_param,
        /// The id.
        id: u32,
        /// Zero.
        reserved: u32,
        /// Absent in commands of old libraries.
        ece: rdma_ucm_ece,
    }
    /// `struct rdma_ucm_listen`.
    rdma_ucm_listen {
        /// The id.
        id: u32,
        /// Requests that may wait.
        backlog: u32,
    }
    /// `struct rdma_ucm_accept`.
    rdma_ucm_accept {
        /// What events of the id shall bear from now on.
        uid: u64,
        /// How to accept; not `valid`: the active side says that its QP is ready.
        conn_param: rdma_ucm_conn_param,
        /// The id.
        id: u32,
        /// Zero.
        reserved: u32,
        /// Absent in commands of old libraries.
        ece: rdma_ucm_ece,
    }
    /// `struct rdma_ucm_reject`.
    rdma_ucm_reject {
        /// The id.
        id: u32,
        /// Bytes.
        private_data_len: u8,
        /// 0, or the reason for the peer.
        reason: u8,
        /// Zero.
        reserved: [u8; 2],
        /// The first `private_data_len` bytes count.
        private_data: [u8; RDMA_MAX_PRIVATE_DATA],
    }
    /// `struct rdma_ucm_disconnect`.
    rdma_ucm_disconnect {
        /// The id.
        id: u32,
    }
    /// `struct rdma_ucm_notify`.
    rdma_ucm_notify {
        /// The id.
        id: u32,
        /// `enum ibv_event_type`.
        event: u32,
    }
    /// `struct rdma_ucm_join_ip_mcast`.
    rdma_ucm_join_ip_mcast {
        /// Address of an [`rdma_ucm_create_id_resp`].
        response: u64,
        /// What the group's events shall bear.
        uid: u64,
        /// The group.
        addr: [u8; SOCKADDR_IN6_LEN],
        /// The id.
        id: u32,
    }
    /// `struct rdma_ucm_join_mcast`.
    rdma_ucm_join_mcast {
        /// Address of an [`rdma_ucm_create_id_resp`].
        response: u64,
        /// What the group's events shall bear.
        uid: u64,
        /// The id.
        id: u32,
        /// Bytes of the address.
        addr_size: u16,
        /// `RDMA_MC_JOIN_FLAG_*`.
        join_flags: u16,
        /// The group.
        addr: [u8; SOCKADDR_STORAGE_LEN],
    }
    /// `struct rdma_ucm_get_event`.
    rdma_ucm_get_event {
        /// Address of an [`rdma_ucm_event_resp`].
        response: u64,
    }
    /// `struct rdma_ucm_event_resp`.
    rdma_ucm_event_resp {
        /// The id's, or the multicast group's.
        uid: u64,
        /// The id; of a connection request the new one.
        id: u32,
        /// `enum rdma_cm_event_type`.
        event: u32,
        /// 0, a negative errno, or a positive reason of the peer's.
        status: i32,
        /// An [`rdma_ucm_conn_param`] or an [`rdma_ucm_ud_param`].
        param: [u8; 304],
        /// Zero.
        reserved: u32,
        /// The peer's; not for old libraries.
        ece: rdma_ucm_ece,
    }
}
