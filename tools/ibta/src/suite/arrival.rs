//! A queue pair of the device that receives: receive requests, messages for it that are right in
//! everything, and what must have come of them.

use crate::channel::{self, Channel, ChannelOptions};
use crate::packet::TxPacket;
use crate::protocol::{Completion, Region, Service, Side, access};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run};
use anyhow::Result;
use ferroce_wire::{Deth, Ext, Syndrome, opcode};
use std::time::Duration;

/// Bytes of each receive request: a GRH and three packets of the usual path MTU.
pub const EACH: u32 = 40 + 3 * 1024;
/// Receive requests that are posted.
pub const RECEIVES: u32 = 4;
/// Bytes of a GRH, which go before the payload of a datagram.
pub const GRH: u32 = 40;
/// `IBV_WC_SUCCESS`.
pub const SUCCESS: u32 = 0;

/// The three services with their words in names of tests.
pub const SERVICES: [Service; 3] = [Service::Rc, Service::Uc, Service::Ud];

/// As it stands in the names of tests.
pub const fn word(service: Service) -> &'static str {
    match service {
        Service::Rc => "RC",
        Service::Uc => "UC",
        Service::Ud => "UD",
        Service::XrcTarget => "XRC",
    }
}

/// The opcode of a SEND of one packet.
pub const fn send_only(service: Service) -> u8 {
    match service {
        // XRC's is RC's, which a channel knows.
        Service::Rc | Service::XrcTarget => opcode::RC_SEND_ONLY,
        Service::Uc => opcode::UC_SEND_ONLY,
        Service::Ud => opcode::UD_SEND_ONLY,
    }
}

/// A queue pair that receives.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    /// Its channel.
    pub cc: Channel,
    /// Memory of all receive requests, one after the other.
    pub region: Region,
}

impl Receiver {
    /// Opens a channel of the service and posts receive requests, `wr_id` from 0.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn open(rig: &mut dyn TransportRig, service: Service) -> Result<Receiver> {
        let receiver = Receiver::empty(rig, service)?;
        receiver.post(rig)?;
        Ok(receiver)
    }

    /// The same without receive requests.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn empty(rig: &mut dyn TransportRig, service: Service) -> Result<Receiver> {
        Receiver::with(
            rig,
            ChannelOptions {
                service,
                ..ChannelOptions::default()
            },
        )
    }

    /// The same with options of one's own.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn with(rig: &mut dyn TransportRig, options: ChannelOptions) -> Result<Receiver> {
        let cc = Channel::open(rig, options)?;
        let region = channel::register(rig, EACH * RECEIVES, access::LOCAL_WRITE)?;
        Ok(Receiver { cc, region })
    }

    /// Posts the receive requests.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn post(&self, rig: &mut dyn TransportRig) -> Result<()> {
        for n in 0..RECEIVES {
            let sge = self.region.part(n * EACH, EACH);
            self.cc.post_recv(rig, n.into(), sge)?;
        }
        Ok(())
    }

    /// The tester's `n`th packet: a SEND of one packet that asks to be acknowledged. Only reliable
    /// services do that.
    pub fn send(&self, n: u32, payload: &[u8]) -> TxPacket {
        let opcode = send_only(self.cc.options.service);
        self.packet(opcode, n, Ext::default(), payload)
    }

    /// The tester's `n`th packet, of any opcode; a datagram gets its DETH.
    pub fn packet(&self, opcode: u8, n: u32, ext: Ext, payload: &[u8]) -> TxPacket {
        let o = &self.cc.options;
        let deth = Deth {
            qkey: o.qkey,
            src_qp: o.tester_qp,
        };
        let ext = Ext {
            deth: (o.service == Service::Ud).then_some(deth),
            ..ext
        };
        let psn = self.cc.tester_psn(n);
        let mut packet = self.cc.packet(opcode, psn, ext, payload);
        packet.bth.ack_req = true;
        packet
    }

    /// Where the payload of the `n`th receive request begins.
    pub fn place(&self, n: u32) -> u64 {
        self.region.addr + u64::from(n * EACH + self.head())
    }

    /// Bytes before the payload.
    fn head(&self) -> u32 {
        match self.cc.options.service {
            Service::Ud => GRH,
            Service::Rc | Service::Uc | Service::XrcTarget => 0,
        }
    }

    /// The `n`th receive request, and no other, has completed with this message.
    ///
    /// # Errors
    /// It has not, and the assertion failed.
    pub fn verify_delivered(
        &self,
        run: &mut Run,
        rig: &mut dyn TransportRig,
        assertion: &str,
        n: u32,
        payload: &[u8],
    ) -> Outcome<Completion> {
        let done = self.cc.poll_one(run, rig, assertion, Side::Recv)?;
        let seen = (done.wr_id, done.status);
        run.check_eq(assertion, "wr_id and status", seen, (n.into(), SUCCESS))?;
        let len = payload.len() as u32 + self.head();
        run.check_eq(assertion, "the number of bytes", done.byte_len, len)?;
        self.verify_placed(run, rig, assertion, n, payload)?;
        Ok(done)
    }

    /// These bytes are where the payload of the `n`th receive request goes.
    ///
    /// # Errors
    /// They are not, and the assertion failed.
    pub fn verify_placed(
        &self,
        run: &mut Run,
        rig: &mut dyn TransportRig,
        assertion: &str,
        n: u32,
        payload: &[u8],
    ) -> Outcome {
        let memory = channel::read_memory(rig, self.place(n), payload.len() as u32)?;
        run.check(assertion, memory == payload, || {
            format!("the memory of receive request {n} does not hold what was sent")
        })
    }

    /// A message of the tester's `n`th packet arrives in receive request `slot`, and is
    /// acknowledged where the service does that.
    ///
    /// # Errors
    /// It does not, and the assertion failed.
    pub fn verify_message(
        &self,
        run: &mut Run,
        rig: &mut dyn TransportRig,
        assertion: &str,
        n: u32,
        slot: u32,
    ) -> Outcome<Completion> {
        let payload = channel::pattern(64 + n);
        rig.transmit(&self.send(n, &payload))?;
        self.verify_acknowledged(run, rig, assertion, n)?;
        self.verify_delivered(run, rig, assertion, slot, &payload)
    }

    /// The tester's `n`th packet is acknowledged, if the service is reliable.
    ///
    /// # Errors
    /// It is not, and the assertion failed.
    pub fn verify_acknowledged(
        &self,
        run: &mut Run,
        rig: &mut dyn TransportRig,
        assertion: &str,
        n: u32,
    ) -> Outcome {
        if !matches!(self.cc.options.service, Service::Rc | Service::XrcTarget) {
            return Ok(());
        }
        let answer = self.cc.expect(run, rig, assertion, "an ACK")?;
        let is_ack = matches!(answer.syndrome(), Some(Syndrome::Ack(_)));
        let due = self.cc.tester_psn(n);
        run.check(assertion, is_ack && answer.bth.psn == due, || {
            format!("{} came, an ACK of PSN {due:#x} is due", answer.describe())
        })
    }

    /// Nothing came of what was sent last: no packet, no completion, and nothing in the memory of
    /// receive request `slot`.
    ///
    /// # Errors
    /// Something came, and the assertion failed.
    pub fn verify_dropped(
        &self,
        run: &mut Run,
        rig: &mut dyn TransportRig,
        assertion: &str,
        slot: u32,
    ) -> Outcome {
        self.cc.expect_none(run, rig, assertion)?;
        let done = self.cc.poll(rig, Side::Recv, 1, Duration::ZERO)?;
        run.check(assertion, done.is_empty(), || {
            format!("a receive request completed: {done:?}")
        })?;
        self.verify_placed(run, rig, assertion, slot, &[0; 64])
    }
}
