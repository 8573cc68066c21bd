//! One connection: the protocol's machine, its queue pair, the slots that messages travel in, and the operations in
//! progress. It is used under its socket's lock.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::abi::{EXS_EVT_RECV, EXS_EVT_SEND, EventDetail, EvtFlags, EvtXfer};
use crate::errno::{Errno, Result};
use crate::memory::{Buffer, Use};
use crate::proto::message::{HEADER, Header, Hello};
use crate::proto::{Action, Expose, Limits, Machine, Outcome};
use crate::queue::Target;
use crate::verbs::{Address, CmId, Completion, Cq, Device, INLINE, Mr, READ, SEND, WRITE, Work};

/// Receive slots for data messages.
const DATA_SLOTS: usize = 16;
/// Receive slots for control messages.
const CONTROL_SLOTS: usize = 32;
const SLOTS: usize = DATA_SLOTS + CONTROL_SLOTS;
/// Bytes of payload in a slot.
const PAYLOAD: usize = 4096;
const SLOT: usize = HEADER + PAYLOAD;
/// Messages that can be posted at once.
const DATA_POSTS: usize = 16;
const CONTROL_POSTS: usize = 32;
const RDMA_POSTS: usize = 16;
const HEADERS: usize = DATA_POSTS + CONTROL_POSTS;
const POSTS: usize = HEADERS + RDMA_POSTS;
/// Bytes of one RDMA READ or WRITE: well below any device's limit, large enough to fill the link.
const PIECE: u64 = 4 << 20;

/// Completions that a connection can have outstanding.
pub const COMPLETIONS: usize = POSTS + SLOTS;

/// In a `wr_id` beside the socket's key: a receive slot.
const RECEIVE: u64 = 1 << 31;

const _: () = assert!(SLOTS < RECEIVE as usize);

/// The memory that messages travel in: receive slots, then headers and payloads of what is posted. The device reads
/// and writes it, so that it is never borrowed as a whole.
struct Slots {
    base: NonNull<u8>,
    mr: Option<Mr>,
}

// SAFETY: it owns its memory.
unsafe impl Send for Slots {}

impl Slots {
    const SEND_HEADERS: usize = SLOTS * SLOT;
    const SEND_PAYLOADS: usize = Self::SEND_HEADERS + HEADERS * HEADER;
    const LENGTH: usize = Self::SEND_PAYLOADS + DATA_POSTS * PAYLOAD;
    const LAYOUT: Layout = match Layout::from_size_align(Self::LENGTH, 64) {
        Ok(layout) => layout,
        Err(_) => panic!("the layout of the slots"),
    };

    fn new(device: &Device) -> Result<Self> {
        // SAFETY: the layout is not empty.
        let base =
            NonNull::new(unsafe { alloc_zeroed(Self::LAYOUT) }).ok_or(Errno(libc::ENOMEM))?;
        let mut slots = Self { base, mr: None };
        // SAFETY: it is ours alone; slots are read once their receive has completed. No peer is told the key.
        let mr = unsafe { device.register(base.as_ptr() as usize, Self::LENGTH, true, false) }?;
        slots.mr = Some(mr);
        Ok(slots)
    }

    fn lkey(&self) -> u32 {
        self.mr.as_ref().map_or(0, |mr| mr.lkey)
    }

    fn address(&self, offset: usize) -> u64 {
        self.base.as_ptr() as u64 + offset as u64
    }

    /// A slot whose receive has completed.
    fn slot(&self, slot: u32, length: usize) -> &[u8] {
        let slot = (slot as usize).min(SLOTS - 1);
        // SAFETY: within the memory; the device is done with the slot until it is posted again.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(slot * SLOT), length.min(SLOT)) }
    }

    /// Copies into the part that is sent from.
    ///
    /// # Safety
    /// There are `length` bytes at `from`.
    unsafe fn fill(&mut self, place: usize, from: *const u8, length: usize) {
        assert!(place >= Self::SEND_HEADERS && place + length <= Self::LENGTH);
        // SAFETY: within our memory, in a place whose last post has completed; the caller answers for the source.
        unsafe { std::ptr::copy_nonoverlapping(from, self.base.as_ptr().add(place), length) };
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.mr = None;
        // SAFETY: allocated with this layout, and the device has let go of it.
        unsafe { dealloc(self.base.as_ptr(), Self::LAYOUT) };
    }
}

/// An operation in progress.
struct Op {
    buffer: Buffer,
    mhandle: usize,
    target: Target,
}

/// How far the link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// In use, or about to be.
    Up,
    /// In the error state; what is posted is coming back.
    Draining,
    /// The queue pair is no more.
    Gone,
}

/// A connection.
pub struct Conn {
    key: u64,
    /// The socket's descriptor, for events.
    pub socket: i32,
    id: CmId,
    device: Arc<Device>,
    cq: Arc<Cq>,
    inline: bool,
    slots: Slots,
    messages: bool,
    machine: Option<Machine>,
    /// Messages that arrived before the connection manager said that there is a connection.
    early: Vec<(u32, usize)>,
    sends: VecDeque<Op>,
    first_send: u64,
    receives: VecDeque<Op>,
    first_receive: u64,
    works: Vec<Work>,
    next_header: usize,
    next_payload: usize,
    send_posts: usize,
    receive_posts: usize,
    link: Link,
    /// Receives that were told to stop end as if nothing more came, rather than as canceled.
    pub quiet_stop: bool,
    /// The connection broke before the peer said that it takes no more.
    pub reset: bool,
}

impl Conn {
    /// Makes the queue pair of an identifier and posts all slots.
    pub fn new(key: u64, messages: bool, mut id: CmId, device: Arc<Device>) -> Result<Self> {
        let cq = device.cq(COMPLETIONS)?;
        let made = Slots::new(&device)
            .and_then(|slots| Ok((slots, id.create_qp(&device, &cq, POSTS, SLOTS)?)));
        let (slots, inline) = match made {
            Ok(made) => made,
            Err(error) => {
                cq.release(COMPLETIONS);
                return Err(error);
            }
        };
        let mut conn = Self {
            key,
            socket: -1,
            id,
            device,
            cq,
            inline: inline as usize >= HEADER,
            slots,
            messages,
            machine: None,
            early: Vec::new(),
            sends: VecDeque::new(),
            first_send: 0,
            receives: VecDeque::new(),
            first_receive: 0,
            works: Vec::new(),
            next_header: 0,
            next_payload: 0,
            send_posts: 0,
            receive_posts: 0,
            link: Link::Up,
            quiet_stop: false,
            reset: false,
        };
        for slot in 0..SLOTS as u32 {
            conn.repost(slot)?;
        }
        Ok(conn)
    }

    /// What to tell the peer while connecting.
    pub fn hello(&self) -> Hello {
        Hello {
            messages: self.messages,
            data_slots: DATA_SLOTS as u16,
            control_slots: CONTROL_SLOTS as u16,
            payload: PAYLOAD as u32,
        }
    }

    /// Sends the connection request.
    pub fn connect(&mut self) -> Result<()> {
        let hello = self.hello().encode();
        self.id.connect(&hello)
    }

    /// Accepts the request, which said this.
    pub fn accept(&mut self, theirs: &Hello) -> Result<()> {
        self.establish(theirs);
        let hello = self.hello().encode();
        self.id.accept(&hello)
    }

    /// Both ends know each other: the protocol begins.
    pub fn establish(&mut self, theirs: &Hello) {
        if self.machine.is_some() {
            return;
        }
        self.machine = Some(Machine::new(Limits {
            messages: self.messages,
            peer_data: theirs.data_slots,
            peer_control: theirs.control_slots,
            own_data: DATA_SLOTS as u16,
            own_control: CONTROL_SLOTS as u16,
            payload: u64::from(theirs.payload).min(PAYLOAD as u64),
            data_posts: DATA_POSTS,
            control_posts: CONTROL_POSTS,
            rdma_posts: RDMA_POSTS,
            piece: PIECE,
        }));
        for (slot, length) in std::mem::take(&mut self.early) {
            self.arrived(slot, length);
        }
        self.act();
    }

    /// The peer's address.
    pub fn peer(&self) -> Address {
        self.id.peer()
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The machine, once there is a connection.
    pub fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref()
    }

    /// How far the link is.
    pub fn link(&self) -> Link {
        self.link
    }

    /// Starts a send. `end`: a message ends with it.
    pub fn send(&mut self, buffer: Buffer, end: bool, mhandle: usize, target: Target) {
        let (length, exposable) = (buffer.length as u64, buffer.exposable());
        self.sends.push_back(Op {
            buffer,
            mhandle,
            target,
        });
        self.with_machine(|machine| {
            machine.send(length, end, exposable);
        });
    }

    /// Starts a receive. `fill` as [`Machine::receive`] has it.
    pub fn receive(&mut self, buffer: Buffer, fill: bool, mhandle: usize, target: Target) {
        let (length, exposable) = (buffer.length as u64, buffer.exposable());
        self.receives.push_back(Op {
            buffer,
            mhandle,
            target,
        });
        self.with_machine(|machine| {
            machine.receive(length, fill, exposable);
        });
    }

    /// Ends the stream.
    pub fn finish(&mut self) {
        self.with_machine(Machine::finish);
    }

    /// Takes no more.
    pub fn stop(&mut self) {
        self.with_machine(Machine::stop);
    }

    fn with_machine(&mut self, change: impl FnOnce(&mut Machine)) {
        if let Some(machine) = &mut self.machine {
            change(machine);
        }
        self.act();
    }

    /// Takes completions, in their order.
    pub fn completions<'a>(&mut self, completions: impl Iterator<Item = &'a Completion>) {
        for completion in completions {
            let low = completion.wr_id & 0xffff_ffff;
            let good = completion.status == 0;
            if low & RECEIVE != 0 {
                self.receive_posts = self.receive_posts.saturating_sub(1);
                if good {
                    self.arrived((low & !RECEIVE) as u32, completion.length as usize);
                }
            } else {
                self.send_posts = self.send_posts.saturating_sub(1);
                if let (true, Some(machine)) = (good, &mut self.machine) {
                    machine.completed();
                }
            }
            if !good {
                self.sever();
            }
        }
        self.act();
        self.look_drained();
    }

    /// A message is in a slot.
    fn arrived(&mut self, slot: u32, length: usize) {
        let Some(machine) = &mut self.machine else {
            self.early.push((slot, length));
            return;
        };
        let taken = match Header::parse(self.slots.slot(slot, length)) {
            Some(header) => machine.message(slot, &header).is_ok(),
            None => false,
        };
        if !taken {
            self.sever();
        }
    }

    /// Ends the link: what is posted comes back, then [`Link::Gone`].
    pub fn sever(&mut self) {
        if self.link == Link::Up {
            self.link = Link::Draining;
            self.works.clear();
            self.id.disconnect();
            self.look_drained();
        }
    }

    /// Answers the peer's end, though the link is ending already.
    pub fn answer_disconnect(&mut self) {
        match self.link {
            Link::Up => self.sever(),
            _ => self.id.disconnect(),
        }
    }

    fn look_drained(&mut self) {
        if self.link == Link::Draining && self.send_posts == 0 && self.receive_posts == 0 {
            self.end();
        }
    }

    /// Takes the queue pair away, whether all has come back or not, and ends all operations.
    pub fn end(&mut self) {
        if self.link == Link::Gone {
            return;
        }
        self.sever();
        if self.link == Link::Gone {
            return;
        }
        self.link = Link::Gone;
        self.id.destroy_qp();
        self.cq.release(COMPLETIONS);
        if let Some(machine) = &mut self.machine {
            self.reset = !machine.peer_stopped();
            machine.gone();
        }
        self.act();
    }

    /// Does what the machine wants done.
    fn act(&mut self) {
        while let Some(action) = self.machine.as_mut().and_then(Machine::action) {
            self.take(action);
        }
        self.post();
    }

    fn take(&mut self, action: Action) {
        match action {
            Action::Send {
                header,
                expose,
                payload,
            } => self.message(header, expose, payload),
            Action::Write {
                op,
                offset,
                length,
                address,
                key,
            } => {
                if let Some(op) = at(&self.sends, self.first_send, op) {
                    let work = rdma(WRITE, &op.buffer, offset, length, address, key);
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
            Action::Copy {
                op,
                offset,
                slot,
                start,
                length,
            } => {
                let bytes =
                    &self.slots.slot(slot, SLOT)[HEADER..][start as usize..][..length as usize];
                if let Some(op) = at(&self.receives, self.first_receive, op) {
                    debug_assert!(offset + length <= op.buffer.length as u64);
                    // SAFETY: the application has given this memory to the receive; the machine stays within it.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            bytes.as_ptr(),
                            (op.buffer.address + offset as usize) as *mut u8,
                            bytes.len(),
                        );
                    }
                }
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
                    let flags = EvtFlags {
                        truncated,
                        end: end && self.messages,
                        eof: eof || quiet,
                    };
                    over(op, EXS_EVT_RECV, self.socket, result, length, flags.bits());
                }
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
                let place = Slots::SEND_PAYLOADS + self.next_payload * PAYLOAD;
                self.next_payload = (self.next_payload + 1) % DATA_POSTS;
                let length = header.length as usize;
                if let Some(op) = at(&self.sends, self.first_send, op) {
                    let from = (op.buffer.address + offset as usize) as *const u8;
                    // SAFETY: the application has given this memory to the send; the machine stays within it.
                    unsafe { self.slots.fill(place, from, length) };
                }
                work.address[1] = self.slots.address(place);
                work.length[1] = length as u32;
                work.pieces = 2;
            }
            _ if self.inline => work.flags = INLINE,
            _ => {}
        }
        self.queue(work);
    }

    fn read(&mut self, op: u64, offset: u64, length: u64, address: u64, key: u32) {
        let index = (op - self.first_receive) as usize;
        let Some(op) = self.receives.get_mut(index) else {
            return;
        };
        // A small buffer that nobody registered, for a large send.
        if !op.buffer.exposable() && op.buffer.register(&self.device, Use::Receive).is_err() {
            self.sever();
            return;
        }
        let work = rdma(READ, &op.buffer, offset, length, address, key);
        self.queue(work);
    }

    fn queue(&mut self, mut work: Work) {
        work.wr_id = self.key << 32;
        self.works.push(work);
    }

    fn post(&mut self) {
        if self.link != Link::Up {
            self.works.clear();
        }
        if self.works.is_empty() {
            return;
        }
        self.send_posts += self.works.len();
        // SAFETY: slots live as long as this; the memory of operations stays until the machine says that they are over,
        // which is after their posts have completed or the queue pair is destroyed.
        let posted = unsafe { self.id.post(&self.works) };
        let count = self.works.len();
        self.works.clear();
        if posted.is_err() {
            // Which of them were posted is not known; `end` does not wait for the rest for ever.
            self.send_posts -= count;
            self.sever();
        }
    }

    fn repost(&mut self, slot: u32) -> Result<()> {
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

impl Drop for Conn {
    fn drop(&mut self) {
        self.end();
    }
}

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
