//! A REQ arrives: is it a repetition, is the connection that it belongs to stale, does anybody want
//! it?

use super::conn::{Conn, End, Link, QpKey};
use super::interval::{packet_life_time, response_time};
use super::receive::Envelope;
use super::types::{Av, CmEvent, CmId, Sink, State, Time};
use super::{Cm, outbox};
use ferroce_wire::cm::{
    Drep, Dreq, Message, PrivateData, Rej, Req, Transport, about, attribute, reject,
};
use ferroce_wire::mtu;

/// How often a peer is asked again whether it still has a connection.
const QUESTIONS: u8 = 3;

impl Cm {
    pub(super) fn receive_req(&mut self, envelope: &Envelope<'_>, req: Req, out: &mut dyn Sink) {
        let from = envelope.from;
        let remote_key = (from.remote_gid, req.ca_guid, req.local_comm_id);
        if let Some(id) = self.table.by_remote(&remote_key) {
            return self.repeated_req(envelope, id, &req, out);
        }

        let few = self.strangers.asks(envelope.now, &from.remote_gid);
        if let Err(reason) = self.check_req(envelope, &req, few, out) {
            let ids = (req.local_comm_id, 0);
            return self.refuse(from, envelope.tid, ids, about::REQ, reason, out);
        }

        let Some(listener) = self.listeners.find(req.service_id) else {
            let ids = (req.local_comm_id, 0);
            let reason = reject::INVALID_SERVICE_ID;
            return self.refuse(from, envelope.tid, ids, about::REQ, reason, out);
        };

        if !self.admit(envelope, listener, out) {
            let ids = (req.local_comm_id, 0);
            let reason = reject::NO_RESOURCES;
            return self.refuse(from, envelope.tid, ids, about::REQ, reason, out);
        }

        let conn = self.incoming(envelope, listener, &req);
        let id = self.table.insert(conn);
        let event = CmEvent::Request {
            listener,
            from: *from,
            request: Box::new(req),
        };
        self.raise(id, event, out);
    }

    /// The peer repeats itself: so do we, if there is an answer already.
    fn repeated_req(&mut self, envelope: &Envelope<'_>, id: CmId, req: &Req, out: &mut dyn Sink) {
        self.count_duplicate(attribute::REQ);
        let Some(conn) = self.table.get(id) else {
            return;
        };

        if let (State::ReplySent, Some(rep)) = (conn.state, &conn.pending) {
            outbox::send(&mut self.counters, &conn.to, rep, out);
            return;
        }

        match conn.state {
            State::RequestDeferred | State::Idle => {
                self.repeat_answer(id, out);
            }
            State::Timewait => {
                let ids = (req.local_comm_id, 0);
                let reason = reject::STALE_CONNECTION;
                self.refuse(envelope.from, envelope.tid, ids, about::REQ, reason, out);
            }
            _ => {}
        }
    }

    /// What speaks against a request, before anybody is asked.
    fn check_req(
        &mut self,
        envelope: &Envelope<'_>,
        req: &Req,
        few: bool,
        out: &mut dyn Sink,
    ) -> Result<(), u16> {
        if req.transport == Transport::Rd {
            return Err(reject::INVALID_TRANSPORT);
        }
        if !mtu::is_valid(req.mtu) {
            return Err(reject::INVALID_MTU);
        }

        if let Some(old) = self.other_use(&asking_qp(envelope.from, req)) {
            // The request is refused in any case; that it is the peer's own who makes so many is
            // not likely.
            if few {
                self.retire_stale(envelope, old, out);
            }
            return Err(reject::STALE_CONNECTION);
        }

        Ok(())
    }

    /// The connection, other than the one that it is named for now, that a peer's QP belongs to
    /// (section 12.9.8.3.1).
    ///
    /// Of a peer that is this device itself the other end does not count. A device is at the two
    /// ends of its own connections, and what it has forgotten it does not say; programs that
    /// measure connection management connect numbers that no QP has, the same ones at both ends.
    pub(super) fn other_use(&self, qp: &QpKey) -> Option<CmId> {
        let same_end = self.table.by_qp(qp);
        if qp.ca_guid == self.config.ca_guid {
            return same_end;
        }
        same_end.or_else(|| self.table.by_qp(&qp.opposite()))
    }

    /// Makes room for what a peer asks a listener for; `false` if there is none, which is counted.
    pub(super) fn admit(
        &mut self,
        envelope: &Envelope<'_>,
        listener: CmId,
        out: &mut dyn Sink,
    ) -> bool {
        let ends = (envelope.from.remote_gid, listener);
        while let Some(oldest) = (self.table.half_open()).surplus(ends, &self.config.limits) {
            self.counters.evicted += 1;
            self.give_up_silently(envelope.now, oldest, reject::NO_RESOURCES, out);
            // Whoever owns it may never look at it again.
            self.table.remove(oldest);
        }
        let room = self.table.make_room(self.config.limits.connections);
        self.counters.refused += u64::from(!room);
        room
    }

    /// Gives up what a peer began. The host is told; the peer learns it by what it says next.
    fn give_up_silently(&mut self, now: Time, id: CmId, reason: u16, out: &mut dyn Sink) {
        let rej = self.change(id, |conn, _| {
            conn.answer = None;
            conn.enter_idle(now);
            Rej {
                local_comm_id: conn.remote_comm_id,
                remote_comm_id: conn.local_comm_id,
                message: about::OTHER,
                reason,
                ..Rej::default()
            }
        });

        if let Some(rej) = rej {
            self.raise(id, CmEvent::Rejected(Box::new(rej)), out);
        }

        self.forget_if_done(id);
    }

    /// The peer uses the QP of this connection for another: it has forgotten this one, or somebody
    /// else says so in its name.
    pub(super) fn retire_stale(&mut self, envelope: &Envelope<'_>, id: CmId, out: &mut dyn Sink) {
        let now = envelope.now;
        match self.found_state(id) {
            State::Established => self.doubt(now, id, out),
            State::RequestReceived
            | State::RequestDeferred
            | State::ReplySent
            | State::ReplyAcknowledged => {
                self.give_up_silently(now, id, reject::STALE_CONNECTION, out);
            }
            // These are on their way out, or know by themselves soon.
            _ => {}
        }
    }

    /// Asks the peer whether it still has a connection, before anybody is believed who says that it
    /// has not.
    ///
    /// What we accepted it is asked for with the REP of old, which a peer that has the connection
    /// answers with its RTU. Who has it no longer refuses it, or does not answer; then it is taken
    /// down.
    ///
    /// Of what we asked for, the peer has nothing that it would answer so. It gets a DREQ that
    /// names another QP: whoever has the connection drops it, for it is not about that, and whoever
    /// has not confirms it, as any DREQ for what is not there. Only then it is taken down.
    fn doubt(&mut self, now: Time, id: CmId, out: &mut dyn Sink) {
        let tid = self.fresh_tid();
        let Some(conn) = self.table.get(id).filter(|conn| conn.pending.is_none()) else {
            // It is being asked.
            return;
        };

        let question = conn.question.clone().unwrap_or_else(|| {
            let dreq = Dreq {
                remote_qpn: conn.link.remote_qpn ^ 0x00ff_ffff,
                ..conn.dreq(PrivateData::default())
            };
            Box::new(Message::Dreq(dreq).emit(tid))
        });

        self.change(id, |conn, counters| {
            outbox::resend(counters, &conn.to, &question, out);
            conn.pending = Some(question);
            conn.period = conn.response_timeout;
            conn.retries = conn.max_retries.min(QUESTIONS);
            conn.deadline = Some(now + conn.period);
        });
    }

    /// Whether a peer is being asked for it.
    pub(super) fn is_doubted(&self, id: CmId) -> bool {
        let conn = self.table.get(id);
        conn.is_some_and(|conn| conn.state == State::Established && conn.pending.is_some())
    }

    /// Whether a peer that does not answer has lost the connection, which it is being asked for. If
    /// it is ours it says nothing while it has it.
    pub(super) fn silence_says_no(&self, id: CmId) -> bool {
        self.table.get(id).is_some_and(Conn::is_incoming)
    }

    /// The peer still has an established connection.
    pub(super) fn peer_remembers(&mut self, id: CmId) {
        self.change(id, |conn, _| {
            conn.pending = None;
            conn.deadline = None;
        });
    }

    /// A connection that a peer began.
    fn incoming(&mut self, envelope: &Envelope<'_>, listener: CmId, req: &Req) -> Conn {
        let from = envelope.from;
        let response_timeout = response_time(req.local_response_timeout);
        let response_timeout = self.config.stretched(response_timeout);
        let path = &req.primary;
        Conn {
            state: State::RequestReceived,
            owned: true,
            listener: Some(listener),
            local_comm_id: self.table.fresh_comm_id(&mut self.rng),
            remote_comm_id: req.local_comm_id,
            tid: envelope.tid,
            // The messages have the connection's service level and traffic class, which a datagram
            // does not tell.
            to: Av {
                sl: path.sl,
                traffic_class: path.traffic_class,
                ..*from
            },
            service_id: req.service_id,
            link: Link {
                av: Av {
                    local_gid: path.remote_gid,
                    local_index: from.local_index,
                    remote_gid: path.local_gid,
                    pkey: req.pkey,
                    sl: path.sl,
                    traffic_class: path.traffic_class,
                    flow_label: path.flow_label,
                    hop_limit: path.hop_limit,
                    local_lid: path.remote_lid,
                    remote_lid: path.local_lid,
                },
                transport: req.transport,
                mtu: req.mtu,
                local_qpn: 0,
                remote_qpn: req.local_qpn,
                sq_psn: req.starting_psn,
                rq_psn: 0,
                responder_resources: req.initiator_depth,
                initiator_depth: req.responder_resources,
                retry_count: req.retry_count,
                rnr_retry_count: req.rnr_retry_count,
                // The peer's view of the path, without the peer's delay, which it does not tell.
                ack_timeout: packet_life_time(path.local_ack_timeout) + 1,
            },
            response_timeout,
            period: response_timeout,
            max_retries: req.max_cm_retries,
            retries: req.max_cm_retries,
            pending: None,
            answer: None,
            question: None,
            untold: false,
            deadline: None,
            remote_key: Some((from.remote_gid, req.ca_guid, req.local_comm_id)),
            qp_key: Some(asking_qp(from, req)),
            sidr_key: None,
        }
    }

    /// The connection that a peer began and calls `remote`.
    pub(super) fn find_by_guid(&self, from: &Av, guid: u64, remote: u32) -> Option<CmId> {
        self.table.by_remote(&(from.remote_gid, guid, remote))
    }

    /// Answers a DREQ for what is over.
    pub(super) fn answer_late_dreq(
        &mut self,
        envelope: &Envelope<'_>,
        id: CmId,
        out: &mut dyn Sink,
    ) {
        let Some(conn) = self.table.get(id) else {
            return;
        };
        let drep = Drep {
            local_comm_id: conn.local_comm_id,
            remote_comm_id: conn.remote_comm_id,
            ..Drep::default()
        };
        let to = conn.to;
        self.send_alone(&to, &Message::Drep(drep), envelope.tid, out);
    }
}

/// The QP that a REQ is for.
fn asking_qp(from: &Av, req: &Req) -> QpKey {
    QpKey {
        gid: from.remote_gid,
        ca_guid: req.ca_guid,
        qpn: req.local_qpn,
        end: End::Active,
    }
}
