//! The protocol of one connection as a state machine: it takes sends, receives, messages and
//! completions, and answers with actions. It never touches memory, verbs or a clock; offsets into
//! the application's buffers are all it knows.
//!
//! Small sends travel in messages (`Data`), each of which takes one of the receive slots that the
//! peer has posted and gives back as its application takes the bytes: a slow receiver holds the
//! sender back. Large ones do not: either the receiver has advertised a posted buffer and the
//! sender writes into it (`Advert`, RDMA WRITE, `Written`), or the sender names its memory and the
//! receiver reads from it once it has a buffer (`Source`, RDMA READ, `ReadDone`). `Data` and the
//! `Written` of bytes are immediate data of these bytes where the peer's hello has said that it
//! takes that: a header makes two packets of as many bytes as a packet holds, and a message of its
//! own is a short packet more, which ends the run that a socket sends.
//!
//! *When is an advert valid?* The bytes of the stream have one order, and both ends must agree on
//! which receive takes which of them. An advert carries the number of `Data` and `Source` messages
//! that its sender had seen; it is good only if that is the number sent so far, and it is void from
//! the next one on. The receiver, for its part, regards all its adverts as void when a `Data` or
//! `Source` arrives: whichever of them crossed it, the sender has dropped or will drop.
//!
//! *Credits* count two kinds of slots, so that control messages pass where data is held back. Of
//! the control slots the last is kept for `Credit`, which both ends send when half of a kind is
//! free and not yet told: so neither starves.

mod actions;
mod binding;
mod flow;
pub mod message;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use self::actions::{Action, Expose, Limits, Outcome, Violation};
use flow::Flow;
use message::{HEADER, Header, Kind};
use receiver::Receiver;
use sender::Sender;

/// The largest message that is copied through slots although its memory could be read or written
/// directly.
const EAGER_SLOTS: u64 = 2;
/// The smallest buffer worth an advert, in bytes.
const ADVERT_LEAST: u64 = 8 << 10;
/// Adverts that may be out at once.
const ADVERTS: usize = 16;
/// Large sends that are under way before another is offered as a source: enough to fill the link,
/// few enough that adverts can catch up.
const SOURCES: usize = 4;

/// Bytes that are read at once for a receive whose memory is not registered.
pub const ASIDE: u64 = 16 << 10;

/// What was posted, in order; completions come in this order too.
#[derive(Clone, Copy, Debug)]
enum Posted {
    Data(u64),
    Control,
    Write(u64),
    Read {
        op: u64,
        source: u64,
        /// Offset and length of what is put aside for it.
        aside: Option<(u64, u64)>,
    },
}

/// One end of a connection.
#[derive(Debug)]
pub struct Machine {
    limits: Limits,
    flow: Flow,
    tx: Sender,
    rx: Receiver,
    posted: VecDeque<Posted>,
    actions: VecDeque<Action>,
    /// A READ is under way whose bytes are put aside.
    aside: bool,
    /// The connection is no more.
    gone: bool,
}

impl Machine {
    /// The state after connecting.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            flow: Flow::new(&limits),
            tx: Sender::default(),
            rx: Receiver::default(),
            posted: VecDeque::new(),
            actions: VecDeque::new(),
            aside: false,
            gone: false,
        }
    }

    /// Queues a send and answers its number; they count from 0. `end`: a message ends with it.
    /// `exposable`: its memory is registered, so that it may be read or written from directly.
    pub fn send(&mut self, length: u64, end: bool, exposable: bool) -> u64 {
        let op = self.tx.push(length, end, exposable);
        self.pump();
        op
    }

    /// Queues a receive and answers its number; they count from 0. `fill`: of a stream it wants all
    /// its bytes, not just the next ones; of a message it takes a part, and what does not fit goes
    /// to the next receive.
    pub fn receive(&mut self, length: u64, fill: bool, exposable: bool) -> u64 {
        let op = self.rx.push(length, fill, exposable);
        self.pump();
        op
    }

    /// Ends the stream after what is queued.
    pub fn finish(&mut self) {
        self.tx.finish();
        self.pump();
    }

    /// Takes no more data. Receives end as canceled once the peer cannot write into them any more.
    pub fn stop(&mut self) {
        self.rx.stop(self.gone);
        self.pump();
    }

    /// Takes a message that arrived in a slot. The slot stays the machine's until a `Repost` gives
    /// it back.
    pub fn message(&mut self, slot: u32, header: &Header) -> Result<(), Violation> {
        self.take(slot, header, HEADER as u64)
    }

    /// Takes the immediate data of `length` bytes, which came by SEND in this slot (`Data`) or by
    /// RDMA WRITE, which took the slot as a message does (`Written`).
    pub fn immediate(
        &mut self,
        slot: u32,
        kind: Kind,
        immediate: u32,
        length: u64,
    ) -> Result<(), Violation> {
        let header = Header::of_immediate(kind, immediate, length)
            .ok_or(Violation("immediate data that mean nothing"))?;
        let header = self.flow.widened(header);
        self.take(slot, &header, 0)
    }

    /// `start`: where in the slot the payload begins.
    fn take(&mut self, slot: u32, header: &Header, start: u64) -> Result<(), Violation> {
        self.flow.credited(header)?;
        if header.kind == Kind::Data {
            self.flow.data_arrived()?;
            self.data(slot, header, start)?;
        } else {
            self.flow.control_arrived();
            self.actions.push_back(Action::Repost { slot });
            match header.kind {
                Kind::Source => self.source(header)?,
                Kind::Written => self.written(header)?,
                Kind::ReadDone => self.read_done()?,
                Kind::Advert => self.advert(header)?,
                Kind::Fin => self.rx.fin = true,
                Kind::Stop => self.stopped(),
                Kind::StopAck => self.rx.stop_acknowledged()?,
                Kind::Credit => self.tx.parts_done += u64::from(header.length > 0),
                Kind::Data => {}
            }
        }

        self.pump();
        Ok(())
    }

    /// The oldest post has completed.
    pub fn completed(&mut self) {
        match self.posted.pop_front() {
            Some(Posted::Data(op)) => {
                self.flow.data_posts -= 1;
                self.tx.part_done(op);
            }
            Some(Posted::Control) => self.flow.control_posts -= 1,
            Some(Posted::Write(op)) => {
                self.flow.rdma_posts -= 1;
                self.tx.write_done(op);
            }
            Some(Posted::Read { op, source, aside }) => {
                self.flow.rdma_posts -= 1;
                if let Some((offset, length)) = aside {
                    self.aside = false;
                    self.actions.push_back(Action::Fetch { op, offset, length });
                }
                self.rx.read_completed(op, source);
            }
            None => {}
        }

        self.pump();
    }

    /// The connection is no more, and nothing is posted any more: everything ends, but for bytes
    /// that are already here.
    pub fn gone(&mut self) {
        if self.gone {
            return;
        }
        self.gone = true;
        self.posted.clear();
        // An end of the peer's stream does not say that it took ours.
        self.tx.abandon(if self.tx.stopped {
            Outcome::Refused
        } else {
            Outcome::Reset
        });
        self.rx.cut(self.limits.messages);
        self.pump();
    }

    /// What to do next.
    pub fn action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether all sends are over, and the peer knows that there will be no more.
    pub fn flushed(&self) -> bool {
        self.gone || (self.tx.flushed() && self.rx.has_sent_stop() && self.posted.is_empty())
    }

    /// Whether the end of the stream was told, or cannot be any more.
    pub fn finished(&self) -> bool {
        self.gone || self.tx.flushed()
    }

    /// Whether all receives are over after [`Machine::stop`].
    pub fn drained(&self) -> bool {
        self.gone || self.rx.drained()
    }

    /// Grows whenever bytes of a send have got to the peer.
    pub fn parts_done(&self) -> u64 {
        self.tx.parts_done
    }

    /// Sends in progress.
    pub fn sending(&self) -> usize {
        self.tx.len()
    }

    /// Receives in progress.
    pub fn receiving(&self) -> usize {
        self.rx.len()
    }

    /// How many bytes can be sent right now in messages, with nothing before them whose end the
    /// peer's application decides about: sends end in their order.
    pub fn room(&self) -> u64 {
        if !self.tx.all_issued() || self.tx.is_read() || self.gone {
            return 0;
        }
        self.flow.data_room(&self.limits) * self.limits.payload
    }

    /// Whether a receive that does not want to be filled would end without more from the peer: on a
    /// stream with what there is, else with a whole message. One that is more than the connection
    /// holds has to be waited for, as the peer goes on with it once some is taken.
    pub fn readable(&self) -> bool {
        self.rx.readable(self.limits.messages) || self.flow.full() || self.gone
    }

    /// Whether the peer takes no more data.
    pub fn peer_stopped(&self) -> bool {
        self.tx.stopped
    }

    /// Does all that can be done now. Reposts come before the messages that tell of them.
    fn pump(&mut self) {
        self.bind();
        if !self.gone {
            self.push_acknowledgements();
            self.push_adverts();
            self.push_sends();
            self.push_ends();
            self.push_credit();
        }
        self.tx.retire(&mut self.actions);
        self.rx
            .retire(&mut self.actions, self.limits.messages, self.gone);
    }

    fn may_control(&self) -> bool {
        self.flow.may_control(&self.limits)
    }

    /// Posts a control message, for which the caller has seen that there is room.
    fn control(&mut self, mut header: Header, expose: Option<Expose>) {
        self.flow.control_sent(&mut header);
        self.posted.push_back(Posted::Control);
        self.actions.push_back(Action::Send {
            header,
            expose,
            payload: None,
            immediate: None,
        });
    }

    fn push_ends(&mut self) {
        if self.rx.wants_stop() && self.may_control() {
            self.rx.stop_sent();
            self.control(Header::new(Kind::Stop), None);
        }
        if self.tx.wants_fin() && self.may_control() {
            self.tx.fin_sent();
            self.control(Header::new(Kind::Fin), None);
        }
    }

    fn push_credit(&mut self) {
        let taken = self.rx.untold > 0 && self.may_control();
        if taken || self.flow.must_tell(&self.limits) {
            let header = Header {
                length: std::mem::take(&mut self.rx.untold),
                ..Header::new(Kind::Credit)
            };
            self.control(header, None);
        }
    }
}
