//! Sending: what goes out is counted, and what waits for an answer is kept.

use super::Cm;
use super::conn::Conn;
use super::counters::{Counters, kind};
use super::types::{Av, CmEvent, CmId, Sink, State, Time};
use ferroce_wire::cm::Message;
use ferroce_wire::mad::{Mad, MadHeader};

/// Sends a MAD and counts it.
pub(super) fn send(counters: &mut Counters, to: &Av, mad: &Mad, out: &mut dyn Sink) {
    let attribute = MadHeader::parse(mad).map_or(0, |header| header.attribute);
    counters.sent[kind(attribute)] += 1;
    out.send(to, mad);
}

/// Sends a pending MAD again.
pub(super) fn resend(counters: &mut Counters, to: &Av, mad: &Mad, out: &mut dyn Sink) {
    let attribute = MadHeader::parse(mad).map_or(0, |header| header.attribute);
    counters.retried[kind(attribute)] += 1;
    send(counters, to, mad, out);
}

impl Conn {
    /// Sends a message that wants an answer, and will repeat it.
    pub(super) fn ask(
        &mut self,
        now: Time,
        message: &Message,
        tid: u64,
        counters: &mut Counters,
        out: &mut dyn Sink,
    ) {
        let mad = Box::new(message.emit(tid));
        send(counters, &self.to, &mad, out);
        self.pending = Some(mad);
        self.period = self.response_timeout;
        self.retries = self.max_retries;
        self.deadline = Some(now + self.period);
    }

    /// Sends a message that is final on our side, and will send it again when the peer repeats
    /// itself.
    pub(super) fn tell(
        &mut self,
        message: &Message,
        tid: u64,
        counters: &mut Counters,
        out: &mut dyn Sink,
    ) {
        let mad = Box::new(message.emit(tid));
        send(counters, &self.to, &mad, out);
        self.pending = None;
        self.deadline = None;
        self.answer = Some(mad);
    }

    /// It is over, and packets may be under way.
    pub(super) fn enter_timewait(&mut self, now: Time) {
        self.state = State::Timewait;
        self.pending = None;
        self.qp_key = None;
        self.deadline = Some(now + self.timewait());
    }

    /// It is over, and the last answer is kept for a while.
    pub(super) fn enter_idle(&mut self, now: Time) {
        self.state = State::Idle;
        self.pending = None;
        self.qp_key = None;
        self.deadline = self.answer.is_some().then(|| now + self.linger());
        if self.answer.is_none() {
            self.remote_key = None;
            self.sidr_key = None;
        }
    }
}

impl Cm {
    /// Sends a message outside of any connection.
    pub(super) fn send_alone(&mut self, to: &Av, message: &Message, tid: u64, out: &mut dyn Sink) {
        send(&mut self.counters, to, &message.emit(tid), out);
    }

    /// Changes a connection, which may send.
    pub(super) fn change<R>(
        &mut self,
        id: CmId,
        f: impl FnOnce(&mut Conn, &mut Counters) -> R,
    ) -> Option<R> {
        let counters = &mut self.counters;
        self.table.change(id, |conn| f(conn, counters))
    }

    /// Tells the host, if it still has the ID.
    pub(super) fn raise(&self, id: CmId, event: CmEvent, out: &mut dyn Sink) {
        if self.table.get(id).is_some_and(|conn| conn.owned) {
            out.event(id, event);
        }
    }

    /// Forgets a connection that has nothing left to do and no owner.
    pub(super) fn forget_if_done(&mut self, id: CmId) {
        if let Some(conn) = self.table.get(id)
            && !conn.owned
            && conn.deadline.is_none()
        {
            self.table.remove(id);
        }
    }

    /// Sends what a repeated message was answered with before; `false` if there is nothing.
    pub(super) fn repeat_answer(&mut self, id: CmId, out: &mut dyn Sink) -> bool {
        let Some(conn) = self.table.get(id) else {
            return false;
        };
        let Some(answer) = &conn.answer else {
            return false;
        };
        send(&mut self.counters, &conn.to, answer, out);
        true
    }
}
