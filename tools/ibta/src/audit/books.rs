//! Requests that are outstanding, messages that were sent, and what they make of completions.

use super::requests::Asked;
use crate::packet::TxPacket;
use crate::protocol::{
    Command, Completion, CreateQp, Opcode, RecvQueue, Reply, SendRequest, Service, Sge, Side,
    qp_state, send_flags,
};
use ferroce_wire::{Operation, Packet};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// `enum ibv_wc_opcode` of receive requests.
const RECV: u32 = 128;
const RECV_RDMA_WITH_IMM: u32 = 129;
/// `IBV_WC_WR_FLUSH_ERR`.
const FLUSHED: u32 = 5;
/// Bytes that stand before the payload of a datagram.
const GRH: u32 = 40;

/// Requests that are outstanding and messages that were sent.
#[derive(Default)]
pub(super) struct Books {
    pairs: HashMap<u32, Pair>,
    /// Every send request that was posted.
    pub(super) asked: Asked,
    /// Receive requests, of queue pairs' own queues and of shared ones.
    receives: HashMap<RecvQueue, VecDeque<(u64, u32)>>,
    /// XRC domain of a shared receive queue.
    domains: HashMap<u32, u32>,
    /// What the tester sent up to a packet, by destination and PSN: the lengths that a message up to here may have.
    lengths: HashMap<(u32, u32), BTreeSet<u32>>,
    /// What may complete a receive request of a queue pair.
    messages: HashMap<u32, Vec<Message>>,
    /// The first completion that was wrong, and how.
    pub(super) wrong: Option<String>,
    /// Completions.
    pub(super) seen: usize,
    /// Connections on which a request completed in error since they left RESET.
    pub(super) failed: HashSet<u32>,
    /// Queues of connections on which a request completed in error: what completes after it is flushed.
    flushing: HashSet<(u32, Side)>,
}

/// A queue pair of the device.
struct Pair {
    created: CreateQp,
    sends: VecDeque<Posted>,
}

/// A send request.
struct Posted {
    wr_id: u64,
    opcode: Opcode,
    len: u32,
    signaled: bool,
}

/// A message as its receiver is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    opcode: u32,
    byte_len: u32,
    imm: Option<[u8; 4]>,
    invalidated: Option<u32>,
    /// Of datagrams.
    src_qp: Option<u32>,
}

fn total(sges: &[Sge]) -> u32 {
    sges.iter().map(|sge| sge.len).sum()
}

impl Books {
    pub(super) fn transmitted(&mut self, packet: &TxPacket) {
        let mut bytes = packet.covered();
        bytes.extend_from_slice(&[0; ferroce_wire::ICRC_LEN]);
        let Ok(packet) = Packet::parse(&bytes) else {
            return;
        };
        self.asked.transmitted(&packet);
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
                let before = psn.wrapping_sub(1) & 0xff_ffff;
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

    pub(super) fn commanded(&mut self, command: &Command, reply: &Reply) {
        match (command, reply) {
            (_, Reply::Errno { .. }) => {}
            (Command::Reset, _) => {
                let (wrong, seen) = (self.wrong.take(), self.seen);
                *self = Books {
                    wrong,
                    seen,
                    ..Books::default()
                };
            }
            (Command::CreateQp(created), Reply::Qp { qp }) => {
                let pair = Pair {
                    created: created.clone(),
                    sends: VecDeque::new(),
                };
                self.pairs.insert(*qp, pair);
                self.asked.created(*qp, created.service);
                self.failed.remove(qp);
                self.begins_anew(*qp);
                self.receives.remove(&RecvQueue::Qp(*qp));
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
                }
                self.receives.remove(&RecvQueue::Qp(*qp));
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
            (Command::PostSend { qp, request }, _) => self.posted(*qp, request),
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
                        if !is_first && completion.status != FLUSHED {
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

    fn posted(&mut self, qp: u32, request: &SendRequest) {
        self.asked.posted(qp, request);
        let Some(pair) = self.pairs.get_mut(&qp) else {
            return;
        };
        pair.sends.push_back(Posted {
            wr_id: request.wr_id,
            opcode: request.opcode,
            len: total(&request.sges),
            signaled: pair.created.sq_sig_all || request.flags & send_flags::SIGNALED != 0,
        });
    }

    fn sent(&mut self, qp: u32, done: &Completion) -> Result<(), String> {
        if done.qp != qp {
            return Err(format!("qp_num is not that of the queue pair, {qp:#x}"));
        }
        let pair = self
            .pairs
            .get_mut(&qp)
            .ok_or("there is no such queue pair")?;
        let at = pair
            .sends
            .iter()
            .position(|posted| posted.wr_id == done.wr_id);
        let at = at.ok_or("no send request with this wr_id is outstanding")?;
        // Behind one that is signaled nothing completes before it; one that is not completes unheard.
        if let Some(first) = pair.sends.iter().take(at).find(|posted| posted.signaled) {
            return Err(format!("request {} is before it", first.wr_id));
        }
        let posted = pair.sends.drain(..=at).next_back().expect("just found");
        if done.status != 0 {
            return Ok(());
        }
        let (opcode, len) = match posted.opcode {
            Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv => (0, None),
            Opcode::RdmaWrite | Opcode::RdmaWriteWithImm => (1, None),
            Opcode::RdmaRead => (2, Some(posted.len)),
            Opcode::CompareSwap => (3, Some(8)),
            Opcode::FetchAdd => (4, Some(8)),
            Opcode::BindMw => (5, None),
            Opcode::LocalInv => (6, None),
        };
        if done.opcode != opcode {
            return Err(format!("opcode is not {opcode}, of {:?}", posted.opcode));
        }
        // How much was sent the sender knows; verbs promises byte_len of what comes in.
        match len {
            Some(len) if len != done.byte_len => Err(format!("byte_len is not {len}")),
            _ => Ok(()),
        }
    }

    fn received(&mut self, qp: u32, done: &Completion) -> Result<(), String> {
        let pair = self.pairs.get(&qp).ok_or("there is no such queue pair")?;
        // Those of a domain complete in one queue.
        let is_its_own = match pair.created.service {
            Service::XrcTarget => self
                .pairs
                .get(&done.qp)
                .is_some_and(|other| other.created.xrcd == pair.created.xrcd),
            _ => done.qp == qp,
        };
        if !is_its_own {
            return Err(format!("qp_num is not that of the queue pair, {qp:#x}"));
        }
        let service = pair.created.service;
        let mut queues = self.receive_queues(pair, qp).into_iter();
        let posted = queues.find_map(|(queue, in_turn)| {
            let requests = self.receives.get_mut(&queue)?;
            let at = requests
                .iter()
                .position(|(wr_id, _)| *wr_id == done.wr_id)?;
            if in_turn && at > 0 {
                return Some(Err(format!("{at} receive requests are before it")));
            }
            requests.remove(at);
            Some(Ok(()))
        });
        posted.ok_or("no receive request with this wr_id is outstanding")??;
        if done.status != 0 {
            return Ok(());
        }
        let told = Message {
            opcode: done.opcode,
            byte_len: done.byte_len,
            imm: done.imm,
            invalidated: done.invalidated,
            src_qp: (service == Service::Ud).then_some(done.src_qp),
        };
        let sent = self.messages.get(&done.qp).map_or(&[][..], Vec::as_slice);
        match sent.contains(&told) {
            true => Ok(()),
            false => Err(format!(
                "no message that was sent is told so; they are {sent:?}"
            )),
        }
    }

    /// Where the receive requests of a queue pair come from, and whether they complete in their order there.
    fn receive_queues(&self, pair: &Pair, qp: u32) -> Vec<(RecvQueue, bool)> {
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
