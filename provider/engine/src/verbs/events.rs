//! Event pipes: completion channels and the asynchronous event queue of a context.
//!
//! Stock libibverbs reads fixed-size records from a descriptor. Ours is a pipe whose one
//! description is open for reading and writing, so it never ends while either side lives, and so
//! that destroying an object can take its unread records back.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, iter};

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// Events an object has had delivered and the consumer has still to acknowledge before destroy may
/// return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Completion events read (or readable no more) from the channel.
    pub comp: u32,
    /// Asynchronous events.
    pub events: u32,
}

/// The engine's own, non-blocking way into a pipe that carries records of `N` bytes, and what the
/// pipe has no room for: it holds thousands of records, and there may be tens of thousands of
/// queues and queue pairs, each with an event that comes only once.
pub(crate) struct EventPipe<const N: usize> {
    end: Mutex<End<N>>,
    /// Whether records wait for room, readable without the lock.
    waits: AtomicBool,
}

struct End<const N: usize> {
    file: File,
    /// In order, behind those in the pipe.
    waiting: VecDeque<[u8; N]>,
}

impl<const N: usize> End<N> {
    /// Records are written whole, and pipes keep them in order.
    fn write(&self, record: &[u8; N]) -> bool {
        matches!(rustix::io::write(&self.file, record), Ok(n) if n == N)
    }

    fn put(&mut self, record: [u8; N]) {
        if !self.waiting.is_empty() || !self.write(&record) {
            self.waiting.push_back(record);
        }
    }

    fn refill(&mut self) {
        while let Some(record) = self.waiting.front() {
            if !self.write(record) {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// The next record, if one is unread.
    fn take(&mut self) -> Option<[u8; N]> {
        let mut record = [0; N];
        match rustix::io::read(&self.file, &mut record) {
            Ok(n) if n == N => Some(record),
            _ => self.waiting.pop_front(),
        }
    }
}

impl<const N: usize> EventPipe<N> {
    /// A second description of the pipe behind `fd` (which stays the consumer's, with the flags
    /// that it likes).
    pub(crate) fn attach(fd: RawFd) -> Result<EventPipe<N>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(format!("/proc/self/fd/{fd}"))
            .map_err(|e| Error::io("opening the event channel", e))?;
        Ok(EventPipe {
            end: Mutex::new(End {
                file,
                waiting: VecDeque::new(),
            }),
            waits: AtomicBool::new(false),
        })
    }

    /// Queues one record.
    pub(crate) fn push(&self, record: &[u8; N]) {
        self.change(|end| {
            end.refill();
            end.put(*record);
        });
    }

    /// The consumer has read: what waits for room goes into the pipe.
    pub(super) fn was_read(&self) {
        if self.waits.load(Ordering::Acquire) {
            self.change(End::refill);
        }
    }

    /// Takes back the unread records that `mine` recognises; returns how many.
    pub(super) fn take_back(&self, mine: impl Fn(&[u8; N]) -> bool) -> u32 {
        self.change(|end| {
            let all = iter::from_fn(|| end.take());
            let (taken, others): (Vec<_>, Vec<_>) = all.partition(&mine);
            others.into_iter().for_each(|record| end.put(record));
            taken.len() as u32
        })
    }

    fn change<R>(&self, change: impl FnOnce(&mut End<N>) -> R) -> R {
        let mut end = self.end.lock();
        let done = change(&mut end);
        (self.waits).store(!end.waiting.is_empty(), Ordering::Release);
        done
    }
}

/// A pipe with a single descriptor open for both directions.
pub(super) fn pipe_rdwr() -> Result<OwnedFd> {
    let mut fds = [0; 2];

    // SAFETY: `fds` has room for the two descriptors that the call writes.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(Error::io(
            "creating an event pipe",
            io::Error::last_os_error(),
        ));
    }

    // SAFETY: both descriptors were just created and are owned by nobody else.
    let (r, _w) = unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) };
    let both = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_CLOEXEC)
        .open(format!("/proc/self/fd/{}", r.as_raw_fd()))
        .map_err(|e| Error::io("reopening an event pipe", e))?;
    Ok(both.into())
}

/// `struct ib_uverbs_async_event_desc`.
pub(super) fn async_record(element: u64, event: u32) -> [u8; 16] {
    let mut r = [0; 16];
    r[..8].copy_from_slice(&element.to_ne_bytes());
    r[8..12].copy_from_slice(&event.to_ne_bytes());
    r
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn records_can_be_taken_back_in_order() {
        let fd = pipe_rdwr().unwrap();
        let pipe = EventPipe::<8>::attach(fd.as_raw_fd()).unwrap();
        for v in [1u64, 2, 1, 3] {
            pipe.push(&v.to_ne_bytes());
        }
        assert_eq!(pipe.take_back(|r| *r == 1u64.to_ne_bytes()), 2);
        let mut reader = File::from(fd);
        for want in [2u64, 3] {
            let mut r = [0; 8];
            reader.read_exact(&mut r).unwrap();
            assert_eq!(u64::from_ne_bytes(r), want);
        }
        assert_eq!(pipe.take_back(|_| true), 0);
    }

    #[test]
    fn what_a_pipe_does_not_hold_comes_as_it_is_read() {
        const RECORDS: u64 = 20_000;
        let fd = pipe_rdwr().unwrap();
        let pipe = EventPipe::<8>::attach(fd.as_raw_fd()).unwrap();
        for v in 0..RECORDS {
            pipe.push(&v.to_ne_bytes());
        }
        assert_eq!(pipe.take_back(|r| u64::from_ne_bytes(*r) % 2 == 1), 10_000);
        let mut reader = File::from(fd);
        for want in (0..RECORDS).step_by(2) {
            let mut r = [0; 8];
            reader.read_exact(&mut r).unwrap();
            pipe.was_read();
            assert_eq!(u64::from_ne_bytes(r), want);
        }
        assert_eq!(pipe.take_back(|_| true), 0);
    }
}
