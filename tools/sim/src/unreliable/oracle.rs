//! Knows which of the packets that arrived at one side make a message, and what must then be where.
//!
//! It sees every arrival with its place in the sender's program, which the queue pair does not: so
//! what is lost, late or twice is plain, and the rule is one sentence. Of the packets that are
//! newer than all before them, those that make a whole message deliver it.

use super::plan::Message;
use crate::memory::Memory;
use ferroce_transport::{Access, QpType, SendFlags, Sge, WcData, WcOpcode};
use std::collections::VecDeque;

/// A completion that must be raised, and the message that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    /// The message.
    pub message: usize,
    /// The receive request.
    pub wr_id: u64,
    /// Opcode.
    pub opcode: WcOpcode,
    /// Length, with the GRH if there is one.
    pub byte_len: u32,
    /// Immediate data.
    pub data: WcData,
    /// Solicited event asked for.
    pub solicited: bool,
}

/// What one side must have seen.
pub(super) struct Oracle {
    service: QpType,
    mtu: usize,
    /// Memory as it must be.
    pub memory: Memory,
    /// Receive requests posted and not consumed.
    recvs: VecDeque<(u64, Vec<Sge>)>,
    /// The newest packet so far, by its place in the sender's program.
    newest: Option<usize>,
    /// The message that all packets so far have come of, and how many.
    open: Option<(usize, usize)>,
    /// Messages that arrived whole: with or without a completion.
    pub whole: usize,
}

impl Oracle {
    /// A side with this memory that has seen nothing yet.
    pub(super) fn new(service: QpType, mtu: u32, memory: Memory) -> Oracle {
        Oracle {
            service,
            mtu: mtu as usize,
            memory,
            recvs: VecDeque::new(),
            newest: None,
            open: None,
            whole: 0,
        }
    }

    /// A receive request was posted.
    pub(super) fn posted(&mut self, wr_id: u64, sges: &[Sge]) {
        self.recvs.push_back((wr_id, sges.to_vec()));
    }

    fn place(&mut self, at: usize, data: &[u8]) -> bool {
        let Some((_, sges)) = self.recvs.front() else {
            return false;
        };

        let capacity: usize = sges.iter().map(|s| s.length as usize).sum();
        if at + data.len() > capacity {
            return false;
        }

        let pieces = self
            .memory
            .pieces(sges, at as u32, data.len() as u32, Access::LOCAL_WRITE)
            .expect("receive requests are good");

        let mut rest = data;
        for piece in pieces {
            let (now, later) = rest.split_at(piece.len());
            self.memory.bytes[piece].copy_from_slice(now);
            rest = later;
        }

        true
    }

    fn deliver(&mut self, index: usize, message: &Message, extra: u32) -> Option<Delivery> {
        let (wr_id, _) = self.recvs.pop_front()?;
        Some(Delivery {
            message: index,
            wr_id,
            opcode: match message.target {
                Some(_) => WcOpcode::RecvRdmaWithImm,
                None => WcOpcode::Recv,
            },
            byte_len: message.data.len() as u32 + extra,
            data: message.imm().map_or(WcData::None, WcData::Imm),
            solicited: message.flags.contains(SendFlags::SOLICITED),
        })
    }

    /// Packet `place` of the sender's program has arrived unharmed: it is the `k`-th of message
    /// `index`.
    pub(super) fn arrival(
        &mut self,
        place: usize,
        index: usize,
        k: usize,
        message: &Message,
        grh: &[u8],
    ) -> Option<Delivery> {
        if self.service == QpType::Ud {
            if message.foreign {
                return None;
            }
            let whole = [grh, &message.data].concat();
            if !self.place(0, &whole) {
                return None;
            }
            self.whole += 1;
            return self.deliver(index, message, 40);
        }

        if self.newest.is_some_and(|newest| place <= newest) {
            return None;
        }

        let in_a_row = self.newest == place.checked_sub(1);
        self.newest = Some(place);
        let goes_on = k == 0 || in_a_row && self.open == Some((index, k));
        self.open = None;
        if !goes_on {
            return None;
        }

        let start = k * self.mtu;
        let end = (start + self.mtu).min(message.data.len());
        let last = end == message.data.len();
        match message.target {
            Some(target) => {
                // One with immediate data finds out at its end that there is no receive request,
                // and drops that packet.
                if last && message.imm().is_some() && self.recvs.is_empty() {
                    return None;
                }
                let va = target.va + start as u64;
                self.memory.put(va, &message.data[start..end]);
            }
            None => {
                if !self.place(start, &message.data[start..end]) {
                    return None;
                }
            }
        }

        if !last {
            self.open = Some((index, k + 1));
            return None;
        }

        self.whole += 1;
        match (message.target, message.imm()) {
            (Some(_), None) => None,
            _ => self.deliver(index, message, 0),
        }
    }
}
