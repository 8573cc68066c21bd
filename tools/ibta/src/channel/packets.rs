//! What the tester transmits on a channel: requests, acknowledgements and responses, right unless a
//! test makes them wrong.

use super::{Channel, DEFAULT_PKEY};
use crate::packet::TxPacket;
use crate::protocol::Service;
use crate::rig::TransportRig;
use anyhow::Result;
use ferroce_wire::{Aeth, Bth, CreditCode, Ext, NakCode, Syndrome, opcode};

/// An acknowledgement by a responder that keeps no credits.
pub const ACK: Syndrome = Syndrome::Ack(CreditCode::UNLIMITED);

impl Channel {
    /// The PSN of the device's `n`th packet, from 0.
    pub fn device_psn(&self, n: u32) -> u32 {
        self.options.device_psn.wrapping_add(n) & 0xff_ffff
    }

    /// The PSN of the tester's `n`th packet, from 0.
    pub fn tester_psn(&self, n: u32) -> u32 {
        self.options.tester_psn.wrapping_add(n) & 0xff_ffff
    }

    /// An opcode of RC's as the channel has it: XRC has the same, with a head of its own.
    pub fn opcode(&self, opcode: u8) -> u8 {
        match self.options.service {
            Service::XrcTarget => opcode::XRC_SEND_FIRST | opcode,
            Service::Rc | Service::Uc | Service::Ud => opcode,
        }
    }

    /// A packet for the device's queue pair, right in everything; change what is to be wrong and
    /// transmit it. An opcode of RC's is for XRC, too.
    pub fn packet(&self, opcode: u8, psn: u32, ext: Ext, payload: &[u8]) -> TxPacket {
        let ext = Ext {
            xrceth: ext.xrceth.or(Some(self.options.xrc_srq)),
            ..ext
        };
        let bth = Bth {
            opcode: self.opcode(opcode),
            pkey: DEFAULT_PKEY,
            dest_qp: self.qp,
            psn: psn & 0xff_ffff,
            ..Bth::default()
        };
        TxPacket::new(bth, ext, payload)
    }

    /// Transmits a request packet that asks to be acknowledged, with the tester's next PSN. Of a
    /// READ the caller adds the PSNs of the further responses to `next_psn`.
    ///
    /// # Errors
    /// The rig failed.
    pub fn request(
        &mut self,
        rig: &mut dyn TransportRig,
        opcode: u8,
        ext: Ext,
        payload: &[u8],
    ) -> Result<u32> {
        let psn = self.next_psn;
        let mut packet = self.packet(opcode, psn, ext, payload);
        packet.bth.ack_req = true;
        self.next_psn = (psn + 1) & 0xff_ffff;
        rig.transmit(&packet)?;
        Ok(psn)
    }

    /// A response with an AETH.
    pub fn response(
        &self,
        opcode: u8,
        psn: u32,
        syndrome: Syndrome,
        msn: u32,
        payload: &[u8],
    ) -> TxPacket {
        let ext = Ext {
            aeth: Some(Aeth::new(syndrome, msn)),
            ..Ext::default()
        };
        self.packet(opcode, psn, ext, payload)
    }

    /// TransportTxPacket: an ACK without credits.
    ///
    /// # Errors
    /// The rig failed.
    pub fn ack(&self, rig: &mut dyn TransportRig, psn: u32, msn: u32) -> Result<()> {
        self.answer(rig, ACK, psn, msn)
    }

    /// A NAK.
    ///
    /// # Errors
    /// The rig failed.
    pub fn nak(&self, rig: &mut dyn TransportRig, code: NakCode, psn: u32, msn: u32) -> Result<()> {
        self.answer(rig, Syndrome::Nak(code), psn, msn)
    }

    /// An acknowledge packet of any kind.
    ///
    /// # Errors
    /// The rig failed.
    pub fn answer(
        &self,
        rig: &mut dyn TransportRig,
        syndrome: Syndrome,
        psn: u32,
        msn: u32,
    ) -> Result<()> {
        rig.transmit(&self.response(opcode::RC_ACKNOWLEDGE, psn, syndrome, msn, &[]))
    }

    /// An ATOMIC acknowledge.
    ///
    /// # Errors
    /// The rig failed.
    pub fn atomic_ack(
        &self,
        rig: &mut dyn TransportRig,
        psn: u32,
        msn: u32,
        before: u64,
    ) -> Result<()> {
        let mut packet = self.response(opcode::RC_ATOMIC_ACKNOWLEDGE, psn, ACK, msn, &[]);
        packet.ext.atomic_ack = Some(before);
        rig.transmit(&packet)
    }

    /// Response `n` of `count` to a READ whose first response has that PSN.
    pub fn read_response(
        &self,
        psn: u32,
        msn: u32,
        n: usize,
        count: usize,
        payload: &[u8],
    ) -> TxPacket {
        let opcode = match (n == 0, n + 1 == count) {
            (true, true) => opcode::RC_READ_RESPONSE_ONLY,
            (true, false) => opcode::RC_READ_RESPONSE_FIRST,
            (false, true) => opcode::RC_READ_RESPONSE_LAST,
            (false, false) => opcode::RC_READ_RESPONSE_MIDDLE,
        };
        self.response(opcode, psn + n as u32, ACK, msn, payload)
    }

    /// The responses of a READ of `data` whose first has that PSN.
    ///
    /// # Errors
    /// The rig failed.
    pub fn read_responses(
        &self,
        rig: &mut dyn TransportRig,
        psn: u32,
        msn: u32,
        data: &[u8],
    ) -> Result<()> {
        let packets: Vec<&[u8]> = match data {
            [] => vec![&[]],
            data => data.chunks(self.options.pmtu as usize).collect(),
        };
        let count = packets.len();
        for (n, payload) in packets.into_iter().enumerate() {
            rig.transmit(&self.read_response(psn, msn, n, count, payload))?;
        }
        Ok(())
    }
}
