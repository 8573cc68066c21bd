//! Attributes of queue pairs, shared receive queues and completion queues.

use ferroce_cabi::*;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};

pub(crate) fn check(out: &mut String) {
    shared_queues(out);
    queue_pairs(out);
    completion_queues(out);
}

/// Shared receive queues.
fn shared_queues(out: &mut String) {
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
}

/// Queue pairs.
fn queue_pairs(out: &mut String) {
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
}

/// Completion queues.
fn completion_queues(out: &mut String) {
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
}
