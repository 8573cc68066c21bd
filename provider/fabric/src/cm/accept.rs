//! The passive side's calls: accepting a request, asking for patience, and learning by traffic that
//! a connection stands.

use super::types::{Accept, CmError, CmEvent, CmId, Sink, State, Time};
use super::{Cm, conn::Conn};
use ferroce_wire::cm::{Message, Mra, PrivateData, Rep, Transport, about};

impl Cm {
    /// Accepts a request: sends a REP, and repeats it until there is an answer.
    ///
    /// # Errors
    /// [`CmError::NoSuchId`], [`CmError::WrongState`], [`CmError::TooLong`],
    /// [`CmError::BadParameter`].
    pub fn accept(
        &mut self,
        now: Time,
        id: CmId,
        accept: &Accept<'_>,
        out: &mut dyn Sink,
    ) -> Result<(), CmError> {
        let private_data = PrivateData::new(accept.private_data).ok_or(CmError::TooLong)?;
        if accept.qpn >> 24 != 0
            || accept.starting_psn >> 24 != 0
            || accept.rnr_retry_count > 7
            || accept.failover_accepted > 3
        {
            return Err(CmError::BadParameter);
        }

        let conn = self.owned_in(id, &[State::RequestReceived, State::RequestDeferred])?;

        // With XRC our side only receives, and its QP is told where an EE context would be.
        let xrc = conn.link.transport == Transport::Xrc;
        let rep = Rep {
            local_comm_id: conn.local_comm_id,
            remote_comm_id: conn.remote_comm_id,
            local_qpn: if xrc { 0 } else { accept.qpn },
            local_eecn: if xrc { accept.qpn } else { 0 },
            starting_psn: accept.starting_psn,
            responder_resources: accept.responder_resources,
            initiator_depth: if xrc { 0 } else { accept.initiator_depth },
            target_ack_delay: self.config.ack_delay,
            failover_accepted: accept.failover_accepted,
            flow_control: !xrc && accept.flow_control,
            rnr_retry_count: accept.rnr_retry_count,
            srq: xrc || accept.srq,
            ca_guid: self.config.ca_guid,
            ece: accept.ece,
            private_data,
            ..Rep::default()
        };

        self.change(id, |conn, counters| {
            conn.link.local_qpn = accept.qpn;
            conn.link.rq_psn = accept.starting_psn;
            conn.link.responder_resources = accept.responder_resources;
            conn.link.initiator_depth = accept.initiator_depth;
            conn.state = State::ReplySent;
            conn.ask(now, &Message::Rep(rep), conn.tid, counters, out);
            conn.answer = None;
        });

        Ok(())
    }

    /// Takes a connection for established because something arrived at its QP
    /// (`IBV_EVENT_COMM_EST`), though the RTU did not.
    ///
    /// # Errors
    /// [`CmError::NoSuchId`], [`CmError::WrongState`] unless a REP was sent; established already is
    /// no error.
    pub fn communication_established(
        &mut self,
        _now: Time,
        id: CmId,
        out: &mut dyn Sink,
    ) -> Result<(), CmError> {
        let conn = self.owned(id)?;
        match conn.state {
            State::Established => return Ok(()),
            State::ReplySent | State::ReplyAcknowledged => {}
            _ => return Err(CmError::WrongState),
        }
        self.peer_was_heard(id, out);
        Ok(())
    }

    /// The peer's packets show that it has the REP.
    pub(super) fn peer_was_heard(&mut self, id: CmId, out: &mut dyn Sink) {
        let peer = self.change(id, |conn, _| {
            conn.become_established();
            conn.to.remote_gid
        });
        if let Some(peer) = peer {
            self.strangers.answered(peer);
        }
        self.raise(id, CmEvent::Established(None), out);
    }

    /// Asks the peer for patience: an answer to its REQ or REP will take up to `service_timeout`
    /// (5 bits: 4.096 µs · 2^n). With `delayed`, the MRA is only sent when the peer repeats itself.
    ///
    /// # Errors
    /// [`CmError::NoSuchId`], [`CmError::WrongState`], [`CmError::TooLong`] (222 bytes),
    /// [`CmError::BadParameter`].
    pub fn mra(
        &mut self,
        _now: Time,
        id: CmId,
        service_timeout: u8,
        delayed: bool,
        private: &[u8],
        out: &mut dyn Sink,
    ) -> Result<(), CmError> {
        let private_data = PrivateData::new(private).ok_or(CmError::TooLong)?;
        if service_timeout > 31 {
            return Err(CmError::BadParameter);
        }

        let conn = self.owned_in(id, &[State::RequestReceived, State::ReplyReceived])?;
        let (state, message) = match conn.state {
            State::RequestReceived => (State::RequestDeferred, about::REQ),
            _ => (State::ReplyDeferred, about::REP),
        };

        self.change(id, |conn, counters| {
            let mra = Message::Mra(Mra {
                local_comm_id: conn.local_comm_id,
                remote_comm_id: conn.remote_comm_id,
                message,
                service_timeout,
                private_data,
            });
            if delayed {
                conn.answer = Some(Box::new(mra.emit(conn.tid)));
            } else {
                conn.tell(&mra, conn.tid, counters, out);
            }
            conn.state = state;
        });

        Ok(())
    }
}

impl Conn {
    /// The passive side's last step.
    pub(super) fn become_established(&mut self) {
        self.state = State::Established;
        self.question = self.pending.take();
        self.answer = None;
        self.deadline = None;
    }
}
