//! A random program for two hosts: what each posts, and what must come of it.
//!
//! Every request has buffers of its own, so that the final contents of all memory are known in
//! advance.

use crate::memory::{BASE, Buffer, Memory};
use crate::model::{Placed, RecvExpect, SendExpect};
use crate::rng::Rng;
use ferroce_transport::{Access, Dest, SendFlags, SendOp, Sge};

/// A send request to post.
#[derive(Clone, Debug)]
pub struct PlannedSend {
    /// The operation.
    pub op: SendOp,
    /// Flags.
    pub flags: SendFlags,
    /// Gather or scatter list.
    pub sges: Vec<Sge>,
    /// Inline data instead of a list.
    pub inline: Option<Vec<u8>>,
    /// Where it goes.
    pub dest: Dest,
    /// What must come of it.
    pub expect: SendExpect,
}

/// An 8-byte word that atomics of one side go to, and every value that it takes.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The word.
    pub buffer: Buffer,
    /// The shared receive queue that guards it, 0 without.
    pub srq: u32,
    /// Its values: the first, then one after each ATOMIC.
    pub values: Vec<u64>,
}

/// Bounds of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Send requests of each side.
    pub sends: [usize; 2],
    /// Path MTU.
    pub mtu: u32,
    /// Longest message.
    pub longest: u32,
    /// Scatter/gather elements.
    pub max_sge: u32,
    /// Inline data.
    pub max_inline: u32,
    /// All requests are signaled.
    pub all_signaled: [bool; 2],
    /// A side and a request of it that is made to fail.
    pub fault: Option<(usize, usize)>,
    /// Side 0 initiates an extended connection, and side 1 has so many of [`SRQS`].
    pub xrc: usize,
}

/// Numbers of the shared receive queues of an XRC domain. Each has a protection domain of its own,
/// numbered alike.
pub const SRQS: [u32; 3] = [0x00_0001, 0x12_3456, 0xff_ffff];

/// One side's part.
#[derive(Clone, Debug, Default)]
pub struct SidePlan {
    /// Memory at the start.
    pub memory: Memory,
    /// Memory at the end, if everything succeeds.
    pub finally: Vec<u8>,
    /// Send requests.
    pub sends: Vec<PlannedSend>,
    /// Scatter lists of receive requests.
    pub recvs: Vec<Vec<Sge>>,
    /// Shared receive queue of the XRC domain that each of them is for, 0 without.
    pub recv_srqs: Vec<u32>,
    /// What the receive requests get.
    pub recv_expects: Vec<RecvExpect>,
    /// Words in this side's memory that the peer's atomics go to.
    pub cells: Vec<Cell>,
}

pub(crate) struct Planner<'a> {
    pub(crate) rng: &'a mut Rng,
    pub(crate) shape: Shape,
    pub(crate) sides: [SidePlan; 2],
    /// The shared receive queue that the request at hand names, 0 without.
    pub(crate) srq: u32,
    /// Effects on memory, in order of a side's requests: side, address, bytes.
    pub(crate) effects: Vec<(usize, u64, Vec<u8>)>,
}

/// Makes a plan.
pub fn plan(rng: &mut Rng, shape: Shape) -> [SidePlan; 2] {
    let mut p = Planner {
        rng,
        shape,
        sides: Default::default(),
        srq: 0,
        effects: Vec::new(),
    };
    for srq in &SRQS[..shape.xrc] {
        p.sides[1].memory.srqs.insert(*srq, *srq);
    }
    for side in [0, 0, 1, 1] {
        p.srq = p.any_srq();
        p.add_cell(side);
    }

    for side in 0..2 {
        // Write targets that a later READ of the same side may read back.
        let mut written = Vec::new();
        for index in 0..shape.sends[side] {
            p.srq = p.any_srq();
            let send = if shape.fault == Some((side, index)) {
                p.faulty(side)
            } else {
                p.send(side, &mut written)
            };
            p.sides[side].sends.push(send);
        }
    }

    for side in 0..2 {
        for _ in 0..p.rng.below(4) {
            let len = p.rng.below(100) as u32;
            p.srq = p.any_srq();
            let sges = p.buffers(side, len, Access::LOCAL_WRITE);
            p.post(side, sges);
        }
        p.sides[side].finally = p.sides[side].memory.bytes.clone();
    }

    let Planner {
        mut sides, effects, ..
    } = p;
    for (side, va, bytes) in effects {
        let start = (va - BASE) as usize;
        sides[side].finally[start..start + bytes.len()].copy_from_slice(&bytes);
    }

    sides
}

impl Planner<'_> {
    /// A shared receive queue to name.
    fn any_srq(&mut self) -> u32 {
        match self.shape.xrc {
            0 => 0,
            n => self.rng.pick(&SRQS[..n]),
        }
    }

    /// The destination of the request at hand.
    pub(crate) fn dest(&self) -> Dest {
        match self.srq {
            0 => Dest::Connected,
            srq => Dest::XrcSrq(srq),
        }
    }

    /// Plans a receive request; its index.
    pub(crate) fn post(&mut self, side: usize, sges: Vec<Sge>) -> usize {
        self.sides[side].recvs.push(sges);
        self.sides[side].recv_srqs.push(self.srq);
        self.sides[side].recvs.len() - 1
    }

    pub(crate) fn alloc(&mut self, side: usize, len: u32, access: Access) -> Buffer {
        self.sides[side].memory.pd = if side == 1 { self.srq } else { 0 };
        self.sides[side].memory.alloc(len, access, self.rng)
    }

    fn add_cell(&mut self, side: usize) {
        let access = Access::REMOTE_ATOMIC | Access::LOCAL_WRITE;
        let buffer = self.alloc(side, 8, access);
        let mut word = [0; 8];
        word.copy_from_slice(self.sides[side].memory.at(buffer.va, 8));
        let values = vec![u64::from_ne_bytes(word)];
        let srq = self.srq;
        self.sides[side].cells.push(Cell {
            buffer,
            srq,
            values,
        });
    }

    pub(crate) fn length(&mut self) -> u32 {
        let mtu = u64::from(self.shape.mtu);
        let longest = u64::from(self.shape.longest);
        let len = match self.rng.below(12) {
            0 => 0,
            1 | 2 => self.rng.range(1, 16),
            3 => mtu * self.rng.range(1, 4),
            4 => mtu * self.rng.range(1, 4) + 1,
            5 => mtu * self.rng.range(1, 4) - 1,
            6..=8 => self.rng.range(0, mtu),
            9 | 10 => self.rng.range(0, mtu * 8),
            _ => self.rng.range(0, longest),
        };
        len.min(longest) as u32
    }

    /// A list of buffers of `len` bytes in all, somehow cut.
    pub(crate) fn buffers(&mut self, side: usize, len: u32, access: Access) -> Vec<Sge> {
        let n = self.rng.range(1, u64::from(self.shape.max_sge)) as u32;
        if len == 0 && self.rng.percent(50) {
            return Vec::new();
        }

        let mut left = len;
        let mut sges = Vec::new();
        for i in 0..n {
            let part = if i + 1 == n {
                left
            } else {
                self.rng.below(u64::from(left) + 1) as u32
            };
            left -= part;
            sges.push(self.alloc(side, part, access).sge());
        }

        sges
    }

    /// Notes that `data` will be in the buffers of a list.
    pub(crate) fn fills(&mut self, side: usize, sges: &[Sge], data: &[u8]) -> Placed {
        let mut rest = data;
        for sge in sges {
            let (now, later) = rest.split_at(rest.len().min(sge.length as usize));
            self.effects.push((side, sge.addr, now.to_vec()));
            rest = later;
        }
        Placed {
            sges: sges.to_vec(),
            data: data.to_vec(),
        }
    }

    /// A payload: its list or inline bytes, and the bytes.
    pub(crate) fn payload(&mut self, side: usize) -> (Vec<Sge>, Option<Vec<u8>>, Vec<u8>) {
        if self.shape.max_inline > 0 && self.rng.percent(25) {
            let len = self.rng.below(u64::from(self.shape.max_inline) + 1) as usize;
            let data = self.rng.bytes(len);
            return (Vec::new(), Some(data.clone()), data);
        }
        let len = self.length();
        let sges = self.buffers(side, len, Access::empty());
        let data = self.sides[side].memory.gather(&sges);
        (sges, None, data)
    }

    /// A receive request at `side` for a message with `data`; its index.
    pub(crate) fn receive(
        &mut self,
        side: usize,
        expect: RecvExpect,
        placed: Option<&[u8]>,
    ) -> usize {
        let spare = if self.rng.percent(50) {
            self.rng.below(200) as u32
        } else {
            0
        };
        let len = placed.map_or(0, |d| d.len() as u32) + spare;
        let sges = self.buffers(side, len, Access::LOCAL_WRITE);
        let placed = self.fills(side, &sges, placed.unwrap_or_default());
        let srq = self.srq;
        self.sides[side].recv_expects.push(RecvExpect {
            placed,
            srq,
            ..expect
        });

        self.post(side, sges)
    }

    pub(crate) fn flags(&mut self, side: usize) -> SendFlags {
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, self.rng.percent(60));
        flags.set(SendFlags::SOLICITED, self.rng.percent(30));
        flags.set(SendFlags::FENCE, self.rng.percent(15));
        let _ = side;
        flags
    }
}
