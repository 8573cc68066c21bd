//! Attributes of queue pairs and address handles, as the kernel hands them out.

use super::*;

structs! {
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
}
