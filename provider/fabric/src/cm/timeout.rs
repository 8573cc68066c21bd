//! What happens when time has passed: messages are sent again, given up, forgotten.

use super::types::{CmEvent, CmId, Sink, State, Time};
use super::{Cm, outbox};
use ferroce_wire::cm::PrivateData;

impl Cm {
    /// Does what is due by `now`. To be called when [`next_timeout`](Cm::next_timeout) has passed.
    pub fn handle_timeout(&mut self, now: Time, out: &mut dyn Sink) {
        while let Some(id) = self.table.due(now) {
            self.expire(now, id, out);
            self.forget_if_done(id);
        }
    }

    fn expire(&mut self, now: Time, id: CmId, out: &mut dyn Sink) {
        let Some(conn) = self.table.get(id) else {
            return;
        };
        if conn.pending.is_none() {
            return self.end_of_memory(id, out);
        }
        if conn.retries == 0 {
            return self.unanswered(now, id, out);
        }
        let peer = conn.to.remote_gid;
        let may_tell = !conn.is_incoming() || self.strangers.may_tell(now, &peer);
        self.change(id, |conn, counters| {
            conn.retries -= 1;
            // Even a period of nothing leaves time for something else to happen.
            conn.deadline = Some(now + conn.period.max(1));
            match &conn.pending {
                Some(mad) if may_tell => outbox::resend(counters, &conn.to, mad, out),
                _ => counters.withheld += 1,
            }
        });
    }

    /// Nobody has answered, however often we asked.
    fn unanswered(&mut self, now: Time, id: CmId, out: &mut dyn Sink) {
        let rej = self.timeout_rej();
        match self.found_state(id) {
            State::RequestSent | State::RequestAcknowledged => {
                self.give_up(now, id, rej, out);
                self.raise(id, CmEvent::RequestTimedOut, out);
            }
            State::ReplySent | State::ReplyAcknowledged => {
                self.give_up(now, id, rej, out);
                self.raise(id, CmEvent::ReplyTimedOut, out);
            }
            // The peer was asked whether it has the connection still.
            State::Established => self.start_disconnect(now, id, PrivateData::default(), out),
            State::DisconnectSent => {
                self.change(id, |conn, _| conn.enter_timewait(now));
                self.raise(id, CmEvent::Disconnected(None), out);
            }
            State::ResolveSent => {
                self.change(id, |conn, _| conn.enter_idle(now));
                self.raise(id, CmEvent::ResolveTimedOut, out);
            }
            // The end of a connection that we gave up was not confirmed.
            _ => {
                self.change(id, |conn, _| conn.enter_timewait(now));
            }
        }
    }

    /// Nothing of the connection can be under way any more.
    fn end_of_memory(&mut self, id: CmId, out: &mut dyn Sink) {
        let timewait = self.found_state(id) == State::Timewait;
        self.change(id, |conn, _| {
            conn.state = State::Idle;
            conn.deadline = None;
            conn.answer = None;
            conn.remote_key = None;
            conn.qp_key = None;
            conn.sidr_key = None;
        });
        if timewait {
            self.raise(id, CmEvent::TimewaitExit, out);
        }
    }
}
