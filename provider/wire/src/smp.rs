//! Subnet management packets: the part between the MAD header and the attribute, and the names of
//! what they carry.
//!
//! An SMP of the LID-routed class has the M_Key behind the header; one of the directed-route class
//! also the two LIDs and the two paths, and spends the header's class-specific bytes on hop pointer
//! and hop count and the status' top bit on the direction. Which hop comes next is not decided here
//! but in the fabric crate.

mod attributes;
mod notice;
mod port_info;
mod tables;

pub use attributes::{LedInfo, NodeInfo, SmInfo, SwitchInfo, VendorDiag};
pub use notice::{BadKey, BadMKey, CapabilityChange, Notice, NoticeHeader, trap};
pub use port_info::{PortInfo, capability, phys_state, state};
pub use tables::{
    GuidInfo, LinearBlock, MulticastBlock, PKeyBlock, SlToVl, VlArbitration, VlWeight,
};

pub use crate::mad::{method, status};

use crate::mad::Mad;

/// Management class of LID-routed SMPs.
pub const CLASS_LID: u8 = 0x01;
/// Management class of directed-route SMPs.
pub const CLASS_DIRECTED: u8 = 0x81;
/// Version of both classes.
pub const CLASS_VERSION: u8 = 1;
/// Bytes of an attribute.
pub const DATA_LEN: usize = 64;
/// Hops that a directed route has at most.
pub const MAX_HOPS: u8 = 63;
/// The LID that means "nobody has one yet".
pub const PERMISSIVE_LID: u16 = 0xffff;
/// The highest LID of a port.
pub const LAST_UNICAST_LID: u16 = MULTICAST_LID - 1;
/// First LID of multicast groups; the last is 0xfffe.
pub const MULTICAST_LID: u16 = 0xc000;

/// Whether MADs of a class are SMPs, which belong to QP0.
#[inline]
pub fn is_class(class: u8) -> bool {
    matches!(class, CLASS_LID | CLASS_DIRECTED)
}

/// Whether a LID is that of a multicast group.
#[inline]
pub fn is_multicast_lid(lid: u16) -> bool {
    (MULTICAST_LID..PERMISSIVE_LID).contains(&lid)
}

/// The low bits of a LID that are its port's to use, as a mask, by the port's LMC (0 to 7). No
/// others count of source path bits, as with adapters: programs give a whole LID for them (ibacm).
#[inline]
pub fn path_bits(lmc: u8) -> u16 {
    !(u16::MAX << lmc)
}

/// The direction bit in the status of a directed-route SMP: set on its way back.
pub const DIRECTION: u16 = 0x8000;

/// Bytes of an attribute, as they lie in the SMP.
pub type Data = [u8; DATA_LEN];
/// A path of a directed route: the port to leave by at hop n in byte n. Byte 0 is not used.
pub type DirectedPath = [u8; 64];

const M_KEY: usize = 24;
const DATA: usize = 64;
const INITIAL_PATH: usize = 128;
const RETURN_PATH: usize = 192;

/// Attributes.
pub mod attribute {
    /// Trap or notice.
    pub const NOTICE: u16 = 0x0002;
    /// Name of the node.
    pub const NODE_DESCRIPTION: u16 = 0x0010;
    /// What kind of node.
    pub const NODE_INFO: u16 = 0x0011;
    /// Switches: sizes of tables.
    pub const SWITCH_INFO: u16 = 0x0012;
    /// GUIDs of a port.
    pub const GUID_INFO: u16 = 0x0014;
    /// A port.
    pub const PORT_INFO: u16 = 0x0015;
    /// Partition keys.
    pub const P_KEY_TABLE: u16 = 0x0016;
    /// Virtual lane of each service level.
    pub const SL_TO_VL: u16 = 0x0017;
    /// Arbitration between virtual lanes.
    pub const VL_ARBITRATION: u16 = 0x0018;
    /// Switches: port of each LID.
    pub const LINEAR_FORWARDING: u16 = 0x0019;
    /// Switches: port of each LID, as pairs.
    pub const RANDOM_FORWARDING: u16 = 0x001a;
    /// Switches: ports of each multicast LID.
    pub const MULTICAST_FORWARDING: u16 = 0x001b;
    /// Subnet manager.
    pub const SM_INFO: u16 = 0x0020;
    /// Diagnostics of the vendor.
    pub const VENDOR_DIAG: u16 = 0x0030;
    /// Lamp of a port.
    pub const LED_INFO: u16 = 0x0031;
}

/// Types of nodes in NodeInfo.
pub mod node_type {
    /// Channel adapter.
    pub const CHANNEL_ADAPTER: u8 = 1;
    /// Switch.
    pub const SWITCH: u8 = 2;
    /// Router.
    pub const ROUTER: u8 = 3;
}

/// The key that the requester shows.
pub fn m_key(smp: &Mad) -> u64 {
    crate::bits::load(smp, M_KEY * 8, 64) as u64
}

/// Puts a key into the SMP.
pub fn set_m_key(smp: &mut Mad, key: u64) {
    smp[M_KEY..M_KEY + 8].copy_from_slice(&key.to_be_bytes());
}

/// The attribute's bytes.
pub fn data(smp: &Mad) -> &Data {
    smp[DATA..].first_chunk().expect("a MAD is long enough")
}

/// The attribute's bytes, to be changed.
pub fn data_mut(smp: &mut Mad) -> &mut Data {
    smp[DATA..].first_chunk_mut().expect("a MAD is long enough")
}

/// What only directed-route SMPs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directed {
    /// On its way back (the D bit).
    pub returning: bool,
    /// Where on the path it is.
    pub hop_pointer: u8,
    /// How many hops the directed part has, at most [`MAX_HOPS`].
    pub hop_count: u8,
    /// Source of the whole, or [`PERMISSIVE_LID`] if the directed part begins there.
    pub dr_slid: u16,
    /// Destination of the whole, or [`PERMISSIVE_LID`] if the directed part ends there.
    pub dr_dlid: u16,
}

impl Directed {
    /// Reads them from an SMP of the directed-route class.
    pub fn parse(smp: &Mad) -> Directed {
        Directed {
            returning: smp[4] & 0x80 != 0,
            hop_pointer: smp[6],
            hop_count: smp[7],
            dr_slid: u16::from_be_bytes([smp[32], smp[33]]),
            dr_dlid: u16::from_be_bytes([smp[34], smp[35]]),
        }
    }

    /// Writes them into an SMP, and leaves the rest of it alone.
    pub fn emit(&self, smp: &mut Mad) {
        smp[4] = smp[4] & 0x7f | u8::from(self.returning) << 7;
        smp[6] = self.hop_pointer;
        smp[7] = self.hop_count;
        smp[32..34].copy_from_slice(&self.dr_slid.to_be_bytes());
        smp[34..36].copy_from_slice(&self.dr_dlid.to_be_bytes());
    }
}

/// The way out: which port to leave by at each hop, chosen by whoever sent the SMP.
pub fn initial_path(smp: &Mad) -> &DirectedPath {
    smp[INITIAL_PATH..]
        .first_chunk()
        .expect("a MAD is long enough")
}

/// The way out, to be written.
pub fn initial_path_mut(smp: &mut Mad) -> &mut DirectedPath {
    smp[INITIAL_PATH..]
        .first_chunk_mut()
        .expect("a MAD is long enough")
}

/// The way back: by which port it came at each hop.
pub fn return_path(smp: &Mad) -> &DirectedPath {
    smp[RETURN_PATH..]
        .first_chunk()
        .expect("a MAD is long enough")
}

/// The way back, to be written.
pub fn return_path_mut(smp: &mut Mad) -> &mut DirectedPath {
    smp[RETURN_PATH..]
        .first_chunk_mut()
        .expect("a MAD is long enough")
}
