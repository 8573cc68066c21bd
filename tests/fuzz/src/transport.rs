//! A queue pair of any service whose peer sends any packet at any time: it never panics, never
//! touches memory that the peer may not touch, and never talks without end.

use arbitrary::{Arbitrary, Unstructured};
use ferroce_sim::Buffer;
use ferroce_sim::stretched;
use ferroce_sim::tester::{DUT, DUT_PSN, QKEY, Sent, TT_PSN, Tester, usual};
use ferroce_transport::Duration;
use ferroce_transport::{
    Access, Datagram, Dest, QpState, QpType, RecvWqe, SendData, SendFlags, SendOp, SendRequest,
    WcStatus,
};
use ferroce_wire::{
    Aeth, AtomicEth, Bth, Deth, Ext, Feth, Filler, Header, HeaderSet, MAX_HEADER, Packet,
    PayloadRule, Reth, opcode,
};

const MTU: u16 = 256;
const SERVICES: [QpType; 5] = [
    QpType::Rc,
    QpType::Uc,
    QpType::Ud,
    QpType::XrcSend,
    QpType::XrcRecv,
];
/// The shared receive queue that XRC packets name, and one of another protection domain.
const SRQS: [(u32, u32); 2] = [(5, 0), (6, 60)];

/// In what says which service: it understands selective acknowledgements and filled packets.
const SELECTIVE: u8 = 0x40;
/// Likewise: its way out takes stretches.
const STRETCHING: u8 = 0x20;

#[derive(Arbitrary, Debug)]
struct Set {
    service: u8,
    state: u8,
    srq: bool,
    responder_resources: u8,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Packet(Hostile),
    Bytes(Vec<u8>),
    Post { op: u8, fence: bool },
    Receive,
    Transmit { budget: u16 },
    Wait { shift: u8 },
    Expire,
}

/// A packet that mostly means something.
#[derive(Arbitrary, Debug)]
struct Hostile {
    opcode: u8,
    psn: (bool, i8),
    ack_req: bool,
    solicited: bool,
    payload: u16,
    place: (u8, i16, u16),
    syndrome: u8,
    words: (u32, u64),
    flip: Option<(u8, u8)>,
}

struct Buffers {
    /// The peer may do everything.
    open: Buffer,
    /// Receives and READs go here.
    local: Buffer,
    /// Nobody may write here.
    closed: Buffer,
}

impl Hostile {
    fn bytes(&self, buffers: &Buffers) -> Option<Vec<u8>> {
        let row = opcode::info(self.opcode)?;
        let psn = if self.psn.0 { TT_PSN } else { DUT_PSN };
        let payload = match row.payload {
            PayloadRule::None => 0,
            // A stretch, or a packet.
            _ if self.words.0 & 4 == 4 => usize::from(self.payload % (8 * MTU)),
            _ => usize::from(self.payload % (MTU + 9)),
        };

        let filled = self.words.0 & 2 == 2;
        let filler = match (filled, row.filler) {
            (true, Filler::Fixed(shorter)) => u16::from(shorter),
            (true, Filler::Counted(shorter)) => MTU
                .saturating_add_signed(shorter.into())
                .saturating_sub(payload as u16),
            _ => 0,
        };
        let header = Header {
            bth: Bth {
                opcode: self.opcode,
                solicited: self.solicited,
                migreq: true,
                pad: Bth::pad_for(payload + usize::from(filler)),
                pkey: 0xffff,
                dest_qp: DUT,
                ack_req: self.ack_req,
                selective: self.words.0 & 1 == 1,
                filled,
                psn: psn.wrapping_add_signed(self.psn.1.into()) & 0xff_ffff,
                ..Bth::default()
            },
            ext: self.headers(row.headers, buffers),
        };

        let mut bytes = vec![0; MAX_HEADER];
        let n = header.emit(&mut bytes);
        bytes.truncate(n);
        let around = header.around_len(filler);
        bytes.resize(n + payload + around, self.words.0 as u8);
        header.emit_count(filler, &mut bytes[n..]);
        bytes.resize(bytes.len() + 4, 0);
        if let Some((at, change)) = self.flip {
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= change;
        }

        Some(bytes)
    }

    fn headers(&self, set: HeaderSet, buffers: &Buffers) -> Ext {
        let (which, offset, len) = self.place;
        let buffer = match which % 4 {
            0 | 1 => buffers.open,
            2 => buffers.local,
            _ => buffers.closed,
        };
        let va = buffer.va.wrapping_add_signed(offset.into());
        let rkey = if which < 0xf0 {
            buffer.key
        } else {
            self.words.0
        };

        let has = |header| set.contains(header);
        Ext {
            feth: has(HeaderSet::FETH).then_some(Feth {
                placement: self.syndrome & 0xf,
                selectivity: self.syndrome >> 4 & 0x3,
            }),
            reth: has(HeaderSet::RETH).then_some(Reth {
                va,
                rkey,
                len: len.into(),
            }),
            aeth: has(HeaderSet::AETH).then_some(Aeth {
                syndrome: self.syndrome,
                msn: self.words.0 & 0xff_ffff,
            }),
            atomic: has(HeaderSet::ATOMIC).then_some(AtomicEth {
                va,
                rkey,
                swap_add: self.words.1,
                compare: self.words.1,
            }),
            atomic_ack: has(HeaderSet::ATOMIC_ACK).then_some(self.words.1),
            imm: has(HeaderSet::IMM).then(|| self.words.0.to_le_bytes()),
            ieth: has(HeaderSet::IETH).then_some(self.words.0),
            deth: has(HeaderSet::DETH).then_some(Deth {
                qkey: if which < 0xf0 { QKEY } else { self.words.0 },
                src_qp: self.words.0 & 0xff_ffff,
            }),
            xrceth: has(HeaderSet::XRCETH).then_some(5 + u32::from(self.syndrome % 3)),
        }
    }
}

/// One queue pair under any sequence of these. Returns whether a packet that came was answered, or
/// completed something.
pub fn run(input: &[u8]) -> bool {
    let mut input = Unstructured::new(input);
    let Ok(set) = input.arbitrary::<Set>() else {
        return false;
    };

    let service = SERVICES[usize::from(set.service) % SERVICES.len()];
    let state = [QpState::Rts, QpState::Rtr, QpState::Init][usize::from(set.state) % 3];
    let mut attr = usual();
    attr.path_mtu = MTU.into();
    attr.max_dest_rd_atomic = set.responder_resources % 17;
    let mut tester = match set.service & SELECTIVE {
        0 => Tester::of(service, attr, state, set.srq),
        _ => Tester::speaking(service, attr, state, set.srq).filling(),
    };
    if set.service & STRETCHING != 0 {
        tester.opts.stretch = 3 * u32::from(MTU);
    }
    let buffers = buffers(&mut tester);
    let guard = tester.buffer(100, Access::empty());
    let before = [buffers.closed, guard].map(|buffer| tester.bytes(buffer));

    let mut steps = 0;
    let mut acknowledged = false;
    while let Ok(step) = input.arbitrary::<Step>() {
        steps += 1;
        if input.is_empty() || steps > 256 {
            break;
        }
        acknowledged |= take(&mut tester, service, &buffers, step);
    }

    let sent = tester.sent();
    assert!(sent.len() < 4_000, "it talks without end");
    acknowledged |= answers(&sent);
    let after = [buffers.closed, guard].map(|buffer| tester.bytes(buffer));
    assert_eq!(before, after, "memory that nobody may write to");
    let sent = tester.send_statuses();
    let sent = sent.iter().any(|(_, status)| *status == WcStatus::Success);
    acknowledged || sent || !tester.receives().is_empty()
}

fn buffers(tester: &mut Tester) -> Buffers {
    let all = Access::REMOTE_READ
        | Access::REMOTE_WRITE
        | Access::REMOTE_ATOMIC
        | Access::FLUSH_GLOBAL
        | Access::FLUSH_PERSISTENT;

    let buffers = Buffers {
        open: tester.buffer(2_000, all | Access::LOCAL_WRITE),
        local: tester.buffer(2_000, Access::LOCAL_WRITE),
        closed: tester.buffer(2_000, Access::REMOTE_READ),
    };

    for (srq, pd) in SRQS {
        tester.memory().borrow_mut().srqs.insert(srq, pd);
        tester.host.xrc.borrow_mut().insert(srq, Default::default());
    }

    buffers
}

/// Whether something that came is answered.
fn answers(sent: &[Sent]) -> bool {
    sent.iter().any(|packet| packet.ext.aeth.is_some())
}

/// Returns whether something that came is answered.
fn take(tester: &mut Tester, service: QpType, buffers: &Buffers, step: Step) -> bool {
    match step {
        Step::Packet(hostile) => {
            if let Some(bytes) = hostile.bytes(buffers) {
                arrive(tester, service, &bytes);
            }
        }
        Step::Bytes(bytes) => arrive(tester, service, &bytes),
        Step::Post { op, fence } => post(tester, service, buffers, op, fence),
        Step::Receive => {
            let _ = tester.qp.post_recv(0, &[buffers.local.sge()]);
            let wqe = RecvWqe {
                wr_id: 0,
                sges: [buffers.local.sge()].into_iter().collect(),
                skip: 0,
            };
            let queue = tester.host.xrc.borrow()[&SRQS[0].0].clone();
            if queue.borrow().len() < 64 {
                queue.borrow_mut().push_back(wqe.clone());
                tester.host.srq.borrow_mut().push_back(wqe);
            }
        }
        Step::Transmit { budget } => {
            tester.opts.budget = u64::from(budget).max(1) as _;
            let sent = tester.sent();
            assert!(
                sent.len() < 2_000,
                "{} packets in answer to few",
                sent.len()
            );
            return answers(&sent);
        }
        Step::Wait { shift } => tester.now += Duration::from_nanos(1 << (shift % 36)),
        Step::Expire => {
            tester.expire();
        }
    }

    false
}

fn arrive(tester: &mut Tester, service: QpType, bytes: &[u8]) {
    let Ok(packet) = Packet::parse(bytes) else {
        return;
    };
    tester.host.selected = None;
    match service {
        QpType::Ud => {
            let grh = [0; 40];
            tester
                .qp
                .receive_datagram(tester.now, &packet, &grh, &mut tester.host);
        }
        _ => {
            let Tester { qp, host, now, .. } = tester;
            stretched::receive(qp, *now, &packet, MTU, host);
        }
    }
}

fn post(tester: &mut Tester, service: QpType, buffers: &Buffers, op: u8, fence: bool) {
    let (va, rkey) = (8, 1);
    let op = match op % 5 {
        0 => SendOp::Send,
        1 => SendOp::Write { va, rkey },
        2 => SendOp::Read { va, rkey },
        3 => SendOp::FetchAdd { va, rkey, add: 1 },
        _ => SendOp::CompareSwap {
            va,
            rkey,
            compare: 0,
            swap: 1,
        },
    };

    let mut flags = SendFlags::SIGNALED;
    if fence {
        flags |= SendFlags::FENCE;
    }

    let _ = tester.qp.post_send(&SendRequest {
        wr_id: 0,
        op,
        flags,
        data: SendData::Sges(&[buffers.local.sge()]),
        dest: match service {
            QpType::Ud => Dest::Datagram(Datagram::default()),
            QpType::XrcSend => Dest::XrcSrq(9),
            _ => Dest::Connected,
        },
    });
}
