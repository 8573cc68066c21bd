//! One connection: the protocol's machine, its queue pair, the slots that messages travel in, and
//! the operations in progress. It is used under its socket's lock.

mod act;
mod slots;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::errno::Result;
use crate::memory::Buffer;
use crate::proto::message::{HEADER, Header, Hello, Kind};
use crate::proto::{Limits, Machine};
use crate::queue::Target;
use crate::verbs::{Address, CmId, Completion, Cq, Device, Work};
use slots::{
    CONTROL_POSTS, CONTROL_SLOTS, DATA_POSTS, DATA_SLOTS, PAYLOAD, PIECE, POSTS, RDMA_POSTS, SLOTS,
    Slots,
};

/// Completions that a connection can have outstanding.
pub(crate) const COMPLETIONS: usize = POSTS + SLOTS;

/// In a `wr_id` beside the socket's key: a receive slot.
const RECEIVE: u64 = 1 << 31;

const _: () = assert!(SLOTS < RECEIVE as usize);

/// An operation on memory.
pub(crate) struct Op {
    /// The memory.
    pub buffer: Buffer,
    /// Send: a message ends with it. Receive: it wants to be filled, as [`Machine::receive`] has
    /// it.
    pub flag: bool,
    /// The application's handle of its registration.
    pub mhandle: usize,
    /// Where its event goes.
    pub target: Target,
}

/// How far the link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// In use, or about to be.
    Up,
    /// In the error state; what is posted is coming back.
    Draining,
    /// The queue pair is no more.
    Gone,
}

/// What has taken a receive slot.
struct Arrival {
    slot: u32,
    /// Bytes of it, or of an RDMA WRITE.
    length: usize,
    /// What it says as immediate data, instead of a header.
    immediate: Option<(Kind, u32)>,
}

/// A connection.
pub(crate) struct Conn {
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
    early: Vec<Arrival>,
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
    pub(crate) fn new(key: u64, messages: bool, mut id: CmId, device: Arc<Device>) -> Result<Self> {
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
    pub(crate) fn hello(&self) -> Hello {
        Hello {
            messages: self.messages,
            data_slots: DATA_SLOTS as u16,
            control_slots: CONTROL_SLOTS as u16,
            payload: PAYLOAD as u32,
            immediates: true,
        }
    }

    /// Sends the connection request.
    pub(crate) fn connect(&mut self) -> Result<()> {
        let hello = self.hello().encode();
        self.id.connect(&hello)
    }

    /// Accepts the request, which said this.
    pub(crate) fn accept(&mut self, theirs: &Hello) -> Result<()> {
        self.establish(theirs);
        let hello = self.hello().encode();
        self.id.accept(&hello)
    }

    /// Both ends know each other: the protocol begins.
    pub(crate) fn establish(&mut self, theirs: &Hello) {
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
            immediates: theirs.immediates,
        }));

        for arrival in std::mem::take(&mut self.early) {
            self.arrived(arrival);
        }
        self.act();
    }

    /// The peer's address.
    pub(crate) fn peer(&self) -> Address {
        self.id.peer()
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The machine, once there is a connection.
    pub(crate) fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref()
    }

    /// How far the link is.
    pub(crate) fn link(&self) -> Link {
        self.link
    }

    /// Starts a send.
    pub(crate) fn send(&mut self, op: Op) {
        let (length, end, exposable) = op.to_machine();
        self.sends.push_back(op);
        self.with_machine(|machine| {
            machine.send(length, end, exposable);
        });
    }

    /// Starts a receive.
    pub(crate) fn receive(&mut self, op: Op) {
        let (length, fill, exposable) = op.to_machine();
        self.receives.push_back(op);
        self.with_machine(|machine| {
            machine.receive(length, fill, exposable);
        });
    }

    /// Ends the stream.
    pub(crate) fn finish(&mut self) {
        self.with_machine(Machine::finish);
    }

    /// Takes no more.
    pub(crate) fn stop(&mut self) {
        self.with_machine(Machine::stop);
    }

    fn with_machine(&mut self, change: impl FnOnce(&mut Machine)) {
        if let Some(machine) = &mut self.machine {
            change(machine);
        }
        self.act();
    }

    /// Takes completions, in their order. Returns whether long requests wait for what comes next,
    /// to be posted with it: [`post`](Self::post) must follow soon.
    pub(crate) fn completions<'a>(
        &mut self,
        completions: impl Iterator<Item = &'a Completion>,
    ) -> bool {
        for completion in completions {
            let low = completion.wr_id & 0xffff_ffff;
            let good = completion.status == 0;
            if low & RECEIVE != 0 {
                self.receive_posts = self.receive_posts.saturating_sub(1);
                if good {
                    self.arrived(Arrival {
                        slot: (low & !RECEIVE) as u32,
                        length: completion.length as usize,
                        immediate: completion.immediate(),
                    });
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

        self.carry_out();
        let waits = self.may_wait();
        if !waits {
            self.post();
        }
        self.look_drained();
        waits
    }

    /// Hands it to the machine, or keeps it until there is one.
    fn arrived(&mut self, arrival: Arrival) {
        let Arrival { slot, length, .. } = arrival;
        let taken = match (&mut self.machine, arrival.immediate) {
            (Some(machine), Some((kind, immediate))) => machine
                .immediate(slot, kind, immediate, length as u64)
                .is_ok(),
            (Some(machine), None) => Header::parse(self.slots.slot(slot, length))
                .is_some_and(|header| machine.message(slot, &header).is_ok()),
            (None, _) => {
                self.early.push(arrival);
                true
            }
        };
        if !taken {
            self.sever();
        }
    }

    /// Ends the link: what is posted comes back, then [`Link::Gone`].
    pub(crate) fn sever(&mut self) {
        if self.link == Link::Up {
            self.link = Link::Draining;
            self.works.clear();
            self.id.disconnect();
            self.look_drained();
        }
    }

    /// Answers the peer's end, though the link is ending already.
    pub(crate) fn answer_disconnect(&mut self) {
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
    pub(crate) fn end(&mut self) {
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
}

impl Op {
    /// What the machine is told of it: bytes, flag, and whether the peer may read or write it.
    fn to_machine(&self) -> (u64, bool, bool) {
        let exposable = self.buffer.exposable();
        (self.buffer.length as u64, self.flag, exposable)
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.end();
    }
}
