//! Letting go of an ID, in any state.

use super::Cm;
use super::types::{CmError, CmId, Sink, State, Time};
use ferroce_wire::cm::{Message, PrivateData, Rej, SidrRep, reject, sidr_status};

impl Cm {
    /// Drops a request or a question that nobody has answered, without a word: should the peer
    /// repeat it, it is new. For a listener whose backlog is full.
    ///
    /// # Errors
    /// [`CmError::NoSuchId`], [`CmError::WrongState`].
    pub fn forget(&mut self, id: CmId) -> Result<(), CmError> {
        self.owned_in(id, &[State::RequestReceived, State::ResolveReceived])?;
        self.table.remove(id);
        Ok(())
    }

    /// Ends whatever an ID stands for. The ID is gone on return, and no event comes for it any
    /// more; what a peer must be told is told, with repetitions, without the host.
    ///
    /// # Errors
    /// [`CmError::NoSuchId`].
    pub fn destroy(&mut self, now: Time, id: CmId, out: &mut dyn Sink) -> Result<(), CmError> {
        if self.listeners.remove(id) {
            return Ok(());
        }

        let state = self.owned(id)?.state;
        self.change(id, |conn, _| conn.owned = false);
        match state {
            State::RequestSent | State::RequestAcknowledged => {
                let rej = self.timeout_rej();
                self.give_up(now, id, rej, out);
            }
            State::RequestReceived
            | State::RequestDeferred
            | State::ReplySent
            | State::ReplyAcknowledged
            | State::ReplyReceived
            | State::ReplyDeferred => {
                let rej = Rej {
                    reason: reject::CONSUMER_DEFINED,
                    ..Rej::default()
                };
                self.give_up(now, id, rej, out);
            }
            State::Established => self.start_disconnect(now, id, PrivateData::default(), out),
            State::DisconnectReceived => {
                self.change(id, |conn, counters| {
                    conn.agree_to_end(now, PrivateData::default(), counters, out)
                });
            }
            State::ResolveSent => {
                self.change(id, |conn, _| conn.enter_idle(now));
            }
            State::ResolveReceived => {
                let status = sidr_status::REJECTED;
                self.change(id, |conn, counters| {
                    let rep = SidrRep {
                        request_id: conn.remote_comm_id,
                        status,
                        service_id: conn.service_id,
                        ..SidrRep::default()
                    };
                    conn.tell(&Message::SidrRep(rep), conn.tid, counters, out);
                    conn.enter_idle(now);
                });
            }
            // These end by themselves.
            State::DisconnectSent | State::Timewait | State::Idle | State::Listening => {}
        }

        self.forget_if_done(id);
        Ok(())
    }
}
