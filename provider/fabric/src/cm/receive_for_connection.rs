//! REP, RTU, REJ, MRA, DREQ and DREP of a connection that was found.

use super::Cm;
use super::conn::{End, QpKey};
use super::interval::service_time;
use super::receive::Envelope;
use super::types::{CmEvent, CmId, Sink, State, Time};
use ferroce_wire::cm::{
    Drep, Dreq, Mra, PrivateData, Rej, Rep, Rtu, Transport, about, attribute, reject,
};

impl Cm {
    pub(super) fn receive_rep(&mut self, envelope: &Envelope<'_>, rep: Rep, out: &mut dyn Sink) {
        let from = envelope.from;
        let refuse = |cm: &mut Cm, reason, out: &mut dyn Sink| {
            let ids = (rep.local_comm_id, rep.remote_comm_id);
            cm.refuse(from, envelope.tid, ids, about::REP, reason, out);
        };

        let Some(id) = self.find_by(from, rep.remote_comm_id, |conn| !conn.is_incoming()) else {
            // Its sender would wait for an RTU in vain.
            return refuse(self, reject::INVALID_COMM_ID, out);
        };
        let state = self.found_state(id);
        let known = self.table.get(id).map(|conn| conn.remote_comm_id);
        match state {
            State::RequestSent | State::RequestAcknowledged => {}
            // A repetition is answered again: RTU, MRA or REJ. What is over, and left no answer, is
            // refused.
            State::Established | State::ReplyDeferred | State::ReplyReceived
                if known == Some(rep.local_comm_id) =>
            {
                self.count_duplicate(attribute::REP);
                self.repeat_answer(id, out);
                return;
            }
            State::DisconnectSent | State::DisconnectReceived => {
                self.count_duplicate(attribute::REP);
                return;
            }
            State::Idle if known == Some(rep.local_comm_id) => {
                self.count_duplicate(attribute::REP);
                if !self.repeat_answer(id, out) {
                    refuse(self, reject::INVALID_COMM_ID, out);
                }
                return;
            }
            _ => return refuse(self, reject::INVALID_COMM_ID, out),
        }

        let remote_qpn = match self.table.get(id).map(|conn| conn.link.transport) {
            Some(Transport::Xrc) => rep.local_eecn,
            _ => rep.local_qpn,
        };

        let qp_key = QpKey {
            gid: from.remote_gid,
            ca_guid: rep.ca_guid,
            qpn: remote_qpn,
            end: End::Passive,
        };

        if let Some(old) = self.other_use(&qp_key) {
            // The peer has given us a QP that belongs to a connection of ours: neither can be
            // right.
            self.retire_stale(envelope, old, out);
            refuse(self, reject::STALE_CONNECTION, out);
            return self.retire_own_request(envelope, id, &rep, out);
        }

        self.change(id, |conn, _| {
            conn.state = State::ReplyReceived;
            conn.pending = None;
            conn.deadline = None;
            conn.remote_comm_id = rep.local_comm_id;
            conn.qp_key = Some(qp_key);
            conn.link.remote_qpn = remote_qpn;
            conn.link.sq_psn = rep.starting_psn;
            conn.link.initiator_depth = rep.responder_resources;
            conn.link.responder_resources = rep.initiator_depth;
            conn.link.rnr_retry_count = rep.rnr_retry_count;
            conn.learn_ack_delay(rep.target_ack_delay);
        });

        self.raise(id, CmEvent::Reply(Box::new(rep)), out);
    }

    /// Ends a request of ours whose REP had to be refused.
    fn retire_own_request(
        &mut self,
        envelope: &Envelope<'_>,
        id: CmId,
        rep: &Rep,
        out: &mut dyn Sink,
    ) {
        let rej = Rej {
            local_comm_id: rep.local_comm_id,
            remote_comm_id: rep.remote_comm_id,
            message: about::REP,
            reason: reject::STALE_CONNECTION,
            ..Rej::default()
        };
        self.end_as_rejected(envelope.now, id, rej, out);
    }

    /// A request of ours is over, and its owner hears that it was rejected.
    fn end_as_rejected(&mut self, now: Time, id: CmId, rej: Rej, out: &mut dyn Sink) {
        self.change(id, |conn, _| {
            conn.answer = None;
            conn.enter_idle(now);
        });
        self.raise(id, CmEvent::Rejected(Box::new(rej)), out);
        self.forget_if_done(id);
    }

    pub(super) fn receive_rtu(&mut self, envelope: &Envelope<'_>, rtu: Rtu, out: &mut dyn Sink) {
        let from = envelope.from;
        let Some(id) = self.find(from, rtu.remote_comm_id, rtu.local_comm_id) else {
            // Its sender believes that it is connected, and must not go on believing so.
            let ids = (rtu.local_comm_id, rtu.remote_comm_id);
            let reason = reject::INVALID_COMM_ID;
            return self.refuse(from, envelope.tid, ids, about::OTHER, reason, out);
        };

        match self.found_state(id) {
            State::ReplySent | State::ReplyAcknowledged => {
                self.change(id, |conn, _| conn.become_established());
                self.raise(id, CmEvent::Established(Some(Box::new(rtu))), out);
            }
            State::Established => {
                self.count_duplicate(attribute::RTU);
                self.peer_remembers(id);
            }
            State::Timewait if self.table.get(id).is_some_and(|conn| conn.untold) => {
                self.change(id, |conn, counters| {
                    conn.close(envelope.now, counters, out);
                });
            }
            _ => self.counters.unexpected += 1,
        }
    }

    pub(super) fn receive_rej(&mut self, envelope: &Envelope<'_>, rej: Rej, out: &mut dyn Sink) {
        let now = envelope.now;
        let Some(id) = self.find_rejected(envelope, &rej) else {
            return;
        };

        let stale = rej.reason == reject::STALE_CONNECTION;
        match self.found_state(id) {
            State::RequestSent
            | State::RequestAcknowledged
            | State::RequestReceived
            | State::RequestDeferred
            | State::ReplySent
            | State::ReplyAcknowledged => {
                self.change(id, |conn, _| {
                    conn.answer = None;
                    if stale {
                        conn.enter_timewait(now);
                    } else {
                        conn.enter_idle(now);
                    }
                });
                self.raise(id, CmEvent::Rejected(Box::new(rej)), out);
            }
            // It was asked, and knows nothing of it.
            State::Established if self.is_doubted(id) => {
                self.start_disconnect(now, id, PrivateData::default(), out);
            }
            State::ReplyReceived | State::ReplyDeferred | State::Established => {
                self.change(id, |conn, _| {
                    conn.answer = None;
                    conn.enter_timewait(now);
                });
                self.raise(id, CmEvent::Rejected(Box::new(rej)), out);
            }
            State::DisconnectSent => {
                self.change(id, |conn, _| conn.enter_timewait(now));
                self.raise(id, CmEvent::Disconnected(None), out);
            }
            // We were closing what the peer has closed.
            State::Timewait => {
                self.change(id, |conn, _| {
                    if conn.pending.is_some() {
                        conn.enter_timewait(now);
                    }
                });
            }
            _ => self.counters.unexpected += 1,
        }

        self.forget_if_done(id);
    }

    /// The connection that a REJ is about. Its sender may not know our name for it (it took back
    /// its REQ), or may have none itself (it refuses our REQ).
    fn find_rejected(&mut self, envelope: &Envelope<'_>, rej: &Rej) -> Option<CmId> {
        let from = envelope.from;
        if rej.reason == reject::TIMEOUT
            && let Some(guid) = rej.ari.first_chunk()
            && let Some(id) = self.find_by_guid(from, u64::from_be_bytes(*guid), rej.local_comm_id)
        {
            return Some(id);
        }

        self.find_by(from, rej.remote_comm_id, |conn| match conn.state {
            State::RequestSent => rej.message != about::REP,
            // The MRA has told us the name.
            State::RequestAcknowledged => {
                rej.local_comm_id == 0 || rej.local_comm_id == conn.remote_comm_id
            }
            _ => rej.local_comm_id == conn.remote_comm_id,
        })
    }

    pub(super) fn receive_mra(&mut self, envelope: &Envelope<'_>, mra: Mra, out: &mut dyn Sink) {
        let Some(id) = self.find_by(envelope.from, mra.remote_comm_id, |conn| {
            conn.state == State::RequestSent || conn.remote_comm_id == mra.local_comm_id
        }) else {
            return;
        };

        let state = match (self.found_state(id), mra.message) {
            (State::RequestSent, about::REQ) => State::RequestAcknowledged,
            (State::ReplySent, about::REP) => State::ReplyAcknowledged,
            (State::RequestAcknowledged | State::ReplyAcknowledged, _) => {
                return self.count_duplicate(attribute::MRA);
            }
            _ => {
                self.counters.unexpected += 1;
                return;
            }
        };

        let service_time = self.config.stretched(service_time(mra.service_timeout));
        self.change(id, |conn, _| {
            conn.state = state;
            conn.remote_comm_id = mra.local_comm_id;
            conn.period = service_time + conn.timewait();
            conn.deadline = Some(envelope.now + conn.period);
        });

        self.raise(id, CmEvent::Acknowledged(Box::new(mra)), out);
    }

    /// The peer has accepted a request of ours and ended it before we were ready. Its REP, should
    /// it still come, must not connect us to nobody.
    pub(super) fn peer_ends_early(
        &mut self,
        envelope: &Envelope<'_>,
        dreq: &Dreq,
        out: &mut dyn Sink,
    ) {
        let Some(id) = self.table.by_local(dreq.remote_comm_id) else {
            return;
        };
        let Some(conn) = self.table.get(id) else {
            return;
        };

        let ours = match conn.state {
            State::RequestSent | State::RequestAcknowledged => true,
            State::ReplyReceived | State::ReplyDeferred => {
                conn.remote_comm_id == dreq.local_comm_id
            }
            _ => false,
        };

        if !ours
            || conn.to.remote_gid != envelope.from.remote_gid
            || conn.link.local_qpn != dreq.remote_qpn
        {
            return;
        }

        let rej = Rej {
            local_comm_id: dreq.local_comm_id,
            remote_comm_id: dreq.remote_comm_id,
            message: about::OTHER,
            reason: reject::CONSUMER_DEFINED,
            ..Rej::default()
        };
        self.end_as_rejected(envelope.now, id, rej, out);
    }

    /// The peer ends a connection; one that nobody owns agrees by itself.
    pub(super) fn peer_disconnects(
        &mut self,
        envelope: &Envelope<'_>,
        id: CmId,
        dreq: Dreq,
        out: &mut dyn Sink,
    ) {
        let now = envelope.now;
        self.change(id, |conn, counters| {
            conn.tid = envelope.tid;
            conn.pending = None;
            conn.answer = None;
            conn.deadline = None;
            conn.state = State::DisconnectReceived;
            if !conn.owned {
                conn.agree_to_end(now, Default::default(), counters, out);
            }
        });
        self.raise(id, CmEvent::DisconnectRequest(Box::new(dreq)), out);
    }

    /// The peer has agreed to the end.
    pub(super) fn peer_disconnected(
        &mut self,
        envelope: &Envelope<'_>,
        id: CmId,
        drep: Drep,
        out: &mut dyn Sink,
    ) {
        let now = envelope.now;
        match self.found_state(id) {
            // Both asked at the same time, and our DREQ was answered.
            State::DisconnectSent | State::DisconnectReceived => {
                self.change(id, |conn, _| conn.enter_timewait(now));
                self.raise(id, CmEvent::Disconnected(Some(Box::new(drep))), out);
            }
            // It was asked, and has it no longer.
            State::Established if self.is_doubted(id) => {
                self.start_disconnect(now, id, PrivateData::default(), out);
            }
            State::Timewait => {
                let closing = self
                    .change(id, |conn, _| {
                        let closing = conn.pending.is_some();
                        if closing {
                            conn.enter_timewait(now);
                        }
                        closing
                    })
                    .unwrap_or(false);
                if !closing {
                    self.count_duplicate(attribute::DREP);
                }
            }
            _ => self.counters.unexpected += 1,
        }
    }
}
