//! One of the two ways: runs that were sent and not taken yet.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use super::faults::{Fate, Faults};

/// Bytes that a way holds; more are lost, as of any network.
pub(super) const ROOM: usize = 4 << 20;

/// What would stand in the headers before the BTH.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) from: IpAddr,
    pub(crate) port: u16,
    pub(crate) to: IpAddr,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
}

/// A run that has come.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) label: Label,
    /// Bytes of each packet but the last; 0: there is one.
    pub(crate) segment: usize,
    pub(crate) bytes: Vec<u8>,
}

pub(super) struct Queue {
    inner: Mutex<Inner>,
    /// As in there, for a look without the lock.
    bytes: AtomicUsize,
}

struct Inner {
    frames: VecDeque<Frame>,
    /// Memory of runs that were taken.
    spare: Vec<Vec<u8>>,
    /// One that the next overtakes.
    late: Option<Frame>,
    bytes: usize,
    faults: Faults,
}

impl Queue {
    pub(super) fn new(faults: Faults) -> Queue {
        Queue {
            inner: Mutex::new(Inner {
                frames: VecDeque::new(),
                spare: Vec::new(),
                late: None,
                bytes: 0,
                faults,
            }),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Bytes for which there is room.
    pub(super) fn room(&self) -> usize {
        ROOM.saturating_sub(self.bytes.load(Relaxed))
    }

    /// Memory for a run.
    pub(super) fn memory(&self) -> Vec<u8> {
        let mut memory = self.inner.lock().spare.pop().unwrap_or_default();
        memory.clear();
        memory
    }

    pub(super) fn put(&self, frame: Frame) -> io::Result<()> {
        if frame.bytes.len() > self.room() {
            self.give_back(frame);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut inner = self.inner.lock();
        match inner.faults.is_none() {
            true => inner.push(frame),
            false => inner.suffer(frame),
        }
        self.bytes.store(inner.bytes, Relaxed);
        Ok(())
    }

    pub(super) fn take(&self) -> Option<Frame> {
        if self.bytes.load(Relaxed) == 0 {
            return None;
        }
        let mut inner = self.inner.lock();
        let frame = inner.frames.pop_front()?;
        inner.bytes -= frame.bytes.len();
        self.bytes.store(inner.bytes, Relaxed);
        Some(frame)
    }

    pub(super) fn give_back(&self, frame: Frame) {
        self.inner.lock().spare.push(frame.bytes);
    }
}

impl Inner {
    fn push(&mut self, frame: Frame) {
        self.bytes += frame.bytes.len();
        self.frames.push_back(frame);
    }

    /// Takes a run apart, and does to its packets what the seed says.
    fn suffer(&mut self, run: Frame) {
        let segment = match run.segment {
            0 => run.bytes.len(),
            segment => segment,
        };

        for packet in run.bytes.chunks(segment) {
            let fate = self.faults.next_fate();
            let mut frame = Frame {
                label: run.label,
                segment: 0,
                bytes: packet.to_vec(),
            };

            match fate {
                Fate::Lost => continue,
                Fate::Late if self.late.is_none() => {
                    self.late = Some(frame);
                    continue;
                }
                Fate::Changed(which) => {
                    let bit = which as usize % (8 * packet.len());
                    frame.bytes[bit / 8] ^= 1 << (bit % 8);
                }
                Fate::Repeated => self.push(frame.clone()),
                Fate::Arrives | Fate::Late => {}
            }

            self.push(frame);
            if let Some(late) = self.late.take() {
                self.push(late);
            }
        }
    }
}
