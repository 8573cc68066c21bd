//! A message that the device sends as requester: how it is posted, what its packets must be, and
//! how a responder answers.

use crate::channel::{self, Channel};
use crate::packet::RxPacket;
use crate::protocol::{Opcode, Region, SendRequest, access, send_flags};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run, Stop};
use anyhow::Result;
use ferroce_wire::{AtomicEth, Reth, opcode};

/// The remote key that requests name; the tester does not look it up.
pub const R_KEY: u32 = 0x12345;
/// The remote address that requests name.
pub const VA: u64 = 0x99_9000;
/// What atomics compare with, or add.
pub const COMPARE_ADD: u64 = 1;
/// What COMPARE & SWAP stores.
pub const SWAP: u64 = 0;
/// What the tester says was there before an atomic.
pub const BEFORE: u64 = 0xff2d_b500_1e58_b3e7;
/// Immediate data.
pub const IMM: [u8; 4] = [0xa1, 0xb2, 0xc3, 0xd4];

/// An operation of a reliable connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
    FetchAdd,
    CompareSwap,
}

use Operation::{CompareSwap, FetchAdd, Read, Send, SendImm, Write, WriteImm};

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 7] = [Send, SendImm, Write, WriteImm, Read, FetchAdd, CompareSwap];

    /// As it stands in the names of tests.
    pub const fn word(self) -> &'static str {
        match self {
            Send => "SEND",
            SendImm => "SEND_IMM",
            Write => "WRITE",
            WriteImm => "WRITE_IMM",
            Read => "READ",
            FetchAdd => "FETCH_ADD",
            CompareSwap => "COMPARE_SWAP",
        }
    }

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Send => "SEND",
            SendImm => "SEND with immediate",
            Write => "RDMA WRITE",
            WriteImm => "RDMA WRITE with immediate",
            Read => "RDMA READ",
            FetchAdd => "FETCH & ADD",
            CompareSwap => "COMPARE & SWAP",
        }
    }

    /// With its article.
    pub fn a_name(self) -> String {
        match self {
            Write | WriteImm | Read => format!("an {}", self.name()),
            _ => format!("a {}", self.name()),
        }
    }

    /// Is it answered with data?
    pub const fn is_answered(self) -> bool {
        matches!(self, Read | FetchAdd | CompareSwap)
    }

    /// Is it an atomic, which is always one packet?
    pub const fn is_atomic(self) -> bool {
        matches!(self, FetchAdd | CompareSwap)
    }

    /// Goes on only if the device does this operation.
    ///
    /// # Errors
    /// It does not: the test is not for it.
    pub fn needs(self, rig: &mut dyn TransportRig) -> Outcome {
        match self.is_atomic() && !channel::device(rig)?.atomics {
            true => Err(Stop::NotApplicable("the device does no atomics".to_owned())),
            false => Ok(()),
        }
    }

    const fn verb(self) -> Opcode {
        match self {
            Send => Opcode::Send,
            SendImm => Opcode::SendWithImm,
            Write => Opcode::RdmaWrite,
            WriteImm => Opcode::RdmaWriteWithImm,
            Read => Opcode::RdmaRead,
            FetchAdd => Opcode::FetchAdd,
            CompareSwap => Opcode::CompareSwap,
        }
    }

    /// The opcode of packet `n` of `of` request packets.
    pub const fn opcode(self, n: u32, of: u32) -> u8 {
        let (first, middle, last, only) = match self {
            Send => (
                opcode::RC_SEND_FIRST,
                opcode::RC_SEND_MIDDLE,
                opcode::RC_SEND_LAST,
                opcode::RC_SEND_ONLY,
            ),
            SendImm => (
                opcode::RC_SEND_FIRST,
                opcode::RC_SEND_MIDDLE,
                opcode::RC_SEND_LAST_IMM,
                opcode::RC_SEND_ONLY_IMM,
            ),
            Write => (
                opcode::RC_WRITE_FIRST,
                opcode::RC_WRITE_MIDDLE,
                opcode::RC_WRITE_LAST,
                opcode::RC_WRITE_ONLY,
            ),
            WriteImm => (
                opcode::RC_WRITE_FIRST,
                opcode::RC_WRITE_MIDDLE,
                opcode::RC_WRITE_LAST_IMM,
                opcode::RC_WRITE_ONLY_IMM,
            ),
            Read => return opcode::RC_READ_REQUEST,
            FetchAdd => return opcode::RC_FETCH_ADD,
            CompareSwap => return opcode::RC_COMPARE_SWAP,
        };

        match (n == 0, n + 1 == of) {
            (true, true) => only,
            (true, false) => first,
            (false, true) => last,
            (false, false) => middle,
        }
    }
}

/// One message of the device.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Operation.
    pub operation: Operation,
    /// PSNs that it takes: packets of the request, or of a READ's response.
    pub psns: u32,
    /// First PSN.
    pub psn: u32,
    /// Of its request.
    pub wr_id: u64,
    /// Its data, or where the answer goes.
    pub region: Region,
    /// Bytes.
    pub len: u32,
}

impl Message {
    /// Has the device post a message of `psns` times the path MTU (of an atomic: 8 bytes) whose
    /// first PSN is due to be `psn`.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn post(
        channel: &Channel,
        rig: &mut dyn TransportRig,
        operation: Operation,
        psns: u32,
        wr_id: u64,
        psn: u32,
    ) -> Result<Message> {
        let (psns, len) = match operation.is_atomic() {
            true => (1, 8),
            false => (psns, psns * channel.options.pmtu),
        };
        let region = channel::register(rig, len, access::ALL)?;
        if !operation.is_answered() {
            channel::write_memory(rig, region.addr, &channel::pattern(len))?;
        }

        let request = SendRequest {
            wr_id,
            opcode: operation.verb(),
            sges: vec![region.sge()],
            flags: send_flags::SIGNALED,
            imm: IMM,
            remote_addr: VA,
            rkey: R_KEY,
            compare_add: COMPARE_ADD,
            swap: SWAP,
            ..SendRequest::default()
        };

        channel.post(rig, request)?;
        Ok(Message {
            operation,
            psns,
            psn: psn & 0xff_ffff,
            wr_id,
            region,
            len,
        })
    }

    /// Packets of the request.
    pub fn packets(&self) -> u32 {
        if self.operation.is_answered() {
            1
        } else {
            self.psns
        }
    }

    /// The PSN that acknowledges all of it.
    pub fn last_psn(&self) -> u32 {
        (self.psn + self.psns - 1) & 0xff_ffff
    }

    /// The PSN after it.
    pub fn next_psn(&self) -> u32 {
        (self.psn + self.psns) & 0xff_ffff
    }

    /// What a READ of it is answered with.
    pub fn answer(&self) -> Vec<u8> {
        channel::pattern(self.len)
    }

    /// Receives its packets: they must come, be valid, and be what this message is made of.
    ///
    /// # Errors
    /// They are not, and the assertion failed.
    pub fn receive(
        &self,
        run: &mut Run,
        rig: &mut dyn TransportRig,
        channel: &Channel,
        assertion: &str,
    ) -> Outcome<Vec<RxPacket>> {
        let mut packets = Vec::new();
        for n in 0..self.packets() {
            let what = format!("packet {n} of {}", self.operation.a_name());
            let packet = channel.expect(run, rig, assertion, &what)?;
            self.verify(run, channel, assertion, n, &packet)?;
            packets.push(packet);
        }
        Ok(packets)
    }

    /// The packet is the `n`th of this message.
    ///
    /// # Errors
    /// It is not, and the assertion failed.
    pub fn verify(
        &self,
        run: &mut Run,
        channel: &Channel,
        assertion: &str,
        n: u32,
        packet: &RxPacket,
    ) -> Outcome {
        let due = self.operation.opcode(n, self.packets());
        run.check_eq(assertion, "the opcode", packet.bth.opcode, due)?;
        let psn = (self.psn + n) & 0xff_ffff;
        run.check_eq(assertion, "the PSN", packet.bth.psn, psn)?;
        if let Some(reth) = packet.ext.reth {
            let due = Reth {
                va: VA,
                rkey: R_KEY,
                len: self.len,
            };
            run.check_eq(assertion, "the RETH", reth, due)?;
        }

        if let Some(atomic) = packet.ext.atomic {
            let due = match self.operation {
                CompareSwap => AtomicEth {
                    va: VA,
                    rkey: R_KEY,
                    swap_add: SWAP,
                    compare: COMPARE_ADD,
                },
                _ => AtomicEth {
                    va: VA,
                    rkey: R_KEY,
                    swap_add: COMPARE_ADD,
                    compare: atomic.compare, // FETCH & ADD does not say
                },
            };

            run.check_eq(assertion, "the AtomicETH", atomic, due)?;
        }

        if let Some(imm) = packet.ext.imm {
            run.check_eq(assertion, "the immediate data", imm, IMM)?;
        }
        if self.operation.is_answered() {
            return run.check_eq(assertion, "the payload's length", packet.payload.len(), 0);
        }

        let pmtu = channel.options.pmtu as usize;
        let data = channel::pattern(self.len);
        let part = data.chunks(pmtu).nth(n as usize).unwrap_or_default();
        run.check(assertion, packet.payload == part, || {
            format!(
                "the payload of {} is not what was posted",
                packet.describe()
            )
        })
    }

    /// Answers all of it as a responder does whose message number is then `msn`.
    ///
    /// # Errors
    /// The rig failed.
    pub fn acknowledge(
        &self,
        rig: &mut dyn TransportRig,
        channel: &Channel,
        msn: u32,
    ) -> Result<()> {
        match self.operation {
            Read => channel.read_responses(rig, self.psn, msn, &self.answer()),
            FetchAdd | CompareSwap => channel.atomic_ack(rig, self.psn, msn, BEFORE),
            _ => channel.ack(rig, self.last_psn(), msn),
        }
    }

    /// The answer of a READ or atomic is where the program wanted it.
    ///
    /// # Errors
    /// It is not, and the assertion failed.
    pub fn verify_answer(
        &self,
        run: &mut Run,
        rig: &mut dyn TransportRig,
        assertion: &str,
    ) -> Outcome {
        if !self.operation.is_answered() {
            return Ok(());
        }
        let due = match self.operation {
            Read => self.answer(),
            // In host byte order; tester and agent are of one machine's kind.
            _ => BEFORE.to_ne_bytes().to_vec(),
        };
        let memory = channel::read_memory(rig, self.region.addr, self.len)?;
        run.check(assertion, memory == due, || {
            "the answer is not in the program's memory".to_owned()
        })
    }
}
