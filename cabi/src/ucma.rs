//! The kernel's rdma_cm ABI (`<rdma/rdma_user_cm.h>`): the commands that librdmacm writes to `/dev/infiniband/rdma_cm`, and
//! the answers that it finds at the addresses in them.
//!
//! A command is an [`rdma_ucm_cmd_hdr`] and the structure that belongs to its number. Socket addresses are kept as bytes:
//! which family they are is a question for who reads them.

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
    /// `struct rdma_ucm_query`, also of `QUERY_ROUTE`.
    rdma_ucm_query {
        /// Address of the answer.
        response: u64,
        /// The id.
        id: u32,
        /// `RDMA_USER_CM_QUERY_*`.
        option: u32,
    }
    /// `struct ib_user_path_rec`.
    ib_user_path_rec {
        /// Destination.
        dgid: [u8; 16],
        /// Source.
        sgid: [u8; 16],
        /// Big-endian.
        dlid_be: u16,
        /// Big-endian.
        slid_be: u16,
        /// 0 or 1.
        raw_traffic: u32,
        /// Big-endian, 20 bits.
        flow_label_be: u32,
        /// 0 or 1.
        reversible: u32,
        /// `enum ibv_mtu`.
        mtu: u32,
        /// Big-endian.
        pkey_be: u16,
        /// Hop limit.
        hop_limit: u8,
        /// Traffic class.
        traffic_class: u8,
        /// How many paths were asked for.
        numb_path: u8,
        /// Service level.
        sl: u8,
        /// 2: exactly.
        mtu_selector: u8,
        /// 2: exactly.
        rate_selector: u8,
        /// `enum ibv_rate`.
        rate: u8,
        /// 2: exactly.
        packet_life_time_selector: u8,
        /// 4.096 µs · 2^n.
        packet_life_time: u8,
        /// 0 is best.
        preference: u8,
    }
    /// `struct rdma_ucm_query_route_resp`.
    rdma_ucm_query_route_resp {
        /// As in sysfs, in network order; 0: not bound to a device.
        node_guid: u64,
        /// The paths, of which the first has GIDs even if there are none.
        ib_route: [ib_user_path_rec; 2],
        /// A `sockaddr_in` or `sockaddr_in6`.
        src_addr: [u8; SOCKADDR_IN6_LEN],
        /// A `sockaddr_in` or `sockaddr_in6`.
        dst_addr: [u8; SOCKADDR_IN6_LEN],
        /// How many paths there are.
        num_paths: u32,
        /// The port.
        port_num: u8,
        /// Zero.
        reserved: [u8; 3],
        /// The device's number in the kernel; `!0`: none.
        ibdev_index: u32,
        /// Zero.
        reserved1: u32,
    }
    /// `struct rdma_ucm_query_addr_resp`, also the answer to `RDMA_USER_CM_QUERY_GID`.
    rdma_ucm_query_addr_resp {
        /// As in sysfs, in network order; 0: not bound to a device.
        node_guid: u64,
        /// The port.
        port_num: u8,
        /// Zero.
        reserved: u8,
        /// Big-endian.
        pkey_be: u16,
        /// Bytes of the source address.
        src_size: u16,
        /// Bytes of the destination address.
        dst_size: u16,
        /// The source.
        src_addr: [u8; SOCKADDR_STORAGE_LEN],
        /// The destination.
        dst_addr: [u8; SOCKADDR_STORAGE_LEN],
        /// The device's number in the kernel; `!0`: none.
        ibdev_index: u32,
        /// Zero.
        reserved1: u32,
    }
    /// `struct rdma_ucm_query_path_resp`; [`num_paths`](Self::num_paths) × [`ib_path_rec_data`] follow.
    rdma_ucm_query_path_resp {
        /// How many paths there are, which may be more than follow.
        num_paths: u32,
        /// Zero.
        reserved: u32,
    }
    /// `struct ib_path_rec_data`, with the path record as the wire has it.
    ib_path_rec_data {
        /// `IB_PATH_*`.
        flags: u32,
        /// Zero.
        reserved: u32,
        /// A PathRecord of subnet administration, big-endian.
        path_rec: [u8; 64],
    }
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
    /// `struct ib_uverbs_global_route`.
    ib_uverbs_global_route {
        /// Destination.
        dgid: [u8; 16],
        /// 20 bits, host order.
        flow_label: u32,
        /// Index into the GID table.
        sgid_index: u8,
        /// Hop limit.
        hop_limit: u8,
        /// Traffic class.
        traffic_class: u8,
        /// Zero.
        reserved: u8,
    }
    /// `struct ib_uverbs_ah_attr`.
    ib_uverbs_ah_attr {
        /// Valid if `is_global`.
        grh: ib_uverbs_global_route,
        /// Host order.
        dlid: u16,
        /// Service level.
        sl: u8,
        /// Low bits of the source LID.
        src_path_bits: u8,
        /// `enum ibv_rate`.
        static_rate: u8,
        /// 0 or 1.
        is_global: u8,
        /// The port.
        port_num: u8,
        /// Zero.
        reserved: u8,
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
    /// `struct rdma_ucm_init_qp_attr`.
    rdma_ucm_init_qp_attr {
        /// Address of an [`ib_uverbs_qp_attr`].
        response: u64,
        /// The id.
        id: u32,
        /// `enum ibv_qp_state`.
        qp_state: u32,
    }
    /// `struct ib_uverbs_qp_attr`.
    ib_uverbs_qp_attr {
        /// `enum ibv_qp_attr_mask`.
        qp_attr_mask: u32,
        /// `enum ibv_qp_state`.
        qp_state: u32,
        /// `enum ibv_qp_state`.
        cur_qp_state: u32,
        /// `enum ibv_mtu`.
        path_mtu: u32,
        /// `enum ibv_mig_state`.
        path_mig_state: u32,
        /// Q_Key.
        qkey: u32,
        /// 24 bits.
        rq_psn: u32,
        /// 24 bits.
        sq_psn: u32,
        /// 24 bits.
        dest_qp_num: u32,
        /// `enum ibv_access_flags`.
        qp_access_flags: u32,
        /// The path.
        ah_attr: ib_uverbs_ah_attr,
        /// The alternate path.
        alt_ah_attr: ib_uverbs_ah_attr,
        /// Capacity.
        max_send_wr: u32,
        /// Capacity.
        max_recv_wr: u32,
        /// Capacity.
        max_send_sge: u32,
        /// Capacity.
        max_recv_sge: u32,
        /// Capacity.
        max_inline_data: u32,
        /// Index into the P_Key table.
        pkey_index: u16,
        /// Index into the P_Key table.
        alt_pkey_index: u16,
        /// 0 or 1.
        en_sqd_async_notify: u8,
        /// 0 or 1.
        sq_draining: u8,
        /// READs and atomics outstanding as the requester.
        max_rd_atomic: u8,
        /// READs and atomics taken as the responder.
        max_dest_rd_atomic: u8,
        /// Code of the RNR timer.
        min_rnr_timer: u8,
        /// The port.
        port_num: u8,
        /// Local ACK Timeout, 4.096 µs · 2^n.
        timeout: u8,
        /// 0 to 7.
        retry_cnt: u8,
        /// 0 to 7.
        rnr_retry: u8,
        /// The port of the alternate path.
        alt_port_num: u8,
        /// Local ACK Timeout of the alternate path.
        alt_timeout: u8,
        /// Zero.
        reserved: [u8; 5],
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
