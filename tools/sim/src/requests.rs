//! One random request that succeeds, and what must come of it.

use crate::memory::Buffer;
use crate::model::{Placed, RecvExpect, SendExpect};
use crate::plan::{PlannedSend, Planner};
use ferroce_transport::{
    Access, Flush, Placement, Selectivity, SendFlags, SendOp, Sge, WcData, WcOpcode, WindowBind,
};

/// Rights of what is written to: it may be read back and flushed.
const WRITTEN: Access = Access::REMOTE_WRITE
    .union(Access::REMOTE_READ)
    .union(Access::LOCAL_WRITE)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::FLUSH_PERSISTENT);

/// What earlier requests of a side wrote: the shared receive queue that they named, where, and the
/// bytes.
type Written = Vec<(u32, Buffer, Vec<u8>)>;

/// A request before it is known where it goes: operation, list, inline data instead of one, and
/// what must come of it.
type Asked = (SendOp, Vec<Sge>, Option<Vec<u8>>, SendExpect);

impl Planner<'_> {
    /// A request. `written` holds what earlier ones wrote, for this one to read back perhaps.
    pub(crate) fn send(&mut self, side: usize, written: &mut Written) -> PlannedSend {
        let flags = self.flags(side);
        let expect = SendExpect {
            opcode: WcOpcode::Send,
            signaled: self.shape.all_signaled[side] || flags.contains(SendFlags::SIGNALED),
            local: None,
            remote: None,
            consumes: None,
            invalidates: None,
            fault: None,
        };

        let recv = RecvExpect {
            opcode: WcOpcode::Recv,
            len: 0,
            data: WcData::None,
            solicited: flags.contains(SendFlags::SOLICITED),
            placed: Placed::default(),
            srq: 0,
            fault: None,
        };

        let (op, sges, inline, expect) = match self.rng.below(21) {
            0..=5 => self.message(side, expect, recv),
            6..=11 => self.write(side, written, expect, recv),
            12..=15 => self.read(side, written, expect),
            16 if self.shape.xrc == 0 => self.atomic_write(side, written, expect),
            16..=18 => self.atomic(side, expect),
            19 => self.flush(1 - side, written, expect),
            _ => self.local(side, expect),
        };

        PlannedSend {
            op,
            flags,
            sges,
            inline,
            dest: self.dest(),
            expect,
        }
    }

    /// A SEND, perhaps with immediate data or a key to invalidate.
    fn message(&mut self, side: usize, mut expect: SendExpect, recv: RecvExpect) -> Asked {
        let peer = 1 - side;
        let (sges, inline, data) = self.payload(side);
        let (op, with) = match self.rng.below(4) {
            0 => {
                let imm = (self.rng.next() as u32).to_le_bytes();
                (SendOp::SendWithImm(imm), WcData::Imm(imm))
            }
            1 => {
                let key = self.alloc(peer, 1, Access::REMOTE_READ).key;
                expect.invalidates = Some(key);
                (SendOp::SendWithInv(key), WcData::Invalidated(key))
            }
            _ => (SendOp::Send, WcData::None),
        };

        let recv = RecvExpect {
            len: data.len() as u32,
            data: with,
            ..recv
        };
        expect.consumes = Some(self.receive(peer, recv, Some(&data)));
        (op, sges, inline, expect)
    }

    /// An RDMA WRITE, perhaps with immediate data.
    fn write(
        &mut self,
        side: usize,
        written: &mut Written,
        mut expect: SendExpect,
        recv: RecvExpect,
    ) -> Asked {
        let peer = 1 - side;
        let (sges, inline, data) = self.payload(side);
        let to = self.alloc(peer, data.len() as u32, WRITTEN);
        self.effects.push((peer, to.va, data.clone()));
        expect.opcode = WcOpcode::RdmaWrite;
        expect.remote = Some((to.va, data.clone()));

        let rkey = if data.is_empty() { 0xdead_beef } else { to.key };
        let op = if self.rng.percent(40) {
            let imm = (self.rng.next() as u32).to_le_bytes();
            let recv = RecvExpect {
                opcode: WcOpcode::RecvRdmaWithImm,
                len: data.len() as u32,
                data: WcData::Imm(imm),
                ..recv
            };
            expect.consumes = Some(self.receive(peer, recv, None));
            SendOp::WriteWithImm {
                va: to.va,
                rkey,
                imm,
            }
        } else {
            SendOp::Write { va: to.va, rkey }
        };

        written.push((self.srq, to, data));
        (op, sges, inline, expect)
    }

    /// An RDMA READ, of what was written before or of bytes of its own.
    fn read(&mut self, side: usize, written: &Written, mut expect: SendExpect) -> Asked {
        let peer = 1 - side;
        let (from, data) = if !written.is_empty() && self.rng.percent(50) {
            let (srq, from, data) = written[self.rng.below(written.len() as u64) as usize].clone();
            self.srq = srq;
            (from, data)
        } else {
            let len = self.length();
            let from = self.alloc(peer, len, Access::REMOTE_READ);
            let data = self.sides[peer].memory.at(from.va, len as usize).to_vec();
            (from, data)
        };

        let sges = self.buffers(side, data.len() as u32, Access::LOCAL_WRITE);
        expect.opcode = WcOpcode::RdmaRead;
        expect.local = Some(self.fills(side, &sges, &data));
        let rkey = if data.is_empty() {
            0xdead_beef
        } else {
            from.key
        };
        (SendOp::Read { va: from.va, rkey }, sges, None, expect)
    }

    /// An ATOMIC WRITE.
    fn atomic_write(
        &mut self,
        side: usize,
        written: &mut Written,
        mut expect: SendExpect,
    ) -> Asked {
        let peer = 1 - side;
        let data = self.rng.bytes(8);
        let inline = self.rng.percent(50).then(|| data.clone());
        let sges = match inline {
            Some(_) => Vec::new(),
            None => self.buffers(side, 8, Access::empty()),
        };
        let data = inline
            .clone()
            .unwrap_or_else(|| self.sides[side].memory.gather(&sges));

        let to = self.alloc(peer, 8, WRITTEN);
        self.effects.push((peer, to.va, data.clone()));
        expect.opcode = WcOpcode::AtomicWrite;
        expect.remote = Some((to.va, data.clone()));
        written.push((0, to, data));
        let op = SendOp::AtomicWrite {
            va: to.va,
            rkey: to.key,
        };
        (op, sges, inline, expect)
    }

    /// A FETCH & ADD or COMPARE & SWAP, of which the latter may miss.
    fn atomic(&mut self, side: usize, mut expect: SendExpect) -> Asked {
        let peer = 1 - side;
        let i = self.rng.below(2) as usize;
        let (buffer, before) = {
            let cell = &self.sides[peer].cells[i];
            self.srq = cell.srq;
            (cell.buffer, *cell.values.last().unwrap_or(&0))
        };
        let (va, rkey) = (buffer.va, buffer.key);
        let (op, after) = if self.rng.percent(50) {
            let add = self.rng.next();
            expect.opcode = WcOpcode::FetchAdd;
            (SendOp::FetchAdd { va, rkey, add }, before.wrapping_add(add))
        } else {
            let hit = self.rng.percent(50);
            let compare = if hit { before } else { before ^ 1 };
            let swap = self.rng.next();
            expect.opcode = WcOpcode::CompSwap;
            let op = SendOp::CompareSwap {
                va,
                rkey,
                compare,
                swap,
            };
            (op, if hit { swap } else { before })
        };

        self.sides[peer].cells[i].values.push(after);
        self.effects.push((peer, va, after.to_ne_bytes().to_vec()));
        let sges = self.buffers(side, 8, Access::LOCAL_WRITE);
        expect.local = Some(self.fills(side, &sges, &before.to_ne_bytes()));
        (op, sges, None, expect)
    }

    /// What stays at this side: the end of a key, or a window that is bound.
    fn local(&mut self, side: usize, mut expect: SendExpect) -> Asked {
        let region = self.alloc(side, 32, Access::MW_BIND | Access::LOCAL_WRITE);
        let op = if self.rng.percent(50) {
            expect.opcode = WcOpcode::LocalInv;
            SendOp::LocalInv(region.key)
        } else {
            expect.opcode = WcOpcode::BindMw;
            SendOp::BindMw(WindowBind {
                window: 1,
                rkey: 0x8000_0000 | self.rng.next() as u32,
                lkey: region.key,
                access: Access::REMOTE_READ,
                addr: region.va + 8,
                len: 8,
            })
        };

        (op, Vec::new(), None, expect)
    }

    /// A FLUSH.
    fn flush(&mut self, peer: usize, written: &Written, mut expect: SendExpect) -> Asked {
        expect.opcode = WcOpcode::Flush;
        let op = SendOp::Flush(self.flushed(peer, written));
        (op, Vec::new(), None, expect)
    }

    /// What a FLUSH is of: something written before, or a buffer of its own.
    fn flushed(&mut self, peer: usize, written: &Written) -> Flush {
        let buffer = if !written.is_empty() && self.rng.percent(70) {
            let (srq, buffer, _) = &written[self.rng.below(written.len() as u64) as usize];
            self.srq = *srq;
            *buffer
        } else {
            let len = self.length();
            self.alloc(peer, len, WRITTEN)
        };

        let both = Placement::GLOBAL | Placement::PERSISTENT;
        let placement = self
            .rng
            .pick(&[Placement::GLOBAL, Placement::PERSISTENT, both]);
        let (va, rkey) = (buffer.va, buffer.key);
        if self.rng.percent(30) {
            // Address and length say nothing then.
            return Flush {
                va: self.rng.next(),
                rkey,
                len: self.rng.next() as u32 >> 1,
                placement,
                selectivity: Selectivity::Region,
            };
        }

        let skip = self.rng.below(u64::from(buffer.len) + 1);
        Flush {
            va: va + skip,
            rkey,
            len: self.rng.below(u64::from(buffer.len) - skip + 1) as u32,
            placement,
            selectivity: Selectivity::Range,
        }
    }
}
