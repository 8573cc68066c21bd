//! Packets on the wire against what was asked: requests against those that were posted.

use super::memory::Memory;
use crate::packet::RxPacket;
use crate::protocol::{Opcode, QpAttributes, SendRequest, Service, Sge, qp_state, send_flags};
use ferroce_wire::psn::Psn;
use ferroce_wire::{AtomicEth, OpcodeInfo, Operation, Packet, Position, Reth, Syndrome};
use std::collections::BTreeSet;

/// Requests that were posted, and what the queue pairs were set to.
#[derive(Default)]
pub(super) struct Asked {
    /// Lives of queue pairs, from RESET to RESET; the newest last.
    lives: Vec<Life>,
}

/// A queue pair of the device between two times in RESET.
pub(super) struct Life {
    pub(super) qp: u32,
    service: Service,
    pub(super) attributes: QpAttributes,
    requests: Vec<Request>,
    /// PSNs that they take.
    psns: u32,
}

/// A request that was posted.
struct Request {
    request: SendRequest,
    /// What the packets of a SEND or WRITE carry, if it could be read when it was posted.
    bytes: Option<Vec<u8>>,
    /// Its first PSN, behind the first of the queue pair.
    begins: u32,
    /// PSNs that it takes.
    psns: u32,
    signaled: bool,
    /// Its PSNs that were answered.
    answered: BTreeSet<u32>,
}

impl Request {
    /// Whether a response of that kind may have this PSN: that of a READ or atomic is of the kind
    /// of its request.
    fn owns(&self, nth: u32, operation: Operation) -> bool {
        let of_kind = match operation {
            Operation::ReadResponse => self.request.opcode == Opcode::RdmaRead,
            Operation::AtomicAcknowledge => {
                matches!(self.request.opcode, Opcode::CompareSwap | Opcode::FetchAdd)
            }
            _ => true,
        };
        of_kind && self.place(nth).is_some()
    }

    /// Which of its PSNs this is, if it is one.
    fn place(&self, nth: u32) -> Option<u32> {
        nth.checked_sub(self.begins).filter(|nth| *nth < self.psns)
    }

    /// A response with this PSN answers it: an ACK and what answers later requests a SEND or WRITE,
    /// a READ and an atomic their own.
    fn responded(&mut self, nth: u32, operation: Operation) {
        let own = self.place(nth);
        let last = self.begins + self.psns.saturating_sub(1);
        match (self.request.opcode, operation) {
            (Opcode::RdmaRead, Operation::ReadResponse)
            | (Opcode::CompareSwap | Opcode::FetchAdd, Operation::AtomicAcknowledge) => {
                self.answered.extend(own);
            }
            (Opcode::RdmaRead | Opcode::CompareSwap | Opcode::FetchAdd, _) => {}
            _ if nth >= last => self.answered.extend(0..self.psns),
            _ => {}
        }
    }

    fn is_answered(&self) -> bool {
        self.answered.len() == self.psns as usize
    }
}

/// The bytes that its elements name, if all can be read.
pub(super) fn gather(sges: &[Sge], memory: Memory<'_>) -> Option<Vec<u8>> {
    let parts = sges.iter().map(|sge| memory(sge.addr, sge.len));
    parts
        .collect::<Option<Vec<_>>>()
        .map(|parts| parts.concat())
}

fn is(opcode: Opcode, operation: Operation) -> bool {
    match operation {
        Operation::Send => matches!(
            opcode,
            Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv
        ),
        Operation::Write => matches!(opcode, Opcode::RdmaWrite | Opcode::RdmaWriteWithImm),
        Operation::ReadRequest => opcode == Opcode::RdmaRead,
        Operation::CompareSwap => opcode == Opcode::CompareSwap,
        Operation::FetchAdd => opcode == Opcode::FetchAdd,
        _ => false,
    }
}

/// Bytes that elements name; of more than there can be, as a device is to refuse, the most.
pub(super) fn total(sges: &[Sge]) -> u32 {
    sges.iter()
        .fold(0, |sum: u32, sge| sum.saturating_add(sge.len))
}

/// A RETH asks for what a request is about; a READ that lost responses asks for what is left of it,
/// `skip` bytes behind its beginning.
fn is_for(reth: &Reth, request: &SendRequest, skip: Option<u32>) -> bool {
    let begins = total(&request.sges).checked_sub(reth.len).filter(|begins| {
        let due = match request.opcode {
            Opcode::RdmaRead => skip,
            _ => Some(0),
        };
        due.is_none_or(|due| due == *begins)
    });
    let from = |begins: u32| request.remote_addr.wrapping_add(begins.into());
    reth.rkey == request.rkey && begins.is_some_and(|begins| from(begins) == reth.va)
}

fn is_atomic_of(header: &AtomicEth, request: &SendRequest) -> bool {
    let operands = match request.opcode {
        Opcode::CompareSwap => {
            header.compare == request.compare_add && header.swap_add == request.swap
        }
        // FETCH & ADD has no second operand.
        _ => header.swap_add == request.compare_add,
    };
    operands && header.va == request.remote_addr && header.rkey == request.rkey
}

/// Whether a packet of a message of so many bytes can have this payload.
fn fits(position: Position, payload: u32, total: u32, path_mtu: u32) -> bool {
    match position {
        Position::First | Position::Middle => payload == path_mtu && total > path_mtu,
        Position::Last => {
            payload <= path_mtu
                && total
                    .checked_sub(payload)
                    .is_some_and(|rest| rest % path_mtu == 0)
        }
        Position::Only => payload == total,
    }
}

impl Life {
    /// PSNs that a request takes.
    fn psns(&self, request: &SendRequest) -> u32 {
        match (request.opcode, self.service, self.attributes.path_mtu) {
            (Opcode::LocalInv | Opcode::BindMw, ..) => 0,
            (Opcode::CompareSwap | Opcode::FetchAdd, ..) | (_, Service::Ud, _) => 1,
            (_, _, Some(path_mtu)) => total(&request.sges).div_ceil(path_mtu).max(1),
            (_, _, None) => 1,
        }
    }

    /// Whether its packets go to that queue pair of the tester.
    fn sends_to(&self, dest_qp: u32) -> bool {
        match self.service {
            Service::Ud => {
                let to = |asked: &Request| asked.request.to.map(|to| to.qp);
                self.requests.iter().any(|asked| to(asked) == Some(dest_qp))
            }
            _ => self.attributes.dest_qp_num == Some(dest_qp),
        }
    }

    /// How far a PSN is behind the first of the queue pair; `None` where that is not known.
    fn nth(&self, psn: u32) -> Option<u32> {
        let first = self.attributes.sq_psn?;
        Some(Psn::new(psn).forward_from(Psn::new(first)))
    }

    /// How many bytes of a request are before a packet; `None` where that is not known.
    fn before(&self, asked: &Request, psn: u32) -> Option<u32> {
        let nth = self.nth(psn)?.wrapping_sub(asked.begins);
        let path_mtu = match self.service {
            Service::Ud => 0,
            _ => self.attributes.path_mtu?,
        };
        nth.checked_mul(path_mtu)
    }

    /// Whether a request has such a PSN.
    fn has_psn(&self, asked: &Request, psn: u32) -> bool {
        self.nth(psn).is_none_or(|nth| asked.place(nth).is_some())
    }

    /// Whether a packet carries the bytes of a request: those of when it was posted, or, where a
    /// peer or the program has written there since, those of now. Inline data is taken when it is
    /// posted (10.7.2.2).
    fn carries(&self, asked: &Request, packet: &RxPacket, memory: Memory<'_>) -> bool {
        let skip = self.before(asked, packet.bth.psn);
        let (Some(skip), Some(bytes)) = (skip, &asked.bytes) else {
            return true;
        };
        let part = |bytes: &[u8]| {
            let end = skip as usize + packet.payload.len();
            bytes.get(skip as usize..end) == Some(&packet.payload[..])
        };
        part(bytes)
            || asked.request.flags & send_flags::INLINE == 0
                && gather(&asked.request.sges, memory).is_some_and(|bytes| part(&bytes))
    }

    /// Whether a request makes such a packet.
    fn makes(&self, asked: &Request, packet: &RxPacket, info: &OpcodeInfo) -> bool {
        let (ext, request) = (&packet.ext, &asked.request);
        let payload = packet.payload.len() as u32;
        let whole = match info.operation {
            Operation::Send | Operation::Write if self.service == Service::Ud => {
                payload == total(&request.sges)
            }
            Operation::Send | Operation::Write => self
                .attributes
                .path_mtu
                .is_none_or(|mtu| fits(info.position, payload, total(&request.sges), mtu)),
            _ => payload == 0,
        };

        is(request.opcode, info.operation)
            && whole
            && (!packet.bth.solicited || request.flags & send_flags::SOLICITED != 0)
            && ext
                .reth
                .is_none_or(|reth| is_for(&reth, request, self.before(asked, packet.bth.psn)))
            && ext
                .atomic
                .is_none_or(|atomic| is_atomic_of(&atomic, request))
            && ext.imm.is_none_or(|imm| imm == request.imm)
            && ext.ieth.is_none_or(|key| key == request.invalidate)
            && ext.deth.is_none_or(|deth| {
                // A Q_Key with its highest bit set stands for the queue pair's own, which is not
                // known here.
                let same = |qkey: u32| qkey >> 31 == 1 || qkey == deth.qkey;
                deth.src_qp == self.qp && request.to.is_some_and(|to| same(to.qkey))
            })
    }
}

impl Asked {
    pub(super) fn created(&mut self, qp: u32, service: Service) {
        self.lives.push(Life {
            qp,
            service,
            attributes: QpAttributes::default(),
            requests: Vec::new(),
            psns: 0,
        });
    }

    pub(super) fn modified(&mut self, qp: u32, new: &QpAttributes) {
        let Some(life) = self.lives.iter_mut().rfind(|life| life.qp == qp) else {
            return;
        };
        if new.qp_state == Some(qp_state::RESET) {
            let service = life.service;
            return self.created(qp, service);
        }
        let old = &mut life.attributes;
        old.dest_qp_num = new.dest_qp_num.or(old.dest_qp_num);
        old.path_mtu = new.path_mtu.or(old.path_mtu);
        old.sq_psn = new.sq_psn.or(old.sq_psn);
        old.rq_psn = new.rq_psn.or(old.rq_psn);
        old.min_rnr_timer = new.min_rnr_timer.or(old.min_rnr_timer);
    }

    /// `bytes`: what its packets carry.
    pub(super) fn posted(
        &mut self,
        qp: u32,
        request: &SendRequest,
        signaled: bool,
        bytes: Option<Vec<u8>>,
    ) {
        if let Some(life) = self.lives.iter_mut().rfind(|life| life.qp == qp) {
            let psns = life.psns(request);
            life.requests.push(Request {
                request: request.clone(),
                bytes,
                begins: life.psns,
                psns,
                signaled,
                answered: BTreeSet::new(),
            });
            life.psns += psns;
        }
    }

    /// The tester acknowledges or answers requests of a queue pair.
    pub(super) fn responded(&mut self, packet: &Packet<'_>) {
        let aeth = packet.ext.aeth.map(|aeth| aeth.kind());
        if !aeth.is_none_or(|kind| matches!(kind, Syndrome::Ack(_))) {
            return;
        }

        let mut lives = self.lives.iter_mut();
        let Some(life) = lives.rfind(|life| life.qp == packet.bth.dest_qp) else {
            return;
        };
        let Some(nth) = life.nth(packet.bth.psn) else {
            return;
        };

        let operation = packet.info.operation;
        let owned = life.requests.iter().any(|asked| asked.owns(nth, operation));
        if nth < life.psns && owned {
            life.requests
                .iter_mut()
                .for_each(|asked| asked.responded(nth, operation));
        }
    }

    /// How many requests of a queue pair have completions to come because they, and all before
    /// them, are answered (C9-60).
    pub(super) fn answered(&self, qp: u32) -> usize {
        let life = self.lives.iter().rfind(|life| life.qp == qp);
        let requests = life.map_or(&[][..], |life| &life.requests);
        let answered = requests.iter().take_while(|asked| asked.is_answered());
        answered.filter(|asked| asked.signaled).count()
    }

    /// The lives in which a packet may have been sent.
    pub(super) fn lives(&self, packet: &RxPacket) -> impl Iterator<Item = &Life> {
        let dest_qp = packet.bth.dest_qp;
        self.lives.iter().filter(move |life| life.sends_to(dest_qp))
    }

    /// Whether some request that was posted makes such a packet.
    ///
    /// # Errors
    /// None does.
    pub(super) fn allows_request(
        &self,
        packet: &RxPacket,
        info: &OpcodeInfo,
        memory: Memory<'_>,
    ) -> Result<(), String> {
        let mut made = false;
        for life in self.lives(packet) {
            let due = |asked: &&Request| {
                life.has_psn(asked, packet.bth.psn) && life.makes(asked, packet, info)
            };
            for asked in life.requests.iter().filter(due) {
                made = true;
                if life.carries(asked, packet, memory) {
                    return Ok(());
                }
            }
        }

        Err(match made {
            true => "its bytes are not those of the request",
            false => "no request that was posted makes such a packet",
        }
        .to_owned())
    }
}
