//! Queue pairs: the transport's state machine with its lock, its path and its timer. They are made in `qp_init` and ended in
//! `qp_close`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicUsize, Ordering};

use ferroce_control::objects::{Listing, Object, QueuePair};
use ferroce_transport::{QpAttr, QpAttrMask, QpCap, QpState, QpType, Time};
use parking_lot::{Mutex, MutexGuard};

use crate::context::{Context, Pd};
use crate::cq::Cq;
use crate::datagram::Arrival;
use crate::error::{Error, Result};
use crate::hca::Hca;
use crate::keys::Peer;
use crate::limits;
use crate::path::Path;
use crate::posting::{self, Held};
use crate::qp_close::Openers;
use crate::qp_host::QpHost;
use crate::qp_init::QpInitView;
use crate::rendezvous::TmQp;
use crate::route::Route;
use crate::srq::Srq;
use crate::timers;
use crate::xrc::{Domain, Xrcd};

/// What the QP's lock protects.
pub(crate) struct Inner {
    pub(crate) transport: ferroce_transport::Qp,
    /// The connected peer's.
    pub(crate) path: Option<Arc<Path>>,
    /// UD: that of the last datagram sent.
    pub(crate) last_path: Option<Arc<Path>>,
    /// When the heap of timers will next look at this QP.
    pub(crate) armed_at: Time,
    /// A later entry that is in the heap too; `Time::MAX` if none is known of.
    pub(crate) armed_then: Time,
    /// When a held-back ACK must go.
    pub(crate) ack_at: Time,
    /// UC and UD: when sending goes on, where its pace has stopped it.
    pub(crate) resume_at: Time,
    /// Counted among the path's active QPs.
    pub(crate) active: bool,
    /// Small requests posted since the last time that something was sent.
    pub(crate) held: Held,
    /// The state that others are told of.
    pub(crate) listed: QpState,
    /// Whether others are told that the peer has been heard of.
    pub(crate) heard: bool,
}

/// A queue pair.
pub struct Qp {
    pub(crate) context: Arc<Context>,
    /// All but XRC targets have one.
    pub(crate) pd: Option<Arc<Pd>>,
    /// XRC targets have one.
    pub(crate) xrcd: Option<Arc<Xrcd>>,
    pub(crate) number: u32,
    pub(crate) qp_type: u32,
    pub(crate) service: QpType,
    pub(crate) cap: QpCap,
    pub(crate) sq_sig_all: bool,
    /// UD: no copies of its own multicast datagrams.
    pub(crate) block_loopback: bool,
    pub(crate) send_cq: Option<Arc<Cq>>,
    pub(crate) recv_cq: Option<Arc<Cq>>,
    pub(crate) srq: Option<Arc<Srq>>,
    /// Messages are matched by tag, and the send queue is for rendezvous.
    pub(crate) tm: Option<TmQp>,
    pub(crate) inner: Mutex<Inner>,
    /// The thread that holds a [`SendPoster`](crate::SendPoster), as `thread_mark` names it; 0 for none.
    pub(crate) poster: AtomicUsize,
    pub(crate) openers: Openers,
    /// Multicast groups that it is attached to, by GID and LID.
    pub(crate) groups: Mutex<Vec<([u8; 16], u16)>>,
    /// The P_Key of its entry in the port's table.
    pub(crate) p_key: AtomicU16,
    /// Its port, once it has one.
    pub(crate) port: AtomicU8,
    /// On the receive path's list of QPs to pump.
    pub(crate) touched: AtomicBool,
    /// How others are told of it.
    pub(crate) listing: Listing,
}

impl Qp {
    /// The number that peers address, 24 bits.
    pub fn qp_num(&self) -> u32 {
        self.number
    }

    /// A number that identifies the queue pair in this process.
    pub fn handle(&self) -> u32 {
        self.number
    }

    /// The capacities that it has.
    pub fn cap(&self) -> QpCap {
        self.cap
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.inner.lock().transport.state()
    }

    /// All attributes.
    pub fn query(&self) -> (QpAttr, QpInitView) {
        let mut attr = self.inner.lock().transport.query();
        attr.cap = self.cap;
        (
            attr,
            QpInitView {
                cap: self.cap,
                qp_type: self.qp_type,
                sq_sig_all: self.sq_sig_all,
            },
        )
    }

    /// Moves the queue pair through its states; nothing changes on an error.
    pub fn modify(&self, attr: &QpAttr, mask: QpAttrMask) -> Result<()> {
        let mask = mask - self.other_half();
        let hca = self.hca();
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
        let keys = hca.keys.read_recursive();
        let mut inner = self.inner.lock();
        let ends = matches!(attr.qp_state, QpState::Err | QpState::Reset);
        if ends && mask.contains(QpAttrMask::STATE) {
            // The consumer has seen the message: its sender must not wait for an ACK that no state sends any more.
            self.send_last_ack(&mut inner);
        }
        let now = timers::now();
        let mut host = QpHost::new(self, &keys, None, now);
        inner.transport.modify(attr, mask, now, &mut host)?;
        self.renew_p_key(&inner);
        if let Some(path) = path {
            self.set_active(&mut inner, false);
            inner.path = Some(path);
        }
        if inner.transport.state() == QpState::Reset {
            self.set_active(&mut inner, false);
            inner.path = None;
            inner.last_path = None;
            self.purge();
            if let Some(tm) = &self.tm {
                tm.reset();
            }
        }
        self.pump(&mut inner, &keys, now, true);
        self.list(&mut inner);
        Ok(())
    }

    /// Tells others what it is now.
    #[cold]
    pub(crate) fn list(&self, inner: &mut Inner) {
        let attr = inner.transport.query();
        inner.listed = inner.transport.state();
        inner.heard = inner.transport.has_heard();
        (self.hca().objects).set_heard(self.number as u16, inner.heard);
        self.listing.set(Object::Qp(QueuePair {
            number: self.number,
            qp_type: self.qp_type as u8,
            state: inner.listed as u8,
            port: attr.port_num,
            pd: self.pd.as_ref().map(|pd| pd.listed_number()),
            srq: self.srq.as_ref().map(|srq| srq.listed_number()),
            remote: attr.dest_qp_num,
            sq_psn: attr.sq_psn,
            rq_psn: attr.rq_psn,
        }));
    }

    /// Attributes of the half that an XRC queue pair does not have. Linux takes them off the mask, and programs that treat both
    /// ends alike rely on it.
    fn other_half(&self) -> QpAttrMask {
        match self.service {
            QpType::XrcSend => QpAttrMask::MAX_DEST_RD_ATOMIC | QpAttrMask::MIN_RNR_TIMER,
            QpType::XrcRecv => {
                QpAttrMask::MAX_QP_RD_ATOMIC | QpAttrMask::RETRY_CNT | QpAttrMask::RNR_RETRY
            }
            _ => QpAttrMask::empty(),
        }
    }

    /// Takes it out of the tables, and its last ACK to the peer.
    pub(crate) fn end(&self) {
        let hca = self.hca();
        // With the table's lock no packet or timer is with this QP, and none will find it again.
        if hca.qps.write().remove(self.number as u16).is_none() {
            return;
        }
        self.listing.remove();
        if let Some(domain) = self.domain() {
            domain.remove_target(self.number);
        }
        let mut inner = self.inner.lock();
        self.send_last_ack(&mut inner);
        self.set_active(&mut inner, false);
        inner.path = None;
        inner.last_path = None;
        drop(inner);
        self.purge();
        let keys = hca.keys.read_recursive();
        if keys.has_windows() {
            keys.forget_qp(self.number);
        }
        drop(keys);
        for cq in [&self.send_cq, &self.recv_cq].into_iter().flatten() {
            cq.remove_user();
        }
        if let Some(srq) = &self.srq {
            srq.remove_user();
        }
        if let Some(pd) = &self.pd {
            pd.remove_user();
        }
    }

    /// Locks if nobody holds the lock.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Inner>> {
        self.inner.try_lock()
    }

    /// Locks for a thread that posts.
    pub(crate) fn lock_to_post(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Locks for the receive path or a timer. `None`: this very thread is posting (a consumer that polls between
    /// `ibv_wr_start` and `ibv_wr_complete`), and the packet counts as lost.
    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, Inner>> {
        let free = self.inner.try_lock();
        if free.is_none() && self.poster.load(Ordering::Relaxed) == posting::thread_mark() {
            return None;
        }
        Some(free.unwrap_or_else(|| self.inner.lock()))
    }

    /// The P_Key that its packets bear.
    #[inline]
    pub(crate) fn p_key(&self) -> u16 {
        self.p_key.load(Ordering::Relaxed)
    }

    /// Number of the protection domain, 0 (which none has) for an XRC target.
    pub(crate) fn pd_handle(&self) -> u32 {
        self.pd.as_ref().map_or(0, |pd| pd.handle())
    }

    /// Who the requests that come to it act for.
    pub(crate) fn peer(&self) -> Peer {
        Peer {
            pd: self.pd_handle(),
            qpn: self.number,
        }
    }

    pub(crate) fn hca(&self) -> &Arc<Hca> {
        self.context.hca()
    }

    /// XRC target: its domain.
    pub(crate) fn domain(&self) -> Option<&Arc<Domain>> {
        self.xrcd.as_ref().map(|xrcd| xrcd.domain())
    }

    pub(crate) fn is_datagram(&self) -> bool {
        self.service == QpType::Ud
    }

    /// Whether nobody acknowledges what it sends.
    pub(crate) fn is_unreliable(&self) -> bool {
        matches!(self.service, QpType::Uc | QpType::Ud)
    }

    pub(crate) fn is_attached(&self) -> bool {
        !self.groups.lock().is_empty()
    }

    fn purge(&self) {
        for cq in [&self.send_cq, &self.recv_cq].into_iter().flatten() {
            cq.purge(self.number);
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

    /// Takes the P_Key as its port's table has it now: a subnet manager may change it at any time. An entry that has become empty
    /// is 0, with which nothing goes out or comes in.
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

    /// Whether a packet came by its port. Of a connected queue pair the path says so too.
    #[inline]
    pub(crate) fn is_at(&self, arrival: &Arrival<'_>) -> bool {
        arrival
            .link
            .is_none_or(|(link, _)| link.number == self.port.load(Ordering::Relaxed))
    }

    /// The path that an address vector and destination QPN name; makes sure that answers are received.
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
        route.path(hca, slot)
    }

    /// Whether a packet is from the peer: its source must be the other end of the path.
    pub(crate) fn accepts_from(inner: &Inner, arrival: &Arrival<'_>) -> bool {
        let (from, to) = (arrival.datagram.from, arrival.local);
        let key = inner.path.as_ref().map(|path| &path.key);
        key.is_some_and(|key| key.is_from_peer(from, to, arrival.link))
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
        return invalid("path_mtu exceeds the port's active MTU");
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
