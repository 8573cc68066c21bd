//! A message that an agent has sent and that is not over: until its last segment is acknowledged or
//! its response has come.

use std::time::{Duration, Instant};

use ferroce_cabi::umad::ib_user_mad_hdr;
use ferroce_fabric::rmpp::Sender;
use ferroce_wire::mad::{self, MadHeader};
use rustix::io::Errno;

use super::exchange::{Delivery, Output};
use crate::mads::{Address, Outgoing};

/// How long a segment's answer may take if nobody says otherwise.
const SEGMENT_TIMEOUT: Duration = Duration::from_secs(2);

/// A send that is not over.
#[derive(Debug)]
pub(super) struct Send {
    pub(super) agent: u32,
    pub(super) tid: u64,
    pub(super) class: u8,
    /// It is a response itself.
    pub(super) response: bool,
    /// As the program wrote it, which gets it back with the status.
    pub(super) header: ib_user_mad_hdr,
    /// Where to; the MAD has the message's headers, and all of it if it goes in one.
    pub(super) to: Outgoing,
    /// The message goes in segments.
    pub(super) segments: Option<Sender>,
    /// A response is awaited for so long after each sending.
    pub(super) timeout: Option<Duration>,
    pub(super) retries: u32,
    pub(super) deadline: Instant,
}

impl Send {
    /// Whether a message would be taken for this one: a request by its transaction alone, responses
    /// may answer requesters that have numbered theirs alike.
    pub(super) fn is_duplicate(&self, header: &MadHeader, to: &Address) -> bool {
        (self.tid, self.class, self.response) == (header.tid, header.class, header.is_response())
            && (!self.response || self.to.to.is_same_port(to))
    }

    /// Whether an ACK, STOP or ABORT is about this one's segments. Requests have numbers of their
    /// own; of responses with the same one, each requester answers what goes to it.
    pub(super) fn is_answered_by(&self, header: &MadHeader, from: &Address) -> bool {
        self.segments.is_some()
            && (self.tid, self.class, !self.response)
                == (header.tid, header.class, header.is_response())
            && (!self.response || self.to.to.is_same_port(from))
    }

    /// Sends, and sets the time for the next look.
    pub(super) fn go(&mut self, now: Instant, out: &mut Output) {
        let wait = match &mut self.segments {
            Some(sender) => {
                while let Some(mad) = sender.next() {
                    out.mads.push(Outgoing {
                        mad,
                        ..self.to.clone()
                    });
                }
                self.timeout
                    .map_or(SEGMENT_TIMEOUT, |t| t.min(SEGMENT_TIMEOUT))
            }
            None => {
                out.mads.push(self.to.clone());
                self.timeout.unwrap_or(SEGMENT_TIMEOUT)
            }
        };

        self.deadline = now + wait;
    }

    /// What the agent is told: the headers that it wrote, and the status.
    pub(super) fn timed_out(&self, file: u64, id: u32) -> Delivery {
        let mut header = self.header;
        header.old.id = id;
        header.old.status = Errno::TIMEDOUT.raw_os_error().unsigned_abs();
        Delivery {
            file,
            header,
            bytes: self.to.mad[..mad::HEADER_LEN].to_vec(),
        }
    }
}
