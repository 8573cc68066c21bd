//! Attributes of devices, ports and addresses of `<infiniband/verbs.h>`, and its constants.

use ferroce_cabi::*;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};

pub(crate) fn check(out: &mut String) {
    device(out);
    device_ex(out);
    addresses(out);
    constants(out);
}

/// GIDs, and what a device can do.
fn device(out: &mut String) {
    check!(out, "union ibv_gid", ibv_gid { raw });
    check!(
        out,
        "struct ibv_gid_entry",
        ibv_gid_entry {
            gid,
            gid_index,
            port_num,
            gid_type,
            ndev_ifindex
        }
    );

    check!(
        out,
        "struct ibv_device_attr",
        ibv_device_attr {
            fw_ver,
            node_guid,
            sys_image_guid,
            max_mr_size,
            page_size_cap,
            vendor_id,
            vendor_part_id,
            hw_ver,
            max_qp,
            max_qp_wr,
            device_cap_flags,
            max_sge,
            max_sge_rd,
            max_cq,
            max_cqe,
            max_mr,
            max_pd,
            max_qp_rd_atom,
            max_ee_rd_atom,
            max_res_rd_atom,
            max_qp_init_rd_atom,
            max_ee_init_rd_atom,
            atomic_cap,
            max_ee,
            max_rdd,
            max_mw,
            max_raw_ipv6_qp,
            max_raw_ethy_qp,
            max_mcast_grp,
            max_mcast_qp_attach,
            max_total_mcast_qp_attach,
            max_ah,
            max_fmr,
            max_map_per_fmr,
            max_srq,
            max_srq_wr,
            max_srq_sge,
            max_pkeys,
            local_ca_ack_delay,
            phys_port_cnt,
        }
    );
}

/// What a device can do beyond.
fn device_ex(out: &mut String) {
    check!(
        out,
        "struct ibv_query_device_ex_input",
        ibv_query_device_ex_input { comp_mask }
    );

    check!(out, "struct ibv_odp_caps", ibv_odp_caps {
        general_caps, rc_odp_caps => "per_transport_caps.rc_odp_caps", uc_odp_caps => "per_transport_caps.uc_odp_caps",
        ud_odp_caps => "per_transport_caps.ud_odp_caps",
    });

    check!(
        out,
        "struct ibv_tso_caps",
        ibv_tso_caps {
            max_tso,
            supported_qpts
        }
    );

    check!(
        out,
        "struct ibv_rss_caps",
        ibv_rss_caps {
            supported_qpts,
            max_rwq_indirection_tables,
            max_rwq_indirection_table_size,
            rx_hash_fields_mask,
            rx_hash_function,
        }
    );

    check!(
        out,
        "struct ibv_packet_pacing_caps",
        ibv_packet_pacing_caps {
            qp_rate_limit_min,
            qp_rate_limit_max,
            supported_qpts,
        }
    );

    check!(
        out,
        "struct ibv_tm_caps",
        ibv_tm_caps {
            max_rndv_hdr_size,
            max_num_tags,
            flags,
            max_ops,
            max_sge
        }
    );

    check!(
        out,
        "struct ibv_cq_moderation_caps",
        ibv_cq_moderation_caps {
            max_cq_count,
            max_cq_period
        }
    );

    check!(
        out,
        "struct ibv_pci_atomic_caps",
        ibv_pci_atomic_caps {
            fetch_add,
            swap,
            compare_swap
        }
    );

    check!(
        out,
        "struct ibv_device_attr_ex",
        ibv_device_attr_ex {
            orig_attr,
            comp_mask,
            odp_caps,
            completion_timestamp_mask,
            hca_core_clock,
            device_cap_flags_ex,
            tso_caps,
            rss_caps,
            max_wq_type_rq,
            packet_pacing_caps,
            raw_packet_caps,
            tm_caps,
            cq_mod_caps,
            max_dm_size,
            pci_atomic_caps,
            xrc_odp_caps,
            phys_port_cnt_ex,
        }
    );
}

/// Ports and ways from them.
fn addresses(out: &mut String) {
    check!(
        out,
        "struct ibv_port_attr" grown from size_of::<ibv_port_attr>(),
        ibv_port_attr {
            state,
            max_mtu,
            active_mtu,
            gid_tbl_len,
            port_cap_flags,
            max_msg_sz,
            bad_pkey_cntr,
            qkey_viol_cntr,
            pkey_tbl_len,
            lid,
            sm_lid,
            lmc,
            max_vl_num,
            sm_sl,
            subnet_timeout,
            init_type_reply,
            active_width,
            active_speed,
            phys_state,
            link_layer,
            flags,
            port_cap_flags2,
        }
    );

    check!(
        out,
        "struct ibv_global_route",
        ibv_global_route {
            dgid,
            flow_label,
            sgid_index,
            hop_limit,
            traffic_class,
        }
    );

    check!(
        out,
        "struct ibv_ah_attr",
        ibv_ah_attr {
            grh,
            dlid,
            sl,
            src_path_bits,
            static_rate,
            is_global,
            port_num,
        }
    );
}

/// Constants.
fn constants(out: &mut String) {
    value!(
        out,
        "IBV_GID_TYPE_ROCE_V2" = IBV_GID_TYPE_ROCE_V2,
        "IBV_SRQ_MAX_WR" = IBV_SRQ_MAX_WR,
        "IBV_SRQ_LIMIT" = IBV_SRQ_LIMIT,
        "IBV_SRQ_INIT_ATTR_TYPE" = IBV_SRQ_INIT_ATTR_TYPE,
        "IBV_SRQ_INIT_ATTR_PD" = IBV_SRQ_INIT_ATTR_PD,
        "IBV_SRQT_BASIC" = IBV_SRQT_BASIC,
        "IBV_QP_INIT_ATTR_PD" = IBV_QP_INIT_ATTR_PD,
        "IBV_QP_INIT_ATTR_CREATE_FLAGS" = IBV_QP_INIT_ATTR_CREATE_FLAGS,
        "IBV_QP_INIT_ATTR_SEND_OPS_FLAGS" = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        "IBV_QP_EX_WITH_RDMA_WRITE" = send_ops::RDMA_WRITE,
        "IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM" = send_ops::RDMA_WRITE_WITH_IMM,
        "IBV_QP_EX_WITH_SEND" = send_ops::SEND,
        "IBV_QP_EX_WITH_SEND_WITH_IMM" = send_ops::SEND_WITH_IMM,
        "IBV_QP_EX_WITH_RDMA_READ" = send_ops::RDMA_READ,
        "IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP" = send_ops::ATOMIC_CMP_AND_SWP,
        "IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD" = send_ops::ATOMIC_FETCH_AND_ADD,
        "IBV_QP_EX_WITH_LOCAL_INV" = send_ops::LOCAL_INV,
        "IBV_QP_EX_WITH_BIND_MW" = send_ops::BIND_MW,
        "IBV_QP_EX_WITH_SEND_WITH_INV" = send_ops::SEND_WITH_INV,
        "IBV_QP_EX_WITH_TSO" = send_ops::TSO,
        "IBV_WR_RDMA_WRITE" = wr_opcode::RDMA_WRITE,
        "IBV_WR_RDMA_WRITE_WITH_IMM" = wr_opcode::RDMA_WRITE_WITH_IMM,
        "IBV_WR_SEND" = wr_opcode::SEND,
        "IBV_WR_SEND_WITH_IMM" = wr_opcode::SEND_WITH_IMM,
        "IBV_WR_RDMA_READ" = wr_opcode::RDMA_READ,
        "IBV_WR_ATOMIC_CMP_AND_SWP" = wr_opcode::ATOMIC_CMP_AND_SWP,
        "IBV_WR_ATOMIC_FETCH_AND_ADD" = wr_opcode::ATOMIC_FETCH_AND_ADD,
        "IBV_WR_LOCAL_INV" = wr_opcode::LOCAL_INV,
        "IBV_WR_BIND_MW" = wr_opcode::BIND_MW,
        "IBV_WR_SEND_WITH_INV" = wr_opcode::SEND_WITH_INV,
        "IBV_WR_TSO" = wr_opcode::TSO,
        "IBV_CQ_INIT_ATTR_MASK_FLAGS" = IBV_CQ_INIT_ATTR_MASK_FLAGS,
        "IBV_CREATE_CQ_ATTR_SINGLE_THREADED" = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
        "IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN" = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
        "IBV_WC_STANDARD_FLAGS" = IBV_WC_STANDARD_FLAGS,
        "IBV_REREG_MR_CHANGE_TRANSLATION" = rereg::CHANGE_TRANSLATION,
        "IBV_REREG_MR_CHANGE_PD" = rereg::CHANGE_PD,
        "IBV_REREG_MR_CHANGE_ACCESS" = rereg::CHANGE_ACCESS,
        "IBV_SYSFS_NAME_MAX" = IBV_SYSFS_NAME_MAX,
        "IBV_SYSFS_PATH_MAX" = IBV_SYSFS_PATH_MAX,
    );
}
