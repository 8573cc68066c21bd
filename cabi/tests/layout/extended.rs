//! Objects and attributes of the verbs that came later.

use ferroce_cabi::*;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};

pub(crate) fn check(out: &mut String) {
    windows_and_connections(out);
    domains_and_memory(out);
    constants(out);
}

/// Memory windows, XRC domains, and what queue pairs have beyond.
fn windows_and_connections(out: &mut String) {
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

    check!(
        out,
        "struct ibv_qp_rate_limit_attr",
        ibv_qp_rate_limit_attr {
            rate_limit,
            max_burst_sz,
            typical_pkt_sz,
            comp_mask
        }
    );
}

/// Domains, clocks, moderation, device memory, tag matching.
fn domains_and_memory(out: &mut String) {
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
}

/// Constants.
fn constants(out: &mut String) {
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
