//! `modify`: checks against the state table, ranges of values, then the transition itself.

use crate::resources::MAX_RD_ATOMIC;
use crate::state;
use crate::trace::entered;
use crate::{Host, ModifyError, Qp, QpAttr, QpAttrMask, QpConfig, QpState, Time};

impl Qp {
    /// Moves to `to`.
    pub(crate) fn enter(&mut self, to: QpState) {
        let from = std::mem::replace(&mut self.attr.qp_state, to);
        if from != to {
            let QpConfig { qpn, qp_type, .. } = self.config;
            entered(qpn, qp_type, self.attr.dest_qp_num, from, to);
        }
    }

    /// Modifies attributes and moves between states, as `ibv_modify_qp(3)` says. The first
    /// violation is returned and nothing is changed then. Port number and P_Key index are only
    /// stored: whoever owns the tables checks them.
    ///
    /// # Errors
    /// See [`ModifyError`].
    pub fn modify<H: Host>(
        &mut self,
        attr: &QpAttr,
        mask: QpAttrMask,
        _now: Time,
        host: &mut H,
    ) -> Result<(), ModifyError> {
        let from = self.attr.qp_state;
        if mask.contains(QpAttrMask::CUR_STATE) && attr.cur_qp_state != from {
            return Err(ModifyError::CurrentState(from));
        }

        let to = if mask.contains(QpAttrMask::STATE) {
            attr.qp_state
        } else {
            from
        };
        state::check(self.config.qp_type, from, to, mask)?;
        check_values(attr, mask)?;
        if to == QpState::Reset {
            self.reset();
            return Ok(());
        }

        self.store(attr, mask);
        self.enter(to);
        match (from, to) {
            (QpState::Err, QpState::Err) => {}
            (_, QpState::Err) => {
                self.resp.silence();
                self.enter_error(host);
            }
            (QpState::Init, QpState::Rtr) => self.resp.connect(self.attr.rq_psn),
            (QpState::Rtr, QpState::Rts) => {
                self.req
                    .connect(self.attr.sq_psn, self.sq.end(), &self.attr);
                self.req.peer = self.first_impression();
            }
            (_, QpState::Sqd) => {
                self.attr.sq_draining |= from != QpState::Sqd;
                self.check_drained(host);
            }
            (QpState::Sqd, QpState::Rts) => {
                self.attr.sq_draining = false;
                self.attr.en_sqd_async_notify = false;
            }
            _ => {}
        }

        Ok(())
    }

    /// Forgets everything, silently.
    fn reset(&mut self) {
        self.enter(QpState::Reset);
        let seed = self.req.timers.seed;
        *self = Qp::new(self.config);
        self.req.timers.seed = seed;
    }

    fn store(&mut self, attr: &QpAttr, mask: QpAttrMask) {
        let to = &mut self.attr;
        let has = |bit| mask.contains(bit);
        if has(QpAttrMask::EN_SQD_ASYNC_NOTIFY) {
            to.en_sqd_async_notify = attr.en_sqd_async_notify;
        }
        if has(QpAttrMask::ACCESS_FLAGS) {
            to.qp_access_flags = attr.qp_access_flags;
        }
        if has(QpAttrMask::PKEY_INDEX) {
            to.pkey_index = attr.pkey_index;
        }
        if has(QpAttrMask::PORT) {
            to.port_num = attr.port_num;
        }
        if has(QpAttrMask::QKEY) {
            to.qkey = attr.qkey;
        }
        if has(QpAttrMask::AV) {
            to.av = attr.av;
        }
        if has(QpAttrMask::PATH_MTU) {
            to.path_mtu = attr.path_mtu;
        }
        if has(QpAttrMask::TIMEOUT) {
            to.timeout = attr.timeout;
        }

        if has(QpAttrMask::RETRY_CNT) {
            to.retry_cnt = attr.retry_cnt;
            self.req.timers.retries = attr.retry_cnt;
        }

        if has(QpAttrMask::RNR_RETRY) {
            to.rnr_retry = attr.rnr_retry;
            self.req.timers.rnr_retries = attr.rnr_retry;
        }

        if has(QpAttrMask::RQ_PSN) {
            to.rq_psn = attr.rq_psn & 0xff_ffff;
        }
        if has(QpAttrMask::SQ_PSN) {
            to.sq_psn = attr.sq_psn & 0xff_ffff;
        }
        if has(QpAttrMask::MAX_QP_RD_ATOMIC) {
            to.max_rd_atomic = attr.max_rd_atomic;
        }
        if has(QpAttrMask::MAX_DEST_RD_ATOMIC) {
            to.max_dest_rd_atomic = attr.max_dest_rd_atomic;
        }
        if has(QpAttrMask::MIN_RNR_TIMER) {
            to.min_rnr_timer = attr.min_rnr_timer & 0x1f;
        }
        if has(QpAttrMask::DEST_QPN) {
            to.dest_qp_num = attr.dest_qp_num;
        }

        if has(QpAttrMask::ALT_PATH) {
            to.alt_av = attr.alt_av;
            to.alt_pkey_index = attr.alt_pkey_index;
            to.alt_port_num = attr.alt_port_num;
            to.alt_timeout = attr.alt_timeout;
        }

        if has(QpAttrMask::PATH_MIG_STATE) {
            to.path_mig_state = attr.path_mig_state;
        }
    }
}

/// Checks the ranges of the values that are given. PSNs are cut to 24 bits instead, and the RNR
/// timer to its five, as adapters do: there are programs that ask for 32, and get 0.
fn check_values(attr: &QpAttr, mask: QpAttrMask) -> Result<(), ModifyError> {
    let rules = [
        (
            QpAttrMask::PATH_MTU,
            matches!(attr.path_mtu, 256 | 512 | 1024 | 2048 | 4096),
        ),
        (QpAttrMask::DEST_QPN, attr.dest_qp_num <= 0xff_ffff),
        (QpAttrMask::TIMEOUT, attr.timeout <= 31),
        (QpAttrMask::RETRY_CNT, attr.retry_cnt <= 7),
        (QpAttrMask::RNR_RETRY, attr.rnr_retry <= 7),
        (
            QpAttrMask::MAX_QP_RD_ATOMIC,
            attr.max_rd_atomic <= MAX_RD_ATOMIC,
        ),
        (
            QpAttrMask::MAX_DEST_RD_ATOMIC,
            attr.max_dest_rd_atomic <= MAX_RD_ATOMIC,
        ),
        (QpAttrMask::PORT, attr.port_num != 0),
        (QpAttrMask::ALT_PATH, attr.alt_timeout <= 31),
        // There is no automatic path migration: the path stays migrated.
        (QpAttrMask::PATH_MIG_STATE, attr.path_mig_state == 0),
    ];

    match rules
        .iter()
        .find(|(bit, good)| mask.contains(*bit) && !good)
    {
        Some((bit, _)) => Err(ModifyError::Value(*bit)),
        None => Ok(()),
    }
}
