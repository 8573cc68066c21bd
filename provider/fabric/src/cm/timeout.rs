//! What happens when time has passed: messages are sent again, given up, forgotten.

use super::types::{CmEvent, CmId, Sink, State, Time};
use super::{Cm, outbox};
use ferroce_wire::cm::PrivateData;
use std::time::Duration;

impl Cm {
    /// Does what is due by `now`. To be called when [`next_timeout`](Cm::next_timeout) has passed.
    ///
    /// `heard` says of a QP of the host's whether a request of its peer has arrived there since it
    /// became ready to receive.
    pub fn handle_timeout(&mut self, now: Time, heard: &dyn Fn(u32) -> bool, out: &mut dyn Sink) {
        while let Some(id) = self.table.due(now) {
            self.expire(now, id, heard, out);
            self.forget_if_done(id);
        }
    }

    fn expire(&mut self, now: Time, id: CmId, heard: &dyn Fn(u32) -> bool, out: &mut dyn Sink) {
        let Some(conn) = self.table.get(id) else {
            return;
        };

        if conn.pending.is_none() {
            return match conn.state {
                State::Established => self.remind(now, id, heard, out),
                _ => self.end_of_memory(id, out),
            };
        }

        let replied = matches!(conn.state, State::ReplySent | State::ReplyAcknowledged);
        if replied && heard(conn.link.local_qpn) {
            // The RTU was lost, and the peer goes on as if it had not been.
            return self.peer_was_heard(id, out);
        }

        if conn.retries == 0 {
            return self.unanswered(now, id, out);
        }

        let may_tell = self.strangers.may_tell(conn);
        self.change(id, |conn, counters| {
            conn.retries -= 1;
            // Even a period of nothing leaves time for something else to happen.
            conn.deadline = Some(now + conn.period.max(Duration::from_nanos(1)));
            match &conn.pending {
                Some(mad) if may_tell => outbox::resend(counters, &conn.to, mad, out),
                _ => counters.withheld += 1,
            }
        });
    }

    /// Says again that a connection of ours stands, unless the peer's requests show that it knows.
    /// An RTU is not answered, and a peer that does not know this address yet will not ask for
    /// another.
    fn remind(&mut self, now: Time, id: CmId, heard: &dyn Fn(u32) -> bool, out: &mut dyn Sink) {
        self.change(id, |conn, counters| {
            let answer = conn.answer.as_ref();
            match answer.filter(|_| conn.retries > 0 && !heard(conn.link.local_qpn)) {
                Some(rtu) => {
                    outbox::resend(counters, &conn.to, rtu, out);
                    conn.retries -= 1;
                    conn.period = conn.period.saturating_mul(2);
                    let more = conn.retries > 0;
                    conn.deadline = more.then(|| now + conn.period.max(Duration::from_nanos(1)));
                }
                None => conn.deadline = None,
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
            State::Established if self.silence_says_no(id) => {
                self.start_disconnect(now, id, PrivateData::default(), out);
            }
            State::Established => self.peer_remembers(id),
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
