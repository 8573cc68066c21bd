//! Carrying out what the machine wants: posting, copying, and ending operations.

use std::collections::VecDeque;

use super::slots::{DATA_POSTS, HEADERS, PAYLOAD, SLOT, Slots};
use super::{Conn, Link, Op, RECEIVE};
use crate::abi::{EXS_EVT_RECV, EXS_EVT_SEND, EventDetail, EvtFlags, EvtXfer};
use crate::errno::{Errno, Result};
use crate::memory::Buffer;
use crate::proto::message::{HEADER, Header};
use crate::proto::{Action, Expose, Machine, Outcome};
use crate::verbs::{INLINE, READ, SEND, SEND_IMMEDIATE, WRITE, WRITE_IMMEDIATE, Work};

impl Conn {
    /// Does what the machine wants done.
    pub(super) fn act(&mut self) {
        self.carry_out();
        self.post();
    }

    /// The same, but what is to be posted is only queued.
    pub(super) fn carry_out(&mut self) {
        while let Some(action) = self.machine.as_mut().and_then(Machine::action) {
            self.take(action);
        }
    }

    fn take(&mut self, action: Action) {
        match action {
            Action::Send {
                header,
                expose,
                payload,
                immediate,
            } => match (payload, immediate) {
                (Some((op, offset)), Some(immediate)) => {
                    self.data(op, offset, header.length as usize, immediate);
                }
                _ => self.message(header, expose, payload),
            },
            Action::Write {
                op,
                offset,
                length,
                address,
                key,
                immediate,
            } => {
                if let Some(op) = at(&self.sends, self.first_send, op) {
                    let mut work = rdma(WRITE, &op.buffer, offset, length, address, key);
                    if let Some(immediate) = immediate {
                        work.opcode = WRITE_IMMEDIATE;
                        work.immediate = immediate;
                    }
                    self.queue(work);
                }
            }
            Action::Read {
                op,
                offset,
                length,
                address,
                key,
            } => self.read(op, offset, length, address, key),
            Action::Fetch { op, offset, length } => {
                let bytes = self.slots.aside(length as usize);
                self.copy(op, offset, bytes);
            }
            Action::Copy {
                op,
                offset,
                slot,
                start,
                length,
            } => {
                let bytes = &self.slots.slot(slot, SLOT)[start as usize..][..length as usize];
                self.copy(op, offset, bytes);
            }
            Action::Repost { slot } => {
                if self.link == Link::Up && self.repost(slot).is_err() {
                    self.sever();
                }
            }
            Action::Sent {
                length, outcome, ..
            } => {
                if let Some(op) = self.sends.pop_front() {
                    self.first_send += 1;
                    let result = match outcome {
                        Outcome::Done => Ok(()),
                        Outcome::Reset => Err(Errno(libc::ECONNRESET)),
                        Outcome::Refused => Err(Errno(libc::EPIPE)),
                        Outcome::Canceled => Err(Errno(libc::ECANCELED)),
                    };
                    over(op, EXS_EVT_SEND, self.socket, result, length, 0);
                }
            }
            Action::Received {
                length,
                truncated,
                end,
                eof,
                outcome,
                ..
            } => {
                if let Some(op) = self.receives.pop_front() {
                    self.first_receive += 1;
                    let quiet = outcome == Outcome::Canceled && self.quiet_stop;
                    let result = match outcome {
                        Outcome::Done => Ok(()),
                        _ if quiet => Ok(()),
                        Outcome::Reset => Err(Errno(libc::ECONNRESET)),
                        Outcome::Refused => Err(Errno(libc::EPIPE)),
                        Outcome::Canceled => Err(Errno(libc::ECANCELED)),
                    };

                    // What a shutdown ends has what had come, as at the end of a stream; of a
                    // message a part is nothing.
                    let length = if quiet && self.messages { 0 } else { length };
                    let flags = EvtFlags {
                        truncated,
                        end: end && self.messages,
                        eof: eof || (quiet && length == 0),
                    };
                    over(op, EXS_EVT_RECV, self.socket, result, length, flags.bits());
                }
            }
        }
    }

    /// Copies what has arrived into a receive's memory.
    fn copy(&self, op: u64, offset: u64, bytes: &[u8]) {
        if let Some(op) = at(&self.receives, self.first_receive, op) {
            debug_assert!(offset as usize + bytes.len() <= op.buffer.length);
            // SAFETY: the application has given this memory to the receive; the machine stays
            // within it.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    bytes.as_ptr(),
                    (op.buffer.address + offset as usize) as *mut u8,
                    bytes.len(),
                );
            }
        }
    }

    /// Writes a message and queues it.
    fn message(&mut self, mut header: Header, expose: Option<Expose>, payload: Option<(u64, u64)>) {
        let exposed = match expose {
            Some(Expose::Source(op)) => at(&self.sends, self.first_send, op),
            Some(Expose::Sink(op)) => at(&self.receives, self.first_receive, op),
            None => None,
        };

        if let Some(op) = exposed {
            header.address += op.buffer.address as u64;
            header.key = op.buffer.keys().1;
        }

        let lkey = self.slots.lkey();
        let place = Slots::SEND_HEADERS + self.next_header * HEADER;
        self.next_header = (self.next_header + 1) % HEADERS;
        let bytes = header.encode();

        // SAFETY: the header's bytes.
        unsafe { self.slots.fill(place, bytes.as_ptr(), HEADER) };
        let mut work = Work {
            opcode: SEND,
            address: [self.slots.address(place), 0],
            length: [HEADER as u32, 0],
            lkey: [lkey; 2],
            pieces: 1,
            ..Work::default()
        };

        match payload {
            Some((op, offset)) if header.length > 0 => {
                let length = header.length as usize;
                work.address[1] = self.payload(op, offset, length);
                work.length[1] = length as u32;
                work.pieces = 2;
            }
            _ if self.inline => work.flags = INLINE,
            _ => {}
        }

        self.queue(work);
    }

    /// Queues bytes of a send with what a header would say of them as immediate data.
    fn data(&mut self, op: u64, offset: u64, length: usize, immediate: u32) {
        let mut work = Work {
            opcode: SEND_IMMEDIATE,
            immediate,
            ..Work::default()
        };

        // A piece of no bytes is one of 2 GiB to some adapters.
        if length > 0 {
            work.address[0] = self.payload(op, offset, length);
            work.length[0] = length as u32;
            work.lkey[0] = self.slots.lkey();
            work.pieces = 1;
        }

        self.queue(work);
    }

    /// Copies bytes of a send to where messages are sent from, and answers the address.
    fn payload(&mut self, op: u64, offset: u64, length: usize) -> u64 {
        let place = Slots::SEND_PAYLOADS + self.next_payload * PAYLOAD;
        self.next_payload = (self.next_payload + 1) % DATA_POSTS;
        if let Some(op) = at(&self.sends, self.first_send, op) {
            let from = (op.buffer.address + offset as usize) as *const u8;
            // SAFETY: the application has given this memory to the send; the machine stays within
            // it.
            unsafe { self.slots.fill(place, from, length) };
        }
        self.slots.address(place)
    }

    fn read(&mut self, op: u64, offset: u64, length: u64, address: u64, key: u32) {
        let Some(op) = at(&self.receives, self.first_receive, op) else {
            return;
        };
        let mut work = rdma(READ, &op.buffer, offset, length, address, key);
        // A buffer that nobody registered, for a large send.
        if !op.buffer.exposable() {
            work.address[0] = self.slots.address(Slots::ASIDE);
            work.lkey[0] = self.slots.lkey();
        }
        self.queue(work);
    }

    fn queue(&mut self, mut work: Work) {
        work.wr_id = self.key << 32;
        self.works.push(work);
    }

    /// Posts what is queued.
    pub(crate) fn post(&mut self) {
        if self.link != Link::Up {
            self.works.clear();
        }
        if self.works.is_empty() {
            return;
        }

        self.send_posts += self.works.len();

        // SAFETY: slots live as long as this; the memory of operations stays until the machine says
        // that they are over, which is after their posts have completed or the queue pair is
        // destroyed.
        let posted = unsafe { self.id.post(&self.works) };
        let count = self.works.len();
        self.works.clear();
        if posted.is_err() {
            // Which of them were posted is not known; `end` does not wait for the rest for ever.
            self.send_posts -= count;
            self.sever();
        }
    }

    /// Whether what is queued is long, and a few more can be posted with it.
    pub(super) fn may_wait(&self) -> bool {
        let bytes = |work: &Work| work.length[0] as usize;
        self.link == Link::Up
            && self.works.len() < GATHER_MOST
            && self.works.iter().map(bytes).sum::<usize>() >= GATHER_LEAST
    }

    pub(super) fn repost(&mut self, slot: u32) -> Result<()> {
        let address = self.slots.address(slot as usize * SLOT);
        // SAFETY: a slot of ours, which is not looked at before its receive has completed.
        unsafe {
            self.id.post_receive(
                self.key << 32 | RECEIVE | u64::from(slot),
                address,
                SLOT,
                self.slots.lkey(),
            )
        }?;
        self.receive_posts += 1;
        Ok(())
    }
}

/// Requests of so many bytes in all are worth waiting for others.
const GATHER_LEAST: usize = 32 << 10;
/// So many are posted together.
const GATHER_MOST: usize = 8;

fn at(ops: &VecDeque<Op>, first: u64, number: u64) -> Option<&Op> {
    ops.get(usize::try_from(number.checked_sub(first)?).ok()?)
}

fn rdma(opcode: u32, buffer: &Buffer, offset: u64, length: u64, remote: u64, rkey: u32) -> Work {
    Work {
        opcode,
        address: [buffer.address as u64 + offset, 0],
        length: [length as u32, 0],
        lkey: [buffer.keys().0, 0],
        pieces: 1,
        remote,
        rkey,
        ..Work::default()
    }
}

/// Ends an operation; its own registration goes before the application hears of it.
fn over(op: Op, kind: i32, socket: i32, result: Result<()>, length: u64, flags: i32) {
    let Op {
        buffer,
        mhandle,
        target,
        ..
    } = op;
    let detail = EventDetail::Xfer(EvtXfer {
        exs_evt_buffer: buffer.address,
        exs_evt_length: length as usize,
        exs_evt_mhandle: mhandle,
        exs_evt_flags: flags,
    });
    drop(buffer);
    target.end(kind, socket, result, detail);
}
