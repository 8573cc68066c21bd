//! Packets as tests write and read them: every field at will, right or wrong.

use ferroce_wire::icrc::Icrc;
use ferroce_wire::{Aeth, Bth, Ext, Header, ICRC_LEN, OpcodeInfo, Packet, Syndrome, bth};
use std::time::Duration;

/// The ICRC of a packet to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crc {
    /// As it must be.
    #[default]
    Right,
    /// One bit is wrong.
    Wrong,
    /// These bytes.
    Bytes([u8; ICRC_LEN]),
}

/// A packet to send. Extended headers are those of the opcode: one that is missing in `ext` is sent
/// as zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxPacket {
    /// Base transport header. The pad count is made right, unless `pad` says another.
    pub bth: Bth,
    /// Extended headers.
    pub ext: Ext,
    /// Payload without pad.
    pub payload: Vec<u8>,
    /// The pad count as it is to be said, whatever the payload. No bytes are added then.
    pub pad: Option<u8>,
    /// Everything from the BTH to before the ICRC, in place of all above.
    pub raw: Option<Vec<u8>>,
    /// Bytes left of what is covered by the ICRC; the ICRC is made for what is left.
    pub truncate: Option<usize>,
    /// The ICRC.
    pub icrc: Crc,
}

impl TxPacket {
    /// A packet with these headers.
    pub fn new(bth: Bth, ext: Ext, payload: impl Into<Vec<u8>>) -> TxPacket {
        TxPacket {
            bth,
            ext,
            payload: payload.into(),
            ..TxPacket::default()
        }
    }

    /// Everything that the ICRC covers from the BTH on.
    pub fn covered(&self) -> Vec<u8> {
        let mut bytes = match &self.raw {
            Some(raw) => raw.clone(),
            None => self.plain(),
        };
        if let Some(len) = self.truncate {
            bytes.truncate(len);
        }
        bytes
    }

    /// The whole packet from the BTH to the ICRC; `start` begins the ICRC of a packet of that many
    /// bytes.
    pub fn encode(&self, start: impl FnOnce(usize) -> Icrc) -> Vec<u8> {
        let mut bytes = self.covered();
        let mut icrc = start(bytes.len() + ICRC_LEN);
        if bytes.len() >= bth::LEN {
            icrc.header(&bytes);
        } else {
            icrc.payload(&bytes);
        }

        let mut crc = icrc.finish();
        match self.icrc {
            Crc::Right => {}
            Crc::Wrong => crc[0] ^= 1,
            Crc::Bytes(given) => crc = given,
        }

        bytes.extend_from_slice(&crc);
        bytes
    }

    fn plain(&self) -> Vec<u8> {
        let fill = Bth::pad_for(self.payload.len());
        let bth = Bth {
            pad: self.pad.unwrap_or(fill),
            ..self.bth
        };

        let header = Header {
            bth,
            ext: self.ext_of_opcode(),
        };
        let mut bytes = vec![0; header.len()];
        header.emit(&mut bytes);
        bytes.extend_from_slice(&self.payload);
        if self.pad.is_none() {
            bytes.resize(bytes.len() + usize::from(fill), 0);
        }

        bytes
    }

    /// The extended headers that the opcode calls for, no others.
    fn ext_of_opcode(&self) -> Ext {
        use ferroce_wire::{HeaderSet as H, opcode};

        let set = opcode::info(self.bth.opcode).map_or(H::empty(), |info| info.headers);
        fn keep<T: Default>(wanted: bool, header: Option<T>) -> Option<T> {
            wanted.then(|| header.unwrap_or_default())
        }

        Ext {
            feth: keep(set.contains(H::FETH), self.ext.feth),
            reth: keep(set.contains(H::RETH), self.ext.reth),
            aeth: keep(set.contains(H::AETH), self.ext.aeth),
            atomic: keep(set.contains(H::ATOMIC), self.ext.atomic),
            atomic_ack: keep(set.contains(H::ATOMIC_ACK), self.ext.atomic_ack),
            imm: keep(set.contains(H::IMM), self.ext.imm),
            ieth: keep(set.contains(H::IETH), self.ext.ieth),
            deth: keep(set.contains(H::DETH), self.ext.deth),
            xrceth: keep(set.contains(H::XRCETH), self.ext.xrceth),
        }
    }
}

/// A packet that the device sent.
#[derive(Clone, Debug)]
pub struct RxPacket {
    /// When it came, since the rig began.
    pub at: Duration,
    /// From the BTH to the ICRC.
    pub bytes: Vec<u8>,
    /// What is wrong with it, if anything: the ICRC, lengths, an unknown opcode.
    pub problem: Option<String>,
    /// Base transport header.
    pub bth: Bth,
    /// The opcode's row; of unknown opcodes there is none.
    pub info: Option<&'static OpcodeInfo>,
    /// Extended headers.
    pub ext: Ext,
    /// Payload, without pad.
    pub payload: Vec<u8>,
}

impl RxPacket {
    /// Takes a packet apart; `bytes` are from the BTH to the ICRC, `intact` says that the ICRC is
    /// right.
    pub fn decode(at: Duration, bytes: Vec<u8>, intact: bool) -> RxPacket {
        let parsed = Packet::parse(&bytes).map(|p| (p.bth, p.info, p.ext, p.payload.to_vec()));
        let icrc = (!intact).then(|| "the ICRC is wrong".to_owned());
        match parsed {
            Ok((bth, info, ext, payload)) => RxPacket {
                at,
                problem: icrc,
                bth,
                info: Some(info),
                ext,
                payload,
                bytes,
            },
            Err(error) => RxPacket {
                at,
                problem: icrc.or(Some(error.to_string())),
                bth: Bth::parse(&bytes).unwrap_or_default(),
                info: None,
                ext: Ext::default(),
                payload: Vec::new(),
                bytes,
            },
        }
    }

    /// What its AETH says, if it has one.
    pub fn syndrome(&self) -> Option<Syndrome> {
        self.ext.aeth.map(Aeth::kind)
    }

    /// In a few words, for reports.
    pub fn describe(&self) -> String {
        let name = self.info.map_or("unknown opcode", |info| info.name);
        let mut text = format!("{name}, PSN {:#08x}", self.bth.psn);
        if let Some(aeth) = self.ext.aeth {
            text += &format!(", {:?}, MSN {}", aeth.kind(), aeth.msn);
        }
        if !self.payload.is_empty() {
            text += &format!(", {} bytes", self.payload.len());
        }
        if let Some(problem) = &self.problem {
            text += &format!(" ({problem})");
        }
        text
    }
}
