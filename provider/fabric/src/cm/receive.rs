//! What arrives at QP1: dispatch, and the ways to find the connection that a message is about.

use super::counters::kind;
use super::types::{Av, CmId, Sink, State, Time};
use super::{Cm, conn::Conn};
use ferroce_wire::cm::{
    Apr, CmParseError, Drep, Dreq, Lap, Message, about, apr_status, attribute, comm_ids, reject,
};
use ferroce_wire::mad::MadHeader;

/// A message's surroundings.
pub(super) struct Envelope<'a> {
    pub(super) now: Time,
    /// Who sent it, as one would answer.
    pub(super) from: &'a Av,
    pub(super) tid: u64,
}

impl Cm {
    /// Takes a MAD that came to QP1. In `from`, `local_gid` is the address at which it arrived and
    /// `remote_gid` the sender's: it is where an answer goes. Whatever the MAD holds, no more
    /// happens than that it is counted, or that its own sender's connection changes.
    pub fn receive(&mut self, now: Time, from: &Av, mad: &[u8], out: &mut dyn Sink) {
        let (header, message) = match Message::parse(mad) {
            Ok(parsed) => parsed,
            Err(error) => return self.receive_bad(from, mad, error, out),
        };
        self.counters.received[kind(header.attribute)] += 1;
        let envelope = Envelope {
            now,
            from,
            tid: header.tid,
        };

        match message {
            Message::Req(req) => self.receive_req(&envelope, req, out),
            Message::Rep(rep) => self.receive_rep(&envelope, rep, out),
            Message::Rtu(rtu) => self.receive_rtu(&envelope, rtu, out),
            Message::Rej(rej) => self.receive_rej(&envelope, rej, out),
            Message::Mra(mra) => self.receive_mra(&envelope, mra, out),
            Message::Dreq(dreq) => self.receive_dreq(&envelope, dreq, out),
            Message::Drep(drep) => self.receive_drep(&envelope, drep, out),
            Message::SidrReq(req) => self.receive_sidr_req(&envelope, req, out),
            Message::SidrRep(rep) => self.receive_sidr_rep(&envelope, rep, out),
            Message::Lap(lap) => self.receive_lap(&envelope, lap, out),
            // We never send a LAP.
            Message::Apr(Apr { .. }) => self.counters.unexpected += 1,
        }
    }

    /// What cannot be understood is dropped, unless a requester would wait for an answer in vain.
    fn receive_bad(&mut self, from: &Av, mad: &[u8], error: CmParseError, out: &mut dyn Sink) {
        self.counters.malformed += 1;
        let reason = match error {
            CmParseError::ClassVersion(_) => reject::INVALID_CLASS_VERSION,
            CmParseError::Transport => reject::INVALID_TRANSPORT,
            _ => return,
        };
        if let Some(header) = MadHeader::parse(mad)
            && header.attribute == attribute::REQ
            && let Some((local, _)) = comm_ids(mad)
        {
            self.refuse(from, header.tid, (local, 0), about::REQ, reason, out);
        }
    }

    /// The connection that we call `local`, if this peer calls it `remote`. What is for nobody, or
    /// from somebody else, is counted.
    pub(super) fn find(&mut self, from: &Av, local: u32, remote: u32) -> Option<CmId> {
        self.find_by(from, local, |conn| conn.remote_comm_id == remote)
    }

    /// The same where the peer may not have a name yet.
    pub(super) fn find_by(
        &mut self,
        from: &Av,
        local: u32,
        agrees: impl Fn(&Conn) -> bool,
    ) -> Option<CmId> {
        let found = self.table.by_local(local).filter(|id| {
            self.table.get(*id).is_some_and(|conn| {
                conn.to.remote_gid == from.remote_gid && conn.sidr_key.is_none() && agrees(conn)
            })
        });
        match found {
            Some(_) => self.strangers.answered(from.remote_gid),
            None => self.counters.unknown += 1,
        }
        found
    }

    /// The state of a connection that was just found.
    pub(super) fn found_state(&self, id: CmId) -> State {
        self.table.get(id).map_or(State::Idle, |conn| conn.state)
    }

    /// A message of this kind had come before.
    pub(super) fn count_duplicate(&mut self, attribute: u16) {
        self.counters.duplicates[kind(attribute)] += 1;
    }

    fn receive_dreq(&mut self, envelope: &Envelope<'_>, dreq: Dreq, out: &mut dyn Sink) {
        let from = envelope.from;
        self.peer_ends_early(envelope, &dreq, out);
        let Some(id) = self.find(from, dreq.remote_comm_id, dreq.local_comm_id) else {
            // Whoever asks for the end of what is not there has it.
            let drep = Drep {
                local_comm_id: dreq.remote_comm_id,
                remote_comm_id: dreq.local_comm_id,
                ..Drep::default()
            };
            return self.send_alone(from, &Message::Drep(drep), envelope.tid, out);
        };

        if self
            .table
            .get(id)
            .is_some_and(|conn| conn.link.local_qpn != dreq.remote_qpn)
        {
            self.counters.unknown += 1;
            return;
        }

        match self.found_state(id) {
            State::Established
            | State::DisconnectSent
            | State::ReplySent
            | State::ReplyAcknowledged => self.peer_disconnects(envelope, id, dreq, out),
            State::Timewait | State::Idle => {
                self.count_duplicate(attribute::DREQ);
                self.answer_late_dreq(envelope, id, out);
            }
            State::DisconnectReceived => self.count_duplicate(attribute::DREQ),
            _ => self.counters.unexpected += 1,
        }
    }

    fn receive_drep(&mut self, envelope: &Envelope<'_>, drep: Drep, out: &mut dyn Sink) {
        let Some(id) = self.find(envelope.from, drep.remote_comm_id, drep.local_comm_id) else {
            return;
        };
        self.peer_disconnected(envelope, id, drep, out);
    }

    /// Alternate paths are not supported.
    fn receive_lap(&mut self, envelope: &Envelope<'_>, lap: Lap, out: &mut dyn Sink) {
        let from = envelope.from;
        let status = match self.find(from, lap.remote_comm_id, lap.local_comm_id) {
            Some(_) => apr_status::UNSUPPORTED,
            None => apr_status::INVALID_COMM_ID,
        };
        let apr = Apr {
            local_comm_id: lap.remote_comm_id,
            remote_comm_id: lap.local_comm_id,
            status,
            ..Apr::default()
        };
        self.send_alone(from, &Message::Apr(apr), envelope.tid, out);
    }
}
