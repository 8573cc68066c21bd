//! Service ID resolution: which QP offers a datagram service.

use super::Cm;
use super::conn::{Conn, Link};
use super::interval::duration;
use super::receive::Envelope;
use super::types::{CmError, CmEvent, CmId, Resolve, ResolveReply, Sink, State, Time};
use ferroce_wire::cm::{Message, PrivateData, SidrRep, SidrReq, Transport, attribute, sidr_status};
use std::time::Duration;

/// How long an answer is kept for a question that is repeated. The question does not say when it
/// will be; `rdma_cm` repeats it after 4.3 s.
const REMEMBER: Duration = Duration::from_millis(4_400);

impl Cm {
    /// Asks for the QP of a service: sends a SIDR_REQ, and repeats it until there is an answer.
    ///
    /// # Errors
    /// [`CmError::TooLong`], [`CmError::BadParameter`], [`CmError::Limit`].
    pub fn resolve(
        &mut self,
        now: Time,
        resolve: &Resolve<'_>,
        out: &mut dyn Sink,
    ) -> Result<CmId, CmError> {
        let private_data = PrivateData::new(resolve.private_data).ok_or(CmError::TooLong)?;
        if resolve.max_cm_retries > 15
            || resolve.response_timeout > 31
            || resolve.path.packet_life_time > 31
        {
            return Err(CmError::BadParameter);
        }

        if !self.table.make_room(self.config.limits.connections) {
            return Err(CmError::Limit);
        }

        let mut conn = self.outgoing(
            resolve.service_id,
            &resolve.path,
            duration(resolve.response_timeout),
            resolve.max_cm_retries,
        );
        conn.state = State::ResolveSent;
        let req = SidrReq {
            request_id: conn.local_comm_id,
            pkey: resolve.path.av.pkey,
            service_id: resolve.service_id,
            private_data,
        };

        let tid = conn.tid;
        conn.ask(now, &Message::SidrReq(req), tid, &mut self.counters, out);
        Ok(self.table.insert(conn))
    }

    /// Answers a question: sends a SIDR_REP.
    ///
    /// # Errors
    /// [`CmError::NoSuchId`], [`CmError::WrongState`], [`CmError::TooLong`],
    /// [`CmError::BadParameter`].
    pub fn resolve_reply(
        &mut self,
        now: Time,
        id: CmId,
        reply: &ResolveReply<'_>,
        out: &mut dyn Sink,
    ) -> Result<(), CmError> {
        if reply.qpn >> 24 != 0 {
            return Err(CmError::BadParameter);
        }

        let info = PrivateData::new(reply.info).ok_or(CmError::TooLong)?;
        let private_data = PrivateData::new(reply.private_data).ok_or(CmError::TooLong)?;
        let conn = self.owned_in(id, &[State::ResolveReceived])?;
        let rep = SidrRep {
            request_id: conn.remote_comm_id,
            status: reply.status,
            info_len: reply.info.len() as u8,
            qpn: reply.qpn,
            service_id: conn.service_id,
            qkey: reply.qkey,
            ece: reply.ece,
            info,
            private_data,
        };

        self.change(id, |conn, counters| {
            conn.tell(&Message::SidrRep(rep), conn.tid, counters, out);
            conn.enter_idle(now);
        });

        Ok(())
    }

    pub(super) fn receive_sidr_req(
        &mut self,
        envelope: &Envelope<'_>,
        req: SidrReq,
        out: &mut dyn Sink,
    ) {
        let from = envelope.from;
        let key = (from.remote_gid, req.request_id);
        if let Some(id) = self.table.by_sidr(&key) {
            self.count_duplicate(attribute::SIDR_REQ);
            self.repeat_answer(id, out);
            return;
        }

        let Some(listener) = self.listeners.find(req.service_id) else {
            let rep = SidrRep {
                request_id: req.request_id,
                status: sidr_status::UNSUPPORTED,
                service_id: req.service_id,
                ..SidrRep::default()
            };
            return self.send_alone(from, &Message::SidrRep(rep), envelope.tid, out);
        };

        if !self.admit(envelope, listener, out) {
            // It will be repeated.
            self.counters.refused += 1;
            return;
        }

        let conn = self.question(envelope, listener, &req);
        let id = self.table.insert(conn);
        let event = CmEvent::ResolveRequest {
            listener,
            from: *from,
            request: Box::new(req),
        };
        self.raise(id, event, out);
    }

    pub(super) fn receive_sidr_rep(
        &mut self,
        envelope: &Envelope<'_>,
        rep: SidrRep,
        out: &mut dyn Sink,
    ) {
        let asked = |conn: &Conn| conn.state == State::ResolveSent;
        let Some(id) = self.find_by(envelope.from, rep.request_id, asked) else {
            return;
        };
        self.change(id, |conn, _| conn.enter_idle(envelope.now));
        self.raise(id, CmEvent::ResolveReply(Box::new(rep)), out);
    }

    /// A question that a peer asked.
    fn question(&mut self, envelope: &Envelope<'_>, listener: CmId, req: &SidrReq) -> Conn {
        let from = envelope.from;
        Conn {
            state: State::ResolveReceived,
            owned: true,
            listener: Some(listener),
            local_comm_id: self.table.fresh_comm_id(&mut self.rng),
            remote_comm_id: req.request_id,
            tid: envelope.tid,
            to: *from,
            service_id: req.service_id,
            link: Link {
                av: *from,
                transport: Transport::Rc,
                mtu: 0,
                local_qpn: 0,
                remote_qpn: 0,
                sq_psn: 0,
                rq_psn: 0,
                responder_resources: 0,
                initiator_depth: 0,
                retry_count: 0,
                rnr_retry_count: 0,
                ack_timeout: 0,
            },
            response_timeout: REMEMBER / 2,
            period: Duration::ZERO,
            max_retries: 0,
            retries: 0,
            pending: None,
            answer: None,
            question: None,
            untold: false,
            deadline: None,
            remote_key: None,
            qp_key: None,
            sidr_key: Some((from.remote_gid, req.request_id)),
        }
    }
}
