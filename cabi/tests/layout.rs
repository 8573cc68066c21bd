//! The layouts of this crate against the C headers: the numbers come from `size_of` and `offset_of!` here, and a C
//! compiler checks them with `_Static_assert`.
//!
//! `driver.h` is private to rdma-core and not installed. Where `FERROCE_RDMA_CORE_SRC` names a source tree of PABI 34, the
//! structures are cut from its text and checked too; `observed.rs` covers the case without.

use ferroce_cabi::pabi34::*;
use ferroce_cabi::uverbs::*;
use ferroce_cabi::*;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

/// Adds assertions about one structure: `check!(out, "struct x", x { a, b => "c_name" })`.
macro_rules! check {
    ($out:expr, $c:literal, $t:ty { $($f:ident $(=> $cf:literal)?),* $(,)? }) => {{
        writeln!($out, "_Static_assert(sizeof({0}) == {1}, \"sizeof {0}\");", $c, size_of::<$t>()).unwrap();
        $({
            let c_field = check!(@name $f $(=> $cf)?);
            writeln!($out, "_Static_assert(offsetof({0}, {1}) == {2}, \"{0}.{1}\");", $c, c_field, offset_of!($t, $f)).unwrap();
        })*
    }};
    (@name $f:ident => $cf:literal) => { $cf };
    (@name $f:ident) => { stringify!($f).trim_start_matches("r#") };
}

/// Adds assertions about constants.
macro_rules! value {
    ($out:expr, $($c:literal = $v:expr),* $(,)?) => {
        $(writeln!($out, "_Static_assert(({0}) == {1}, \"{0}\");", $c, $v).unwrap();)*
    };
}

fn public(out: &mut String) {
    out.push_str("#include <stddef.h>\n#include <infiniband/verbs.h>\n");
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
    check!(
        out,
        "struct ibv_port_attr",
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
    check!(
        out,
        "struct ibv_srq_attr",
        ibv_srq_attr {
            max_wr,
            max_sge,
            srq_limit
        }
    );
    check!(
        out,
        "struct ibv_srq_init_attr",
        ibv_srq_init_attr { srq_context, attr }
    );
    check!(
        out,
        "struct ibv_tm_cap",
        ibv_tm_cap {
            max_num_tags,
            max_ops
        }
    );
    check!(
        out,
        "struct ibv_srq_init_attr_ex",
        ibv_srq_init_attr_ex {
            srq_context,
            attr,
            comp_mask,
            srq_type,
            pd,
            xrcd,
            cq,
            tm_cap,
        }
    );
    check!(
        out,
        "struct ibv_qp_cap",
        ibv_qp_cap {
            max_send_wr,
            max_recv_wr,
            max_send_sge,
            max_recv_sge,
            max_inline_data,
        }
    );
    check!(
        out,
        "struct ibv_qp_init_attr",
        ibv_qp_init_attr {
            qp_context,
            send_cq,
            recv_cq,
            srq,
            cap,
            qp_type,
            sq_sig_all,
        }
    );
    check!(
        out,
        "struct ibv_rx_hash_conf",
        ibv_rx_hash_conf {
            rx_hash_function,
            rx_hash_key_len,
            rx_hash_key,
            rx_hash_fields_mask,
        }
    );
    check!(
        out,
        "struct ibv_qp_init_attr_ex",
        ibv_qp_init_attr_ex {
            qp_context,
            send_cq,
            recv_cq,
            srq,
            cap,
            qp_type,
            sq_sig_all,
            comp_mask,
            pd,
            xrcd,
            create_flags,
            max_tso_header,
            rwq_ind_tbl,
            rx_hash_conf,
            source_qpn,
            send_ops_flags,
        }
    );
    check!(
        out,
        "struct ibv_qp_attr",
        ibv_qp_attr {
            qp_state,
            cur_qp_state,
            path_mtu,
            path_mig_state,
            qkey,
            rq_psn,
            sq_psn,
            dest_qp_num,
            qp_access_flags,
            cap,
            ah_attr,
            alt_ah_attr,
            pkey_index,
            alt_pkey_index,
            en_sqd_async_notify,
            sq_draining,
            max_rd_atomic,
            max_dest_rd_atomic,
            min_rnr_timer,
            port_num,
            timeout,
            retry_cnt,
            rnr_retry,
            alt_port_num,
            alt_timeout,
            rate_limit,
        }
    );
    check!(
        out,
        "struct ibv_cq_init_attr_ex",
        ibv_cq_init_attr_ex {
            cqe,
            cq_context,
            channel,
            comp_vector,
            wc_flags,
            comp_mask,
            flags,
            parent_domain,
        }
    );
    check!(out, "struct ibv_sge", ibv_sge { addr, length, lkey });
    check!(out, "struct ibv_data_buf", ibv_data_buf { addr, length });
    check!(out, "struct ibv_send_wr", ibv_send_wr {
        wr_id, next, sg_list, num_sge, opcode, send_flags, imm_or_rkey => "imm_data", wr,
        xrc_remote_srqn => "qp_type.xrc.remote_srqn", bind_mw,
    });
    value!(
        out,
        "offsetof(struct ibv_send_wr, wr.atomic.rkey) - offsetof(struct ibv_send_wr, wr)" =
            offset_of!(ibv_send_wr_atomic, rkey),
        "offsetof(struct ibv_send_wr, wr.atomic.swap) - offsetof(struct ibv_send_wr, wr)" =
            offset_of!(ibv_send_wr_atomic, swap),
        "offsetof(struct ibv_send_wr, wr.rdma.rkey) - offsetof(struct ibv_send_wr, wr)" =
            offset_of!(ibv_send_wr_rdma, rkey),
        "offsetof(struct ibv_send_wr, wr.ud.remote_qkey) - offsetof(struct ibv_send_wr, wr)" =
            offset_of!(ibv_send_wr_ud, remote_qkey),
        "offsetof(struct ibv_send_wr, bind_mw.bind_info) - offsetof(struct ibv_send_wr, bind_mw)" =
            offset_of!(ibv_send_wr_bind_mw, bind_info),
    );
    check!(
        out,
        "struct ibv_recv_wr",
        ibv_recv_wr {
            wr_id,
            next,
            sg_list,
            num_sge
        }
    );
    check!(out, "struct ibv_wc", ibv_wc {
        wr_id, status, opcode, vendor_err, byte_len, imm_or_rkey => "imm_data", qp_num, src_qp, wc_flags, pkey_index,
        slid, sl, dlid_path_bits,
    });
    check!(
        out,
        "struct ibv_qp_ex",
        ibv_qp_ex {
            qp_base,
            comp_mask,
            wr_id,
            wr_flags,
            wr_atomic_cmp_swp,
            wr_atomic_fetch_add,
            wr_bind_mw,
            wr_local_inv,
            wr_rdma_read,
            wr_rdma_write,
            wr_rdma_write_imm,
            wr_send,
            wr_send_imm,
            wr_send_inv,
            wr_send_tso,
            wr_set_ud_addr,
            wr_set_xrc_srqn,
            wr_set_inline_data,
            wr_set_inline_data_list,
            wr_set_sge,
            wr_set_sge_list,
            wr_start,
            wr_complete,
            wr_abort,
            wr_atomic_write,
        }
    );
    check!(
        out,
        "struct ibv_poll_cq_attr",
        ibv_poll_cq_attr { comp_mask }
    );
    check!(
        out,
        "struct ibv_cq_ex",
        ibv_cq_ex {
            context,
            channel,
            cq_context,
            handle,
            cqe,
            mutex,
            cond,
            comp_events_completed,
            async_events_completed,
            comp_mask,
            status,
            wr_id,
            start_poll,
            next_poll,
            end_poll,
            read_opcode,
            read_vendor_err,
            read_byte_len,
            read_imm_data,
            read_qp_num,
            read_src_qp,
            read_wc_flags,
            read_slid,
            read_sl,
            read_dlid_path_bits,
            read_completion_ts,
            read_cvlan,
            read_flow_tag,
            read_tm_info,
            read_completion_wallclock_ns,
        }
    );
    check!(
        out,
        "struct ibv_device",
        ibv_device {
            _ops,
            node_type,
            transport_type,
            name,
            dev_name,
            dev_path,
            ibdev_path,
        }
    );
    check!(
        out,
        "struct ibv_context_ops",
        ibv_context_ops {
            _compat_query_device,
            _compat_query_port,
            _compat_alloc_pd,
            _compat_dealloc_pd,
            _compat_reg_mr,
            _compat_rereg_mr,
            _compat_dereg_mr,
            alloc_mw,
            bind_mw,
            dealloc_mw,
            _compat_create_cq,
            poll_cq,
            req_notify_cq,
            _compat_cq_event,
            _compat_resize_cq,
            _compat_destroy_cq,
            _compat_create_srq,
            _compat_modify_srq,
            _compat_query_srq,
            _compat_destroy_srq,
            post_srq_recv,
            _compat_create_qp,
            _compat_query_qp,
            _compat_modify_qp,
            _compat_destroy_qp,
            post_send,
            post_recv,
            _compat_create_ah,
            _compat_destroy_ah,
            _compat_attach_mcast,
            _compat_detach_mcast,
            _compat_async_event,
        }
    );
    check!(
        out,
        "struct ibv_context",
        ibv_context {
            device,
            ops,
            cmd_fd,
            async_fd,
            num_comp_vectors,
            mutex,
            abi_compat,
        }
    );
    check!(
        out,
        "struct verbs_context",
        verbs_context {
            query_port,
            advise_mr,
            alloc_null_mr,
            read_counters,
            attach_counters_point_flow,
            create_counters,
            destroy_counters,
            reg_dm_mr,
            alloc_dm,
            free_dm,
            modify_flow_action_esp,
            destroy_flow_action,
            create_flow_action_esp,
            modify_qp_rate_limit,
            alloc_parent_domain,
            dealloc_td,
            alloc_td,
            modify_cq,
            post_srq_ops,
            destroy_rwq_ind_table,
            create_rwq_ind_table,
            destroy_wq,
            modify_wq,
            create_wq,
            query_rt_values,
            create_cq_ex,
            r#priv,
            query_device_ex,
            ibv_destroy_flow,
            ABI_placeholder2,
            ibv_create_flow,
            ABI_placeholder1,
            open_qp,
            create_qp_ex,
            get_srq_num,
            create_srq_ex,
            open_xrcd,
            close_xrcd,
            _ABI_placeholder3,
            sz,
            context,
        }
    );
    check!(out, "struct ibv_pd", ibv_pd { context, handle });
    check!(
        out,
        "struct ibv_mr",
        ibv_mr {
            context,
            pd,
            addr,
            length,
            handle,
            lkey,
            rkey
        }
    );
    check!(
        out,
        "struct ibv_comp_channel",
        ibv_comp_channel {
            context,
            fd,
            refcnt
        }
    );
    check!(
        out,
        "struct ibv_cq",
        ibv_cq {
            context,
            channel,
            cq_context,
            handle,
            cqe,
            mutex,
            cond,
            comp_events_completed,
            async_events_completed,
        }
    );
    check!(
        out,
        "struct ibv_srq",
        ibv_srq {
            context,
            srq_context,
            pd,
            handle,
            mutex,
            cond,
            events_completed
        }
    );
    check!(
        out,
        "struct ibv_qp",
        ibv_qp {
            context,
            qp_context,
            pd,
            send_cq,
            recv_cq,
            srq,
            handle,
            qp_num,
            state,
            qp_type,
            mutex,
            cond,
            events_completed,
        }
    );
    check!(
        out,
        "struct ibv_ah",
        ibv_ah {
            context,
            pd,
            handle
        }
    );
    check!(
        out,
        "struct ibv_async_event",
        ibv_async_event {
            element,
            event_type
        }
    );
    extended(out);
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

/// Objects and attributes of the verbs that came later.
fn extended(out: &mut String) {
    check!(
        out,
        "struct ibv_mw",
        ibv_mw {
            context,
            pd,
            rkey,
            handle,
            r#type
        }
    );
    check!(
        out,
        "struct ibv_mw_bind_info",
        ibv_mw_bind_info {
            mr,
            addr,
            length,
            mw_access_flags
        }
    );
    check!(
        out,
        "struct ibv_mw_bind",
        ibv_mw_bind {
            wr_id,
            send_flags,
            bind_info
        }
    );
    check!(out, "struct ibv_xrcd", ibv_xrcd { context });
    check!(
        out,
        "struct ibv_xrcd_init_attr",
        ibv_xrcd_init_attr {
            comp_mask,
            fd,
            oflags
        }
    );
    check!(
        out,
        "struct ibv_qp_open_attr",
        ibv_qp_open_attr {
            comp_mask,
            qp_num,
            xrcd,
            qp_context,
            qp_type
        }
    );
    check!(
        out,
        "struct ibv_ece",
        ibv_ece {
            vendor_id,
            options,
            comp_mask
        }
    );
    check!(out, "struct ibv_td", ibv_td { context });
    check!(
        out,
        "struct ibv_td_init_attr",
        ibv_td_init_attr { comp_mask }
    );
    check!(
        out,
        "struct ibv_parent_domain_init_attr",
        ibv_parent_domain_init_attr {
            pd,
            td,
            comp_mask,
            alloc,
            free,
            pd_context
        }
    );
    check!(
        out,
        "struct ibv_values_ex",
        ibv_values_ex {
            comp_mask,
            raw_clock
        }
    );
    check!(
        out,
        "struct ibv_moderate_cq",
        ibv_moderate_cq {
            cq_count,
            cq_period
        }
    );
    check!(
        out,
        "struct ibv_modify_cq_attr",
        ibv_modify_cq_attr {
            attr_mask,
            moderate
        }
    );
    check!(
        out,
        "struct ibv_dm",
        ibv_dm {
            context,
            memcpy_to_dm,
            memcpy_from_dm,
            comp_mask,
            handle
        }
    );
    check!(
        out,
        "struct ibv_alloc_dm_attr",
        ibv_alloc_dm_attr {
            length,
            log_align_req,
            comp_mask
        }
    );
    check!(out, "struct ibv_ops_wr", ibv_ops_wr {
        wr_id, next, opcode, flags, unexpected_cnt => "tm.unexpected_cnt", handle => "tm.handle", add => "tm.add",
    });
    value!(
        out,
        "offsetof(struct ibv_ops_wr, tm.add.mask) - offsetof(struct ibv_ops_wr, tm.add)" =
            offset_of!(ibv_ops_wr_add, mask),
        "offsetof(struct ibv_ops_wr, tm.add.num_sge) - offsetof(struct ibv_ops_wr, tm.add)" =
            offset_of!(ibv_ops_wr_add, num_sge),
        "IBV_WR_TAG_ADD" = ops::TAG_ADD,
        "IBV_WR_TAG_DEL" = ops::TAG_DEL,
        "IBV_WR_TAG_SYNC" = ops::TAG_SYNC,
        "IBV_OPS_SIGNALED" = IBV_OPS_SIGNALED,
        "IBV_OPS_TM_SYNC" = IBV_OPS_TM_SYNC,
        "IBV_TM_CAP_RC" = IBV_TM_CAP_RC,
    );
    check!(out, "struct ibv_wc_tm_info", ibv_wc_tm_info { tag, r#priv });
    value!(
        out,
        "IBV_MW_TYPE_1" = IBV_MW_TYPE_1,
        "IBV_MW_TYPE_2" = IBV_MW_TYPE_2,
        "IBV_DM_MASK_HANDLE" = IBV_DM_MASK_HANDLE,
        "IBV_SRQ_INIT_ATTR_XRCD" = IBV_SRQ_INIT_ATTR_XRCD,
        "IBV_SRQ_INIT_ATTR_CQ" = IBV_SRQ_INIT_ATTR_CQ,
        "IBV_SRQ_INIT_ATTR_TM" = IBV_SRQ_INIT_ATTR_TM,
        "IBV_SRQT_XRC" = IBV_SRQT_XRC,
        "IBV_SRQT_TM" = IBV_SRQT_TM,
        "IBV_XRCD_INIT_ATTR_FD" = IBV_XRCD_INIT_ATTR_FD,
        "IBV_XRCD_INIT_ATTR_OFLAGS" = IBV_XRCD_INIT_ATTR_OFLAGS,
        "IBV_QP_INIT_ATTR_XRCD" = IBV_QP_INIT_ATTR_XRCD,
        "IBV_QP_INIT_ATTR_MAX_TSO_HEADER" = IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
        "IBV_QP_INIT_ATTR_IND_TABLE" = IBV_QP_INIT_ATTR_IND_TABLE,
        "IBV_QP_INIT_ATTR_RX_HASH" = IBV_QP_INIT_ATTR_RX_HASH,
        "IBV_QP_CREATE_BLOCK_SELF_MCAST_LB" = qp_create::BLOCK_SELF_MCAST_LB,
        "IBV_QP_CREATE_SCATTER_FCS" = qp_create::SCATTER_FCS,
        "IBV_QP_CREATE_CVLAN_STRIPPING" = qp_create::CVLAN_STRIPPING,
        "IBV_QP_CREATE_SOURCE_QPN" = qp_create::SOURCE_QPN,
        "IBV_QP_CREATE_PCI_WRITE_END_PADDING" = qp_create::PCI_WRITE_END_PADDING,
        "IBV_QPT_RC" = qp_type::RC,
        "IBV_QPT_UC" = qp_type::UC,
        "IBV_QPT_UD" = qp_type::UD,
        "IBV_QPT_RAW_PACKET" = qp_type::RAW_PACKET,
        "IBV_QPT_XRC_SEND" = qp_type::XRC_SEND,
        "IBV_QPT_XRC_RECV" = qp_type::XRC_RECV,
        "IBV_QPT_DRIVER" = qp_type::DRIVER,
        "IBV_QP_OPEN_ATTR_NUM" = qp_open::NUM,
        "IBV_QP_OPEN_ATTR_XRCD" = qp_open::XRCD,
        "IBV_QP_OPEN_ATTR_CONTEXT" = qp_open::CONTEXT,
        "IBV_QP_OPEN_ATTR_TYPE" = qp_open::TYPE,
        "IBV_CQ_INIT_ATTR_MASK_PD" = IBV_CQ_INIT_ATTR_MASK_PD,
        "IBV_WC_EX_WITH_BYTE_LEN" = wc_ex::BYTE_LEN,
        "IBV_WC_EX_WITH_IMM" = wc_ex::IMM,
        "IBV_WC_EX_WITH_QP_NUM" = wc_ex::QP_NUM,
        "IBV_WC_EX_WITH_SRC_QP" = wc_ex::SRC_QP,
        "IBV_WC_EX_WITH_SLID" = wc_ex::SLID,
        "IBV_WC_EX_WITH_SL" = wc_ex::SL,
        "IBV_WC_EX_WITH_DLID_PATH_BITS" = wc_ex::DLID_PATH_BITS,
        "IBV_WC_EX_WITH_COMPLETION_TIMESTAMP" = wc_ex::COMPLETION_TIMESTAMP,
        "IBV_WC_EX_WITH_CVLAN" = wc_ex::CVLAN,
        "IBV_WC_EX_WITH_FLOW_TAG" = wc_ex::FLOW_TAG,
        "IBV_WC_EX_WITH_TM_INFO" = wc_ex::TM_INFO,
        "IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK" = wc_ex::COMPLETION_TIMESTAMP_WALLCLOCK,
        "IBV_WC_GRH" = wc_flags::GRH,
        "IBV_WC_WITH_IMM" = wc_flags::WITH_IMM,
        "IBV_WC_IP_CSUM_OK" = wc_flags::IP_CSUM_OK,
        "IBV_WC_WITH_INV" = wc_flags::WITH_INV,
        "IBV_CQ_ATTR_MODERATE" = IBV_CQ_ATTR_MODERATE,
        "IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS" = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
        "IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT" = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
        "IBV_VALUES_MASK_RAW_CLOCK" = IBV_VALUES_MASK_RAW_CLOCK,
        "IBV_ODP_SUPPORT" = odp::SUPPORT,
        "IBV_ODP_SUPPORT_IMPLICIT" = odp::SUPPORT_IMPLICIT,
        "IBV_ODP_SUPPORT_SEND" = odp_transport::SEND,
        "IBV_ODP_SUPPORT_RECV" = odp_transport::RECV,
        "IBV_ODP_SUPPORT_WRITE" = odp_transport::WRITE,
        "IBV_ODP_SUPPORT_READ" = odp_transport::READ,
        "IBV_ODP_SUPPORT_ATOMIC" = odp_transport::ATOMIC,
        "IBV_ODP_SUPPORT_SRQ_RECV" = odp_transport::SRQ_RECV,
        "IBV_ADVISE_MR_ADVICE_PREFETCH" = advise::PREFETCH,
        "IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE" = advise::PREFETCH_WRITE,
        "IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT" = advise::PREFETCH_NO_FAULT,
        "IBV_ADVISE_MR_FLAG_FLUSH" = advise::FLAG_FLUSH,
    );
}

fn kernel(out: &mut String) {
    out.push_str("#include <rdma/ib_user_verbs.h>\n#include <rdma/rdma_user_ioctl_cmds.h>\n");
    out.push_str("#include <rdma/ib_user_ioctl_cmds.h>\n#include <rdma/ib_user_ioctl_verbs.h>\n");
    check!(
        out,
        "struct ib_uverbs_cmd_hdr",
        ib_uverbs_cmd_hdr {
            command,
            in_words,
            out_words
        }
    );
    check!(
        out,
        "struct ib_uverbs_create_comp_channel",
        ib_uverbs_create_comp_channel { response }
    );
    check!(
        out,
        "struct ib_uverbs_create_comp_channel_resp",
        ib_uverbs_create_comp_channel_resp { fd }
    );
    check!(
        out,
        "struct ib_uverbs_async_event_desc",
        ib_uverbs_async_event_desc {
            element,
            event_type,
            reserved
        }
    );
    check!(
        out,
        "struct ib_uverbs_comp_event_desc",
        ib_uverbs_comp_event_desc { cq_handle }
    );
    check!(
        out,
        "struct ib_uverbs_ioctl_hdr",
        ib_uverbs_ioctl_hdr {
            length,
            object_id,
            method_id,
            num_attrs,
            reserved1,
            driver_id,
            reserved2,
        }
    );
    check!(
        out,
        "struct ib_uverbs_attr",
        ib_uverbs_attr {
            attr_id,
            len,
            flags,
            attr_data,
            data
        }
    );
    check!(out, "struct ib_uverbs_gid_entry", ibv_gid_entry {
        gid, gid_index, port_num, gid_type, ndev_ifindex => "netdev_ifindex",
    });
    value!(
        out,
        "IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL" = IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
        "RDMA_VERBS_IOCTL" = RDMA_VERBS_IOCTL,
        "UVERBS_ATTR_F_MANDATORY" = UVERBS_ATTR_F_MANDATORY,
        "UVERBS_ATTR_F_VALID_OUTPUT" = UVERBS_ATTR_F_VALID_OUTPUT,
        "UVERBS_OBJECT_DEVICE" = UVERBS_OBJECT_DEVICE,
        "UVERBS_METHOD_INVOKE_WRITE" = UVERBS_METHOD_INVOKE_WRITE,
        "UVERBS_METHOD_QUERY_GID_TABLE" = UVERBS_METHOD_QUERY_GID_TABLE,
        "UVERBS_METHOD_QUERY_GID_ENTRY" = UVERBS_METHOD_QUERY_GID_ENTRY,
        "UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE" = UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE,
        "UVERBS_ATTR_QUERY_GID_TABLE_FLAGS" = UVERBS_ATTR_QUERY_GID_TABLE_FLAGS,
        "UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES" = UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES,
        "UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES" =
            UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES,
        "UVERBS_OBJECT_ASYNC_EVENT" = UVERBS_OBJECT_ASYNC_EVENT,
        "UVERBS_METHOD_ASYNC_EVENT_ALLOC" = UVERBS_METHOD_ASYNC_EVENT_ALLOC,
        "UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE" = UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE,
        "UVERBS_ATTR_QUERY_GID_ENTRY_PORT" = UVERBS_ATTR_QUERY_GID_ENTRY_PORT,
        "UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX" = UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX,
        "UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS" = UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS,
        "UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY" = UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY,
        "IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS" = CORE_SUPPORT_OPTIONAL_MR_ACCESS,
    );
}

fn private(out: &mut String, driver_h: &str) {
    out.push_str("#include <stdatomic.h>\n#include <stdbool.h>\n#include <time.h>\n");
    out.push_str("struct list_node { struct list_node *next, *prev; };\n");
    for (kind, name) in [
        ("struct", "verbs_xrcd"),
        ("struct", "verbs_srq"),
        ("enum", "ibv_mr_type"),
        ("struct", "verbs_mr"),
        ("struct", "verbs_qp"),
        ("struct", "verbs_cq"),
        ("struct", "verbs_dm"),
        ("struct", "verbs_match_ent"),
        ("struct", "verbs_sysfs_dev"),
        ("forward", "struct verbs_device;"),
        ("struct", "verbs_device_ops"),
        ("struct", "verbs_device"),
        ("struct", "verbs_context_ops"),
    ] {
        if kind == "forward" {
            writeln!(out, "{name}").unwrap();
            continue;
        }
        let head = format!("{kind} {name} {{");
        let start = driver_h
            .find(&head)
            .unwrap_or_else(|| panic!("driver.h has no {kind} {name}"));
        let end = driver_h[start..]
            .find("\n};")
            .expect("the end of a definition")
            + 3;
        writeln!(out, "{}", &driver_h[start..start + end]).unwrap();
    }
    check!(out, "struct list_node", list_node { next, prev });
    check!(
        out,
        "struct verbs_match_ent",
        verbs_match_ent {
            driver_data,
            u,
            vendor,
            device,
            kind
        }
    );
    check!(
        out,
        "struct verbs_sysfs_dev",
        verbs_sysfs_dev {
            entry,
            provider_data,
            r#match,
            flags,
            sysfs_name,
            sysfs_cdev,
            ibdev_name,
            ibdev_path,
            modalias,
            node_guid,
            driver_id,
            node_type,
            ibdev_idx,
            num_ports,
            abi_ver,
            time_created,
        }
    );
    check!(
        out,
        "struct verbs_device_ops",
        verbs_device_ops {
            name,
            match_min_abi_version,
            match_max_abi_version,
            match_table,
            static_providers,
            match_device,
            alloc_context,
            import_context,
            alloc_device,
            uninit_device,
        }
    );
    check!(
        out,
        "struct verbs_device",
        verbs_device {
            device,
            ops,
            refcount,
            entry,
            sysfs,
            core_support
        }
    );
    check!(
        out,
        "struct verbs_mr",
        verbs_mr {
            ibv_mr,
            mr_type,
            access
        }
    );
    check!(
        out,
        "struct verbs_xrcd",
        verbs_xrcd {
            xrcd,
            comp_mask,
            handle
        }
    );
    value!(
        out,
        "IBV_MR_TYPE_NULL_MR" = mr_type::NULL_MR,
        "IBV_MR_TYPE_IMPORTED_MR" = mr_type::IMPORTED_MR,
        "IBV_MR_TYPE_DMABUF_MR" = mr_type::DMABUF_MR,
    );
    check!(
        out,
        "struct verbs_srq",
        verbs_srq {
            srq,
            srq_type,
            xrcd,
            cq,
            srq_num
        }
    );
    check!(
        out,
        "struct verbs_qp",
        verbs_qp {
            qp_ex,
            comp_mask,
            xrcd
        }
    );
    check!(out, "struct verbs_cq", verbs_cq { cq_ex });
    check!(out, "struct verbs_dm", verbs_dm { dm, handle });
    check!(
        out,
        "struct verbs_context_ops",
        verbs_context_ops {
            advise_mr,
            alloc_dm,
            alloc_mw,
            alloc_null_mr,
            alloc_parent_domain,
            alloc_pd,
            alloc_td,
            async_event,
            attach_counters_point_flow,
            attach_mcast,
            bind_mw,
            close_xrcd,
            cq_event,
            create_ah,
            create_counters,
            create_cq,
            create_cq_ex,
            create_flow,
            create_flow_action_esp,
            create_qp,
            create_qp_ex,
            create_rwq_ind_table,
            create_srq,
            create_srq_ex,
            create_wq,
            dealloc_mw,
            dealloc_pd,
            dealloc_td,
            dereg_mr,
            destroy_ah,
            destroy_counters,
            destroy_cq,
            destroy_flow,
            destroy_flow_action,
            destroy_qp,
            destroy_rwq_ind_table,
            destroy_srq,
            destroy_wq,
            detach_mcast,
            free_context,
            free_dm,
            get_srq_num,
            import_dm,
            import_mr,
            import_pd,
            modify_cq,
            modify_flow_action_esp,
            modify_qp,
            modify_qp_rate_limit,
            modify_srq,
            modify_wq,
            open_qp,
            open_xrcd,
            poll_cq,
            post_recv,
            post_send,
            post_srq_ops,
            post_srq_recv,
            query_device_ex,
            query_ece,
            query_port,
            query_qp,
            query_qp_data_in_order,
            query_rt_values,
            query_srq,
            read_counters,
            reg_dm_mr,
            reg_dmabuf_mr,
            reg_mr,
            req_notify_cq,
            rereg_mr,
            resize_cq,
            set_ece,
            unimport_dm,
            unimport_mr,
            unimport_pd,
        }
    );
}

fn compile(source: &str) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("layout.c");
    std::fs::write(&file, source).unwrap();
    let out = Command::new("cc")
        .args(["-std=gnu11", "-fsyntax-only"])
        .arg(&file)
        .output()
        .expect("cc");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

fn headers_missing() -> bool {
    let missing = !Path::new("/usr/include/infiniband/verbs.h").exists();
    if missing {
        eprintln!("SKIPPED: <infiniband/verbs.h> is not installed (libibverbs-dev)");
    }
    missing
}

#[test]
fn public_verbs() {
    if headers_missing() {
        return;
    }
    let mut source = String::new();
    public(&mut source);
    compile(&source);
}

#[test]
fn kernel_uverbs() {
    if headers_missing() {
        return;
    }
    let mut source = String::from("#include <stddef.h>\n");
    kernel(&mut source);
    compile(&source);
}

#[test]
fn a_wrong_number_is_found() {
    if headers_missing() {
        return;
    }
    let mut source = String::new();
    public(&mut source);
    let wrong = source.replacen(
        "sizeof(struct ibv_wc) == 48",
        "sizeof(struct ibv_wc) == 44",
        1,
    );
    assert_ne!(wrong, source);
    assert!(std::panic::catch_unwind(|| compile(&wrong)).is_err());
}

#[test]
fn provider_interface_against_source() {
    let Some(tree) = std::env::var_os("FERROCE_RDMA_CORE_SRC") else {
        eprintln!("SKIPPED: FERROCE_RDMA_CORE_SRC names no rdma-core source tree");
        return;
    };
    if headers_missing() {
        return;
    }
    let driver_h = std::fs::read_to_string(Path::new(&tree).join("libibverbs/driver.h"))
        .expect("libibverbs/driver.h");
    let mut source = String::new();
    public(&mut source);
    private(&mut source, &driver_h);
    compile(&source);
}
