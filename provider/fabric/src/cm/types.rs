//! What passes between the communication manager and its host.

use ferroce_wire::cm::{Drep, Dreq, Ece, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq, Transport};
use ferroce_wire::mad::{Gid, Mad};
pub use ferroce_wire::time::Time;

/// The host's name for a listener, a connection or a resolution. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CmId(pub(super) u64);

/// Where a message goes, or came from: an address vector. The QP is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Av {
    /// Our GID.
    pub local_gid: Gid,
    /// Its index with the host, as a link-local GID may be that of several interfaces.
    pub local_index: u16,
    /// The peer's GID.
    pub remote_gid: Gid,
    /// P_Key.
    pub pkey: u16,
    /// Service level, 4 bits.
    pub sl: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Our LID; 0xffff with RoCE.
    pub local_lid: u16,
    /// The peer's LID; 0xffff with RoCE.
    pub remote_lid: u16,
}

/// A path to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Both ends.
    pub av: Av,
    /// Path MTU, 1 (256 bytes) to 5 (4,096), as `ibv_mtu` has it.
    pub mtu: u8,
    /// Packet rate, as `ibv_rate` has it.
    pub packet_rate: u8,
    /// Packet life time, 5 bits: 4.096 µs · 2^n.
    pub packet_life_time: u8,
}

/// A request for communication, for [`Cm::connect`](super::Cm::connect).
#[derive(Clone, Copy, Debug)]
pub struct Connect<'a> {
    /// What is asked for.
    pub service_id: u64,
    /// The path that messages and the connection take.
    pub path: Path,
    /// Our QP, 24 bits.
    pub qpn: u32,
    /// The service; not RD.
    pub transport: Transport,
    /// First PSN that the peer shall send, 24 bits.
    pub starting_psn: u32,
    /// RDMA READs and atomics that our QP accepts at a time.
    pub responder_resources: u8,
    /// RDMA READs and atomics that our QP would have outstanding.
    pub initiator_depth: u8,
    /// Time within which the peer should answer, 5 bits: 4.096 µs · 2^n; the path's life time is
    /// added.
    pub remote_response_timeout: u8,
    /// Time within which we answer, 5 bits; includes the path's life time.
    pub local_response_timeout: u8,
    /// Retries of the transport, 0 to 7.
    pub retry_count: u8,
    /// RNR retries, 0 to 7.
    pub rnr_retry_count: u8,
    /// How often a message is sent again before it counts as unanswered, 0 to 15.
    pub max_cm_retries: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// Our QP has a shared receive queue.
    pub srq: bool,
    /// Enhanced connection establishment.
    pub ece: Ece,
    /// At most 92 bytes.
    pub private_data: &'a [u8],
}

/// The answer to a request, for [`Cm::accept`](super::Cm::accept).
#[derive(Clone, Copy, Debug, Default)]
pub struct Accept<'a> {
    /// Our QP, 24 bits.
    pub qpn: u32,
    /// First PSN that the peer shall send, 24 bits.
    pub starting_psn: u32,
    /// RDMA READs and atomics that our QP accepts at a time.
    pub responder_resources: u8,
    /// RDMA READs and atomics that our QP will have outstanding.
    pub initiator_depth: u8,
    /// RNR retries that the peer shall make, 0 to 7.
    pub rnr_retry_count: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// Our QP has a shared receive queue.
    pub srq: bool,
    /// Failover, 2 bits: 0 accepted, 1 not supported, 2 refused.
    pub failover_accepted: u8,
    /// Enhanced connection establishment.
    pub ece: Ece,
    /// At most 196 bytes.
    pub private_data: &'a [u8],
}

/// A question for the QP of a datagram service, for [`Cm::resolve`](super::Cm::resolve).
#[derive(Clone, Copy, Debug)]
pub struct Resolve<'a> {
    /// What is asked for.
    pub service_id: u64,
    /// The path.
    pub path: Path,
    /// Time within which the peer should answer, 5 bits: 4.096 µs · 2^n; the path's life time is
    /// added.
    pub response_timeout: u8,
    /// How often the question is repeated, 0 to 15.
    pub max_cm_retries: u8,
    /// At most 216 bytes.
    pub private_data: &'a [u8],
}

/// The answer, for [`Cm::resolve_reply`](super::Cm::resolve_reply).
#[derive(Clone, Copy, Debug, Default)]
pub struct ResolveReply<'a> {
    /// See [`sidr_status`](crate::sidr_status).
    pub status: u8,
    /// The service's QP, 24 bits.
    pub qpn: u32,
    /// Its Q_Key.
    pub qkey: u32,
    /// Enhanced connection establishment.
    pub ece: Ece,
    /// Additional information, at most 72 bytes.
    pub info: &'a [u8],
    /// At most 136 bytes.
    pub private_data: &'a [u8],
}

/// What happened. Boxed, since messages are large and events are queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CmEvent {
    /// A REQ for a listener. The event's ID is new, and the host's to accept, reject or destroy.
    Request {
        /// Who listened.
        listener: CmId,
        /// Where it came from, as one would answer.
        from: Av,
        /// What it says.
        request: Box<Req>,
    },
    /// The REQ stayed without an answer.
    RequestTimedOut,
    /// The peer needs longer for its answer (MRA).
    Acknowledged(Box<Mra>),
    /// The REQ was accepted; answer with [`Cm::establish`](super::Cm::establish) or
    /// [`Cm::reject`](super::Cm::reject).
    Reply(Box<Rep>),
    /// The REP stayed without an answer.
    ReplyTimedOut,
    /// The connection is there: by the RTU, or (`None`) as
    /// [`Cm::communication_established`](super::Cm::communication_established) said.
    Established(Option<Box<Rtu>>),
    /// The peer refused, or took back what it had agreed to; the connection is over.
    Rejected(Box<Rej>),
    /// The peer wants to end the connection; answer with
    /// [`Cm::disconnect_reply`](super::Cm::disconnect_reply).
    DisconnectRequest(Box<Dreq>),
    /// The connection is over, as we asked; `None` if the peer did not say so.
    Disconnected(Option<Box<Drep>>),
    /// No packet of the connection can be under way any more.
    TimewaitExit,
    /// A SIDR_REQ for a listener. The event's ID is new, and the host's to answer or destroy.
    ResolveRequest {
        /// Who listened.
        listener: CmId,
        /// Where it came from, as one would answer.
        from: Av,
        /// What it says.
        request: Box<SidrReq>,
    },
    /// The answer to our question, good or bad.
    ResolveReply(Box<SidrRep>),
    /// Our question stayed without an answer.
    ResolveTimedOut,
}

/// State of an ID. The specification's names differ a little from one table to the next; these are
/// the host's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Takes requests.
    Listening,
    /// REQ sent.
    RequestSent,
    /// REQ sent, MRA received.
    RequestAcknowledged,
    /// REQ received.
    RequestReceived,
    /// REQ received, MRA sent or ready to be sent.
    RequestDeferred,
    /// REP sent.
    ReplySent,
    /// REP sent, MRA received.
    ReplyAcknowledged,
    /// REP received.
    ReplyReceived,
    /// REP received, MRA sent or ready to be sent.
    ReplyDeferred,
    /// Connected.
    Established,
    /// DREQ sent.
    DisconnectSent,
    /// DREQ received.
    DisconnectReceived,
    /// Over; late packets may still come.
    Timewait,
    /// Over, and nothing is left to happen but [`Cm::destroy`](super::Cm::destroy).
    Idle,
    /// SIDR_REQ sent.
    ResolveSent,
    /// SIDR_REQ received.
    ResolveReceived,
}

/// Why a call was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CmError {
    /// No such ID.
    #[error("no such ID")]
    NoSuchId,
    /// Not in this state.
    #[error("not possible in this state")]
    WrongState,
    /// Somebody listens there already.
    #[error("service ID in use")]
    InUse,
    /// Private data or additional information does not fit.
    #[error("private data too long")]
    TooLong,
    /// As many connections or listeners as there may be.
    #[error("too many connections")]
    Limit,
    /// A value that does not fit its field.
    #[error("value out of range")]
    BadParameter,
}

/// What a QP needs to become ready to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpRtr {
    /// Where its packets go.
    pub av: Av,
    /// Path MTU, 1 (256 bytes) to 5 (4,096).
    pub path_mtu: u8,
    /// The peer's QP.
    pub dest_qpn: u32,
    /// First PSN that the peer will send: the starting PSN of our REQ or REP; 0 before the REP.
    pub rq_psn: u32,
    /// RDMA READs and atomics to accept at a time.
    pub max_dest_rd_atomic: u8,
}

/// What a QP needs to become ready to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpRts {
    /// First PSN to send.
    pub sq_psn: u32,
    /// Local ACK timeout, 5 bits: 4.096 µs · 2^n.
    pub timeout: u8,
    /// Retries, 0 to 7.
    pub retry_count: u8,
    /// RNR retries, 0 to 7.
    pub rnr_retry: u8,
    /// RDMA READs and atomics to have outstanding.
    pub max_rd_atomic: u8,
}

/// Where messages and events go.
pub trait Sink {
    /// Sends a MAD to QP1 behind `to`, with the Q_Key of QP1. It may get lost.
    fn send(&mut self, to: &Av, mad: &Mad);

    /// Something happened to `id`. The host queues it, and calls the manager again only afterwards.
    fn event(&mut self, id: CmId, event: CmEvent);
}
