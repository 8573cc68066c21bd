//! Responses on the wire against what the tester sent: messages, READs and atomics.

use super::memory::{Memory, READABLE};
use super::requests::Life;
use crate::packet::RxPacket;
use ferroce_wire::psn::Psn;
use ferroce_wire::{Aeth, AtomicEth, OpcodeInfo, Operation, Packet, Position, Syndrome};
use std::collections::BTreeMap;

/// What the tester sent to a queue pair of the device since that left RESET.
#[derive(Default)]
pub(super) struct Sent {
    /// Where its messages end, and whether they take a receive request.
    ends: BTreeMap<u32, bool>,
    reads: Vec<Read>,
    atomics: Vec<Atomic>,
    /// Messages that take a receive request, and that the device has acknowledged.
    pub(super) acknowledged: usize,
    /// Of these, those that the last packet acknowledges.
    pub(super) by_last: usize,
}

struct Read {
    psn: u32,
    addr: u64,
    len: u32,
    /// What was there when it was sent, if it could be read.
    bytes: Option<Vec<u8>>,
}

struct Atomic {
    psn: u32,
    addr: u64,
    /// What it makes of a value.
    operation: Operation,
    operands: AtomicEth,
    /// What may be there when it is carried out; nothing where that is not known.
    before: Vec<u64>,
    answered: bool,
}

impl Atomic {
    fn makes(&self, value: u64) -> u64 {
        match self.operation {
            Operation::FetchAdd => value.wrapping_add(self.operands.swap_add),
            _ if value == self.operands.compare => self.operands.swap_add,
            _ => value,
        }
    }
}

/// How far a PSN is behind another; nothing if it is before that.
fn behind(psn: u32, first: u32) -> Option<u32> {
    u32::try_from(Psn::new(psn).distance(Psn::new(first))).ok()
}

impl Sent {
    /// The tester sends a packet.
    pub(super) fn transmitted(&mut self, packet: &Packet<'_>, memory: Memory<'_>) {
        let (psn, ext, operation) = (packet.bth.psn, &packet.ext, packet.info.operation);
        if !packet.info.is_request() {
            return;
        }

        if packet.info.ends() {
            let takes = operation == Operation::Send || ext.imm.is_some();
            self.ends.insert(psn, takes);
        }

        match (operation, ext.reth, ext.atomic) {
            (Operation::ReadRequest, Some(reth), _) => {
                let readable = READABLE.contains(&reth.len);
                self.reads.push(Read {
                    psn,
                    addr: reth.va,
                    len: reth.len,
                    bytes: readable.then(|| memory(reth.va, reth.len)).flatten(),
                });
            }
            // Answered like a READ of nothing.
            (Operation::Flush, ..) => self.reads.push(Read {
                psn,
                addr: 0,
                len: 0,
                bytes: None,
            }),
            (Operation::CompareSwap | Operation::FetchAdd, _, Some(operands)) => {
                self.atomic(psn, operation, operands, memory);
            }
            _ => {}
        }
    }

    fn atomic(&mut self, psn: u32, operation: Operation, operands: AtomicEth, memory: Memory<'_>) {
        if self.atomics.iter().any(|atomic| atomic.psn == psn) {
            return;
        }

        let there = memory(operands.va, 8).and_then(|bytes| bytes.try_into().ok());
        let mut before: Vec<u64> = there.map(u64::from_ne_bytes).into_iter().collect();

        // Those that are on their way may be carried out before it, or not at all.
        let open = self.atomics.iter().filter(|atomic| !atomic.answered);
        for atomic in open.filter(|atomic| atomic.addr == operands.va) {
            let made: Vec<u64> = before.iter().map(|value| atomic.makes(*value)).collect();
            before.extend(made);
        }

        self.atomics.push(Atomic {
            psn,
            addr: operands.va,
            operation,
            operands,
            before,
            answered: false,
        });
    }

    /// How many messages end up to a PSN, or before it, from the first PSN of a queue pair on; only
    /// those that take a receive request, or all. A READ that is asked for again in its middle is
    /// none of its own.
    fn messages(&self, first: u32, psn: u32, inclusive: bool, path_mtu: u32, takes: bool) -> usize {
        let Some(last) = behind(psn, first) else {
            return 0;
        };

        let inside = |end: u32| {
            self.reads.iter().any(|read| {
                let nth = behind(end, read.psn).unwrap_or(0);
                nth > 0 && nth < read.len.div_ceil(path_mtu)
            })
        };

        let counted =
            |end: u32| behind(end, first).is_some_and(|nth| nth < last || inclusive && nth == last);
        let ends = self
            .ends
            .iter()
            .filter(|(_, consumes)| **consumes || !takes);
        ends.filter(|(end, _)| counted(**end) && !inside(**end))
            .count()
    }

    /// Whether it answers something that was sent, by what it says and carries.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn allows(
        &mut self,
        packet: &RxPacket,
        info: &OpcodeInfo,
        life: &Life,
        memory: Memory<'_>,
    ) -> Result<(), String> {
        let path_mtu = life.attributes.path_mtu.unwrap_or(u32::MAX);
        if let Some(aeth) = packet.ext.aeth {
            self.counts(packet, aeth, info, life, path_mtu)?;
        }
        match info.operation {
            Operation::ReadResponse => self.answers_read(packet, info, path_mtu, memory),
            Operation::AtomicAcknowledge => self.answers_atomic(packet),
            _ if packet.payload.is_empty() => Ok(()),
            _ => Err("it has a payload".to_owned()),
        }
    }

    /// The AETH: a syndrome that such a response may have, the RNR timer that was set, and the
    /// message number. The MSN counts the messages that were completed (9.7.7.1): all that end up
    /// to what is acknowledged, none behind it, nor the one that is refused.
    fn counts(
        &mut self,
        packet: &RxPacket,
        aeth: Aeth,
        info: &OpcodeInfo,
        life: &Life,
        path_mtu: u32,
    ) -> Result<(), String> {
        let acknowledges = matches!(aeth.kind(), Syndrome::Ack(_));
        let kind = match (info.operation, aeth.kind()) {
            (_, Syndrome::Ack(_)) => true,
            (Operation::Acknowledge, Syndrome::RnrNak { timer }) => {
                let set = life.attributes.min_rnr_timer;
                set.is_none_or(|set| set == timer)
            }
            (Operation::Acknowledge, Syndrome::Nak(_)) => true,
            _ => false,
        };

        if !kind {
            return Err("it says what such a response cannot".to_owned());
        }
        let Some(first) = life.attributes.rq_psn else {
            return Ok(());
        };

        let psn = packet.bth.psn;
        let most = self.messages(first, psn, acknowledges, path_mtu, false) as u32;

        // A READ is complete with its last response; whether its first counts it is the responder's
        // say.
        let open = info.operation == Operation::ReadResponse && info.position == Position::First;
        let least = most.saturating_sub(open.into());
        if !(least..=most).contains(&aeth.msn) {
            return Err(format!("{most} messages are complete, as the MSN must say"));
        }

        let done = self.messages(first, psn, acknowledges, path_mtu, true);
        self.by_last = done;
        self.acknowledged = self.acknowledged.max(done);
        Ok(())
    }

    fn answers_read(
        &self,
        packet: &RxPacket,
        info: &OpcodeInfo,
        path_mtu: u32,
        memory: Memory<'_>,
    ) -> Result<(), String> {
        let len = packet.payload.len();
        let mut fits = false;
        for read in &self.reads {
            let count = read.len.div_ceil(path_mtu).max(1);
            let Some(nth) = behind(packet.bth.psn, read.psn).filter(|nth| *nth < count) else {
                continue;
            };

            let position = match (nth == 0, nth + 1 == count) {
                (true, true) => Position::Only,
                (true, false) => Position::First,
                (false, false) => Position::Middle,
                (false, true) => Position::Last,
            };

            let skip = nth.saturating_mul(path_mtu);
            if position != info.position || len != (read.len - skip).min(path_mtu) as usize {
                continue;
            }

            fits = true;
            let Some(bytes) = &read.bytes else {
                return Ok(());
            };

            // What was there when it was asked for, or is there now.
            let at = read.addr.wrapping_add(skip.into());
            if bytes.get(skip as usize..skip as usize + len) == Some(&packet.payload)
                || memory(at, len as u32).as_ref() == Some(&packet.payload)
            {
                return Ok(());
            }
        }

        Err(match fits {
            true => "its bytes are not those of the memory that was asked for",
            false => "no READ that was sent has such a response",
        }
        .to_owned())
    }

    /// The first answer says what was there, and each other the same.
    fn answers_atomic(&mut self, packet: &RxPacket) -> Result<(), String> {
        let psn = packet.bth.psn;
        let atomic = self.atomics.iter_mut().find(|atomic| atomic.psn == psn);
        let (Some(atomic), Some(value)) = (atomic, packet.ext.atomic_ack) else {
            return Err("no atomic that was sent has such a response".to_owned());
        };
        if !atomic.before.is_empty() && !atomic.before.contains(&value) {
            let due = &atomic.before;
            return Err(format!("{value:#x} was not there, but one of {due:#x?}"));
        }
        atomic.answered = true;
        atomic.before = vec![value];
        Ok(())
    }
}
