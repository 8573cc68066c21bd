//! The active side's calls: asking for a connection, and making it ready.

use super::Cm;
use super::conn::{Conn, Link};
use super::interval::{ack_timeout, duration};
use super::types::{CmError, CmId, Connect, Path, Sink, State, Time};
use ferroce_wire::cm::{Message, PrivateData, Req, ReqPath, Rtu, Transport};
use ferroce_wire::mtu;
use std::time::Duration;

/// LID where there is none to tell.
const PERMISSIVE_LID: u16 = 0xffff;

/// How often a peer that says nothing is told again that a connection stands: after the time of an
/// answer, and each time twice as much later.
const REMINDERS: u8 = 3;

impl Cm {
    /// Asks for a connection: sends a REQ, and repeats it until there is an answer.
    ///
    /// # Errors
    /// [`CmError::TooLong`], [`CmError::BadParameter`], [`CmError::Limit`].
    pub fn connect(
        &mut self,
        now: Time,
        connect: &Connect<'_>,
        out: &mut dyn Sink,
    ) -> Result<CmId, CmError> {
        let private_data = PrivateData::new(connect.private_data).ok_or(CmError::TooLong)?;
        if connect.transport == Transport::Rd
            || connect.qpn >> 24 != 0
            || connect.starting_psn >> 24 != 0
            || connect.retry_count > 7
            || connect.rnr_retry_count > 7
            || connect.max_cm_retries > 15
            || connect.remote_response_timeout > 31
            || connect.local_response_timeout > 31
            || connect.path.packet_life_time > 31
            || !mtu::is_valid(connect.path.mtu)
        {
            return Err(CmError::BadParameter);
        }

        if !self.table.make_room(self.config.limits.connections) {
            return Err(CmError::Limit);
        }

        let response_timeout = duration(connect.remote_response_timeout);
        let mut conn = self.outgoing(
            connect.service_id,
            &connect.path,
            response_timeout,
            connect.max_cm_retries,
        );
        conn.state = State::RequestSent;
        conn.link = Link {
            transport: connect.transport,
            local_qpn: connect.qpn,
            rq_psn: connect.starting_psn,
            responder_resources: connect.responder_resources,
            initiator_depth: connect.initiator_depth,
            retry_count: connect.retry_count,
            rnr_retry_count: connect.rnr_retry_count,
            ..conn.link
        };

        // With XRC our side only sends: what concerns a responder is not ours to say.
        let responds = connect.transport != Transport::Xrc;
        let req = Req {
            local_comm_id: conn.local_comm_id,
            service_id: connect.service_id,
            ca_guid: self.config.ca_guid,
            local_qpn: connect.qpn,
            responder_resources: if responds {
                connect.responder_resources
            } else {
                0
            },
            initiator_depth: connect.initiator_depth,
            remote_response_timeout: connect.remote_response_timeout,
            transport: connect.transport,
            flow_control: connect.flow_control,
            starting_psn: connect.starting_psn,
            local_response_timeout: connect.local_response_timeout,
            retry_count: if responds { connect.retry_count } else { 0 },
            pkey: connect.path.av.pkey,
            mtu: connect.path.mtu,
            rnr_retry_count: if responds { connect.rnr_retry_count } else { 0 },
            max_cm_retries: connect.max_cm_retries,
            srq: responds && connect.srq,
            primary: req_path(&connect.path, conn.link.ack_timeout),
            ece: connect.ece,
            private_data,
            ..Req::default()
        };

        let tid = conn.tid;
        conn.ask(now, &Message::Req(req), tid, &mut self.counters, out);
        Ok(self.table.insert(conn))
    }

    /// Makes a connection ready to use, after [`CmEvent::Reply`](super::CmEvent::Reply): sends an
    /// RTU.
    ///
    /// # Errors
    /// [`CmError::NoSuchId`], [`CmError::WrongState`], [`CmError::TooLong`] (224 bytes).
    pub fn establish(
        &mut self,
        now: Time,
        id: CmId,
        private: &[u8],
        out: &mut dyn Sink,
    ) -> Result<(), CmError> {
        let private_data = PrivateData::new(private).ok_or(CmError::TooLong)?;
        self.owned_in(id, &[State::ReplyReceived, State::ReplyDeferred])?;
        self.change(id, |conn, counters| {
            let rtu = Rtu {
                local_comm_id: conn.local_comm_id,
                remote_comm_id: conn.remote_comm_id,
                private_data,
            };
            conn.tell(&Message::Rtu(rtu), conn.tid, counters, out);
            conn.state = State::Established;
            conn.retries = REMINDERS;
            conn.period = conn.response_timeout;
            conn.deadline = Some(now + conn.period);
        });

        Ok(())
    }

    /// What all that we begin has in common. `response_timeout` is without the path.
    pub(super) fn outgoing(
        &mut self,
        service_id: u64,
        path: &Path,
        response_timeout: Duration,
        max_retries: u8,
    ) -> Conn {
        let response_timeout = response_timeout + 2 * duration(path.packet_life_time);
        let response_timeout = self.config.stretched(response_timeout);
        Conn {
            state: State::Idle,
            owned: true,
            listener: None,
            local_comm_id: self.table.fresh_comm_id(&mut self.rng),
            remote_comm_id: 0,
            tid: self.fresh_tid(),
            to: path.av,
            service_id,
            link: Link {
                av: path.av,
                transport: Transport::Rc,
                mtu: path.mtu,
                local_qpn: 0,
                remote_qpn: 0,
                sq_psn: 0,
                rq_psn: 0,
                responder_resources: 0,
                initiator_depth: 0,
                retry_count: 0,
                rnr_retry_count: 0,
                ack_timeout: ack_timeout(path.packet_life_time, self.config.ack_delay),
            },
            response_timeout,
            period: response_timeout,
            max_retries,
            retries: max_retries,
            pending: None,
            answer: None,
            question: None,
            untold: false,
            deadline: None,
            remote_key: None,
            qp_key: None,
            sidr_key: None,
        }
    }
}

/// A path as a REQ tells it.
fn req_path(path: &Path, local_ack_timeout: u8) -> ReqPath {
    let av = &path.av;
    let subnet_local = av.hop_limit <= 1;
    let lid = |lid| if subnet_local { lid } else { PERMISSIVE_LID };
    ReqPath {
        local_lid: lid(av.local_lid),
        remote_lid: lid(av.remote_lid),
        local_gid: av.local_gid,
        remote_gid: av.remote_gid,
        flow_label: av.flow_label,
        packet_rate: path.packet_rate,
        traffic_class: av.traffic_class,
        hop_limit: av.hop_limit,
        sl: av.sl,
        subnet_local,
        local_ack_timeout,
    }
}
