//! What the tests of reliable connections stand on: a channel, memory that the tester may reach,
//! and short words for what must come.
//!
//! A bench decides one assertion at a time, that of its test unless the test names another. It
//! asserts nothing by itself.

use super::words::{MEMORY, ahead, atomic, name, reth};
use crate::channel::{self, Channel, ChannelOptions};
use crate::packet::{RxPacket, TxPacket};
use crate::protocol::{Command, Region, Reply, access, qp_state};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run, Stop};
use ferroce_wire::{Ext, NakCode, Syndrome, opcode};

/// A channel with memory.
pub(super) struct Bench<'a> {
    /// The run.
    pub run: &'a mut Run,
    /// The rig.
    pub rig: &'a mut dyn TransportRig,
    /// The channel.
    pub cc: Channel,
    /// Memory with all rights, of zeros at first.
    pub region: Region,
    /// The assertion that is being decided.
    pub assertion: String,
    steps: u32,
}

impl<'a> Bench<'a> {
    /// A channel and memory.
    pub(super) fn open(
        run: &'a mut Run,
        rig: &'a mut dyn TransportRig,
        options: ChannelOptions,
        assertion: String,
    ) -> Outcome<Bench<'a>> {
        let region = channel::register(rig, MEMORY, access::ALL)?;
        let cc = Channel::open(rig, options)?;
        Ok(Bench {
            run,
            rig,
            cc,
            region,
            assertion,
            steps: 0,
        })
    }

    /// The next step.
    pub(super) fn step(&mut self, text: impl ToString) {
        self.steps += 1;
        self.run.step(self.steps, text);
    }

    /// Decides the assertion.
    pub(super) fn check(&mut self, held: bool, seen: impl FnOnce() -> String) -> Outcome {
        self.run.check(&self.assertion, held, seen)
    }

    /// Decides it by two values.
    pub(super) fn eq<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: &str,
        seen: T,
        due: T,
    ) -> Outcome {
        self.run.check_eq(&self.assertion, what, seen, due)
    }

    /// The test is for devices with atomics.
    pub(super) fn needs_atomics(&mut self) -> Outcome {
        match channel::must(self.rig, Command::Device)? {
            Reply::Device(device) if device.atomics => Ok(()),
            _ => Err(Stop::NotApplicable("the device has no atomics".to_owned())),
        }
    }

    // ---- memory ----

    /// Extended headers for a part of the memory.
    pub(super) fn reth(&self, offset: u32, len: u32) -> Ext {
        reth(self.region.addr + u64::from(offset), self.region.rkey, len)
    }

    /// Extended headers for a word of the memory.
    pub(super) fn atomic(&self, offset: u32, swap_add: u64, compare: u64) -> Ext {
        let va = self.region.addr + u64::from(offset);
        atomic(va, self.region.rkey, swap_add, compare)
    }

    /// A program of the device writes its memory.
    pub(super) fn write(&mut self, offset: u32, data: &[u8]) -> Outcome {
        Ok(channel::write_memory(
            self.rig,
            self.region.addr + u64::from(offset),
            data,
        )?)
    }

    /// The same, a word.
    pub(super) fn write_word(&mut self, offset: u32, word: u64) -> Outcome {
        self.write(offset, &word.to_ne_bytes())
    }

    /// What a program of the device reads in its memory.
    pub(super) fn read(&mut self, offset: u32, len: u32) -> Outcome<Vec<u8>> {
        Ok(channel::read_memory(
            self.rig,
            self.region.addr + u64::from(offset),
            len,
        )?)
    }

    /// A part of the memory holds these bytes.
    pub(super) fn holds(&mut self, offset: u32, due: &[u8]) -> Outcome {
        let seen = self.read(offset, due.len() as u32)?;
        let at = seen.iter().zip(due).position(|(a, b)| a != b);
        self.check(at.is_none(), || {
            let at = at.unwrap_or_default();
            format!(
                "the byte at {at} of {} is {:#04x}, must be {:#04x}",
                due.len(),
                seen[at],
                due[at]
            )
        })
    }

    /// A word of the memory holds this value.
    pub(super) fn holds_word(&mut self, offset: u32, due: u64) -> Outcome {
        self.holds(offset, &due.to_ne_bytes())
    }

    // ---- the tester as requester ----

    /// Transmits a request that asks to be acknowledged, with the next PSN.
    pub(super) fn send(&mut self, opcode: u8, ext: Ext, payload: &[u8]) -> Outcome<u32> {
        Ok(self.cc.request(self.rig, opcode, ext, payload)?)
    }

    /// Transmits a request that does not ask, with the next PSN.
    pub(super) fn send_quietly(&mut self, opcode: u8, ext: Ext, payload: &[u8]) -> Outcome<u32> {
        let psn = self.cc.next_psn;
        let packet = self.cc.packet(opcode, psn, ext, payload);
        self.rig.transmit(&packet)?;
        self.skip(1);
        Ok(psn)
    }

    /// Transmits a request that asks, with some PSN.
    pub(super) fn send_at(&mut self, psn: u32, opcode: u8, ext: Ext, payload: &[u8]) -> Outcome {
        let mut packet = self.cc.packet(opcode, psn, ext, payload);
        packet.bth.ack_req = true;
        self.transmit(&packet)
    }

    /// Transmits a packet.
    pub(super) fn transmit(&mut self, packet: &TxPacket) -> Outcome {
        Ok(self.rig.transmit(packet)?)
    }

    /// The tester's next PSN.
    pub(super) fn psn(&self) -> u32 {
        self.cc.next_psn
    }

    /// PSNs are used up, by READ responses for instance.
    pub(super) fn skip(&mut self, psns: u32) {
        self.cc.next_psn = (self.cc.next_psn + psns) & 0xff_ffff;
    }

    /// Transmits a message in packets of the path MTU, the last of which asks. `ext` is that of the
    /// first packet, immediate data that of the last. Its last PSN.
    pub(super) fn message(&mut self, write: bool, ext: Ext, data: &[u8]) -> Outcome<u32> {
        use opcode::*;

        let packets: Vec<&[u8]> = match data {
            [] => vec![&[]],
            data => data.chunks(self.cc.options.pmtu as usize).collect(),
        };
        let count = packets.len();
        let mut psn = self.psn();
        for (n, payload) in packets.into_iter().enumerate() {
            let (first, last, with_imm) = (n == 0, n + 1 == count, ext.imm.is_some());
            let opcode = match (write, first, last, with_imm) {
                (false, true, true, false) => RC_SEND_ONLY,
                (false, true, true, true) => RC_SEND_ONLY_IMM,
                (false, true, false, _) => RC_SEND_FIRST,
                (false, false, false, _) => RC_SEND_MIDDLE,
                (false, false, true, false) => RC_SEND_LAST,
                (false, false, true, true) => RC_SEND_LAST_IMM,
                (true, true, true, false) => RC_WRITE_ONLY,
                (true, true, true, true) => RC_WRITE_ONLY_IMM,
                (true, true, false, _) => RC_WRITE_FIRST,
                (true, false, false, _) => RC_WRITE_MIDDLE,
                (true, false, true, false) => RC_WRITE_LAST,
                (true, false, true, true) => RC_WRITE_LAST_IMM,
            };

            psn = match last {
                true => self.send(opcode, ext, payload)?,
                false => self.send_quietly(opcode, ext, payload)?,
            };
        }

        Ok(psn)
    }

    /// The next packet of the device, which must be valid.
    pub(super) fn next(&mut self, what: &str) -> Outcome<RxPacket> {
        self.cc.expect(self.run, self.rig, &self.assertion, what)
    }

    /// The next packet of the device has this opcode and PSN.
    pub(super) fn packet(&mut self, opcode: u8, psn: u32) -> Outcome<RxPacket> {
        let opcode = self.cc.opcode(opcode);
        let what = format!("{} with PSN {psn:#08x}", name(opcode));
        let packet = self.next(&what)?;
        self.check(packet.bth.opcode == opcode && packet.bth.psn == psn, || {
            format!("{} came, {what} is due", packet.describe())
        })?;
        Ok(packet)
    }

    /// An ACK up to this PSN with this message number comes, perhaps after ACKs of earlier packets.
    pub(super) fn acked(&mut self, psn: u32, msn: u32) -> Outcome<RxPacket> {
        let what = format!("an ACK of PSN {psn:#08x}, MSN {msn}");
        loop {
            let packet = self.next(&what)?;
            let ack = packet.bth.opcode == self.cc.opcode(opcode::RC_ACKNOWLEDGE)
                && matches!(packet.syndrome(), Some(Syndrome::Ack(_)));
            if ack && ahead(packet.bth.psn, psn) < 0 {
                continue;
            }
            let same =
                ack && packet.bth.psn == psn && packet.ext.aeth.is_some_and(|aeth| aeth.msn == msn);
            self.check(same, || {
                format!("{} came, {what} is due", packet.describe())
            })?;
            return Ok(packet);
        }
    }

    /// A NAK or RNR NAK of this PSN comes.
    pub(super) fn refused(&mut self, syndrome: Syndrome, psn: u32) -> Outcome<RxPacket> {
        let packet = self.packet(opcode::RC_ACKNOWLEDGE, psn)?;
        self.check(packet.syndrome() == Some(syndrome), || {
            format!("{} came, {syndrome:?} is due", packet.describe())
        })?;
        Ok(packet)
    }

    /// A NAK of this PSN comes.
    pub(super) fn nak(&mut self, code: NakCode, psn: u32) -> Outcome<RxPacket> {
        self.refused(Syndrome::Nak(code), psn)
    }

    /// Nothing comes.
    pub(super) fn silence(&mut self) -> Outcome {
        self.cc.expect_none(self.run, self.rig, &self.assertion)
    }

    /// A packet of the device has this payload.
    pub(super) fn brings(&mut self, packet: &RxPacket, due: &[u8]) -> Outcome {
        self.check(packet.payload == due, || {
            format!(
                "the bytes of {} are not those that are due",
                packet.describe()
            )
        })
    }

    /// The connection has ended: the queue pair is in ERR and answers nothing more.
    pub(super) fn ended(&mut self) -> Outcome {
        let state = self.cc.query(self.rig)?.qp_state;
        self.eq("the queue pair's state", state, Some(qp_state::ERR))?;
        let ext = self.reth(0, 0);
        let psn = self.psn();
        self.send_at(psn, opcode::RC_WRITE_ONLY, ext, &[])?;
        self.silence()
    }

    /// The connection goes on: a WRITE of nothing with the next PSN is acknowledged.
    pub(super) fn goes_on(&mut self, msn: u32) -> Outcome {
        let ext = self.reth(0, 0);
        let psn = self.send(opcode::RC_WRITE_ONLY, ext, &[])?;
        self.acked(psn, msn)?;
        Ok(())
    }
}
