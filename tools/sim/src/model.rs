//! What must come out: every completion in order, with its status, length and data, and the data in
//! place when the completion is raised.
//!
//! The model panics at the first thing that is wrong.

use crate::host::Onlooker;
use crate::memory::Memory;
use ferroce_transport::{Completion, Sge, WcData, WcOpcode, WcStatus};

/// Data that must be in place.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    /// Where.
    pub sges: Vec<Sge>,
    /// What.
    pub data: Vec<u8>,
}

impl Placed {
    fn check(&self, memory: &Memory, what: &str) {
        let mut there = memory.gather(&self.sges);
        there.truncate(self.data.len());
        assert!(there == self.data, "{what}: the data is not in place");
    }
}

/// A send request's outcome.
#[derive(Clone, Debug)]
pub struct SendExpect {
    /// Opcode of its completion.
    pub opcode: WcOpcode,
    /// Does success raise a completion?
    pub signaled: bool,
    /// READ and ATOMIC: what it places locally.
    pub local: Option<Placed>,
    /// RDMA WRITE: address at the peer and data.
    pub remote: Option<(u64, Vec<u8>)>,
    /// Index of the receive request that it consumes at the peer.
    pub consumes: Option<usize>,
    /// Key at the peer that it invalidates.
    pub invalidates: Option<u32>,
    /// The error it was made to run into.
    pub fault: Option<WcStatus>,
}

/// A receive request's outcome.
#[derive(Clone, Debug)]
pub struct RecvExpect {
    /// Opcode of its completion.
    pub opcode: WcOpcode,
    /// Length of the message.
    pub len: u32,
    /// Immediate data or invalidated key.
    pub data: WcData,
    /// Solicited event asked for.
    pub solicited: bool,
    /// What it places.
    pub placed: Placed,
    /// Number of the XRC shared receive queue that it was posted to, 0 otherwise.
    pub srq: u32,
    /// The error it was made to run into.
    pub fault: Option<WcStatus>,
}

/// One queue's progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests whose outcome is known: those before this index.
    pub next: usize,
    /// Requests that succeeded: those before this index.
    pub good: usize,
    /// The one request that failed for a reason of its own.
    pub failed: Option<(usize, WcStatus)>,
    /// Nothing succeeds any more.
    pub broken: bool,
}

/// Expectations and progress of one queue pair.
#[derive(Debug, Default)]
pub struct Model {
    /// The send queue's requests.
    pub sends: Vec<SendExpect>,
    /// The receive queue's requests that messages will consume.
    pub recvs: Vec<RecvExpect>,
    /// The peer's QP number.
    pub peer: u32,
    /// The send queue.
    pub send: Progress,
    /// The receive queue.
    pub recv: Progress,
}

impl Progress {
    /// Books a completion of request `index`; `silent` says which requests before it may have
    /// succeeded silently.
    fn book(&mut self, index: usize, status: WcStatus, silent: impl Fn(usize) -> bool) {
        assert!(
            index >= self.next,
            "request {index} completed twice or out of order ({self:?})"
        );

        if self.broken {
            assert_eq!(index, self.next, "a flushed request is missing");
            assert_eq!(
                status,
                WcStatus::WrFlushErr,
                "request {index} after an error"
            );
        } else {
            for i in self.next..index {
                assert!(
                    silent(i),
                    "the completion of request {i} is missing (at {index})"
                );
            }

            self.good = index;
            match status {
                WcStatus::Success => self.good = index + 1,
                WcStatus::WrFlushErr => self.broken = true,
                _ => {
                    self.broken = true;
                    self.failed = Some((index, status));
                }
            }
        }

        self.next = index + 1;
    }
}

impl Onlooker for Model {
    fn send_completed(&mut self, c: &Completion, memory: &Memory) {
        let index = c.wr_id as usize;
        assert!(
            index < self.sends.len(),
            "completion of a request that was not posted: {c:?}"
        );

        let sends = &self.sends;

        // After a flush began without an error of its own, unsignaled requests before it may have
        // succeeded.
        self.send.book(index, c.status, |i| !sends[i].signaled);
        let want = &self.sends[index];
        assert_eq!(c.opcode, want.opcode, "request {index}");
        assert_eq!(c.src_qp, self.peer);
        if c.status == WcStatus::Success {
            assert!(want.signaled, "request {index} is not signaled");
            assert_eq!(want.fault, None, "request {index} cannot succeed");
            if let Some(local) = &want.local {
                local.check(memory, "READ or ATOMIC");
                assert_eq!(c.byte_len as usize, local.data.len());
            }
        } else {
            assert!(c.solicited, "errors are always solicited");
        }
    }

    fn recv_completed(&mut self, c: &Completion, memory: &Memory) {
        let index = c.wr_id as usize;
        self.recv.book(index, c.status, |_| false);
        assert_eq!(c.src_qp, self.peer);
        if let Some(want) = self.recvs.get(index) {
            assert_eq!(c.srq, want.srq, "receive {index}");
        }

        match c.status {
            WcStatus::Success => {
                assert!(
                    index < self.recvs.len(),
                    "receive {index}: nothing was sent"
                );
                let want = &self.recvs[index];
                assert_eq!(want.fault, None, "receive {index} cannot succeed");
                assert_eq!(
                    (c.opcode, c.byte_len, c.data, c.solicited),
                    (want.opcode, want.len, want.data, want.solicited),
                    "receive {index}"
                );
                want.placed.check(memory, "receive");
            }
            WcStatus::WrFlushErr => {}
            status => {
                let want = self.recvs.get(index).and_then(|w| w.fault);
                assert_eq!(want, Some(status), "receive {index}");
            }
        }
    }
}
