//! Notices, which traps carry, and what the several traps say.

use super::{DATA_LEN, Data};
use crate::bits::attribute;

/// Numbers of traps.
pub mod trap {
    /// A port of the switch has changed its state.
    pub const LINK_STATE: u16 = 128;
    /// Too many local link errors.
    pub const LOCAL_LINK_INTEGRITY: u16 = 129;
    /// Too many buffer overruns.
    pub const BUFFER_OVERRUN: u16 = 130;
    /// The watchdog of flow control has expired.
    pub const FLOW_CONTROL: u16 = 131;
    /// The capability mask or something like it has changed.
    pub const CAPABILITY_CHANGE: u16 = 144;
    /// The system image GUID has changed.
    pub const SYSTEM_IMAGE_GUID_CHANGE: u16 = 145;
    /// A request with a wrong M_Key.
    pub const BAD_M_KEY: u16 = 256;
    /// A packet with a wrong P_Key.
    pub const BAD_P_KEY: u16 = 257;
    /// A packet with a wrong Q_Key.
    pub const BAD_Q_KEY: u16 = 258;
}

attribute! {
    /// What all generic notices begin with.
    struct NoticeHeader[DATA_LEN] {
        /// Defined by the specification, not by a vendor.
        is_generic: bool = 0, 1, Rw;
        /// 0 fatal, 1 urgent, 2 security, 3 subnet management, 4 informational.
        notice_type: u8 = 1, 7, Rw;
        /// Who tells: see [`node_type`](super::node_type).
        producer_type: u32 = 8, 24, Rw;
        /// What happened: see [`trap`].
        trap_number: u16 = 32, 16, Rw;
        /// LID of who tells.
        issuer_lid: u16 = 48, 16, Rw;
        /// Changes with each new notice of a queue.
        toggle: bool = 64, 1, Rw;
        /// Notices waiting.
        count: u16 = 65, 15, Rw;
    }
}

/// Where in a notice the details begin.
const DETAILS: usize = 10;

/// Trap 144.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapabilityChange {
    /// Port that changed.
    pub lid: u16,
    /// CapabilityMask as it is now.
    pub capability_mask: u32,
    /// NodeDescription has changed.
    pub node_description: bool,
    /// LinkWidthEnabled has changed.
    pub link_width_enabled: bool,
    /// LinkSpeedEnabled has changed.
    pub link_speed_enabled: bool,
}

/// Trap 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMKey {
    /// Who asked.
    pub lid: u16,
    /// DrSLID of the request; 0 if it was LID-routed.
    pub dr_slid: u16,
    /// Method of the request.
    pub method: u8,
    /// Attribute of the request.
    pub attribute: u16,
    /// Attribute modifier of the request.
    pub modifier: u32,
    /// Key that the request showed.
    pub m_key: u64,
    /// Return path of a directed-route request, with its hop count.
    pub route: Option<(u8, [u8; 64])>,
}

/// Traps 257 and 258.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BadKey {
    /// Source of the packet.
    pub lid1: u16,
    /// Its destination.
    pub lid2: u16,
    /// P_Key or Q_Key of the packet.
    pub key: u32,
    /// Its service level.
    pub sl: u8,
    /// QP that sent it, 24 bits; 0 if the packet does not say.
    pub qp1: u32,
    /// QP it was for, 24 bits.
    pub qp2: u32,
    /// Source GID; zero without GRH.
    pub gid1: [u8; 16],
    /// Destination GID; zero without GRH.
    pub gid2: [u8; 16],
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Trap 128, with the switch's LID.
    LinkState(u16),
    /// Traps 129 to 131: number, the port's LID and number.
    LinkErrors(u16, u16, u8),
    /// Trap 144.
    CapabilityChange(CapabilityChange),
    /// Trap 145: LID and the new GUID.
    SystemImageGuidChange(u16, u64),
    /// Trap 256.
    BadMKey(BadMKey),
    /// Trap 257.
    BadPKey(BadKey),
    /// Trap 258.
    BadQKey(BadKey),
}

impl Notice {
    /// The trap's number.
    pub fn trap_number(&self) -> u16 {
        match self {
            Notice::LinkState(_) => trap::LINK_STATE,
            Notice::LinkErrors(number, ..) => *number,
            Notice::CapabilityChange(_) => trap::CAPABILITY_CHANGE,
            Notice::SystemImageGuidChange(..) => trap::SYSTEM_IMAGE_GUID_CHANGE,
            Notice::BadMKey(_) => trap::BAD_M_KEY,
            Notice::BadPKey(_) => trap::BAD_P_KEY,
            Notice::BadQKey(_) => trap::BAD_Q_KEY,
        }
    }

    /// How bad it is, as the header's `notice_type` has it.
    fn notice_type(&self) -> u8 {
        match self {
            Notice::LinkState(_) | Notice::LinkErrors(..) => 1,
            Notice::CapabilityChange(_) | Notice::SystemImageGuidChange(..) => 4,
            Notice::BadMKey(_) | Notice::BadPKey(_) | Notice::BadQKey(_) => 2,
        }
    }

    /// Writes the whole attribute.
    pub fn emit(&self, producer_type: u8, issuer_lid: u16, data: &mut Data) {
        NoticeHeader {
            is_generic: true,
            notice_type: self.notice_type(),
            producer_type: producer_type.into(),
            trap_number: self.trap_number(),
            issuer_lid,
            toggle: false,
            count: 0,
        }
        .emit(data);

        let mut out = Writer(&mut data[DETAILS..]);
        match self {
            Notice::LinkState(lid) => out.put(&lid.to_be_bytes()),
            Notice::LinkErrors(_, lid, port) => {
                out.put(&[0; 2]);
                out.put(&lid.to_be_bytes());
                out.put(&[*port]);
            }
            Notice::CapabilityChange(change) => change.emit(&mut out),
            Notice::SystemImageGuidChange(lid, guid) => {
                out.put(&[0; 2]);
                out.put(&lid.to_be_bytes());
                out.put(&[0; 2]);
                out.put(&guid.to_be_bytes());
            }
            Notice::BadMKey(bad) => bad.emit(&mut out),
            Notice::BadPKey(bad) | Notice::BadQKey(bad) => bad.emit(&mut out),
        }
    }
}

impl CapabilityChange {
    fn emit(&self, out: &mut Writer<'_>) {
        let flags = u16::from(self.node_description)
            | u16::from(self.link_width_enabled) << 1
            | u16::from(self.link_speed_enabled) << 2;
        out.put(&[0; 2]);
        out.put(&self.lid.to_be_bytes());
        out.put(&[0, u8::from(flags != 0)]);
        out.put(&self.capability_mask.to_be_bytes());
        out.put(&flags.to_be_bytes());
    }
}

impl BadMKey {
    fn emit(&self, out: &mut Writer<'_>) {
        out.put(&[0; 2]);
        out.put(&self.lid.to_be_bytes());
        out.put(&self.dr_slid.to_be_bytes());
        out.put(&[self.method, 0]);
        out.put(&self.attribute.to_be_bytes());
        out.put(&self.modifier.to_be_bytes());
        out.put(&self.m_key.to_be_bytes());
        if let Some((hops, path)) = &self.route {
            // The notice has room for 30 bytes of the path, and says so where that is not enough.
            let kept = usize::from(*hops).min(30);
            let truncated = usize::from(*hops) > kept;
            out.put(&[0, 0x80 | u8::from(truncated) << 6 | kept as u8]);
            // Byte 0 of a return path is not used.
            out.put(&path[1..=kept]);
        }
    }
}

impl BadKey {
    fn emit(&self, out: &mut Writer<'_>) {
        out.put(&[0; 2]);
        out.put(&self.lid1.to_be_bytes());
        out.put(&self.lid2.to_be_bytes());
        out.put(&self.key.to_be_bytes());
        out.put(&(u32::from(self.sl) << 28 | self.qp1 & 0xff_ffff).to_be_bytes());
        out.put(&(self.qp2 & 0xff_ffff).to_be_bytes());
        out.put(&self.gid1);
        out.put(&self.gid2);
    }
}

/// The bytes that are left to be written.
struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let (front, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        front.copy_from_slice(bytes);
        self.0 = rest;
    }
}
