//! Requests of subnet management as tests write them, and answers as they read them.

use crate::rig::Envelope;
use ferroce_wire::mad::{BASE_VERSION, LEN, Mad, MadHeader};
use ferroce_wire::smp::{
    self, CLASS_DIRECTED, CLASS_LID, CLASS_VERSION, Data, Directed, NoticeHeader, PERMISSIVE_LID,
    PortInfo, attribute, method,
};
use std::time::Duration;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smp {
    /// Method.
    pub method: u8,
    /// Attribute.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
    /// M_Key; `None` is the one that the tester knows the port by.
    pub m_key: Option<u64>,
    /// Attribute.
    pub data: Data,
    /// LID-routed to this LID; else by directed route of one hop.
    pub dlid: Option<u16>,
    /// Base version.
    pub base_version: u8,
    /// Class version.
    pub class_version: u8,
    /// Transaction; `None` is a new one.
    pub tid: Option<u64>,
}

impl Smp {
    /// A request with this method and an attribute of zeros.
    pub fn new(method: u8, attribute: u16) -> Smp {
        Smp {
            method,
            attribute,
            modifier: 0,
            m_key: None,
            data: [0; smp::DATA_LEN],
            dlid: None,
            base_version: BASE_VERSION,
            class_version: CLASS_VERSION,
            tid: None,
        }
    }

    /// SubnGet.
    pub fn get(attribute: u16) -> Smp {
        Smp::new(method::GET, attribute)
    }

    /// SubnSet.
    pub fn set(attribute: u16, data: Data) -> Smp {
        Smp::new(method::SET, attribute).with(data)
    }

    /// SubnSet(PortInfo) about a port; 0 is the one that receives it.
    pub fn set_port_info(port: u8, info: &PortInfo) -> Smp {
        let mut data = [0; smp::DATA_LEN];
        info.emit(&mut data);
        Smp::set(attribute::PORT_INFO, data).about(port.into())
    }

    /// SubnTrapRepress of a trap that was heard.
    pub fn repress(trap: &Trap) -> Smp {
        Smp {
            data: *smp::data(&trap.mad),
            tid: Some(trap.header.tid),
            ..Smp::new(method::TRAP_REPRESS, attribute::NOTICE)
        }
    }

    /// With this attribute modifier.
    pub fn about(mut self, modifier: u32) -> Smp {
        self.modifier = modifier;
        self
    }

    /// With this attribute.
    pub fn with(mut self, data: Data) -> Smp {
        self.data = data;
        self
    }

    /// With this M_Key, whatever the tester knows.
    pub fn key(mut self, m_key: u64) -> Smp {
        self.m_key = Some(m_key);
        self
    }

    /// LID-routed.
    pub fn to_lid(mut self, dlid: u16) -> Smp {
        self.dlid = Some(dlid);
        self
    }

    /// The MAD, with this key and transaction; `port` is the tester's, by which it leaves.
    pub fn emit(&self, port: u8, m_key: u64, tid: u64) -> Mad {
        let mut mad = [0; LEN];
        MadHeader {
            base_version: self.base_version,
            class: if self.dlid.is_some() {
                CLASS_LID
            } else {
                CLASS_DIRECTED
            },
            class_version: self.class_version,
            method: self.method,
            tid,
            attribute: self.attribute,
            modifier: self.modifier,
            ..MadHeader::default()
        }
        .emit(&mut mad);

        smp::set_m_key(&mut mad, m_key);
        if self.dlid.is_none() {
            Directed {
                returning: false,
                hop_pointer: 1,
                hop_count: 1,
                dr_slid: PERMISSIVE_LID,
                dr_dlid: PERMISSIVE_LID,
            }
            .emit(&mut mad);
            smp::initial_path_mut(&mut mad)[1] = port;
        }

        *smp::data_mut(&mut mad) = self.data;
        mad
    }
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its addresses.
    pub envelope: Envelope,
    /// Its header; the status without the direction bit.
    pub header: MadHeader,
    /// All of it.
    pub mad: Mad,
    /// Time from the request to it.
    pub after: Duration,
}

impl Answer {
    pub(super) fn new(envelope: Envelope, mad: &Mad, after: Duration) -> Answer {
        let mut header = MadHeader::parse(mad).expect("a whole MAD");
        if header.class == CLASS_DIRECTED {
            header.status &= !smp::DIRECTION;
        }
        Answer {
            envelope,
            header,
            mad: *mad,
            after,
        }
    }

    /// MADHeader:Status, without the direction bit.
    pub fn status(&self) -> u16 {
        self.header.status
    }

    /// The attribute.
    pub fn data(&self) -> &Data {
        smp::data(&self.mad)
    }

    /// The attribute as PortInfo.
    pub fn port_info(&self) -> PortInfo {
        PortInfo::parse(self.data())
    }

    /// What only directed-route SMPs have.
    pub fn directed(&self) -> Directed {
        Directed::parse(&self.mad)
    }
}

/// A trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// When it came.
    pub at: Duration,
    /// Its addresses.
    pub envelope: Envelope,
    /// Its header.
    pub header: MadHeader,
    /// What all notices have.
    pub notice: NoticeHeader,
    /// The notice's details, 54 bytes.
    pub details: [u8; 54],
    /// All of it.
    pub mad: Mad,
}

impl Trap {
    pub(super) fn new(at: Duration, envelope: Envelope, mad: &Mad) -> Trap {
        let data = smp::data(mad);
        Trap {
            at,
            envelope,
            header: MadHeader::parse(mad).expect("a whole MAD"),
            notice: NoticeHeader::parse(data),
            details: *data[10..].first_chunk().expect("64 bytes"),
            mad: *mad,
        }
    }

    /// Two bytes of the details.
    pub fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.details[at], self.details[at + 1]])
    }

    /// Four bytes of the details.
    pub fn u32_at(&self, at: usize) -> u32 {
        u32::from(self.u16_at(at)) << 16 | u32::from(self.u16_at(at + 2))
    }

    /// Eight bytes of the details.
    pub fn u64_at(&self, at: usize) -> u64 {
        u64::from(self.u32_at(at)) << 32 | u64::from(self.u32_at(at + 4))
    }
}
