//! Questions about an id, and their answers.

use super::*;

structs! {
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
    /// `struct rdma_ucm_query_path_resp`; [`num_paths`](Self::num_paths) × [`ib_path_rec_data`]
    /// follow.
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
}
