//! Queue pairs: the transport's state machine with its lock, its path and its timer. They are made
//! in `qp_init` and ended in `qp_close`.

mod modify;
pub(crate) mod numbers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, Ordering};

use ferroce_control::objects::{Listing, Object, QpRow, QueuePair};
use ferroce_transport::{QpAttr, QpCap, QpState, QpType, Time};
use parking_lot::Mutex;

use crate::datapath::arrival::Arrival;
use crate::datapath::held::{Burst, Depth, Held, Unsignaled};
use crate::datapath::path::Path;
use crate::datapath::turns::Part;
use crate::hca::Hca;
use crate::instrument::latency::Latency;
use crate::instrument::{Made, VERBS};
use crate::locks::{self, MutexGuard};
use crate::memory::keys::Peer;
use crate::verbs::completions::Completions;
use crate::verbs::context::{Context, Pd};
use crate::verbs::openers::Openers;
use crate::verbs::rendezvous::TmQp;
use crate::verbs::shared_requests::SharedRequests;
use crate::verbs::xrc::{Domain, Xrcd};

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
    /// When sending goes on, where its pace has stopped it or requests wait for company.
    pub(crate) resume_at: Time,
    /// Its part in the turns of the path.
    pub(crate) part: Part,
    /// Small requests posted since the last time that something was sent.
    pub(crate) held: Held,
    /// Whether the program keeps many of them under way.
    pub(crate) depth: Depth,
    /// The same where nobody acknowledges requests.
    pub(crate) burst: Burst,
    /// Whether the program waits for few of its requests.
    pub(crate) unsignaled: Unsignaled,
    /// Whether it is on the lane's list of those that have such requests waiting.
    pub(crate) waiting: bool,
    /// The PSN that was expected of the peer when the last request was posted.
    pub(crate) expected: u32,
    /// The state that others are told of.
    pub(crate) listed: QpState,
    /// Whether others are told that the peer has been heard of.
    pub(crate) heard: bool,
    /// It is destroyed: nothing moves it any more.
    pub(crate) ended: bool,
}

/// A queue pair.
pub struct Qp {
    pub(crate) context: Arc<Context>,
    /// The lane that receives for it, and keeps its timers.
    pub(crate) lane: Arc<Hca>,
    /// All but XRC targets have one.
    pub(crate) pd: Option<Arc<Pd>>,
    /// XRC targets have one.
    pub(crate) xrcd: Option<Arc<Xrcd>>,
    pub(crate) number: u32,
    /// Which of the program's it is, from 1, in the order in which they were made.
    pub(crate) ordinal: u32,
    pub(crate) qp_type: u32,
    pub(crate) service: QpType,
    pub(crate) cap: QpCap,
    pub(crate) sq_sig_all: bool,
    /// UD: no copies of its own multicast datagrams.
    pub(crate) block_loopback: bool,
    pub(crate) send_cq: Option<Arc<Completions>>,
    pub(crate) recv_cq: Option<Arc<Completions>>,
    pub(crate) srq: Option<Arc<SharedRequests>>,
    /// Messages are matched by tag, and the send queue is for rendezvous.
    pub(crate) tm: Option<Box<TmQp>>,
    pub(crate) inner: locks::Mutex<Inner, { locks::QUEUE_PAIR }>,
    pub(crate) openers: Openers<Xrcd>,
    /// Multicast groups that it is attached to, by GID and LID.
    pub(crate) groups: Mutex<Vec<([u8; 16], u16)>>,
    /// The P_Key of its entry in the port's table.
    pub(crate) p_key: AtomicU16,
    /// Its port, once it has one.
    pub(crate) port: AtomicU8,
    /// How long its send requests take, while somebody measures.
    pub(crate) latency: Mutex<Option<Box<Latency>>>,
    /// On the receive path's list of QPs to pump.
    pub(crate) touched: AtomicBool,
    /// How others are told of it.
    pub(crate) listing: Listing,
    /// Its numbers, for others too. Written to under the lock of `inner` alone.
    pub(crate) row: QpRow,
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

    /// All attributes as they are now: PSNs too, which begin with what they were set to.
    pub fn query(&self) -> (QpAttr, QpInitView) {
        let inner = self.inner.lock();
        let mut attr = inner.transport.query();
        let at = inner.transport.standing();
        drop(inner);
        attr.sq_psn = at.next_psn;
        attr.rq_psn = at.expected_psn;
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

    /// Tells others what it is now.
    #[cold]
    pub(crate) fn list(&self, inner: &mut Inner) {
        let attr = inner.transport.query();
        let state = inner.transport.state();
        if self.hca().taps.has(VERBS) && inner.listed != state {
            self.hca().taps.captures.changed(self.number, state);
        }
        inner.listed = state;
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
            row: self.row.place(),
        }));
        self.publish_attributes(&attr);
    }

    /// Tells who captures what it is set to.
    #[cold]
    pub(crate) fn show_attributes(&self, inner: &Inner) {
        let taps = &self.hca().taps;
        if !taps.has(VERBS) || inner.ended {
            return;
        }
        let made = Made {
            service: self.service,
            srq: self.srq.is_some(),
            sq_sig_all: self.sq_sig_all,
            stretch: self.hca().info().stretch_timeouts,
        };
        let attr = inner.transport.query();
        taps.captures.attributes(self.number, &made, &attr);
    }

    /// Locks if nobody holds the lock.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Inner>> {
        self.inner.try_lock()
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
        &self.lane
    }

    /// Whether a lane is the queue pair's.
    pub(crate) fn is_of(&self, lane: &Hca) -> bool {
        std::ptr::eq(&raw const *self.lane, lane)
    }

    /// XRC target: its domain.
    pub(crate) fn domain(&self) -> Option<&Arc<Domain>> {
        self.xrcd.as_ref().map(|xrcd| xrcd.domain())
    }

    /// Whether the peer has sent a request since the last one was posted here; nothing while one is
    /// not completed, or it is not known.
    pub(crate) fn is_answered(&self) -> Option<bool> {
        let inner = self.try_lock()?;
        (inner.part == Part::None
            && !inner.transport.has_requests_in_flight()
            && inner.transport.state() == QpState::Rts)
            .then(|| inner.transport.expected_psn() != inner.expected)
    }

    pub(crate) fn is_datagram(&self) -> bool {
        self.service == QpType::Ud
    }

    /// Whether nobody acknowledges what it sends.
    pub(crate) fn is_unreliable(&self) -> bool {
        matches!(self.service, QpType::Uc | QpType::Ud)
    }

    pub(super) fn is_attached(&self) -> bool {
        !self.groups.lock().is_empty()
    }

    /// Whether a packet came by its port. Of a connected queue pair the path says so too.
    #[inline]
    pub(crate) fn is_at(&self, arrival: &Arrival<'_>) -> bool {
        arrival
            .port
            .is_none_or(|(port, _)| port.number == self.port.load(Ordering::Relaxed))
    }

    /// Whether a packet is from the peer: its source must be the other end of the path.
    pub(crate) fn accepts_from(inner: &Inner, arrival: &Arrival<'_>) -> bool {
        let (from, to) = (arrival.datagram.from, arrival.local);
        let key = inner.path.as_ref().map(|path| &path.key);
        key.is_some_and(|key| key.is_from_peer(from, to, arrival.port))
    }
}
