//! A device with a queue pair, for who ties two to each other: the tests here and the benchmark of
//! the engine by itself.

use std::sync::Arc;

use ferroce_transport::{AddressVector, QpAttr, QpAttrMask as M, QpCap, QpState};

use crate::error::Result;
use crate::hca::Hca;
use crate::verbs::context::{Context, Pd};
use crate::verbs::cq::Cq;
use crate::verbs::qp::Qp;
use crate::verbs::qp_init::QpInit;

/// One device, and one of each object that a message needs.
pub struct Side {
    /// The device.
    pub hca: Arc<Hca>,
    /// The domain of all that is made in it.
    pub pd: Arc<Pd>,
    /// The queue of all completions.
    pub cq: Arc<Cq>,
    /// The queue pair, in RESET.
    pub qp: Arc<Qp>,
}

impl Side {
    /// `qp_type` is `enum ibv_qp_type`, `cqe` how many completions there is room for. Every send
    /// request raises one.
    pub fn new(hca: Arc<Hca>, qp_type: u32, cap: QpCap, cqe: u32) -> Result<Side> {
        let context = Context::open(hca.clone())?;
        let pd = context.alloc_pd()?;
        let cq = context.create_cq(cqe, 0, None)?;
        let qp = pd.create_qp(QpInit {
            qp_type,
            send_cq: Some(cq.clone()),
            recv_cq: Some(cq.clone()),
            cap,
            ..QpInit::default()
        })?;
        Ok(Side { hca, pd, cq, qp })
    }

    /// The address vector that leads to it.
    pub fn address(&self) -> AddressVector {
        AddressVector {
            dgid: self.hca.gids()[0].gid,
            is_global: true,
            port_num: 1,
            ..AddressVector::default()
        }
    }

    /// Brings an RC queue pair to RTS, connected to the other's. `attr` has what both ends may
    /// differ in: rights, MTU, timers and retries.
    pub fn connect(&self, peer: &Side, attr: QpAttr) -> Result<()> {
        let attr = |qp_state| QpAttr {
            qp_state,
            port_num: 1,
            dest_qp_num: peer.qp.qp_num(),
            av: peer.address(),
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            retry_cnt: 7,
            rnr_retry: 7,
            ..attr
        };

        let init = M::STATE | M::PORT | M::PKEY_INDEX | M::ACCESS_FLAGS;
        let rtr = M::STATE | M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        let rtr = rtr | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
        let rts = M::STATE | M::SQ_PSN | M::TIMEOUT | M::RETRY_CNT;
        let rts = rts | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;

        self.qp.modify(&attr(QpState::Init), init)?;
        self.qp.modify(&attr(QpState::Rtr), rtr)?;
        self.qp.modify(&attr(QpState::Rts), rts)
    }
}
