//! Requests that are outstanding, messages that were sent, and what they make of completions.

use super::completions::status;
use super::memory::{Memory, READABLE};
use super::requests::{Asked, gather, total};
use super::responses::Sent;
use crate::packet::{Crc, RxPacket, TxPacket};
use crate::protocol::{
    Command, Completion, CreateQp, Opcode, RecvQueue, Reply, SendRequest, Service, Side, qp_state,
    send_flags,
};
use ferroce_wire::psn::Psn;
use ferroce_wire::{NakCode, OpcodeInfo, Operation, Packet, Syndrome};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// `enum ibv_wc_opcode` of receive requests.
pub(super) const RECV: u32 = 128;
const RECV_RDMA_WITH_IMM: u32 = 129;
/// Bytes that stand before the payload of a datagram.
const GRH: u32 = 40;

/// Requests that are outstanding and messages that were sent.
#[derive(Default)]
pub(super) struct Books {
    pub(super) pairs: HashMap<u32, Pair>,
    /// Every send request that was posted.
    pub(super) asked: Asked,
    /// What the tester sent, by destination.
    sent: HashMap<u32, Sent>,
    /// Receive requests of a queue pair that completed with success.
    pub(super) delivered: HashMap<u32, usize>,
    /// Receive requests, of queue pairs' own queues and of shared ones.
    pub(super) receives: HashMap<RecvQueue, VecDeque<(u64, u32)>>,
    /// XRC domain of a shared receive queue.
    domains: HashMap<u32, u32>,
    /// What the tester sent up to a packet, by destination and PSN: the lengths that a message up
    /// to here may have.
    lengths: HashMap<(u32, u32), BTreeSet<u32>>,
    /// What may complete a receive request of a queue pair.
    pub(super) messages: HashMap<u32, Vec<Message>>,
    /// The first completion that was wrong, and how.
    pub(super) wrong: Option<String>,
    /// With what the device has refused messages to its queue pairs.
    pub(super) refused: HashSet<(u32, Syndrome)>,
    /// Receive requests that failed for a NAK.
    pub(super) blamed: Vec<(NakCode, Completion)>,
    /// The longest datagram, in bytes.
    pub(super) mtu: u32,
    /// Completions.
    pub(super) seen: usize,
    /// Connections on which a request completed in error since they left RESET.
    pub(super) failed: HashSet<u32>,
    /// Queues of connections on which a request completed in error: what completes after it is
    /// flushed.
    flushing: HashSet<(u32, Side)>,
}

/// A queue pair of the device.
pub(super) struct Pair {
    pub(super) created: CreateQp,
    pub(super) sends: VecDeque<Posted>,
    /// With what the tester has refused its requests.
    pub(super) refusals: Vec<Syndrome>,
    /// The tester has answered it in some way.
    pub(super) answered: bool,
    /// Signaled requests that have completed.
    pub(super) completed: usize,
}

/// A send request.
pub(super) struct Posted {
    pub(super) wr_id: u64,
    pub(super) opcode: Opcode,
    pub(super) len: u32,
    pub(super) signaled: bool,
}

/// A message as its receiver is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) opcode: u32,
    pub(super) byte_len: u32,
    pub(super) imm: Option<[u8; 4]>,
    pub(super) invalidated: Option<u32>,
    /// Of datagrams.
    pub(super) src_qp: Option<u32>,
}

impl Books {
    /// The tester sends a packet. Of one whose ICRC is wrong nothing may come.
    pub(super) fn transmitted(&mut self, packet: &TxPacket, memory: Memory<'_>) {
        if packet.icrc != Crc::Right {
            return;
        }

        let mut bytes = packet.covered();
        bytes.extend_from_slice(&[0; ferroce_wire::ICRC_LEN]);
        let Ok(packet) = Packet::parse(&bytes) else {
            return;
        };

        if packet.info.is_response() {
            self.responded(&packet);
        } else {
            let sent = self.sent.entry(packet.bth.dest_qp).or_default();
            sent.transmitted(&packet, memory);
        }

        let (qp, psn) = (packet.bth.dest_qp, packet.bth.psn);
        let opcode = match packet.info.operation {
            Operation::Send => RECV,
            Operation::Write => RECV_RDMA_WITH_IMM,
            _ => return,
        };

        let here = packet.payload.len() as u32;
        let before = match packet.info.begins() {
            true => BTreeSet::from([0]),
            false => {
                let before = Psn::new(psn).prev().value();
                self.lengths.get(&(qp, before)).cloned().unwrap_or_default()
            }
        };
        let sums: BTreeSet<u32> = before.iter().map(|before| before + here).collect();
        if packet.info.ends() && (opcode == RECV || packet.ext.imm.is_some()) {
            let header = if packet.ext.deth.is_some() { GRH } else { 0 };
            let messages = self.messages.entry(qp).or_default();
            messages.extend(sums.iter().map(|sum| Message {
                opcode,
                byte_len: sum + header,
                imm: packet.ext.imm,
                invalidated: packet.ext.ieth,
                src_qp: packet.ext.deth.map(|deth| deth.src_qp),
            }));
        }

        self.lengths.entry((qp, psn)).or_default().extend(sums);
    }

    /// The tester answers a queue pair.
    fn responded(&mut self, packet: &Packet<'_>) {
        if let Some(pair) = self.pairs.get_mut(&packet.bth.dest_qp) {
            self.asked.responded(packet);
            pair.answered = true;
            pair.refusals
                .extend(packet.ext.aeth.map(|aeth| aeth.kind()));
        }
    }

    /// Whether a response is to something that the tester sent.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn allows_response(
        &mut self,
        packet: &RxPacket,
        info: &OpcodeInfo,
        memory: Memory<'_>,
    ) -> Result<(), String> {
        let mut wrong = "nothing that was sent has such a response".to_owned();
        for life in self.asked.lives(packet) {
            let Some(sent) = self.sent.get_mut(&life.qp) else {
                continue;
            };
            match sent.allows(packet, info, life, memory) {
                Ok(()) => {
                    let (qp, syndrome) = (life.qp, packet.syndrome());
                    self.refused.extend(syndrome.map(|syndrome| (qp, syndrome)));
                    return self.has_credits(qp, syndrome);
                }
                Err(why) => wrong = why,
            }
        }
        Err(wrong)
    }

    /// Credits are receive requests that are there, and none are counted of a queue that others
    /// take from, too (9.7.7.2).
    fn has_credits(&self, qp: u32, syndrome: Option<Syndrome>) -> Result<(), String> {
        let (Some(pair), Some(Syndrome::Ack(code))) = (self.pairs.get(&qp), syndrome) else {
            return Ok(());
        };
        let is_shared = pair.created.srq.is_some() || pair.created.xrcd.is_some();
        let posted = self.receives.get(&RecvQueue::Qp(qp));
        let taken = self.sent.get(&qp).map_or(0, |sent| sent.by_last);
        let to_come = taken.saturating_sub(self.delivered.get(&qp).copied().unwrap_or(0));
        let posted = posted.map_or(0, VecDeque::len).saturating_sub(to_come);
        match code.count() {
            Some(_) if is_shared => Err("there are no credits of a shared queue".to_owned()),
            Some(credits) if credits as usize > posted => Err(format!(
                "there are no {credits} receive requests, but {posted}"
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn commanded(&mut self, command: &Command, reply: &Reply) {
        match (command, reply) {
            (_, Reply::Errno { .. }) => {}
            (Command::Reset, _) => {
                let (wrong, seen, mtu) = (self.wrong.take(), self.seen, self.mtu);
                *self = Books {
                    wrong,
                    seen,
                    mtu,
                    ..Books::default()
                };
            }
            (Command::CreateQp(created), Reply::Qp { qp }) => {
                let pair = Pair {
                    created: created.clone(),
                    sends: VecDeque::new(),
                    refusals: Vec::new(),
                    answered: false,
                    completed: 0,
                };
                self.pairs.insert(*qp, pair);
                self.asked.created(*qp, created.service);
                self.failed.remove(qp);
                self.begins_anew(*qp);
                self.forget(*qp);
            }
            (Command::DestroyQp { qp }, _) => {
                self.pairs.remove(qp);
                self.receives.remove(&RecvQueue::Qp(*qp));
            }
            (Command::ModifyQp { qp, attributes }, _) => {
                self.asked.modified(*qp, attributes);
                if attributes.qp_state.is_some_and(|to| to != qp_state::ERR) {
                    self.begins_anew(*qp);
                }
                if attributes.qp_state != Some(qp_state::RESET) {
                    return;
                }
                self.failed.remove(qp);
                if let Some(pair) = self.pairs.get_mut(qp) {
                    pair.sends.clear();
                    pair.refusals.clear();
                    pair.answered = false;
                    pair.completed = 0;
                }
                self.forget(*qp);
            }
            (Command::CreateSrq { xrcd, .. }, Reply::Srq { srq, .. }) => {
                self.receives.remove(&RecvQueue::Srq(*srq));
                self.domains.remove(srq);
                if let Some(xrcd) = xrcd {
                    self.domains.insert(*srq, *xrcd);
                }
            }
            (Command::DestroySrq { srq }, _) => {
                self.receives.remove(&RecvQueue::Srq(*srq));
                self.domains.remove(srq);
            }
            (Command::PostRecv { queue, wr_id, sges }, _) => {
                let queue = self.receives.entry(*queue).or_default();
                queue.push_back((*wr_id, total(sges)));
            }
            (Command::Poll { qp, queue, .. }, Reply::Completions { completions }) => {
                for completion in completions {
                    self.seen += 1;
                    if completion.status != 0 && self.ends_with_an_error(*qp) {
                        self.failed.insert(*qp);
                        let is_first = self.flushing.insert((*qp, *queue));
                        if !is_first && completion.status != status::FLUSHED {
                            self.note(format!(
                                "behind a request that failed others are flushed: {completion:?}"
                            ));
                        }
                    }
                    let right = match queue {
                        Side::Send => self.sent(*qp, completion),
                        Side::Recv => self.received(*qp, completion),
                    };
                    if let Err(why) = right {
                        self.note(format!("{why}: {completion:?}"));
                    }
                }
            }
            _ => {}
        }
    }

    /// Something is wrong.
    pub(super) fn note(&mut self, wrong: String) {
        self.wrong.get_or_insert(wrong);
    }

    /// A queue pair leaves the states in which requests are flushed.
    fn begins_anew(&mut self, qp: u32) {
        for side in [Side::Send, Side::Recv] {
            self.flushing.remove(&(qp, side));
        }
    }

    /// Of a queue pair in RESET nothing is outstanding.
    fn forget(&mut self, qp: u32) {
        self.receives.remove(&RecvQueue::Qp(qp));
        self.sent.remove(&qp);
        self.delivered.remove(&qp);
    }

    /// Whether a request that completes in error ends the connection (10.3.1).
    fn ends_with_an_error(&self, qp: u32) -> bool {
        self.pairs
            .get(&qp)
            .is_some_and(|pair| pair.created.service == Service::Rc)
    }

    /// The queue pairs that have completion queues to look at.
    pub(super) fn queue_pairs(&self) -> Vec<u32> {
        self.pairs.keys().copied().collect()
    }

    /// What the device's program posts carries these bytes.
    pub(super) fn carried(request: &SendRequest, memory: Memory<'_>) -> Option<Vec<u8>> {
        let carries = matches!(
            request.opcode,
            Opcode::Send
                | Opcode::SendWithImm
                | Opcode::SendWithInv
                | Opcode::RdmaWrite
                | Opcode::RdmaWriteWithImm
        );
        let readable = carries && READABLE.contains(&total(&request.sges));
        readable.then(|| gather(&request.sges, memory)).flatten()
    }

    /// A send request was posted.
    pub(super) fn posted(&mut self, qp: u32, request: &SendRequest, bytes: Option<Vec<u8>>) {
        let Some(pair) = self.pairs.get_mut(&qp) else {
            return;
        };
        let signaled = pair.created.sq_sig_all || request.flags & send_flags::SIGNALED != 0;
        self.asked.posted(qp, request, signaled, bytes);
        pair.sends.push_back(Posted {
            wr_id: request.wr_id,
            opcode: request.opcode,
            len: total(&request.sges),
            signaled,
        });
    }

    /// A message that takes a receive request and was acknowledged has completed it (9.7.5.1): how
    /// many completions are missing.
    pub(super) fn undelivered(&self, qp: u32) -> usize {
        let acknowledged = self.sent.get(&qp).map_or(0, |sent| sent.acknowledged);
        let delivered = self.delivered.get(&qp).copied().unwrap_or(0);
        acknowledged.saturating_sub(delivered)
    }

    /// Requests that must complete in a state of the queue pair, and have not: on which side, how
    /// many. In ERR all are flushed (10.3.1); of an unreliable service those to send complete
    /// without an answer, of a reliable one those that were answered.
    pub(super) fn open(&self, qp: u32, state: u32) -> [(Side, usize); 2] {
        let Some(pair) = self.pairs.get(&qp) else {
            return [(Side::Send, 0), (Side::Recv, 0)];
        };
        let sends = pair.sends.iter().filter(|posted| posted.signaled).count();
        let is_reliable = matches!(pair.created.service, Service::Rc | Service::XrcTarget);
        let receives = self.receives.get(&RecvQueue::Qp(qp));
        let sends = match state {
            qp_state::ERR => sends,
            qp_state::RTS | qp_state::SQE if !is_reliable => sends,
            qp_state::RTS => self.asked.answered(qp).saturating_sub(pair.completed),
            _ => 0,
        };
        let receives = match state {
            qp_state::ERR => receives.map_or(0, VecDeque::len),
            _ => 0,
        };
        [(Side::Send, sends), (Side::Recv, receives)]
    }

    /// Whether a queue pair has requests that are outstanding.
    pub(super) fn has_open(&self, qp: u32) -> bool {
        let sends = self
            .pairs
            .get(&qp)
            .is_some_and(|pair| !pair.sends.is_empty());
        let receives = self.receives.get(&RecvQueue::Qp(qp));
        sends || receives.is_some_and(|requests| !requests.is_empty())
    }

    /// Where the receive requests of a queue pair come from, and whether they complete in their
    /// order there.
    pub(super) fn receive_queues(&self, pair: &Pair, qp: u32) -> Vec<(RecvQueue, bool)> {
        match (pair.created.service, pair.created.srq) {
            (Service::XrcTarget, _) => {
                let of_domain = |(_, domain): &(&u32, &u32)| Some(**domain) == pair.created.xrcd;
                let queues = self.domains.iter().filter(of_domain);
                queues
                    .map(|(srq, _)| (RecvQueue::Srq(*srq), false))
                    .collect()
            }
            (_, Some(srq)) => vec![(RecvQueue::Srq(srq), false)],
            (_, None) => vec![(RecvQueue::Qp(qp), true)],
        }
    }
}
