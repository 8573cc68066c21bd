//! The receive queue: receive requests from posting to completion, with their scatter lists.
//!
//! Queue pairs on a shared receive queue leave theirs empty; the shared queue itself is the
//! engine's.

use crate::Sge;
use crate::ring::{Run, RunRing};
use std::collections::VecDeque;

/// A queued receive request.
#[derive(Clone, Copy, Debug)]
struct Entry {
    wr_id: u64,
    run: Run,
}

/// The queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecvQueue {
    entries: VecDeque<Entry>,
    /// Requests that have left it.
    base: u64,
    sges: RunRing<Sge>,
}

impl RecvQueue {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Requests that have left it.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Requests that were ever queued.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    pub(crate) fn push(&mut self, wr_id: u64, list: &[Sge]) {
        let run = match self.sges.push(list) {
            Some(run) => run,
            None => {
                let mut grown = self.sges.grown(list.len());
                for entry in &mut self.entries {
                    entry.run = grown.push(self.sges.slice(entry.run)).unwrap_or_default();
                }
                self.sges = grown;
                self.sges.push(list).unwrap_or_default()
            }
        };
        self.entries.push_back(Entry { wr_id, run });
    }

    /// The scatter list of the oldest request, empty if there is none.
    pub(crate) fn front_sges(&self) -> &[Sge] {
        self.entries.front().map_or(&[], |e| self.sges.slice(e.run))
    }

    /// Removes the oldest request and returns its `wr_id`.
    pub(crate) fn pop(&mut self) -> Option<u64> {
        let entry = self.entries.pop_front()?;
        self.base += 1;
        self.sges.release(entry.run);
        Some(entry.wr_id)
    }
}

/// Bytes that a scatter list takes.
pub(crate) fn capacity(list: &[Sge]) -> u64 {
    list.iter().map(|s| u64::from(s.length)).sum()
}
