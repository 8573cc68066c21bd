//! Requests, completions, objects and the function tables of `<infiniband/verbs.h>`.

use ferroce_cabi::pabi::QP_MASK_FIRST;
use ferroce_cabi::*;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};

pub(crate) fn check(out: &mut String) {
    requests(out);
    extended_queues(out);
    context(out);
    context_ex(out);
    objects(out);
}

/// Work requests and completions.
fn requests(out: &mut String) {
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
}

/// Queues with functions of their own.
fn extended_queues(out: &mut String) {
    check!(
        out,
        "struct ibv_qp_ex" grown from QP_MASK_FIRST,
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
            wr_flush,
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
}

/// Devices and contexts.
fn context(out: &mut String) {
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
}

/// What is in front of a context.
fn context_ex(out: &mut String) {
    check!(
        out,
        "struct verbs_context" from query_port,
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
}

/// What contexts make.
fn objects(out: &mut String) {
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
}
