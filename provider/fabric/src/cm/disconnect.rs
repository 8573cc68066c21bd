//! Ending a connection that stands.

use super::types::{CmError, CmId, Sink, State, Time};
use super::{Cm, conn::Conn, counters::Counters};
use ferroce_wire::cm::{Drep, Message, PrivateData};

impl Cm {
    /// Ends a connection: sends a DREQ, and repeats it until there is an answer.
    ///
    /// # Errors
    /// [`CmError::NoSuchId`], [`CmError::WrongState`], [`CmError::TooLong`] (220 bytes).
    pub fn disconnect(
        &mut self,
        now: Time,
        id: CmId,
        private: &[u8],
        out: &mut dyn Sink,
    ) -> Result<(), CmError> {
        let private_data = PrivateData::new(private).ok_or(CmError::TooLong)?;
        self.owned_in(id, &[State::Established])?;
        self.start_disconnect(now, id, private_data, out);
        Ok(())
    }

    /// Agrees to the end of a connection: sends a DREP.
    ///
    /// # Errors
    /// [`CmError::NoSuchId`], [`CmError::WrongState`], [`CmError::TooLong`] (224 bytes).
    pub fn disconnect_reply(
        &mut self,
        now: Time,
        id: CmId,
        private: &[u8],
        out: &mut dyn Sink,
    ) -> Result<(), CmError> {
        let private_data = PrivateData::new(private).ok_or(CmError::TooLong)?;
        self.owned_in(id, &[State::DisconnectReceived])?;
        self.change(id, |conn, counters| {
            conn.agree_to_end(now, private_data, counters, out)
        });
        Ok(())
    }

    /// Sends a DREQ for an established connection.
    pub(super) fn start_disconnect(
        &mut self,
        now: Time,
        id: CmId,
        private_data: PrivateData<220>,
        out: &mut dyn Sink,
    ) {
        let tid = self.fresh_tid();
        self.change(id, |conn, counters| {
            let dreq = Message::Dreq(conn.dreq(private_data));
            conn.state = State::DisconnectSent;
            conn.answer = None;
            conn.ask(now, &dreq, tid, counters, out);
        });
    }
}

impl Conn {
    /// Sends a DREP.
    pub(super) fn agree_to_end(
        &mut self,
        now: Time,
        private_data: PrivateData<224>,
        counters: &mut Counters,
        out: &mut dyn Sink,
    ) {
        let drep = Drep {
            local_comm_id: self.local_comm_id,
            remote_comm_id: self.remote_comm_id,
            private_data,
        };
        self.tell(&Message::Drep(drep), self.tid, counters, out);
        self.enter_timewait(now);
    }
}
