//! Event pipes: completion channels and the asynchronous event queue of a context.
//!
//! Stock libibverbs reads fixed-size records from a descriptor. The consumer's is a pipe's end for
//! reading. Ours is open for writing, so that the consumer sees the end when we close it, and can
//! be read, so that destroying an object can take its unread records back.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter};
use std::iter;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_transport::{Duration, Time};
use parking_lot::Mutex;
use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::own::Own;
use crate::progress::timers;

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
    /// None when the consumer is to see the end, or when the pipe is lost.
    into: Option<Own>,
    /// Where unread records are taken back, if not from there.
    out: Option<Out>,
    /// In order, behind those in the pipe.
    waiting: VecDeque<[u8; N]>,
    /// No more records come.
    ended: bool,
    /// The program has closed our descriptors, and with them what was in the pipe.
    lost: bool,
    /// How long it is good to know that they are ours, and since when that is known.
    trust: Duration,
    looked_at: Time,
}

enum Out {
    /// It does not block.
    Own(Own),
    /// It may, as its flags are the consumer's.
    Shared(Own),
}

impl Out {
    fn read(&self, record: &mut [u8]) -> bool {
        match self {
            Out::Own(fd) => rustix::io::read(fd, &mut *record).is_ok_and(|n| n == record.len()),
            Out::Shared(fd) => {
                let part = libc::iovec {
                    iov_base: record.as_mut_ptr().cast(),
                    iov_len: record.len(),
                };
                // Of an end for reading, this copies what is there, whether it may block or not.
                // SAFETY: the record is writable for that long.
                let n =
                    unsafe { libc::vmsplice(fd.as_raw_fd(), &part, 1, libc::SPLICE_F_NONBLOCK) };
                usize::try_from(n) == Ok(record.len())
            }
        }
    }

    fn fd(&self) -> &Own {
        match self {
            Out::Own(fd) | Out::Shared(fd) => fd,
        }
    }
}

impl<const N: usize> End<N> {
    /// Records are written whole, and pipes keep them in order.
    fn write(&self, record: &[u8; N]) -> bool {
        let into = self.into.as_ref();
        into.is_some_and(|into| matches!(rustix::io::write(into, record), Ok(n) if n == N))
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
        let is_read = match (&self.out, &self.into) {
            (Some(out), _) => out.read(&mut record),
            (None, Some(into)) => rustix::io::read(into, &mut record).is_ok_and(|n| n == N),
            (None, None) => false,
        };
        match is_read {
            true => Some(record),
            false => self.waiting.pop_front(),
        }
    }

    /// Looks whether our descriptors still are ours. A pipe that is lost is not touched again.
    fn look(&mut self) {
        let own = self.into.iter().chain(self.out.as_ref().map(Out::fd));
        if !own.into_iter().all(Own::is_ours) {
            (self.into, self.out) = (None, None);
            self.waiting.clear();
            (self.ended, self.lost) = (true, true);
        }
    }

    fn look_at_times(&mut self) {
        let now = timers::now();
        if now >= self.looked_at + self.trust {
            self.looked_at = now;
            self.look();
        }
    }

    /// Has the consumer see the end behind the last record.
    fn settle(&mut self) {
        if !self.ended || self.lost {
            return;
        }
        if let (None, Some(out), false) = (&self.into, &self.out, self.waiting.is_empty()) {
            // Others' records were taken out together with those that went back.
            self.into = reopen(out.fd(), OFlags::WRONLY).ok();
            self.refill();
        }
        if !self.waiting.is_empty() {
            return;
        }
        if let (None, Some(into)) = (&self.out, &self.into) {
            // Without a way out there is none for records that are taken back.
            self.out = reopen(into, OFlags::RDONLY).ok().map(Out::Own);
        }
        if self.out.is_some() {
            self.into = None;
        }
    }
}

impl<const N: usize> EventPipe<N> {
    /// A new pipe, with the consumer's end. It is good to know for so long that our end is ours.
    pub(crate) fn make(trust: Duration) -> Result<(OwnedFd, EventPipe<N>)> {
        let failed = |e| Error::io("creating an event pipe", e);
        let (reader, writer) = io::pipe().map_err(failed)?;
        match reopen(&reader, OFlags::RDWR) {
            Ok(both) => Ok((reader.into(), EventPipe::with(both, None, trust))),
            // There is no `/proc` here.
            Err(_) => EventPipe::of_ends(reader, writer, trust).map_err(failed),
        }
    }

    /// That of a pipe of which there are no other descriptions than these.
    fn of_ends(
        reader: PipeReader,
        writer: PipeWriter,
        trust: Duration,
    ) -> io::Result<(OwnedFd, EventPipe<N>)> {
        rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK)?;
        // The pipe has a reader as long as there is a writer: what is written without one is a
        // SIGPIPE.
        let out = Out::Shared(OwnedFd::from(reader.try_clone()?).into());
        let into = OwnedFd::from(writer).into();
        Ok((reader.into(), EventPipe::with(into, Some(out), trust)))
    }

    /// A second description of a pipe behind `fd`, which others have made. Its consumer does not
    /// see the end if that descriptor is open for writing.
    pub(crate) fn attach(fd: RawFd, trust: Duration) -> Result<EventPipe<N>> {
        let into =
            reopen(&fd, OFlags::RDWR).map_err(|e| Error::io("opening the event channel", e))?;
        Ok(EventPipe::with(into, None, trust))
    }

    fn with(into: Own, out: Option<Out>, trust: Duration) -> EventPipe<N> {
        EventPipe {
            end: Mutex::new(End {
                into: Some(into),
                out,
                waiting: VecDeque::new(),
                ended: false,
                lost: false,
                trust,
                looked_at: timers::now(),
            }),
            waits: AtomicBool::new(false),
        }
    }

    /// Queues one record. Returns whether it will come: none does after the end.
    pub(crate) fn push(&self, record: &[u8; N]) -> bool {
        self.change(|end| {
            end.look_at_times();
            if end.ended {
                return false;
            }
            end.refill();
            end.put(*record);
            true
        })
    }

    /// Nothing comes any more: who has read what is there sees the end.
    pub(crate) fn end(&self) {
        self.change(|end| {
            end.look();
            end.ended = true;
            end.refill();
        });
    }

    /// The consumer has read: what waits for room goes into the pipe.
    pub(super) fn was_read(&self) {
        if self.waits.load(Ordering::Acquire) {
            self.change(End::refill);
        }
    }

    /// Takes back the unread records that `mine` recognises; returns how many of `written`.
    pub(super) fn take_back(&self, written: u32, mine: impl Fn(&[u8; N]) -> bool) -> u32 {
        self.change(|end| {
            end.look();
            if end.lost {
                return written;
            }
            let all = iter::from_fn(|| end.take());
            let (taken, others): (Vec<_>, Vec<_>) = all.partition(&mine);
            others.into_iter().for_each(|record| end.put(record));
            taken.len() as u32
        })
    }

    fn change<R>(&self, change: impl FnOnce(&mut End<N>) -> R) -> R {
        let mut end = self.end.lock();
        let done = change(&mut end);
        end.settle();
        (self.waits).store(!end.waiting.is_empty(), Ordering::Release);
        done
    }
}

/// Another description of the same pipe, which does not block. By way of the thread, as the
/// process's own entry has no descriptors when its first thread has ended, and other ones than this
/// thread's after `unshare(CLONE_FILES)`.
fn reopen(fd: &impl AsRawFd, flags: OFlags) -> io::Result<Own> {
    let file: File = OpenOptions::new()
        .read(!flags.contains(OFlags::WRONLY))
        .write(flags.intersects(OFlags::WRONLY | OFlags::RDWR))
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(format!("/proc/thread-self/fd/{}", fd.as_raw_fd()))?;
    Ok(OwnedFd::from(file).into())
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
    use crate::own::{file_of, taken_by};

    type Pipe = EventPipe<8>;

    /// One made by way of `/proc`, and one without.
    fn pipes() -> [(File, Pipe); 2] {
        let (reader, writer) = io::pipe().unwrap();
        let ends = Pipe::of_ends(reader, writer, Duration::ZERO).unwrap();
        [Pipe::make(Duration::ZERO).unwrap(), ends].map(|(fd, pipe)| (File::from(fd), pipe))
    }

    fn push_all(pipe: &Pipe, values: impl IntoIterator<Item = u64>) {
        for v in values {
            assert!(pipe.push(&v.to_ne_bytes()));
        }
    }

    fn expect(reader: &mut File, want: u64) {
        let mut r = [0; 8];
        reader.read_exact(&mut r).unwrap();
        assert_eq!(u64::from_ne_bytes(r), want);
    }

    #[test]
    fn records_can_be_taken_back_in_order() {
        for (mut reader, pipe) in pipes() {
            push_all(&pipe, [1, 2, 1, 3]);
            assert_eq!(pipe.take_back(4, |r| *r == 1u64.to_ne_bytes()), 2);
            [2, 3].into_iter().for_each(|v| expect(&mut reader, v));
            assert_eq!(pipe.take_back(4, |_| true), 0);
        }
    }

    #[test]
    fn what_a_pipe_does_not_hold_comes_as_it_is_read() {
        const RECORDS: u64 = 20_000;
        for (mut reader, pipe) in pipes() {
            push_all(&pipe, 0..RECORDS);
            let odd = |r: &[u8; 8]| u64::from_ne_bytes(*r) % 2 == 1;
            assert_eq!(pipe.take_back(20_000, odd), 10_000);
            for want in (0..RECORDS).step_by(2) {
                expect(&mut reader, want);
                pipe.was_read();
            }
            assert_eq!(pipe.take_back(20_000, |_| true), 0);
        }
    }

    #[test]
    fn the_end_comes_behind_the_last_record() {
        const RECORDS: u64 = 20_000;
        for (mut reader, pipe) in pipes() {
            push_all(&pipe, 0..RECORDS);
            pipe.end();
            assert!(!pipe.push(&[0; 8]));
            for want in 0..RECORDS {
                expect(&mut reader, want);
                pipe.was_read();
            }
            assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0);
        }
    }

    #[test]
    fn who_waits_sees_the_end() {
        for (mut reader, pipe) in pipes() {
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| reader.read(&mut [0; 8]).unwrap());
                std::thread::yield_now();
                pipe.end();
                assert_eq!(waits.join().unwrap(), 0);
            });
        }
    }

    #[test]
    fn records_can_be_taken_back_after_the_end() {
        for (mut reader, pipe) in pipes() {
            push_all(&pipe, [1, 2, 3, 2]);
            pipe.end();
            assert_eq!(pipe.take_back(4, |r| *r == 2u64.to_ne_bytes()), 2);
            assert_eq!(pipe.take_back(4, |r| *r == 2u64.to_ne_bytes()), 0);
            [1, 3].into_iter().for_each(|v| expect(&mut reader, v));
            assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0);
        }
    }

    #[test]
    fn a_programs_file_in_our_descriptors_place_is_let_be() {
        let theirs = tempfile::NamedTempFile::new().unwrap();
        for (_reader, pipe) in pipes() {
            push_all(&pipe, [1]);
            let fd = pipe.end.lock().into.as_ref().unwrap().as_raw_fd();
            let _kept = taken_by(fd, theirs.as_file());
            assert!(!pipe.push(&[1; 8]));
            // What nobody can read was not read.
            assert_eq!(pipe.take_back(1, |_| true), 1);
            pipe.end();
            drop(pipe);
            assert_eq!(file_of(fd), file_of(theirs.as_file().as_raw_fd()));
            assert_eq!(theirs.as_file().metadata().unwrap().len(), 0);
            // SAFETY: the test's own copy.
            unsafe { libc::close(fd) };
        }
    }
}
