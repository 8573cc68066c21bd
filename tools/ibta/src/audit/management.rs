//! What holds of every MAD of a device, whatever a test is about.
//!
//! An answer is to a request, and says of which (13.4.5, 13.4.8); a SubnSet is answered with what
//! there is after it (C14-26), and what it set stays (C14-30); what a node says of itself is what
//! its programs are told, where verbs tell it.

use super::port_info;
use crate::protocol::{DeviceInfo, PortState, Reply};
use crate::rig::Envelope;
use ferroce_wire::mad::{BASE_VERSION, LEN, Mad, MadHeader, method, status};
use ferroce_wire::pma::{self, ClassPortInfo};
use ferroce_wire::smp::{self, NodeInfo, NoticeHeader, PortInfo, attribute, node_type, trap};
use std::collections::{BTreeSet, HashMap};

/// Attributes of performance management that name a port.
const SELECTS: [u16; 3] = [
    pma::attribute::PORT_SAMPLES_CONTROL,
    pma::attribute::PORT_COUNTERS,
    pma::attribute::PORT_COUNTERS_EXTENDED,
];
/// Statuses without the bits of SMPs (13.4.7); busy and redirected are none of a subnet management
/// agent.
const STATUSES: [u16; 5] = [
    0,
    status::BAD_VERSION,
    status::UNSUPPORTED_METHOD,
    status::UNSUPPORTED_ATTRIBUTE,
    status::INVALID_VALUE,
];

/// Requests that were sent, and what the answers told.
#[derive(Default)]
pub(crate) struct Ledger {
    /// By port and transaction; the newest last.
    asked: Vec<(u8, Mad)>,
    /// PortInfo as it was told last, by port.
    ports: HashMap<u8, smp::Data>,
    /// NodeInfo as it was told last, by the port that was asked.
    pub(crate) nodes: HashMap<u8, NodeInfo>,
    /// The first entry of GUIDInfo as it was told last, by port.
    guids: HashMap<u8, u64>,
    /// A link has been commanded, or a cable touched: states change by themselves.
    moves: bool,
    /// The first MAD that was wrong, and how.
    pub(crate) wrong: Option<String>,
    /// MADs.
    pub(crate) seen: usize,
}

impl Ledger {
    /// The tester sends a MAD by a port.
    pub(crate) fn transmitted(&mut self, port: u8, mad: &Mad) {
        self.asked.push((port, *mad));
    }

    /// Something is wrong.
    pub(crate) fn note(&mut self, wrong: String) {
        self.wrong.get_or_insert(wrong);
    }

    /// What the device tells of its ports may be another from now on: a cable was pulled out.
    pub(crate) fn forget(&mut self, port: u8) {
        self.ports.remove(&port);
        self.moves = true;
    }

    /// The ports that have told something.
    pub(crate) fn known_ports(&self) -> BTreeSet<u8> {
        self.nodes
            .keys()
            .chain(self.ports.keys())
            .copied()
            .collect()
    }

    /// What programs are told of a port against what it told the subnet manager; `is_sm`: its
    /// capabilities may be others by now.
    ///
    /// # Errors
    /// It is another.
    pub(crate) fn compare(&self, port: u8, replies: &[Reply], is_sm: bool) -> Result<(), String> {
        replies.iter().try_for_each(|reply| match reply {
            Reply::Device(seen) => self.device(port, seen),
            Reply::Port(seen) => self.port(port, seen, is_sm),
            Reply::Gid { gid, .. } => self.gid(port, u128::from_be_bytes(*gid)),
            _ => Ok(()),
        })
    }

    fn device(&self, port: u8, seen: &DeviceInfo) -> Result<(), String> {
        let Some(node) = self.nodes.get(&port) else {
            return Ok(());
        };
        due("NumPorts", node.num_ports, seen.ports)?;
        due("NodeGUID", node.node_guid, seen.node_guid)?;
        due(
            "SystemImageGUID",
            node.system_image_guid,
            seen.system_image_guid,
        )?;
        due("VendorID", node.vendor_id, seen.vendor_id)?;
        due("Revision", node.revision, seen.hw_ver)
    }

    fn port(&self, port: u8, seen: &PortState, is_sm: bool) -> Result<(), String> {
        if let Some(node) = self.nodes.get(&port) {
            due("PartitionCap", node.partition_cap, seen.pkey_tbl_len)?;
        }
        match self.ports.get(&port) {
            Some(data) => port_info::agrees(data, seen, is_sm, self.moves),
            None => Ok(()),
        }
    }

    fn gid(&self, port: u8, gid: u128) -> Result<(), String> {
        if let Some(node) = self.nodes.get(&port) {
            due("PortGUID", node.port_guid, gid as u64)?;
        }
        if let Some(first) = self.guids.get(&port) {
            due("the first GUID", *first, gid as u64)?;
        }
        match self.ports.get(&port) {
            Some(data) => due(
                "GidPrefix",
                PortInfo::parse(data).gid_prefix,
                (gid >> 64) as u64,
            ),
            None => Ok(()),
        }
    }

    /// The device sent a MAD by a port.
    pub(crate) fn received(&mut self, port: u8, from: &Envelope, mad: &Mad) {
        self.seen += 1;
        let Some(header) = MadHeader::parse(mad) else {
            return;
        };

        if !smp::is_class(header.class) && header.class != pma::CLASS && from.qp != 0 {
            // Of other classes nothing is known here.
            return;
        }

        let right = match header.method & method::RESPONSE {
            0 => self.notified(from, mad, &header),
            _ => self.answered(port, mad, &header),
        };
        if let Err(why) = right {
            self.note(format!("port {port}: {why}: {header:x?}"));
        }
    }

    /// A MAD that is no answer: a trap (13.4.9, 14.2.5.1).
    fn notified(&self, from: &Envelope, mad: &Mad, header: &MadHeader) -> Result<(), String> {
        due("the method", header.method, method::TRAP)?;
        due("the base version", header.base_version, BASE_VERSION)?;
        due(
            "the class version",
            header.class_version,
            smp::CLASS_VERSION,
        )?;

        due("the class", header.class, smp::CLASS_LID)?;
        due("the attribute", header.attribute, attribute::NOTICE)?;
        due("the modifier", header.modifier, 0)?;
        due("the status", header.status, 0)?;
        due("the class-specific part", header.class_specific, 0)?;
        let notice = NoticeHeader::parse(smp::data(mad));
        due("IsGeneric", notice.is_generic, true)?;
        due("IssuerLID", notice.issuer_lid, from.slid)?;
        let kind = match notice.trap_number {
            trap::CAPABILITY_CHANGE | trap::SYSTEM_IMAGE_GUID_CHANGE => 4,
            trap::BAD_M_KEY | trap::BAD_P_KEY | trap::BAD_Q_KEY => 2,
            _ => return Err("there is no such trap".to_owned()),
        };
        due("the type of the notice", notice.notice_type, kind)?;
        if let Some(node) = self.nodes.values().next() {
            let producer = u32::from(node.node_type);
            due("ProducerType", notice.producer_type, producer)?;
        }

        // Without a queue of notices there is none that waits.
        due("NoticeCount", notice.count, 0)
    }

    fn answered(&mut self, port: u8, mad: &Mad, header: &MadHeader) -> Result<(), String> {
        let mut asked = self.asked.iter().rev();
        let request = asked.find_map(|(by, request)| {
            let asked = MadHeader::parse(request)?;
            (*by == port && asked.tid == header.tid).then_some((*request, asked))
        });
        let Some((request, asked)) = request else {
            return Err("nobody asked for it".to_owned());
        };

        let code = match header.class {
            smp::CLASS_DIRECTED => header.status & !smp::DIRECTION,
            _ => header.status,
        };
        let refused = code == status::BAD_VERSION;
        if !refused {
            due("the base version", header.base_version, BASE_VERSION)?;
        }

        let version = match header.class {
            pma::CLASS => pma::CLASS_VERSION,
            _ => smp::CLASS_VERSION,
        };
        if !refused {
            due("the class version", header.class_version, version)?;
        }

        due("the class", header.class, asked.class)?;
        due("the method", header.method, method::GET_RESP)?;
        due("the attribute", header.attribute, asked.attribute)?;
        due("the modifier", header.modifier, asked.modifier)?;
        if !STATUSES.contains(&code) {
            return Err("there is no such status".to_owned());
        }

        Self::route(port, mad, header, &request)?;
        if code == 0 && header.class == pma::CLASS && SELECTS.contains(&header.attribute) {
            let select = LEN - pma::DATA_LEN + 1;
            due("PortSelect", mad[select], request[select])?;
        }

        if code == 0
            && header.class == pma::CLASS
            && header.attribute == pma::attribute::CLASS_PORT_INFO
        {
            return class_port_info(mad);
        }

        if !smp::is_class(header.class) || code != 0 {
            return Ok(());
        }

        due("the M_Key", smp::m_key(mad), 0)
            .or_else(|_| due("the M_Key", smp::m_key(mad), smp::m_key(&request)))?;
        match header.attribute {
            attribute::PORT_INFO => self.port_info(port, mad, &request, &asked),
            attribute::NODE_INFO => self.node_info(port, mad),
            attribute::P_KEY_TABLE | attribute::SL_TO_VL | attribute::VL_ARBITRATION => {
                self.table(mad, &request, &asked)
            }
            attribute::GUID_INFO => {
                self.guid_info(port, mad, &asked);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The way back is the way out, and all of it is gone (14.2.2); otherwise nothing is there.
    fn route(port: u8, mad: &Mad, header: &MadHeader, request: &Mad) -> Result<(), String> {
        if header.class != smp::CLASS_DIRECTED {
            due("the class-specific part", header.class_specific, 0)?;
            return due("the direction", header.status & smp::DIRECTION, 0);
        }

        let (back, out) = (smp::Directed::parse(mad), smp::Directed::parse(request));
        due("the D bit", back.returning, true)?;
        due("HopCount", back.hop_count, out.hop_count)?;
        due("HopPointer", back.hop_pointer, out.hop_pointer)?;
        due("DrSLID", back.dr_slid, out.dr_slid)?;
        due("DrDLID", back.dr_dlid, out.dr_dlid)?;

        // Behind the last hop the device notes by which port the SMP came (C14-9).
        if out.hop_count > 0 && out.hop_pointer == out.hop_count {
            let noted = smp::return_path(mad)[usize::from(out.hop_count)];
            due("ReturnPath", noted, port)?;
        }

        let way = smp::initial_path(request) == smp::initial_path(mad);
        due("whether InitialPath is what it was", way, true)
    }

    fn port_info(
        &mut self,
        port: u8,
        mad: &Mad,
        request: &Mad,
        asked: &MadHeader,
    ) -> Result<(), String> {
        let now = smp::data(mad);
        let named = match asked.modifier & 0xff {
            0 => port,
            named => named as u8,
        };
        due("LocalPortNum", PortInfo::parse(now).local_port_num, port)?;
        let set = (asked.method == method::SET).then(|| smp::data(request));
        self.moves |= set.is_some_and(|set| PortInfo::parse(set).port_physical_state != 0);
        let last = self.ports.insert(named, *now);
        port_info::legal(now)?;
        port_info::changed(now, last.as_ref(), set)
    }

    /// A table that was set is answered as it is afterwards (C14-26).
    fn table(&self, mad: &Mad, request: &Mad, asked: &MadHeader) -> Result<(), String> {
        // A block of arbitration may be longer than the table.
        let len = match asked.attribute {
            attribute::VL_ARBITRATION => 2,
            _ => smp::DATA_LEN,
        };
        let same = smp::data(mad)[..len] == smp::data(request)[..len];
        match asked.method == method::SET && !same {
            true => Err("the answer to the SubnSet is not what was set".to_owned()),
            false => Ok(()),
        }
    }

    /// The first GUID of a port is fixed (14.2.5.5), and that of its first GID.
    fn guid_info(&mut self, port: u8, mad: &Mad, asked: &MadHeader) {
        if asked.modifier == 0
            && let Some(first) = smp::data(mad).first_chunk()
        {
            self.guids.insert(port, u64::from_be_bytes(*first));
        }
    }

    fn node_info(&mut self, port: u8, mad: &Mad) -> Result<(), String> {
        let info = NodeInfo::parse(smp::data(mad));
        self.nodes.insert(port, info);
        due("BaseVersion", info.base_version, BASE_VERSION)?;
        due("ClassVersion", info.class_version, smp::CLASS_VERSION)?;
        due("LocalPortNum", info.local_port_num, port)?;
        let known = node_type::CHANNEL_ADAPTER..=node_type::ROUTER;
        due(
            "whether NodeType is known",
            known.contains(&info.node_type),
            true,
        )
    }
}

/// ClassPortInfo names the versions that there are (13.4.8.1).
fn class_port_info(mad: &Mad) -> Result<(), String> {
    let data = mad[LEN - pma::DATA_LEN..].first_chunk();
    let info = ClassPortInfo::parse(data.expect("a MAD is long enough"));
    due("BaseVersion", info.base_version, BASE_VERSION)?;
    due("ClassVersion", info.class_version, pma::CLASS_VERSION)
}

pub(super) fn due<T: PartialEq + std::fmt::Debug>(
    what: &str,
    seen: T,
    due: T,
) -> Result<(), String> {
    match seen == due {
        true => Ok(()),
        false => Err(format!("{what} is {seen:#x?}, must be {due:#x?}")),
    }
}
