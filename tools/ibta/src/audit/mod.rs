//! What holds of every completion and of every packet of a device, whatever a test is about.
//!
//! A rig around the rig of a test keeps the books: requests that the device side posts, messages
//! that the tester sends. A test need not look at each member of each completion and each field of
//! each packet; what it does not look at is looked at here. A completion is of a request that was
//! posted, in its turn, and says of it what happened (11.4.2.1). A packet is whole, has nothing in
//! its reserved bits and no marks of congestion (9.2, 9.3), and a request asks for what was posted.

mod books;
mod completions;
pub(crate) mod management;
mod memory;
mod packets;
mod port_info;
mod requests;
mod responses;

use crate::packet::{RxPacket, TxPacket};
use crate::protocol::{AddressVector, Command, QpAttributes, Reply, Side, qp_state};
use crate::rig::TransportRig;
use crate::run::{Outcome, Progress, Run};
use crate::trace::Trace;
use anyhow::Result;
use books::Books;
use memory::memory_of;
use std::time::Duration;

/// The assertion that every test of the transport decides by itself, if anything completes in it.
pub const COMPLETIONS: &str = "s11.4.2.1#every-completion";
/// The one that it decides if the device sends anything.
pub const PACKETS: &str = "s9.2#every-packet";
/// The one that every test of the management agents decides by itself.
pub const MADS: &str = "s13.4#every-mad";

/// A rig that keeps books.
pub struct Audited<'r> {
    rig: Box<dyn TransportRig + 'r>,
    books: Books,
    packets: usize,
    /// The first packet that was wrong, and how.
    wrong_packet: Option<String>,
    /// MigReq of the device's first packet.
    migreq: Option<bool>,
    /// Where the run learns how far the rig has come.
    progress: Progress,
}

impl<'r> Audited<'r> {
    /// Around a rig whose device has no objects.
    pub fn new(rig: Box<dyn TransportRig + 'r>, progress: Progress) -> Audited<'r> {
        let mut books = Books::default();
        books.mtu = rig.mtu();
        Audited {
            rig,
            books,
            packets: 0,
            wrong_packet: None,
            migreq: None,
            progress,
        }
    }

    fn tell(&self) {
        let packets = self.rig.trace().frames.len();
        self.progress.set(self.rig.now(), packets);
    }

    /// Decides whether every completion and every packet was right, also those that the test has
    /// left.
    ///
    /// # Errors
    /// One was not, or the rig failed.
    pub fn conclude(&mut self, run: &mut Run) -> Outcome {
        for qp in self.books.queue_pairs() {
            self.take_completions(qp)?;
        }
        while self.receive(Duration::ZERO)?.is_some() {}
        self.books.check_blame();
        decide(run, COMPLETIONS, self.books.seen, &self.books.wrong)?;
        decide(run, PACKETS, self.packets, &self.wrong_packet)
    }

    /// Takes completions, and says whether there were any.
    fn poll(&mut self, qp: u32, queue: Side, at_most: u32, within: Duration) -> Result<bool> {
        let poll = Command::Poll {
            qp,
            queue,
            at_most,
            within,
        };
        let reply = self.rig.command(&poll)?;
        self.books.commanded(&poll, &reply);
        Ok(matches!(reply, Reply::Completions { completions } if !completions.is_empty()))
    }

    /// Waits for completions that must come, whether a test waits for them or not.
    fn await_completions(&mut self, qp: u32) -> Result<()> {
        let patience = self.rig.patience();
        while self.books.undelivered(qp) > 0 {
            if !self.poll(qp, Side::Recv, 1, patience)? {
                let missing = self.books.undelivered(qp);
                self.books.note(format!(
                    "{missing} messages to queue pair {qp:#x} were acknowledged, and no completion came"
                ));
                return Ok(());
            }
        }

        if !self.books.has_open(qp) {
            return Ok(());
        }

        let reply = self.rig.command(&Command::QueryQp { qp })?;
        let Reply::QpAttributes(QpAttributes {
            qp_state: Some(state),
            ..
        }) = reply
        else {
            return Ok(());
        };

        let open = |books: &Books| {
            books
                .open(qp, state)
                .into_iter()
                .find(|(_, open)| *open > 0)
        };

        while let Some((queue, missing)) = open(&self.books) {
            if !self.poll(qp, queue, 1, patience)? {
                self.books.note(format!(
                    "queue pair {qp:#x} is in state {state}, and {missing} requests have not completed ({queue:?})"
                ));
                break;
            }
        }

        Ok(())
    }

    /// What a test has left in the completion queues of a queue pair.
    fn take_completions(&mut self, qp: u32) -> Result<()> {
        for queue in [Side::Send, Side::Recv] {
            self.poll(qp, queue, u32::MAX, Duration::ZERO)?;
        }
        self.await_completions(qp)?;
        if self.books.failed.remove(&qp)
            && let Reply::QpAttributes(found) = self.rig.command(&Command::QueryQp { qp })?
            && found.qp_state != Some(qp_state::ERR)
        {
            let state = found.qp_state;
            self.books.note(format!(
                "a request completed in error, and queue pair {qp:#x} is in state {state:?}"
            ));
        }
        Ok(())
    }
}

pub(crate) fn decide(
    run: &mut Run,
    assertion: &str,
    seen: usize,
    wrong: &Option<String>,
) -> Outcome {
    match wrong {
        Some(wrong) => run.check(assertion, false, || wrong.clone()),
        None if seen > 0 => run.check(assertion, true, String::new),
        None => Ok(()),
    }
}

impl TransportRig for Audited<'_> {
    fn now(&self) -> Duration {
        self.rig.now()
    }

    fn path(&self) -> AddressVector {
        self.rig.path()
    }

    fn port(&self) -> u8 {
        self.rig.port()
    }

    fn mtu(&self) -> u32 {
        self.rig.mtu()
    }

    fn transmit(&mut self, packet: &TxPacket) -> Result<()> {
        let mut memory = memory_of(&mut *self.rig);
        self.books.transmitted(packet, &mut memory);
        drop(memory);
        let sent = self.rig.transmit(packet);
        self.tell();
        sent
    }

    fn receive(&mut self, within: Duration) -> Result<Option<RxPacket>> {
        let packet = self.rig.receive(within)?;
        self.tell();
        if let Some(packet) = &packet {
            self.packets += 1;
            let mut memory = memory_of(&mut *self.rig);
            let right = packets::check(packet, &mut self.books, &mut self.migreq, &mut memory);
            if let Err(why) = right {
                self.wrong_packet
                    .get_or_insert_with(|| format!("{why}: {}", packet.describe()));
            }
        }
        Ok(packet)
    }

    fn command(&mut self, command: &Command) -> Result<Reply> {
        if let Command::DestroyQp { qp } = command {
            self.take_completions(*qp)?;
        }

        let carried = match command {
            Command::PostSend { request, .. } => {
                Books::carried(request, &mut memory_of(&mut *self.rig))
            }
            _ => None,
        };

        let reply = self.rig.command(command)?;
        self.tell();
        match command {
            Command::PostSend { qp, request } if reply == Reply::Done => {
                self.books.posted(*qp, request, carried);
            }
            _ => self.books.commanded(command, &reply),
        }

        Ok(reply)
    }

    fn sleep(&mut self, time: Duration) -> Result<()> {
        self.rig.sleep(time)?;
        self.tell();
        Ok(())
    }

    fn trace(&self) -> &Trace {
        self.rig.trace()
    }

    fn stalled(&self, from: Duration, to: Duration) -> Duration {
        self.rig.stalled(from, to)
    }

    fn patience(&self) -> Duration {
        self.rig.patience()
    }

    fn silence(&self) -> Duration {
        self.rig.silence()
    }
}
