//! Subnet administration: the header of its MADs and the records that a communication manager asks
//! for. Records are fixed layouts; nothing here knows who answers, or what an answer is good for.

use crate::mad::{BASE_VERSION, Gid, LEN, Mad, MadHeader};

/// Management class of subnet administration.
pub const CLASS: u8 = 0x03;
/// Version of that class.
pub const CLASS_VERSION: u8 = 2;
/// Where a record begins in a MAD.
pub const DATA: usize = 56;
/// Bytes of a MAD that records may fill.
pub const DATA_LEN: usize = LEN - DATA;

/// Methods.
pub mod method {
    pub use crate::mad::method::{GET, RESPONSE, SET};

    /// SubnAdmGetTable: all records that fit, as one RMPP message.
    pub const GET_TABLE: u8 = 0x12;
    /// SubnAdmDelete.
    pub const DELETE: u8 = 0x15;
}

/// Attributes.
pub mod attribute {
    /// ServiceRecord.
    pub const SERVICE_RECORD: u16 = 0x0031;
    /// PathRecord.
    pub const PATH_RECORD: u16 = 0x0035;
    /// MCMemberRecord.
    pub const MC_MEMBER_RECORD: u16 = 0x0038;
}

/// Bits of component masks.
pub mod component {
    /// PathRecord: DGID, SGID, Reversible, NumbPath, P_Key.
    pub const PATH: u64 = 1 << 2 | 1 << 3 | 1 << 11 | 1 << 12 | 1 << 13;
    /// MCMemberRecord: MGID, PortGID and JoinState, which say who is a member of what, and how.
    pub const MEMBER: u64 = 1 | 1 << 1 | 1 << 16;
    /// MCMemberRecord: what a group must be given to be made: Q_Key, TClass, P_Key, SL and
    /// FlowLabel.
    pub const GROUP: u64 = 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13;
    /// ServiceRecord: what identifies a record, ServiceID, ServiceGID and ServiceP_Key.
    pub const SERVICE_RID: u64 = 1 | 1 << 1 | 1 << 2;
    /// ServiceRecord: ServiceLease.
    pub const SERVICE_LEASE: u64 = 1 << 4;
    /// ServiceRecord: ServiceName.
    pub const SERVICE_NAME: u64 = 1 << 6;
    /// ServiceRecord: ServiceData8, all sixteen, and the first ServiceData64.
    pub const SERVICE_DATA: u64 = 0xffff << 7 | 1 << 35;
}

/// A question to the subnet administrator, or one of its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaMad {
    /// Method; the top bit is set in answers.
    pub method: u8,
    /// Status; 0: good.
    pub status: u16,
    /// Transaction identifier.
    pub tid: u64,
    /// Attribute.
    pub attribute: u16,
    /// Which components of the record count.
    pub mask: u64,
    /// The record.
    pub data: [u8; DATA_LEN],
}

impl SaMad {
    /// Writes a MAD of its own, without RMPP.
    pub fn emit(&self) -> Mad {
        let mut mad = [0; LEN];
        MadHeader {
            base_version: BASE_VERSION,
            class: CLASS,
            class_version: CLASS_VERSION,
            method: self.method,
            status: self.status,
            tid: self.tid,
            attribute: self.attribute,
            ..MadHeader::default()
        }
        .emit(&mut mad);

        mad[48..DATA].copy_from_slice(&self.mask.to_be_bytes());
        mad[DATA..].copy_from_slice(&self.data);
        mad
    }

    /// Reads an answer; `None`: it is none, or of another class.
    pub fn parse_answer(mad: &Mad) -> Option<Self> {
        let header = MadHeader::parse(mad)?;
        let is_answer = header.class == CLASS
            && header.class_version == CLASS_VERSION
            && header.method & method::RESPONSE != 0;
        is_answer.then_some(Self {
            method: header.method,
            status: header.status,
            tid: header.tid,
            attribute: header.attribute,
            mask: u64::from_be_bytes(*mad[48..].first_chunk()?),
            data: *mad[DATA..].first_chunk()?,
        })
    }
}

/// The records of the answer to [`method::GET_TABLE`], a message from its MAD header on, each with
/// zeros behind it. An AttributeOffset of less than a record's length is for who reads it to see.
pub fn table(message: &[u8]) -> Vec<[u8; DATA_LEN]> {
    let word = |at: usize| Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?));
    // AttributeOffset, in words of 8 bytes (section 15.2.1.1).
    let length = usize::from(word(44).unwrap_or(0)) * 8;
    let records = message.get(DATA..).unwrap_or_default();
    let Some(records) = (length > 0).then(|| records.chunks_exact(length)) else {
        return Vec::new();
    };
    let padded = |record: &[u8]| std::array::from_fn(|i| record.get(i).copied().unwrap_or(0));
    records.map(padded).collect()
}

/// A PathRecord (IBTA 15.2.5.16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathRecord {
    /// What runs over the path; 0: anything.
    pub service_id: u64,
    /// The far end's GID.
    pub dgid: Gid,
    /// The near end's GID.
    pub sgid: Gid,
    /// The far end's LID.
    pub dlid: u16,
    /// The near end's LID.
    pub slid: u16,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit; 0 and 1 are paths within the subnet.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// P_Key.
    pub pkey: u16,
    /// Service level, 4 bits.
    pub sl: u8,
    /// Path MTU, 1 (256 bytes) to 5 (4,096).
    pub mtu: u8,
    /// Packet rate, as `ibv_rate` has it.
    pub rate: u8,
    /// Packet life time, 4.096 µs · 2^n.
    pub life_time: u8,
}

/// "Exactly", of MTU, rate and life time.
const EXACTLY: u8 = 2;
/// The path serves in both directions; one path.
const REVERSIBLE_ONE: u8 = 0x80 | 1;

impl PathRecord {
    /// Bytes of the record.
    pub const LEN: usize = 64;

    /// Writes a reversible path whose MTU, rate and life time are exact.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let exactly = |value: u8| EXACTLY << 6 | value & 0x3f;
        let mut record = [0; Self::LEN];
        record[..8].copy_from_slice(&self.service_id.to_be_bytes());
        record[8..24].copy_from_slice(&self.dgid);
        record[24..40].copy_from_slice(&self.sgid);
        record[40..42].copy_from_slice(&self.dlid.to_be_bytes());
        record[42..44].copy_from_slice(&self.slid.to_be_bytes());
        let flow_hop = (self.flow_label & 0x000f_ffff) << 8 | u32::from(self.hop_limit);
        record[44..48].copy_from_slice(&flow_hop.to_be_bytes());
        record[48] = self.traffic_class;
        record[49] = REVERSIBLE_ONE;
        record[50..52].copy_from_slice(&self.pkey.to_be_bytes());
        record[52..54].copy_from_slice(&u16::from(self.sl & 0xf).to_be_bytes());
        record[54] = exactly(self.mtu);
        record[55] = exactly(self.rate);
        record[56] = exactly(self.life_time);
        record
    }

    /// Reads a record; selectors are not looked at.
    pub fn parse(record: &[u8; Self::LEN]) -> Self {
        let short = |at: usize| u16::from_be_bytes([record[at], record[at + 1]]);
        let gid = |at: usize| std::array::from_fn(|i| record[at + i]);
        let flow_hop = u32::from_be_bytes(std::array::from_fn(|i| record[44 + i]));
        Self {
            service_id: u64::from_be_bytes(std::array::from_fn(|i| record[i])),
            dgid: gid(8),
            sgid: gid(24),
            dlid: short(40),
            slid: short(42),
            flow_label: flow_hop >> 8 & 0x000f_ffff,
            hop_limit: flow_hop as u8,
            traffic_class: record[48],
            pkey: short(50),
            sl: record[53] & 0xf,
            mtu: record[54] & 0x3f,
            rate: record[55] & 0x3f,
            life_time: record[56] & 0x1f,
        }
    }
}

/// A ServiceRecord (IBTA 15.2.5.14), without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRecord {
    /// ServiceID.
    pub id: u64,
    /// ServiceGID: where the service is.
    pub gid: Gid,
    /// ServiceP_Key.
    pub pkey: u16,
    /// ServiceLease in seconds.
    pub lease: u32,
    /// ServiceName, with zeros behind it.
    pub name: [u8; 64],
    /// ServiceData8.
    pub data: [u8; 16],
    /// The first ServiceData64.
    pub number: u64,
}

impl ServiceRecord {
    /// The record as it lies in a MAD.
    pub fn emit(&self) -> [u8; DATA_LEN] {
        let mut record = [0; DATA_LEN];
        record[..8].copy_from_slice(&self.id.to_be_bytes());
        record[8..24].copy_from_slice(&self.gid);
        record[24..26].copy_from_slice(&self.pkey.to_be_bytes());
        record[28..32].copy_from_slice(&self.lease.to_be_bytes());
        record[48..112].copy_from_slice(&self.name);
        record[112..128].copy_from_slice(&self.data);
        record[160..168].copy_from_slice(&self.number.to_be_bytes());
        record
    }

    /// Reads what [`emit`](Self::emit) writes.
    pub fn parse(record: &[u8; DATA_LEN]) -> Self {
        Self {
            id: u64::from_be_bytes(std::array::from_fn(|i| record[i])),
            gid: std::array::from_fn(|i| record[8 + i]),
            pkey: u16::from_be_bytes([record[24], record[25]]),
            lease: u32::from_be_bytes(std::array::from_fn(|i| record[28 + i])),
            name: std::array::from_fn(|i| record[48 + i]),
            data: std::array::from_fn(|i| record[112 + i]),
            number: u64::from_be_bytes(std::array::from_fn(|i| record[160 + i])),
        }
    }
}

/// JoinState: sends to the group and gets what is sent there.
pub const FULL_MEMBER: u8 = 1;
/// JoinState: sends to the group only.
pub const SEND_ONLY_FULL_MEMBER: u8 = 8;

/// An MCMemberRecord (IBTA 15.2.5.17): a port's membership in a multicast group, and what the group
/// is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct McMemberRecord {
    /// The group; zero in a request: the administrator is to choose one.
    pub mgid: Gid,
    /// The member.
    pub port_gid: Gid,
    /// Q_Key.
    pub qkey: u32,
    /// The LID to send to.
    pub mlid: u16,
    /// MTU, 1 (256 bytes) to 5 (4,096).
    pub mtu: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// P_Key.
    pub pkey: u16,
    /// Packet rate, as `ibv_rate` has it.
    pub rate: u8,
    /// Packet life time, 4.096 µs · 2^n.
    pub life_time: u8,
    /// Service level, 4 bits.
    pub sl: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Scope, 4 bits: 2 is the subnet.
    pub scope: u8,
    /// JoinState, 4 bits.
    pub join_state: u8,
}

impl McMemberRecord {
    /// Writes the record as it lies in a MAD; MTU, rate and life time are exact.
    pub fn emit(&self) -> [u8; DATA_LEN] {
        let exactly = |value: u8| EXACTLY << 6 | value & 0x3f;
        let mut record = [0; DATA_LEN];
        record[..16].copy_from_slice(&self.mgid);
        record[16..32].copy_from_slice(&self.port_gid);
        record[32..36].copy_from_slice(&self.qkey.to_be_bytes());
        record[36..38].copy_from_slice(&self.mlid.to_be_bytes());
        record[38] = exactly(self.mtu);
        record[39] = self.traffic_class;
        record[40..42].copy_from_slice(&self.pkey.to_be_bytes());
        record[42] = exactly(self.rate);
        record[43] = exactly(self.life_time);
        let sl_flow_hop = u32::from(self.sl & 0xf) << 28
            | (self.flow_label & 0x000f_ffff) << 8
            | u32::from(self.hop_limit);
        record[44..48].copy_from_slice(&sl_flow_hop.to_be_bytes());
        record[48] = self.scope << 4 | self.join_state & 0xf;
        record
    }

    /// Reads a record; selectors are not looked at.
    pub fn parse(record: &[u8; DATA_LEN]) -> Self {
        let short = |at: usize| u16::from_be_bytes([record[at], record[at + 1]]);
        let word = |at: usize| u32::from_be_bytes(std::array::from_fn(|i| record[at + i]));
        let gid = |at: usize| std::array::from_fn(|i| record[at + i]);
        let sl_flow_hop = word(44);
        Self {
            mgid: gid(0),
            port_gid: gid(16),
            qkey: word(32),
            mlid: short(36),
            mtu: record[38] & 0x3f,
            traffic_class: record[39],
            pkey: short(40),
            rate: record[42] & 0x3f,
            life_time: record[43] & 0x3f,
            sl: (sl_flow_hop >> 28) as u8,
            flow_label: sl_flow_hop >> 8 & 0x000f_ffff,
            hop_limit: sl_flow_hop as u8,
            scope: record[48] >> 4,
            join_state: record[48] & 0xf,
        }
    }
}

#[cfg(test)]
#[path = "sa_tests.rs"]
mod tests;
