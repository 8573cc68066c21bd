//! The receiving half of unreliable connections (section 9.8.2): messages that came whole and in
//! order, and nothing of the others.
//!
//! What is lost stays lost: the message that it belonged to is dropped, and the next one that
//! begins is taken. Nothing is ever answered, and nothing that the peer does takes the queue pair
//! to the error state.

use crate::responder::{Incoming, Refusal};
use crate::tuning::LATE_PSNS;
use crate::{Host, Note, Qp, WcStatus};
use ferroce_wire::{Operation, Packet, Psn};

impl Qp {
    /// Takes a packet of an unreliable connection.
    pub(crate) fn on_uc_packet<H: Host>(&mut self, packet: &Packet<'_>, host: &mut H) {
        let known = self.resp.established;
        self.establish(host);
        let psn = Psn::new(packet.bth.psn);
        let distance = psn.distance(self.resp.epsn);
        self.resp.heard |= distance == 0;
        if known && (-LATE_PSNS..0).contains(&distance) {
            return host.note(Note::Duplicate);
        }

        if distance != 0 {
            if known {
                host.note(Note::OutOfSequence);
            }
            self.drop_message(host);
        }

        self.resp.epsn = psn;
        if packet.info.begins() {
            // The peer gave the last one up in the middle.
            self.drop_message(host);
        } else if matches!(self.resp.incoming, Incoming::None) {
            self.resp.epsn = psn.next();
            return; // the rest of a message that was dropped
        }

        let outcome = match packet.info.operation {
            Operation::Send => self.on_send(packet, 1, host),
            _ => self.on_write(packet, 1, host),
        };

        self.resp.epsn = psn.next();
        self.resp.ack_pending = false;
        if let Err(refusal) = outcome {
            self.on_uc_refusal(refusal, host);
        }
    }

    /// Gives up the message being received. Its receive request stays at hand for the next one,
    /// also if it came from a shared queue: that something was lost is no error of the consumer's.
    fn drop_message<H: Host>(&mut self, host: &mut H) {
        if !matches!(self.resp.incoming, Incoming::None) {
            self.resp.incoming = Incoming::None;
            host.note(Note::UcLoss);
        }
    }

    /// The packet was not carried out: its message is dropped.
    fn on_uc_refusal<H: Host>(&mut self, refusal: Refusal, host: &mut H) {
        match refusal {
            Refusal::NotReady => host.note(Note::NoReceive),
            Refusal::Error { status, event, .. } => match status {
                WcStatus::LocLenErr => host.note(Note::TooLong),
                // The consumer's own scatter list does not hold good.
                WcStatus::LocProtErr => {
                    self.fail_receive(status, event, host);
                    return self.enter_error(host);
                }
                _ => host.note(Note::Refused),
            },
        }
        self.resp.incoming = Incoming::None;
    }
}
