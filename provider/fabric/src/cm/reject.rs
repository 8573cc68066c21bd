//! Refusing: the consumer's call, and what is refused without one.

use super::conn::{Conn, LATE};
use super::types::{Av, CmError, CmId, Sink, State, Time};
use super::{Cm, counters::Counters};
use ferroce_wire::cm::{Dreq, Message, PrivateData, Rej, about, reject};

impl Cm {
    /// Refuses a request, or a reply, or takes an own request or reply back: sends a REJ. `reason`
    /// is one of [`reject`], `ari` the additional information that goes with it.
    ///
    /// # Errors
    /// [`CmError::NoSuchId`], [`CmError::WrongState`] once a connection is established,
    /// [`CmError::TooLong`] (72 and 148 bytes).
    pub fn reject(
        &mut self,
        now: Time,
        id: CmId,
        reason: u16,
        ari: &[u8],
        private: &[u8],
        out: &mut dyn Sink,
    ) -> Result<(), CmError> {
        let rej = Rej {
            reason,
            ari_len: ari.len().min(72) as u8,
            ari: PrivateData::new(ari).ok_or(CmError::TooLong)?,
            private_data: PrivateData::new(private).ok_or(CmError::TooLong)?,
            ..Rej::default()
        };

        let states = [
            State::RequestSent,
            State::RequestAcknowledged,
            State::RequestReceived,
            State::RequestDeferred,
            State::ReplySent,
            State::ReplyAcknowledged,
            State::ReplyReceived,
            State::ReplyDeferred,
        ];

        self.owned_in(id, &states)?;
        self.give_up(now, id, rej, out);
        Ok(())
    }

    /// Sends a REJ and ends what was not established yet. A stranger that has been sent a REP,
    /// which answered its REQ, hears no more of it before it has shown itself.
    pub(super) fn give_up(&mut self, now: Time, id: CmId, rej: Rej, out: &mut dyn Sink) {
        let conn = self.table.get(id);
        let may_tell = conn.is_none_or(|conn| self.strangers.may_tell(conn));
        self.change(id, |conn, counters| match may_tell {
            true => conn.give_up(now, rej, counters, out),
            false => {
                counters.withheld += 1;
                conn.give_up_silently(now);
            }
        });
    }

    /// The REJ for what took too long, with our GUID by which a peer finds what it has begun.
    pub(super) fn timeout_rej(&self) -> Rej {
        Rej {
            reason: reject::TIMEOUT,
            ari_len: 8,
            ari: PrivateData::new(&self.config.ca_guid.to_be_bytes()).unwrap_or_default(),
            ..Rej::default()
        }
    }

    /// Refuses a message that belongs to no connection here. `local` and `remote` are the message's
    /// communication IDs.
    pub(super) fn refuse(
        &mut self,
        to: &Av,
        tid: u64,
        (local, remote): (u32, u32),
        message: u8,
        reason: u16,
        out: &mut dyn Sink,
    ) {
        let rej = Rej {
            local_comm_id: remote,
            remote_comm_id: local,
            message,
            reason,
            ..Rej::default()
        };
        self.send_alone(to, &Message::Rej(rej), tid, out);
    }
}

impl Conn {
    /// Sends a REJ, its reason and data given, and ends what was not established yet.
    ///
    /// A REJ is not answered. After a REP the peer may have sent its RTU already, so that a lost
    /// REJ would leave it connected to nobody: then a DREQ follows, which is answered in any case.
    pub(super) fn give_up(
        &mut self,
        now: Time,
        mut rej: Rej,
        counters: &mut Counters,
        out: &mut dyn Sink,
    ) {
        let was = self.state;
        rej.remote_comm_id = self.remote_comm_id;
        rej.local_comm_id = match was {
            State::RequestReceived => 0,
            _ => self.local_comm_id,
        };

        rej.message = match was {
            State::RequestReceived | State::RequestDeferred => about::REQ,
            State::ReplyReceived | State::ReplyDeferred => about::REP,
            _ => about::OTHER,
        };

        self.tell(&Message::Rej(rej), self.tid, counters, out);
        match was {
            State::ReplySent | State::ReplyAcknowledged => {
                self.enter_timewait(now);
                let dreq = self.dreq(PrivateData::default());
                self.pending = Some(Box::new(Message::Dreq(dreq).emit(self.tid)));
                self.period = self.response_timeout;
                self.retries = self.max_retries;
                self.deadline = Some(now + self.period);
            }
            State::RequestSent | State::RequestAcknowledged => {
                // The peer's REP, should there be one, is refused like any that is for nobody.
                self.answer = None;
                self.enter_idle(now);
            }
            _ => self.enter_idle(now),
        }
    }

    /// Ends what a stranger has been sent a REP for. Should its RTU come, it is told.
    fn give_up_silently(&mut self, now: Time) {
        self.answer = None;
        self.enter_timewait(now);
        self.untold = true;
        self.deadline = Some(now + LATE * self.response_timeout);
    }

    /// Sends a DREQ after what has ended, and repeats it until it is confirmed.
    pub(super) fn close(&mut self, now: Time, counters: &mut Counters, out: &mut dyn Sink) {
        let dreq = Message::Dreq(self.dreq(PrivateData::default()));
        self.untold = false;
        self.ask(now, &dreq, self.tid, counters, out);
    }

    pub(super) fn dreq(&self, private_data: PrivateData<220>) -> Dreq {
        Dreq {
            local_comm_id: self.local_comm_id,
            remote_comm_id: self.remote_comm_id,
            remote_qpn: self.link.remote_qpn,
            private_data,
        }
    }
}
