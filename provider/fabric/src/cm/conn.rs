//! What is known about one ID.

use super::half_open::Ends;
use super::interval;
use super::types::{Av, CmId, QpRtr, QpRts, State, Time};
use ferroce_wire::cm::Transport;
use ferroce_wire::mad::{Gid, Mad};
use std::time::Duration;

/// A peer's name for a connection: its GID, its channel adapter's GUID and its communication ID.
/// The GID is part of it so that nobody can speak in the name of another address.
pub(super) type RemoteKey = (Gid, u64, u32);

/// A peer's QP, and which end of a connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct QpKey {
    pub(super) gid: Gid,
    pub(super) ca_guid: u64,
    pub(super) qpn: u32,
    pub(super) end: End,
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum End {
    /// It sent the REQ.
    Active,
    /// It sent the REP.
    Passive,
}

impl QpKey {
    /// The same QP as the other end of a connection.
    pub(super) fn opposite(self) -> QpKey {
        let end = match self.end {
            End::Active => End::Passive,
            End::Passive => End::Active,
        };
        QpKey { end, ..self }
    }
}

/// What the QP will need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) av: Av,
    pub(super) transport: Transport,
    pub(super) mtu: u8,
    pub(super) local_qpn: u32,
    pub(super) remote_qpn: u32,
    pub(super) sq_psn: u32,
    pub(super) rq_psn: u32,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    /// Exponent.
    pub(super) ack_timeout: u8,
}

impl Link {
    pub(super) fn rtr(&self) -> QpRtr {
        QpRtr {
            av: self.av,
            path_mtu: self.mtu,
            dest_qpn: self.remote_qpn,
            rq_psn: self.rq_psn,
            max_dest_rd_atomic: self.responder_resources,
        }
    }

    pub(super) fn rts(&self) -> QpRts {
        QpRts {
            sq_psn: self.sq_psn,
            timeout: self.ack_timeout,
            retry_count: self.retry_count,
            rnr_retry: self.rnr_retry_count,
            max_rd_atomic: self.initiator_depth,
        }
    }
}

/// A connection or a resolution; a listener is not kept here.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) state: State,
    /// The host still has the ID. What the host has let go of lingers without it, until nothing can
    /// come any more.
    pub(super) owned: bool,
    /// Of what a peer began, the listener that it asked.
    pub(super) listener: Option<CmId>,
    pub(super) local_comm_id: u32,
    /// 0 until it is known.
    pub(super) remote_comm_id: u32,
    pub(super) tid: u64,
    /// Where messages go.
    pub(super) to: Av,
    pub(super) service_id: u64,
    pub(super) link: Link,
    /// How long to wait for an answer.
    pub(super) response_timeout: Duration,
    /// The same for the message that is pending now: an MRA makes it longer.
    pub(super) period: Duration,
    pub(super) max_retries: u8,
    pub(super) retries: u8,
    /// The message that waits for an answer, to be sent again.
    pub(super) pending: Option<Box<Mad>>,
    /// What a repetition of the peer's last message is answered with.
    pub(super) answer: Option<Box<Mad>>,
    /// The REP that made a connection of it: a peer that still has the connection answers it.
    pub(super) question: Option<Box<Mad>>,
    /// A stranger was sent a REP, and not that it was given up.
    pub(super) untold: bool,
    /// When something is due.
    pub(super) deadline: Option<Time>,
    pub(super) remote_key: Option<RemoteKey>,
    pub(super) qp_key: Option<QpKey>,
    pub(super) sidr_key: Option<(Gid, u32)>,
}

impl Conn {
    /// How long packets of the connection may still be under way: both directions and the peer's
    /// delay (the specification's TimeWait period, which is what the Local ACK timeout covers,
    /// too).
    pub(super) fn timewait(&self) -> Duration {
        interval::timewait(self.link.ack_timeout)
    }

    /// How long to remember an answer that nobody acknowledges: the peer repeats itself after about
    /// a response timeout.
    pub(super) fn linger(&self) -> Duration {
        (2 * self.response_timeout).min(MAX_LINGER)
    }

    /// The peer began it.
    pub(super) fn is_incoming(&self) -> bool {
        self.listener.is_some()
    }

    /// Of what a peer began and nobody has finished, who it was and whom it asked.
    pub(super) fn half_open(&self) -> Option<Ends> {
        let waits = matches!(
            self.state,
            State::RequestReceived
                | State::RequestDeferred
                | State::ReplySent
                | State::ReplyAcknowledged
                | State::ResolveReceived
        );
        let listener = self.listener.filter(|_| waits)?;
        Some((self.to.remote_gid, listener))
    }

    /// Sets the ACK timeout to what the path and the peer's delay ask for.
    pub(super) fn learn_ack_delay(&mut self, target_ack_delay: u8) {
        let life = interval::packet_life_time(self.link.ack_timeout);
        self.link.ack_timeout = interval::ack_timeout(life, target_ack_delay);
    }
}

/// How many response timeouts a stranger's RTU may be late for what was given up without a word:
/// our own reminders come within seven.
pub(super) const LATE: u32 = 8;
/// Upper bound of [`Conn::linger`]: twice 4.3 s, the response timeout of `rdma_cm`.
const MAX_LINGER: Duration = Duration::from_millis(8_600);
