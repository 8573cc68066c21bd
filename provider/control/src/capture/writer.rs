//! The program's end of a ring.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use super::record::{self, HEADER, MOST, Record, SKIP};
use super::{CaptureHead, GONE, HEAD, LOST, OVER, PAGE, SNAP, TAIL, VERBS, map, room};
use crate::ControlError;

/// Puts records in. There is one for a ring.
#[derive(Debug)]
pub struct CaptureWriter {
    /// Of which all is mapped here.
    head: CaptureHead,
    room: usize,
    snap: usize,
    verbs: bool,
    tail: u64,
    lost: u64,
}

impl CaptureWriter {
    /// Takes over a ring that is empty.
    pub fn open(memory: OwnedFd) -> Result<CaptureWriter, ControlError> {
        let memory = File::from(memory);
        let room = room(&memory)?;
        let head = CaptureHead(map(memory.as_fd(), PAGE + room)?);
        let snap = head.flag(SNAP).load(Ordering::Relaxed) as usize;
        let verbs = head.is_set(VERBS);
        Ok(CaptureWriter {
            head,
            room,
            snap: snap.min(MOST),
            verbs,
            tail: 0,
            lost: 0,
        })
    }

    /// Whether nobody reads it any more.
    pub fn is_over(&self) -> bool {
        self.head.is_set(OVER)
    }

    /// Whether records of verbs are wanted.
    pub fn wants_verbs(&self) -> bool {
        self.verbs
    }

    /// Puts a record in, with as much of its data as is wanted. Without room it is counted as lost.
    pub fn put(&mut self, record: &Record, data: &[u8]) {
        let data = &data[..data.len().min(self.snap)];
        let span = record::span(data.len());
        let Some(at) = self.make_room(span) else {
            self.lost += 1;
            self.head.word(LOST).store(self.lost, Ordering::Relaxed);
            return;
        };

        let header = record::emit(record, data.len());
        // SAFETY: `make_room` found `span` bytes at `at`, inside the ring, which are not the
        // reader's before the tail says so.
        unsafe {
            let to = self.bytes().add(at);
            to.copy_from_nonoverlapping(header.as_ptr(), HEADER);
            to.add(HEADER)
                .copy_from_nonoverlapping(data.as_ptr(), data.len());
        }

        self.tail = self.tail.wrapping_add(span as u64);
        self.head.word(TAIL).store(self.tail, Ordering::Release);
    }

    /// Finds so many bytes in one piece; returns where.
    fn make_room(&mut self, span: usize) -> Option<usize> {
        let at = (self.tail % self.room as u64) as usize;
        let left = self.room - at;
        let skipped = if span > left { left } else { 0 };
        let head = self.head.word(HEAD).load(Ordering::Acquire);

        // A reader who says what cannot be gets nothing.
        let there = self.tail.wrapping_sub(head);
        let needed = there.checked_add((skipped + span) as u64)?;
        if needed > self.room as u64 {
            return None;
        }

        if skipped == 0 {
            return Some(at);
        }
        // SAFETY: positions and the ring's length are multiples of ALIGN, so a word fits there; the
        // bytes are ours.
        unsafe { self.bytes().add(at).cast::<u32>().write(SKIP) };
        self.tail = self.tail.wrapping_add(skipped as u64);
        Some(0)
    }

    /// The first of the ring's `room` bytes, page-aligned.
    fn bytes(&self) -> *mut u8 {
        self.head.0.as_mut_ptr().wrapping_add(PAGE)
    }
}

impl Drop for CaptureWriter {
    fn drop(&mut self) {
        self.head.flag(GONE).store(1, Ordering::Release);
    }
}
