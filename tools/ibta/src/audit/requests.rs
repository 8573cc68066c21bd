//! Packets on the wire against what was asked: requests against those that were posted, responses against what the tester sent.

use crate::packet::RxPacket;
use crate::protocol::{Opcode, QpAttributes, SendRequest, Service, qp_state, send_flags};
use ferroce_wire::{Aeth, AtomicEth, OpcodeInfo, Operation, Packet, Position, Psn, Reth, Syndrome};
use std::collections::HashSet;

/// Everything that was asked of a device in a test, and what its queue pairs were set to.
#[derive(Default)]
pub(super) struct Asked {
    /// Lives of queue pairs, from RESET to RESET; the newest last.
    lives: Vec<Life>,
    /// Lengths of READs that the tester asked for.
    reads: HashSet<u32>,
    /// Where the tester's messages end: the device's queue pair, PSN.
    ends: HashSet<(u32, u32)>,
}

/// A queue pair of the device between two times in RESET.
struct Life {
    qp: u32,
    service: Service,
    attributes: QpAttributes,
    requests: Vec<SendRequest>,
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

fn len(request: &SendRequest) -> u32 {
    request.sges.iter().map(|sge| sge.len).sum()
}

/// A RETH asks for what a request is about; a READ that lost responses asks for what is left of it.
fn is_for(reth: &Reth, request: &SendRequest) -> bool {
    let rest = len(request).checked_sub(reth.len);
    let begins = match request.opcode {
        Opcode::RdmaRead => rest,
        _ => rest.filter(|rest| *rest == 0),
    };
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
            (_, _, Some(path_mtu)) => len(request).div_ceil(path_mtu).max(1),
            (_, _, None) => 1,
        }
    }

    /// Whether its packets go to that queue pair of the tester.
    fn sends_to(&self, dest_qp: u32) -> bool {
        match self.service {
            Service::Ud => {
                let to = |request: &SendRequest| request.to.map(|to| to.qp);
                self.requests
                    .iter()
                    .any(|request| to(request) == Some(dest_qp))
            }
            _ => self.attributes.dest_qp_num == Some(dest_qp),
        }
    }

    /// Whether a request makes such a packet.
    fn makes(&self, request: &SendRequest, packet: &RxPacket, info: &OpcodeInfo) -> bool {
        let ext = &packet.ext;
        let payload = packet.payload.len() as u32;
        let whole = match info.operation {
            Operation::Send | Operation::Write if self.service == Service::Ud => {
                payload == len(request)
            }
            Operation::Send | Operation::Write => self
                .attributes
                .path_mtu
                .is_none_or(|mtu| fits(info.position, payload, len(request), mtu)),
            _ => payload == 0,
        };
        is(request.opcode, info.operation)
            && whole
            && (!packet.bth.solicited || request.flags & send_flags::SOLICITED != 0)
            && ext.reth.is_none_or(|reth| is_for(&reth, request))
            && ext
                .atomic
                .is_none_or(|atomic| is_atomic_of(&atomic, request))
            && ext.imm.is_none_or(|imm| imm == request.imm)
            && ext.ieth.is_none_or(|key| key == request.invalidate)
            && ext.deth.is_none_or(|deth| {
                // A Q_Key with its highest bit set stands for the queue pair's own, which is not known here.
                let same = |qkey: u32| qkey >> 31 == 1 || qkey == deth.qkey;
                deth.src_qp == self.qp && request.to.is_some_and(|to| same(to.qkey))
            })
    }

    /// Whether the requests that were posted have such a PSN.
    fn has_psn(&self, psn: u32) -> bool {
        let Some(first) = self.attributes.sq_psn else {
            return true;
        };
        let all: u32 = self.requests.iter().map(|request| self.psns(request)).sum();
        (psn.wrapping_sub(first) & 0xff_ffff) < all
    }
}

impl Asked {
    pub(super) fn created(&mut self, qp: u32, service: Service) {
        self.lives.push(Life {
            qp,
            service,
            attributes: QpAttributes::default(),
            requests: Vec::new(),
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
        old.min_rnr_timer = new.min_rnr_timer.or(old.min_rnr_timer);
    }

    pub(super) fn posted(&mut self, qp: u32, request: &SendRequest) {
        if let Some(life) = self.lives.iter_mut().rfind(|life| life.qp == qp) {
            life.requests.push(request.clone());
        }
    }

    /// The tester sends a packet.
    pub(super) fn transmitted(&mut self, packet: &Packet<'_>) {
        if !packet.info.is_request() {
            return;
        }
        if packet.info.ends() {
            self.ends.insert((packet.bth.dest_qp, packet.bth.psn));
        }
        match packet.info.operation {
            Operation::ReadRequest => self.reads.extend(packet.ext.reth.map(|reth| reth.len)),
            // Answered like a READ of nothing.
            Operation::Flush => self.reads.extend([0]),
            _ => {}
        }
    }

    fn lives(&self, packet: &RxPacket) -> impl Iterator<Item = &Life> {
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
    ) -> Result<(), String> {
        let from = |life: &Life| {
            let made = |request| life.makes(request, packet, info);
            life.requests.iter().any(made) && life.has_psn(packet.bth.psn)
        };
        match self.lives(packet).any(from) {
            true => Ok(()),
            false => Err("no request that was posted makes such a packet".to_owned()),
        }
    }

    /// Whether a response is to something that the tester sent.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn allows_response(
        &self,
        packet: &RxPacket,
        info: &OpcodeInfo,
    ) -> Result<(), String> {
        let good = |life: &Life| {
            let payload = packet.payload.len() as u32;
            let whole = match (info.operation, life.attributes.path_mtu) {
                (Operation::ReadResponse, Some(mtu)) => {
                    let mut reads = self.reads.iter();
                    reads.any(|total| fits(info.position, payload, *total, mtu))
                }
                (Operation::ReadResponse, None) => true,
                _ => payload == 0,
            };
            let told = packet.ext.aeth.is_none_or(|aeth: Aeth| {
                let kind = match (info.operation, aeth.kind()) {
                    (_, Syndrome::Ack(_)) => true,
                    (Operation::Acknowledge, Syndrome::RnrNak { timer }) => {
                        let set = life.attributes.min_rnr_timer;
                        set.is_none_or(|set| set == timer)
                    }
                    (Operation::Acknowledge, Syndrome::Nak(_)) => true,
                    _ => false,
                };
                // MSN counts the messages that were completed: none behind the response's PSN, nor the one that is refused.
                let refused = !matches!(aeth.kind(), Syndrome::Ack(_));
                let counted = |end: u32| {
                    let ahead = Psn::new(end).distance(Psn::new(packet.bth.psn));
                    ahead < 0 || ahead == 0 && !refused
                };
                let ends = self.ends.iter();
                let ended = ends.filter(|(qp, end)| *qp == life.qp && counted(*end));
                kind && aeth.msn as usize <= ended.count()
            });
            whole && told
        };
        match self.lives(packet).any(good) {
            true => Ok(()),
            false => Err("nothing that was sent has such a response".to_owned()),
        }
    }
}
