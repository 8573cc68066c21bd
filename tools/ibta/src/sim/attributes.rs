//! Between the protocol's vocabulary and the transport's.

use crate::protocol::{self, AddressVector, QpAttributes, SendRequest, Service};
use ferroce_transport::{
    self as transport, Access, Completion, PostError, QpAttr, QpAttrMask as Mask, QpState, QpType,
    SendOp, WcData, WindowBind,
};

/// `EINVAL`.
pub(super) const EINVAL: i32 = 22;
/// `EOPNOTSUPP`.
pub(super) const EOPNOTSUPP: i32 = 95;
/// `ENOMEM`.
pub(super) const ENOMEM: i32 = 12;
/// `EFAULT`.
pub(super) const EFAULT: i32 = 14;

pub(super) fn service(service: Service) -> QpType {
    match service {
        Service::Rc => QpType::Rc,
        Service::Uc => QpType::Uc,
        Service::Ud => QpType::Ud,
        Service::XrcTarget => QpType::XrcRecv,
    }
}

/// Attributes and their mask; `None` if a state has no name.
pub(super) fn attributes(given: &QpAttributes) -> Option<(QpAttr, Mask)> {
    let mut attr = QpAttr::default();
    let mut mask = Mask::empty();
    if let Some(state) = given.qp_state {
        attr.qp_state = QpState::try_from(state).ok()?;
        mask |= Mask::STATE;
    }

    if let Some(state) = given.cur_qp_state {
        attr.cur_qp_state = QpState::try_from(state).ok()?;
        mask |= Mask::CUR_STATE;
    }

    if let Some(access) = given.qp_access_flags {
        attr.qp_access_flags = Access::from_bits_truncate(access);
        mask |= Mask::ACCESS_FLAGS;
    }

    if let Some(av) = given.ah_attr {
        attr.av = address_vector(&av);
        mask |= Mask::AV;
    }

    macro_rules! plain {
        ($($field:ident $bit:ident,)*) => {
            $(if let Some(value) = given.$field {
                attr.$field = value;
                mask |= Mask::$bit;
            })*
        };
    }

    plain! {
        en_sqd_async_notify EN_SQD_ASYNC_NOTIFY, pkey_index PKEY_INDEX, port_num PORT, qkey QKEY,
        path_mtu PATH_MTU, timeout TIMEOUT, retry_cnt RETRY_CNT, rnr_retry RNR_RETRY, rq_psn RQ_PSN,
        max_rd_atomic MAX_QP_RD_ATOMIC, min_rnr_timer MIN_RNR_TIMER, sq_psn SQ_PSN,
        max_dest_rd_atomic MAX_DEST_RD_ATOMIC, dest_qp_num DEST_QPN,
    }

    Some((attr, mask))
}

pub(super) fn all_attributes(attr: &QpAttr) -> QpAttributes {
    QpAttributes {
        qp_state: Some(attr.qp_state as u32),
        cur_qp_state: Some(attr.cur_qp_state as u32),
        en_sqd_async_notify: Some(attr.en_sqd_async_notify),
        qp_access_flags: Some(attr.qp_access_flags.bits()),
        pkey_index: Some(attr.pkey_index),
        port_num: Some(attr.port_num),
        qkey: Some(attr.qkey),
        ah_attr: None,
        path_mtu: Some(attr.path_mtu),
        timeout: Some(attr.timeout),
        retry_cnt: Some(attr.retry_cnt),
        rnr_retry: Some(attr.rnr_retry),
        rq_psn: Some(attr.rq_psn),
        max_rd_atomic: Some(attr.max_rd_atomic),
        min_rnr_timer: Some(attr.min_rnr_timer),
        sq_psn: Some(attr.sq_psn),
        max_dest_rd_atomic: Some(attr.max_dest_rd_atomic),
        dest_qp_num: Some(attr.dest_qp_num),
        sq_draining: Some(attr.sq_draining),
    }
}

fn address_vector(av: &AddressVector) -> transport::AddressVector {
    transport::AddressVector {
        dgid: av.dgid.unwrap_or_default(),
        is_global: av.dgid.is_some(),
        sgid_index: av.sgid_index,
        hop_limit: av.hop_limit,
        traffic_class: av.traffic_class,
        flow_label: av.flow_label,
        dlid: av.dlid,
        sl: av.sl,
        port_num: av.port,
        ..transport::AddressVector::default()
    }
}

/// The operation of a request; `None` if a bind does not say of what.
pub(super) fn operation(request: &SendRequest) -> Option<SendOp> {
    use protocol::Opcode;

    let (va, rkey, imm) = (request.remote_addr, request.rkey, request.imm);
    Some(match request.opcode {
        Opcode::Send => SendOp::Send,
        Opcode::SendWithImm => SendOp::SendWithImm(imm),
        Opcode::SendWithInv => SendOp::SendWithInv(request.invalidate),
        Opcode::RdmaWrite => SendOp::Write { va, rkey },
        Opcode::RdmaWriteWithImm => SendOp::WriteWithImm { va, rkey, imm },
        Opcode::RdmaRead => SendOp::Read { va, rkey },
        Opcode::CompareSwap => SendOp::CompareSwap {
            va,
            rkey,
            compare: request.compare_add,
            swap: request.swap,
        },
        Opcode::FetchAdd => SendOp::FetchAdd {
            va,
            rkey,
            add: request.compare_add,
        },
        Opcode::LocalInv => SendOp::LocalInv(request.invalidate),
        Opcode::BindMw => {
            let bind = request.bind?;
            SendOp::BindMw(WindowBind {
                window: bind.window,
                rkey: bind.rkey,
                lkey: bind.lkey,
                access: Access::from_bits_truncate(bind.access),
                addr: bind.addr,
                len: bind.len,
            })
        }
    })
}

pub(super) fn sges(sges: &[protocol::Sge]) -> Vec<transport::Sge> {
    sges.iter()
        .map(|sge| transport::Sge {
            addr: sge.addr,
            length: sge.len,
            lkey: sge.lkey,
        })
        .collect()
}

pub(super) fn completion(qp: u32, c: &Completion) -> protocol::Completion {
    protocol::Completion {
        wr_id: c.wr_id,
        status: c.status as u32,
        opcode: c.opcode as u32,
        byte_len: c.byte_len,
        imm: match c.data {
            WcData::Imm(imm) => Some(imm),
            _ => None,
        },
        invalidated: match c.data {
            WcData::Invalidated(key) => Some(key),
            _ => None,
        },
        grh: c.grh,
        qp,
        src_qp: c.src_qp,
    }
}

pub(super) fn errno(error: PostError) -> i32 {
    match error {
        PostError::QueueFull => ENOMEM,
        _ => EINVAL,
    }
}
