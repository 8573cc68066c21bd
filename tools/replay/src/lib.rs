//! A capture fed to the transport: the queue pairs that it shows are made anew, without sockets and
//! in the capture's time, are given what they were given, and are watched.
//!
//! What a queue pair may send next is its own matter, and compared with what the capture shows.
//! When it sends, and how much at once, was its host's, and is taken from the capture: each packet
//! that the capture shows is asked for at its place (`guide`). What a capture does not have is made
//! up from what it has, or given (`plan`).
//!
//! Nothing here does I/O or reads a clock, and nothing that a file has in it may panic.
#![forbid(unsafe_code)]

mod compare;
mod error;
mod file;
mod frame;
mod given;
mod guide;
mod host;
pub mod journal;
mod machine;
mod made_up;
mod names;
mod order;
mod plan;
mod runs;
mod step;
mod subject;
mod words;

use std::ops::ControlFlow;

use guide::Guide;
use subject::Subject;

pub use error::Error;
pub use file::{Capture, Entry, Packet, Seen, What};
pub use step::{Change, Kind, Step, Summary, Verdict};

/// Which queue pairs, and what the capture may not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// This one alone.
    pub qp: Option<u32>,
    /// Its peer, where packets alone do not tell.
    pub peer: Option<u32>,
    /// Bytes; `None`: as packets show.
    pub path_mtu: Option<u32>,
    /// The Local ACK Timeout's exponent.
    pub timeout: Option<u8>,
    /// Retries.
    pub retry_cnt: Option<u8>,
    /// Retries after RNR NAKs.
    pub rnr_retry: Option<u8>,
}

/// Replays the queue pairs of a capture one after the other, and hands each step to `show`, which
/// may end it.
///
/// # Errors
/// There is nothing to replay.
pub fn replay(
    capture: &Capture<'_>,
    options: &Options,
    show: &mut dyn FnMut(&Step) -> ControlFlow<()>,
) -> Result<Vec<Summary>, Error> {
    let there = subject::numbers(capture)?;
    let chosen = match options.qp {
        Some(qpn) if !there.contains(&qpn) => return Err(Error::NoQueuePair { qpn, there }),
        Some(qpn) => vec![qpn],
        None => there,
    };

    let mut summaries = Vec::new();
    let mut number = 0;
    let last = capture.entries.last().map(|entry| entry.time);
    for qpn in chosen {
        let subject = Subject::of(capture, qpn, options.peer);
        if !subject.has_packets() && options.qp.is_none() {
            continue;
        }
        let plan = plan::plan(subject, options);
        let mut guide = Guide::new(qpn, &plan, capture.dropped > 0, number);
        let ended = guide.run(last, show);
        number = guide.number();
        summaries.push(guide.summary());
        if ended.is_break() {
            break;
        }
    }

    match summaries.is_empty() {
        true => Err(Error::Nothing(capture.others)),
        false => Ok(summaries),
    }
}
