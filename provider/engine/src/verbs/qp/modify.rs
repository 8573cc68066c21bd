//! Moving a queue pair through its states.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferroce_control::faults::Verb;
use ferroce_transport::{QpAttr, QpAttrMask, QpState, QpType};

use super::{Inner, Qp};
use crate::datapath::path::Path;
use crate::datapath::qp_host::QpHost;
use crate::error::{Error, Result};
use crate::hca::Hca;
use crate::progress::timers;
use crate::verbs::limits;
use crate::verbs::route::Route;

impl Qp {
    /// Moves the queue pair through its states; nothing changes on an error.
    pub fn modify(&self, attr: &QpAttr, mask: QpAttrMask) -> Result<()> {
        let mask = mask - self.other_half();
        let hca = self.hca();
        let ends = mask.contains(QpAttrMask::STATE)
            && matches!(attr.qp_state, QpState::Err | QpState::Reset);
        if !ends || !hca.is_gone() {
            hca.allows(Verb::ModifyQp)?;
        }
        check_modify(hca, attr, mask)?;
        self.check_p_key(attr, mask)?;
        let path = if mask.contains(QpAttrMask::AV) {
            Some(self.resolve(attr, mask)?)
        } else {
            None
        };

        if self.is_unreliable() && mask.contains(QpAttrMask::STATE) && attr.qp_state == QpState::Rtr
        {
            hca.unacknowledged_traffic();
            if self.is_datagram() {
                // Datagrams may come to any of the port's addresses.
                hca.listen_everywhere()?;
            }
        }

        if mask.contains(QpAttrMask::STATE) && attr.qp_state == QpState::Err && self.is_waiting() {
            // The program may know that the peer has all, as by a connection of TCP that has ended,
            // before the last acknowledgement has been looked at.
            hca.handle_backlog();
        }

        let keys = hca.keys.read();
        let mut inner = self.inner.lock();
        let ends = matches!(attr.qp_state, QpState::Err | QpState::Reset);
        if ends && mask.contains(QpAttrMask::STATE) || self.is_unreliable() {
            // The consumer has seen the message: its sender must not wait for an ACK that no state
            // sends any more. And what was posted before goes out as it was then.
            self.send_last(&mut inner);
        }

        let now = timers::now();
        let mut host = QpHost::new(self, &keys, None, now);
        inner.transport.modify(attr, mask, now, &mut host)?;
        self.show_attributes(&inner);
        self.renew_p_key(&inner);
        if let Some(path) = path {
            self.leave_turn(&mut inner);
            inner.path = Some(path);
        }

        let connects = mask.contains(QpAttrMask::STATE) && attr.qp_state == QpState::Rtr;
        if connects && let Some(key) = inner.path.as_ref().map(|path| path.key) {
            let (known, near) = (hca.may_speak_selective(&key), hca.fills_to_itself(&key));
            if known {
                inner.transport.introduce();
            }
            if known || near {
                inner.transport.expect_filled(near);
            }
        }

        if inner.transport.state() == QpState::Reset {
            self.leave_turn(&mut inner);
            inner.path = None;
            inner.last_path = None;
            self.purge();
            self.empty_places(&inner);
            self.forget_posted(&inner);
            if let Some(tm) = &self.tm {
                tm.reset();
            }
        }

        self.pump(&mut inner, &keys, now, true);
        self.list(&mut inner);
        drop(inner);
        drop(keys);
        hca.hand_turns(now);
        Ok(())
    }

    /// Whether requests wait for their acknowledgement.
    fn is_waiting(&self) -> bool {
        self.inner.lock().transport.has_requests_in_flight()
    }

    /// Attributes of the half that an XRC queue pair does not have. Linux takes them off the mask,
    /// and programs that treat both ends alike rely on it.
    fn other_half(&self) -> QpAttrMask {
        match self.service {
            QpType::XrcSend => QpAttrMask::MAX_DEST_RD_ATOMIC | QpAttrMask::MIN_RNR_TIMER,
            QpType::XrcRecv => {
                QpAttrMask::MAX_QP_RD_ATOMIC | QpAttrMask::RETRY_CNT | QpAttrMask::RNR_RETRY
            }
            _ => QpAttrMask::empty(),
        }
    }

    /// A change of port or index must lead to a P_Key.
    fn check_p_key(&self, attr: &QpAttr, mask: QpAttrMask) -> Result<()> {
        let hca = self.hca();
        if !mask.intersects(QpAttrMask::PKEY_INDEX | QpAttrMask::PORT) {
            return Ok(());
        }
        let now = self.inner.lock().transport.query();
        let of = |bit, new, old| if mask.contains(bit) { new } else { old };
        let port = of(QpAttrMask::PORT, attr.port_num.into(), now.port_num.into());
        let index: u16 = of(QpAttrMask::PKEY_INDEX, attr.pkey_index, now.pkey_index);
        hca.ports().p_key(port as u8, index).map(drop)
    }

    /// Takes the P_Key as its port's table has it now: a subnet manager may change it at any time.
    /// An entry that has become empty is 0, with which nothing goes out or comes in.
    pub(crate) fn renew_p_key(&self, inner: &Inner) {
        let ports = self.hca().ports();
        let now = inner.transport.query();
        if !ports.has(now.port_num) {
            return;
        }
        let key = ports.p_key(now.port_num, now.pkey_index).unwrap_or(0);
        self.p_key.store(key, Ordering::Relaxed);
        self.port.store(now.port_num, Ordering::Relaxed);
    }

    /// The path that an address vector and destination QPN name; makes sure that answers are
    /// received.
    fn resolve(&self, attr: &QpAttr, mask: QpAttrMask) -> Result<Arc<Path>> {
        let av = &attr.av;
        let hca = self.hca();
        let dest = if mask.contains(QpAttrMask::DEST_QPN) {
            attr.dest_qp_num
        } else {
            self.inner.lock().transport.query().dest_qp_num
        };
        let slot = (dest >> 16) as u8;
        let route = Route::to_peer(hca, av)?;
        route.listen(hca)?;
        let path = route.path(hca, slot)?;
        if !self.is_unreliable() {
            hca.meet_host(av.sgid_index, av.dgid);
        }
        Ok(path)
    }
}

/// What only the device knows: limits, the GID table, the port.
fn check_modify(hca: &Hca, attr: &QpAttr, mask: QpAttrMask) -> Result<()> {
    let invalid = |what| Err(Error::Invalid(what));
    if mask.contains(QpAttrMask::PORT) && !hca.ports().has(attr.port_num) {
        return invalid("port_num: the device has no such port");
    }
    if mask.contains(QpAttrMask::AV) && !hca.ports().has(attr.av.port_num) {
        return invalid("ah_attr.port_num: the device has no such port");
    }
    if mask.contains(QpAttrMask::PATH_MTU) && attr.path_mtu > hca.active_mtu(attr, mask) {
        // The program may know from the daemon, as by librdmacm, what nobody here has heard yet.
        hca.control_events();
        if attr.path_mtu > hca.active_mtu(attr, mask) {
            return invalid("path_mtu exceeds the port's active MTU");
        }
    }
    if mask.contains(QpAttrMask::MAX_QP_RD_ATOMIC) && attr.max_rd_atomic > limits::MAX_RD_ATOMIC {
        return invalid("max_rd_atomic exceeds the device's max_qp_init_rd_atom");
    }

    if mask.contains(QpAttrMask::MAX_DEST_RD_ATOMIC)
        && attr.max_dest_rd_atomic > limits::MAX_RD_ATOMIC
    {
        return invalid("max_dest_rd_atomic exceeds the device's max_qp_rd_atom");
    }

    if mask.intersects(QpAttrMask::ALT_PATH | QpAttrMask::PATH_MIG_STATE) {
        return invalid("automatic path migration is not offered");
    }

    Ok(())
}
