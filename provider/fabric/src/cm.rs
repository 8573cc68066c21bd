//! The InfiniBand communication manager: all connections and service ID resolutions of one device,
//! as one state machine.
//!
//! A [`Cm`] takes the consumer's calls, MADs and the time, and through a [`Sink`] says which MADs
//! to send and what happened. It knows nothing of QPs but their numbers, decides about no request
//! by itself unless nobody listens, and what the host has let go of it finishes alone: a connection
//! that is destroyed is still taken down in order, with repetitions, so that no peer is left with
//! half of one.
//!
//! ```text
//!   active                               passive
//!   connect ── REQ ──────────────────▶  Request      (accept, reject, mra)
//!   Reply   ◀────────────────── REP ──  accept
//!   establish ── RTU ────────────────▶  Established
//!   disconnect ── DREQ ──────────────▶  DisconnectRequest
//!   Disconnected ◀───────────── DREP ── disconnect_reply
//!   TimewaitExit                         TimewaitExit
//! ```
//!
//! What a peer can make it keep is bounded by [`Limits`].

mod accept;
mod conn;
mod connect;
mod counters;
mod destroy;
mod disconnect;
mod half_open;
mod interval;
mod limits;
mod listeners;
mod outbox;
mod receive;
mod receive_for_connection;
mod receive_req;
mod reject;
mod resolve;
mod strangers;
mod table;
mod timeout;
mod types;

pub use counters::{Counters, KIND_NAMES, KINDS};
pub use limits::Limits;
pub use types::*;

use conn::Conn;
use listeners::Listeners;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::time::Duration;
use strangers::Strangers;
use table::Table;

/// What a manager is made with.
#[derive(Clone, Copy, Debug)]
pub struct CmConfig {
    /// GUID of the channel adapter.
    pub ca_guid: u64,
    /// ACK delay of the channel adapter, 5 bits: 4.096 µs · 2^n.
    pub ack_delay: u8,
    /// For communication IDs, which peers must not guess: 32 bytes of entropy.
    pub seed: [u8; 32],
    /// Bounds.
    pub limits: Limits,
    /// Answers may take so many times as long as peers and consumers say, for peers that somebody
    /// stops; 0 and 1: as they say. The messages have what they would have.
    pub stretch: u32,
}

impl CmConfig {
    /// For how long a message that may take so long is waited for.
    fn stretched(&self, time: Duration) -> Duration {
        time.saturating_mul(self.stretch.max(1))
    }
}

/// The communication manager of one device.
pub struct Cm {
    config: CmConfig,
    rng: StdRng,
    table: Table,
    listeners: Listeners,
    strangers: Strangers,
    counters: Counters,
}

impl Cm {
    /// A manager without connections.
    pub fn new(config: CmConfig) -> Cm {
        Cm {
            config,
            rng: StdRng::from_seed(config.seed),
            table: Table::new(),
            listeners: Listeners::default(),
            strangers: Strangers::new(),
            counters: Counters::default(),
        }
    }

    /// Takes requests for all service IDs that are equal to `service_id` where `mask` has ones
    /// (`!0`: for just this one).
    ///
    /// # Errors
    /// [`CmError::InUse`] if one of them has a listener, [`CmError::Limit`].
    pub fn listen(&mut self, service_id: u64, mask: u64) -> Result<CmId, CmError> {
        if self.listeners.overlap(service_id, mask) {
            return Err(CmError::InUse);
        }
        if self.listeners.len() >= self.config.limits.listeners {
            return Err(CmError::Limit);
        }
        let id = self.table.fresh_id();
        self.listeners.insert(id, service_id, mask);
        Ok(id)
    }

    /// The state of an ID; `None` if there is no such.
    pub fn state(&self, id: CmId) -> Option<State> {
        if self.listeners.contains(id) {
            return Some(State::Listening);
        }
        self.owned(id).ok().map(|conn| conn.state)
    }

    /// Where the messages of a connection go.
    pub fn av(&self, id: CmId) -> Option<&Av> {
        self.owned(id).ok().map(|conn| &conn.to)
    }

    /// How many READs and ATOMICs the QP of a connection answers at a time: what our REQ says,
    /// until the peer's part is known.
    ///
    /// # Errors
    /// [`CmError::NoSuchId`], [`CmError::WrongState`] after the connection's end.
    pub fn responder_resources(&self, id: CmId) -> Result<u8, CmError> {
        let states = [State::RequestSent, State::RequestAcknowledged];
        let asked = self.owned_in(id, &states).map(|conn| &conn.link);
        Ok(asked.or_else(|_| self.link(id))?.responder_resources)
    }

    /// What the QP of a connection needs to become ready to receive.
    ///
    /// # Errors
    /// [`CmError::WrongState`] before the peer's part is known and after the connection's end.
    pub fn qp_rtr(&self, id: CmId) -> Result<QpRtr, CmError> {
        Ok(self.link(id)?.rtr())
    }

    /// What the QP of a connection needs to become ready to send.
    ///
    /// # Errors
    /// As [`qp_rtr`](Cm::qp_rtr).
    pub fn qp_rts(&self, id: CmId) -> Result<QpRts, CmError> {
        Ok(self.link(id)?.rts())
    }

    /// When [`handle_timeout`](Cm::handle_timeout) is due.
    pub fn next_timeout(&self) -> Option<Time> {
        self.table.next_timeout()
    }

    /// What went through.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Connections and resolutions, those that linger included, but not the listeners.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Is there no connection and no resolution?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The connection that the host knows by this ID.
    fn owned(&self, id: CmId) -> Result<&Conn, CmError> {
        self.table
            .get(id)
            .filter(|conn| conn.owned)
            .ok_or(CmError::NoSuchId)
    }

    /// The same, if it is in one of these states.
    fn owned_in(&self, id: CmId, states: &[State]) -> Result<&Conn, CmError> {
        let conn = self.owned(id)?;
        if !states.contains(&conn.state) {
            return Err(CmError::WrongState);
        }
        Ok(conn)
    }

    fn link(&self, id: CmId) -> Result<&conn::Link, CmError> {
        let states = [
            State::RequestReceived,
            State::RequestDeferred,
            State::ReplySent,
            State::ReplyAcknowledged,
            State::ReplyReceived,
            State::ReplyDeferred,
            State::Established,
        ];
        Ok(&self.owned_in(id, &states)?.link)
    }

    /// A transaction of our own.
    fn fresh_tid(&mut self) -> u64 {
        self.rng.random()
    }
}
