//! The reader's end of a ring. Records are read by system calls: what another process may write to
//! meanwhile is never memory of this one.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use super::record::{self, ALIGN, MOST, Next, Record};
use super::{CaptureHead, GONE, HEAD, LOST, PAGE, TAIL, map, room};
use crate::ControlError;

/// Bytes that are read at a time; more than the longest record.
const BATCH: usize = 4 * MOST;

/// Takes records out. There is one for a ring.
#[derive(Debug)]
pub struct CaptureReader {
    head: CaptureHead,
    memory: File,
    room: u64,
    at: u64,
    buffer: Vec<u8>,
    broken: bool,
}

impl CaptureReader {
    /// Takes over a ring from which nothing was taken yet.
    pub fn open(memory: OwnedFd) -> Result<CaptureReader, ControlError> {
        let memory = File::from(memory);
        let room = room(&memory)? as u64;
        let head = CaptureHead(map(memory.as_fd(), PAGE)?);
        Ok(CaptureReader {
            head,
            memory,
            room,
            at: 0,
            buffer: Vec::new(),
            broken: false,
        })
    }

    /// Gives what is there to `each`; returns how many bytes it was. A ring that makes no sense is
    /// not read any more.
    pub fn take(&mut self, mut each: impl FnMut(&Record, &[u8])) -> Result<u64, ControlError> {
        let tail = self.head.word(TAIL).load(Ordering::Acquire);
        let there = tail.wrapping_sub(self.at);
        if there > self.room || !tail.is_multiple_of(ALIGN as u64) {
            self.broken = true;
        }

        let begin = self.at;
        while self.at != tail && !self.broken {
            let place = self.at % self.room;
            let left = (tail - self.at).min(self.room - place).min(BATCH as u64);
            self.buffer.resize(left as usize, 0);
            self.memory
                .read_exact_at(&mut self.buffer, PAGE as u64 + place)
                .map_err(|source| ControlError::Io {
                    what: "reading a ring of a capture",
                    source,
                })?;

            let mut taken = 0;
            let ended = loop {
                match record::next(&self.buffer[taken..]) {
                    Next::Record(record, data, span) => {
                        each(&record, data);
                        taken += span;
                    }
                    ended => break ended,
                }
            };

            let rest = self.room - (place + taken as u64);
            self.at += taken as u64;
            match ended {
                Next::Skip if rest <= tail - self.at && place + taken as u64 != 0 => {
                    self.at += rest;
                }
                // The rest comes with the next batch, if it is more than the batch that is short.
                Next::More if taken > 0 => {}
                _ => self.broken = true,
            }
            self.head.word(HEAD).store(self.at, Ordering::Release);
        }

        Ok(self.at.wrapping_sub(begin))
    }

    /// Records that found no room, as the program says.
    pub fn lost(&self) -> u64 {
        self.head.word(LOST).load(Ordering::Relaxed)
    }

    /// Whether something was there that no program of ours has written.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether the program has gone. What it has put in before is still there.
    pub fn is_gone(&self) -> bool {
        self.head.is_set(GONE)
    }
}
