//! Queue pairs: the transport's state machine with its lock, its path and its timer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use ferroce_transport::{QpAttr, QpAttrMask, QpCap, QpConfig, QpState, QpType, Time};
use parking_lot::{Mutex, MutexGuard};

use crate::context::Pd;
use crate::cq::Cq;
use crate::error::{Error, Result};
use crate::events::Delivered;
use crate::hca::Hca;
use crate::keys::Peer;
use crate::limits;
use crate::path::{Path, PathKey, gid_address};
use crate::posting;
use crate::qp_host::QpHost;
use crate::srq::Srq;
use crate::timers;

/// `IBV_QPT_RC`
const QPT_RC: u32 = 2;

/// How to create a queue pair.
pub struct QpInit {
    /// `enum ibv_qp_type`: 2 (RC).
    pub qp_type: u32,
    /// Where send completions go.
    pub send_cq: Arc<Cq>,
    /// Where receive completions go.
    pub recv_cq: Arc<Cq>,
    /// Takes receive requests from here rather than from a queue of its own.
    pub srq: Option<Arc<Srq>>,
    /// Capacities asked for.
    pub cap: QpCap,
    /// Every send request raises a completion.
    pub sq_sig_all: bool,
    /// What async events name the queue pair by.
    pub cookie: u64,
}

/// What a queue pair was created with, as `ibv_query_qp` returns it.
#[derive(Clone, Copy, Debug)]
pub struct QpInitView {
    /// Capacities.
    pub cap: QpCap,
    /// `enum ibv_qp_type`
    pub qp_type: u32,
    /// Every send request raises a completion.
    pub sq_sig_all: bool,
}

/// What the QP's lock protects.
pub(crate) struct Inner {
    pub(crate) transport: ferroce_transport::Qp,
    pub(crate) path: Option<Arc<Path>>,
    /// When the heap of timers will next look at this QP.
    pub(crate) armed_at: Time,
    /// When a held-back ACK must go.
    pub(crate) ack_at: Time,
    /// Counted among the path's active QPs.
    pub(crate) active: bool,
    /// Small requests posted since the last time that something was sent.
    pub(crate) held: u32,
}

/// A queue pair.
pub struct Qp {
    pd: Arc<Pd>,
    number: u32,
    cookie: u64,
    qp_type: u32,
    cap: QpCap,
    sq_sig_all: bool,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    pub(crate) srq: Option<Arc<Srq>>,
    inner: Mutex<Inner>,
    /// The thread that holds a [`SendPoster`], as `thread_mark` names it; 0 for none.
    pub(crate) poster: AtomicUsize,
    events: AtomicU32,
    /// On the receive path's list of QPs to pump.
    pub(crate) touched: AtomicBool,
    destroyed: AtomicBool,
}

impl Qp {
    pub(crate) fn create(pd: &Arc<Pd>, init: QpInit) -> Result<Arc<Qp>> {
        let cap = check_init(pd, &init)?;
        let hca = pd.context().hca();
        let QpInit {
            qp_type,
            send_cq,
            recv_cq,
            srq,
            sq_sig_all,
            cookie,
            ..
        } = init;
        let qp = hca.qps.write().insert(|index| {
            let number = u32::from(hca.slot()) << 16 | u32::from(index);
            let config = QpConfig {
                qpn: number,
                qp_type: QpType::Rc,
                cap,
                sq_sig_all,
                srq: srq.is_some(),
                mtu: hca.port_attr().active_mtu,
                seed: rand::random(),
            };
            let inner = Inner {
                transport: ferroce_transport::Qp::new(config),
                path: None,
                armed_at: Time::MAX,
                ack_at: Time::MAX,
                active: false,
                held: 0,
            };
            Ok(Arc::new(Qp {
                pd: pd.clone(),
                number,
                cookie,
                qp_type,
                cap,
                sq_sig_all,
                send_cq,
                recv_cq,
                srq,
                inner: Mutex::new(inner),
                poster: AtomicUsize::new(0),
                events: AtomicU32::new(0),
                touched: AtomicBool::new(false),
                destroyed: AtomicBool::new(false),
            }))
        })?;
        pd.add_user();
        qp.send_cq.add_user();
        qp.recv_cq.add_user();
        if let Some(srq) = &qp.srq {
            srq.add_user();
        }
        Ok(qp)
    }

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
        let hca = self.hca();
        check_modify(hca, attr, mask)?;
        let path = if mask.contains(QpAttrMask::AV) {
            Some(self.resolve(attr, mask)?)
        } else {
            None
        };
        let keys = hca.keys.read_recursive();
        let mut inner = self.inner.lock();
        let now = timers::now();
        let mut host = QpHost::new(self, &keys, None, now);
        inner.transport.modify(attr, mask, now, &mut host)?;
        if let Some(path) = path {
            self.set_active(&mut inner, false);
            inner.path = Some(path);
        }
        if inner.transport.state() == QpState::Reset {
            self.set_active(&mut inner, false);
            inner.path = None;
            self.purge();
        }
        self.pump(&mut inner, &keys, now, true);
        Ok(())
    }

    /// Ends the queue pair. The caller then waits until the consumer has acknowledged what was delivered.
    pub fn destroy(&self) -> Result<Delivered> {
        if !self.destroyed.swap(true, Ordering::Relaxed) {
            let hca = self.hca();
            // With the table's lock no packet or timer is with this QP, and none will find it again.
            drop(hca.qps.write().remove(self.number as u16));
            let mut inner = self.inner.lock();
            self.send_last_ack(&mut inner);
            self.set_active(&mut inner, false);
            inner.path = None;
            drop(inner);
            self.purge();
            let keys = hca.keys.read_recursive();
            if keys.has_windows() {
                keys.forget_qp(self.number);
            }
            drop(keys);
            self.send_cq.remove_user();
            self.recv_cq.remove_user();
            if let Some(srq) = &self.srq {
                srq.remove_user();
            }
            self.pd.remove_user();
        }
        let written = self.events.load(Ordering::Relaxed);
        let unread = self.pd.context().take_back_events(self.cookie, written);
        Ok(Delivered {
            comp: 0,
            events: written - unread,
        })
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

    pub(crate) fn pd_handle(&self) -> u32 {
        self.pd.handle()
    }

    /// Who the requests that come to it act for.
    pub(crate) fn peer(&self) -> Peer {
        Peer {
            pd: self.pd_handle(),
            qpn: self.number,
        }
    }

    pub(crate) fn hca(&self) -> &Arc<Hca> {
        self.pd.context().hca()
    }

    /// Raises an affiliated asynchronous event.
    pub(crate) fn raise(&self, event: u32) {
        if self.pd.context().async_event(self.cookie, event) {
            self.events.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn purge(&self) {
        self.send_cq.purge(self.number);
        if !Arc::ptr_eq(&self.send_cq, &self.recv_cq) {
            self.recv_cq.purge(self.number);
        }
    }

    /// The path that an address vector and destination QPN name; makes sure that answers are received.
    fn resolve(&self, attr: &QpAttr, mask: QpAttrMask) -> Result<Arc<Path>> {
        let av = &attr.av;
        if !av.is_global {
            return Err(Error::Invalid(
                "RoCE needs a GRH: set is_global and the destination GID",
            ));
        }
        let hca = self.hca();
        let gid = hca.gid(av.sgid_index)?;
        let dest = if mask.contains(QpAttrMask::DEST_QPN) {
            attr.dest_qp_num
        } else {
            self.inner.lock().transport.query().dest_qp_num
        };
        let key = PathKey {
            local: gid.addr,
            remote: gid_address(av.dgid),
            slot: (dest >> 16) as u8,
            traffic_class: av.traffic_class,
            hop_limit: av.hop_limit,
        };
        hca.listen(&gid)?;
        hca.path(key, &gid)
    }

    /// Whether a packet between these addresses is from the peer: the source must be the other end of the path.
    pub(crate) fn accepts_from(
        inner: &Inner,
        remote: std::net::IpAddr,
        local: std::net::IpAddr,
    ) -> bool {
        inner
            .path
            .as_ref()
            .is_some_and(|p| p.key.remote == remote && p.key.local == local)
    }
}

fn check_init(pd: &Arc<Pd>, init: &QpInit) -> Result<QpCap> {
    if init.qp_type != QPT_RC {
        return Err(Error::Unsupported("queue pair types other than RC"));
    }
    let cap = init.cap;
    if cap.max_send_wr > limits::MAX_QP_WR || cap.max_recv_wr > limits::MAX_QP_WR {
        return Err(Error::Invalid(
            "more work requests than the device's max_qp_wr",
        ));
    }
    if cap.max_send_sge > limits::MAX_SGE || cap.max_recv_sge > limits::MAX_SGE {
        return Err(Error::Invalid(
            "more scatter/gather elements than the device's max_sge",
        ));
    }
    if cap.max_inline_data > limits::MAX_INLINE {
        return Err(Error::Invalid("max_inline_data exceeds 1024"));
    }
    let context = pd.context();
    let same = |c: &Arc<crate::context::Context>| Arc::ptr_eq(c, context);
    if !same(init.send_cq.context())
        || !same(init.recv_cq.context())
        || init.srq.as_ref().is_some_and(|s| !same(s.pd().context()))
    {
        return Err(Error::Invalid(
            "the protection domain and the queues are of different contexts",
        ));
    }
    Ok(cap)
}

/// What only the device knows: limits, the GID table, the port.
fn check_modify(hca: &Hca, attr: &QpAttr, mask: QpAttrMask) -> Result<()> {
    let invalid = |what| Err(Error::Invalid(what));
    if mask.contains(QpAttrMask::PORT) && attr.port_num != 1 {
        return invalid("port_num: the device has port 1 only");
    }
    if mask.contains(QpAttrMask::AV) && attr.av.port_num != 1 {
        return invalid("ah_attr.port_num: the device has port 1 only");
    }
    if mask.contains(QpAttrMask::PKEY_INDEX) && attr.pkey_index != 0 {
        return invalid("pkey_index: the table has one entry");
    }
    if mask.contains(QpAttrMask::PATH_MTU) && attr.path_mtu > hca.port_attr().active_mtu {
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
