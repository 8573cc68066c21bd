//! `INIT_QP_ATTR`: the attributes with which a program takes its QP from state to state.

use ferroce_cabi::ucma::ib_uverbs_qp_attr;
use rustix::io::Errno;

use super::datagram::{address, set_qkey};
use super::id::{Id, qp_type};
use super::route::port_of;
use super::state::Ucma;
use super::terms::errno;

/// `enum ibv_qp_state`.
mod qp_state {
    pub(super) const INIT: u32 = 1;
    pub(super) const RTR: u32 = 2;
    pub(super) const RTS: u32 = 3;
    pub(super) const ERR: u32 = 6;
}

/// `enum ibv_qp_attr_mask`.
mod mask {
    pub(super) const STATE: u32 = 1 << 0;
    pub(super) const ACCESS_FLAGS: u32 = 1 << 3;
    pub(super) const PKEY_INDEX: u32 = 1 << 4;
    pub(super) const PORT: u32 = 1 << 5;
    pub(super) const QKEY: u32 = 1 << 6;
    pub(super) const AV: u32 = 1 << 7;
    pub(super) const PATH_MTU: u32 = 1 << 8;
    pub(super) const TIMEOUT: u32 = 1 << 9;
    pub(super) const RETRY_CNT: u32 = 1 << 10;
    pub(super) const RNR_RETRY: u32 = 1 << 11;
    pub(super) const RQ_PSN: u32 = 1 << 12;
    pub(super) const MAX_QP_RD_ATOMIC: u32 = 1 << 13;
    pub(super) const MIN_RNR_TIMER: u32 = 1 << 15;
    pub(super) const SQ_PSN: u32 = 1 << 16;
    pub(super) const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    pub(super) const DEST_QPN: u32 = 1 << 20;
}

/// `enum ibv_access_flags`.
mod access {
    pub(super) const REMOTE_WRITE: u32 = 1 << 1;
    pub(super) const REMOTE_READ: u32 = 1 << 2;
    pub(super) const REMOTE_ATOMIC: u32 = 1 << 3;
}

impl Ucma {
    /// The attributes for a transition into `state` (`enum ibv_qp_state`). `EINVAL`: the id is not
    /// bound to the device, or the connection is not so far.
    pub(super) fn qp_attr(&mut self, handle: u32, state: u32) -> Result<ib_uverbs_qp_attr, Errno> {
        let id = self.ids.get_mut(handle).ok_or(Errno::NOENT)?;
        if !id.is_datagram() {
            return self.connection_attr(self.ids.get(handle).ok_or(Errno::NOENT)?, state);
        }
        let mut attr = unconnected(id, state)?;
        set_qkey(id, 0)?;
        attr.qkey = id.qkey;
        attr.qp_attr_mask |= mask::QKEY;
        Ok(attr)
    }

    /// The same, of an id for connections. Nothing is changed.
    pub(super) fn connection_attr(&self, id: &Id, state: u32) -> Result<ib_uverbs_qp_attr, Errno> {
        if id.is_datagram() {
            return Err(Errno::INVAL);
        }

        let mut attr = unconnected(id, state)?;
        let Some((cm, gid_index)) = id.cm.zip(id.gid_index) else {
            attr.qp_attr_mask |= mask::ACCESS_FLAGS;
            return Ok(attr);
        };

        let ack_timeout = id.ack_timeout;

        // The initiator's QP of an XRC pair only sends, the target's only receives. UC, of which
        // nothing is answered, has neither half's attributes.
        let sends = matches!(id.qp_type, qp_type::RC | qp_type::XRC_SEND);
        let receives = matches!(id.qp_type, qp_type::RC | qp_type::XRC_RECV);
        let refused = errno;
        match state {
            qp_state::INIT => {
                attr.qp_attr_mask =
                    mask::STATE | mask::ACCESS_FLAGS | mask::PKEY_INDEX | mask::PORT;
                attr.qp_access_flags = access::REMOTE_WRITE;
                if self.cm.responder_resources(cm).map_err(refused)? > 0 {
                    attr.qp_access_flags |= access::REMOTE_READ | access::REMOTE_ATOMIC;
                }
            }
            qp_state::RTR => {
                let rtr = self.cm.qp_rtr(cm).map_err(refused)?;
                attr.qp_attr_mask =
                    mask::STATE | mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN;
                attr.ah_attr = address(&rtr.av, gid_index);
                attr.path_mtu = rtr.path_mtu.into();
                attr.dest_qp_num = rtr.dest_qpn;
                if receives {
                    attr.qp_attr_mask |= mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER;
                    attr.max_dest_rd_atomic = rtr.max_dest_rd_atomic;
                }
            }
            qp_state::RTS => {
                let rts = self.cm.qp_rts(cm).map_err(refused)?;
                attr.qp_attr_mask = mask::STATE | mask::SQ_PSN;
                attr.sq_psn = rts.sq_psn;
                if sends || receives {
                    attr.qp_attr_mask |= mask::TIMEOUT;
                    attr.timeout = ack_timeout.unwrap_or(rts.timeout);
                }
                if sends {
                    attr.qp_attr_mask |= mask::RETRY_CNT | mask::RNR_RETRY | mask::MAX_QP_RD_ATOMIC;
                    attr.retry_cnt = rts.retry_count;
                    attr.rnr_retry = rts.rnr_retry;
                    attr.max_rd_atomic = rts.max_rd_atomic;
                }
            }
            _ => return Err(Errno::INVAL),
        }

        Ok(attr)
    }
}

/// What an id's QP needs in any case.
fn unconnected(id: &Id, state: u32) -> Result<ib_uverbs_qp_attr, Errno> {
    let gid_index = id.gid_index.filter(|_| state <= qp_state::ERR);
    let gid_index = gid_index.ok_or(Errno::INVAL)?;
    Ok(ib_uverbs_qp_attr {
        qp_attr_mask: mask::STATE | mask::PKEY_INDEX | mask::PORT,
        qp_state: state,
        port_num: port_of(gid_index),
        rq_psn: if state == qp_state::RTR { id.psn } else { 0 },
        ..Default::default()
    })
}
