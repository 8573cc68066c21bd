//! Random messages for two hosts that talk over an unreliable service, and the settings of their
//! world.

use crate::link::LinkConfig;
use crate::memory::{Buffer, Memory};
use crate::rng::Rng;
use crate::tester::QKEY;
use ferroce_transport::{
    Access, Datagram, Dest, Duration, QpType, SendFlags, SendOp, Sge, Time, WcStatus, WindowBind,
};

/// One request, and what it carries.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// The operation.
    pub op: SendOp,
    /// Where it goes.
    pub dest: Dest,
    /// Flags.
    pub flags: SendFlags,
    /// Gather list.
    pub sges: Vec<Sge>,
    /// Inline data instead of a list.
    pub inline: Option<Vec<u8>>,
    /// The payload.
    pub data: Vec<u8>,
    /// Where an RDMA WRITE goes at the peer.
    pub target: Option<Buffer>,
    /// The error that it was made to run into before anything is sent.
    pub fault: Option<WcStatus>,
    /// The peer must refuse it: its Q_Key is wrong.
    pub foreign: bool,
}

impl Message {
    /// Is anything sent for it at all?
    pub(super) fn is_sent(&self) -> bool {
        self.fault.is_none() && !matches!(self.op, SendOp::LocalInv(_) | SendOp::BindMw(_))
    }

    /// Its immediate data.
    pub(super) fn imm(&self) -> Option<[u8; 4]> {
        match self.op {
            SendOp::SendWithImm(imm) | SendOp::WriteWithImm { imm, .. } => Some(imm),
            _ => None,
        }
    }
}

/// One side's settings and program.
#[derive(Clone, Debug, Default)]
pub(super) struct SidePlan {
    /// Memory at the start.
    pub memory: Memory,
    /// What it sends.
    pub messages: Vec<Message>,
    /// Scatter lists of its receive requests.
    pub recvs: Vec<Vec<Sge>>,
    /// Receives come from a shared receive queue.
    pub srq: bool,
    /// Bytes a `transmit` call.
    pub budget: u32,
    /// Longest pause between posts of send requests, and of receive requests.
    pub pauses: [Duration; 2],
    /// When its send queue is drained, if it is.
    pub drain: Option<Time>,
    /// First PSN.
    pub psn: u32,
}

/// A world's settings.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// UC or UD.
    pub service: QpType,
    /// Path MTU.
    pub mtu: u32,
    /// The link.
    pub link: LinkConfig,
    /// The sides.
    pub sides: [SidePlan; 2],
}

struct Planner<'a> {
    rng: &'a mut Rng,
    service: QpType,
    mtu: u32,
    faults: bool,
    sides: [SidePlan; 2],
}

/// Makes a plan.
pub(super) fn plan(service: QpType, rng: &mut Rng) -> Plan {
    let mut link = LinkConfig {
        delay: Duration::from_nanos(rng.pick(&[500, 3_000, 20_000])),
        byte_time: rng.pick(&[0, 80, 800]),
        late: Duration::from_micros(rng.pick(&[1, 10, 100])),
        ..LinkConfig::default()
    };

    if rng.percent(85) {
        let mut some = |most: u64| match rng.below(3) {
            0 => 0,
            _ => rng.below(most) as u32,
        };
        link.loss = some(200_000);
        link.duplicate = some(150_000);
        link.reorder = some(200_000);
        link.corrupt = some(30_000);
    }

    let mut p = Planner {
        mtu: rng.pick(&[256, 512, 1024, 4096]),
        faults: rng.percent(25),
        service,
        rng,
        sides: Default::default(),
    };

    // Plenty of receive requests, or too few, or too short ones.
    let (share, short) = p.rng.pick(&[(100, 0), (100, 0), (60, 0), (100, 20)]);
    for side in 0..2 {
        let count = p.rng.range(1, 80);
        for _ in 0..count {
            let message = p.message(side);
            p.sides[side].messages.push(message);
        }
        // What the network sends twice may need twice the receive requests.
        for _ in 0..count * share / 50 {
            let recv = p.receive(1 - side, short);
            p.sides[1 - side].recvs.push(recv);
        }
    }

    for side in &mut p.sides {
        side.srq = p.rng.percent(30);
        side.budget = p.rng.pick(&[1, 3_000, 16_384, 1 << 20]);
        let pauses = [p.rng.pick(&[0, 1, 30]), p.rng.pick(&[0, 0, 5])];
        side.pauses = pauses.map(Duration::from_micros);
        side.drain = p
            .rng
            .percent(15)
            .then(|| Time::from_nanos(p.rng.below(500_000)));
        side.psn = p
            .rng
            .pick(&[0u32, 0xff_fff0, 0x7f_fff8])
            .wrapping_add(p.rng.below(20) as u32);
    }

    let Planner {
        mtu,
        service,
        sides,
        ..
    } = p;

    Plan {
        service,
        mtu,
        link,
        sides,
    }
}

impl Planner<'_> {
    fn alloc(&mut self, side: usize, len: u32, access: Access) -> Buffer {
        self.sides[side].memory.alloc(len, access, self.rng)
    }

    /// A list of at most three buffers of `len` bytes in all.
    fn buffers(&mut self, side: usize, len: u32, access: Access) -> Vec<Sge> {
        let cut = self.rng.below(u64::from(len) + 1) as u32;
        let parts = match self.rng.below(3) {
            0 => vec![len],
            1 => vec![cut, len - cut],
            _ => vec![cut / 2, cut - cut / 2, len - cut],
        };
        let mut sges = Vec::new();
        for part in parts {
            sges.push(self.alloc(side, part, access).sge());
        }
        sges
    }

    /// A receive request for anything, or one too short for most.
    fn receive(&mut self, side: usize, short: u32) -> Vec<Sge> {
        let grh = if self.service == QpType::Ud { 40 } else { 0 };
        let len = if self.rng.percent(short) {
            self.rng.below(u64::from(self.mtu)) as u32
        } else {
            self.longest() + grh
        };
        self.buffers(side, len, Access::LOCAL_WRITE)
    }

    fn longest(&self) -> u32 {
        match self.service {
            QpType::Ud => self.mtu,
            _ => self.mtu * 6,
        }
    }

    fn length(&mut self) -> u32 {
        let mtu = u64::from(self.mtu);
        let len = match self.rng.below(8) {
            0 => self.rng.below(5),
            1 => mtu * self.rng.range(1, 3),
            2 => mtu * self.rng.range(1, 3) + 1,
            3..=5 => self.rng.below(mtu + 1),
            _ => self.rng.below(mtu * 6),
        };
        len.min(u64::from(self.longest())) as u32
    }

    fn message(&mut self, side: usize) -> Message {
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, self.rng.percent(60));
        flags.set(SendFlags::SOLICITED, self.rng.percent(30));
        let (sges, inline, data) = if self.rng.percent(20) {
            let len = self.rng.below(65) as usize;
            let data = self.rng.bytes(len);
            (Vec::new(), Some(data.clone()), data)
        } else {
            let len = self.length();
            let sges = self.buffers(side, len, Access::empty());
            let data = self.sides[side].memory.gather(&sges);
            (sges, None, data)
        };

        let foreign = self.service == QpType::Ud && self.rng.percent(5);
        let mut message = Message {
            op: SendOp::Send,
            dest: Dest::Connected,
            flags,
            sges,
            inline,
            data,
            target: None,
            fault: None,
            foreign,
        };

        let imm = (self.rng.next() as u32).to_le_bytes();
        if self.rng.percent(30) {
            message.op = SendOp::SendWithImm(imm);
        }

        if self.service == QpType::Ud {
            message.dest = Dest::Datagram(Datagram {
                ah: 1,
                cookie: 0,
                qpn: crate::world::QPN[1 - side],
                // Its own Q_Key is the peer's, too.
                qkey: match (foreign, self.rng.percent(50)) {
                    (true, _) => QKEY ^ 1,
                    (false, true) => QKEY,
                    (false, false) => 0x8000_0000,
                },
            });
        } else {
            self.connected(side, imm, &mut message);
        }

        if self.faults && self.rng.percent(4) {
            self.break_it(side, &mut message);
        }

        message
    }

    /// Something else than a SEND, perhaps.
    fn connected(&mut self, side: usize, imm: [u8; 4], message: &mut Message) {
        match self.rng.below(20) {
            0..=8 => {
                let access = Access::REMOTE_WRITE | Access::LOCAL_WRITE;
                let target = self.alloc(1 - side, message.data.len() as u32, access);
                let (va, rkey) = (target.va, target.key);
                message.target = Some(target);
                message.op = if self.rng.percent(50) {
                    SendOp::WriteWithImm { va, rkey, imm }
                } else {
                    SendOp::Write { va, rkey }
                };
            }
            9 => {
                let region = self.alloc(side, 64, Access::MW_BIND | Access::LOCAL_WRITE);
                message.op = SendOp::BindMw(WindowBind {
                    window: 1,
                    rkey: 0x8000_0000 | self.rng.next() as u32,
                    lkey: region.key,
                    addr: region.va,
                    len: 8,
                    access: Access::REMOTE_READ,
                });
                message.data.clear();
            }
            10 => {
                message.op = SendOp::LocalInv(self.alloc(side, 1, Access::empty()).key);
                message.data.clear();
            }
            _ => {}
        }
    }

    /// Makes it fail before anything of it is sent.
    fn break_it(&mut self, side: usize, message: &mut Message) {
        if message.inline.is_some() || matches!(message.op, SendOp::LocalInv(_) | SendOp::BindMw(_))
        {
            return;
        }
        if self.service == QpType::Ud && self.rng.percent(50) {
            message.sges = vec![self.alloc(side, self.mtu + 1, Access::empty()).sge()];
            message.fault = Some(WcStatus::LocLenErr);
        } else if message.sges.iter().any(|s| s.length > 0) {
            for sge in &mut message.sges {
                sge.lkey = 1;
            }
            message.fault = Some(WcStatus::LocProtErr);
        }
    }
}
