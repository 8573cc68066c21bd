//! What passes between a node's agent and its host.

use ferroce_wire::mad::Mad;
use ferroce_wire::smp::{PERMISSIVE_LID, node_type};

/// What kind of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Ports 1 to n, each with a LID of its own.
    ChannelAdapter,
    /// Port 0, which is the switch itself, and external ports 1 to n.
    Switch,
}

impl NodeKind {
    /// As NodeInfo and notices name it.
    pub fn node_type(self) -> u8 {
        match self {
            NodeKind::ChannelAdapter => node_type::CHANNEL_ADAPTER,
            NodeKind::Switch => node_type::SWITCH,
        }
    }
}

/// What the links of a node can do. Widths and speeds are sets of bits, as in PortInfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkCapabilities {
    /// Widths: 1 is 1X, 2 is 4X, 4 is 8X, 8 is 12X.
    pub widths: u8,
    /// Speeds: 1 is SDR, 2 is DDR, 4 is QDR.
    pub speeds: u8,
    /// Extended speeds: 1 is FDR, 2 is EDR, 4 is HDR; 0 if there are none.
    pub speeds_ext: u8,
    /// Greatest MTU, 1 (256 bytes) to 5 (4,096).
    pub mtu: u8,
    /// Data lanes: 1 one, 2 two, 3 four, 4 eight, 5 fifteen.
    pub vl_cap: u8,
}

impl Default for LinkCapabilities {
    fn default() -> LinkCapabilities {
        LinkCapabilities {
            widths: 0b11,
            speeds: 0b111,
            speeds_ext: 0b11,
            mtu: 5,
            vl_cap: 1,
        }
    }
}

/// What a node is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Adapter or switch.
    pub kind: NodeKind,
    /// Ports with links, 1 to 254.
    pub ports: u8,
    /// GUID of the system.
    pub system_image_guid: u64,
    /// GUID of the node.
    pub node_guid: u64,
    /// GUIDs of the ports: one for each, of a switch one for port 0.
    pub port_guids: Vec<u64>,
    /// Vendor, 24 bits.
    pub vendor_id: u32,
    /// Device.
    pub device_id: u16,
    /// Revision.
    pub revision: u32,
    /// Name, at most 64 bytes of UTF-8.
    pub description: String,
    /// What the links can do.
    pub link: LinkCapabilities,
    /// What else the host can do, as bits of CapabilityMask: communication management and the like.
    pub capability_mask: u32,
    /// Entries of a port's P_Key table, at least 1.
    pub p_keys: u16,
    /// Switches: entries of an external port's P_Key table; 0: no partition enforcement.
    pub enforced_p_keys: u16,
    /// Entries of a port's GUIDInfo, at least 1.
    pub guids: u8,
    /// Switches: LIDs of the linear forwarding table, at most 49,152.
    pub linear_fdb: u16,
    /// Switches: multicast LIDs, at most 16,382.
    pub multicast_fdb: u16,
}

impl NodeConfig {
    /// A channel adapter with one port for each GUID.
    pub fn channel_adapter(node_guid: u64, port_guids: &[u64]) -> NodeConfig {
        NodeConfig {
            kind: NodeKind::ChannelAdapter,
            ports: u8::try_from(port_guids.len()).unwrap_or(u8::MAX),
            system_image_guid: node_guid,
            node_guid,
            port_guids: port_guids.to_vec(),
            vendor_id: 0,
            device_id: 0,
            revision: 0,
            description: String::new(),
            link: LinkCapabilities::default(),
            capability_mask: 0,
            p_keys: 128,
            enforced_p_keys: 0,
            guids: 8,
            linear_fdb: 0,
            multicast_fdb: 0,
        }
    }

    /// A switch; port 0 has the node's GUID.
    pub fn switch(node_guid: u64, ports: u8) -> NodeConfig {
        NodeConfig {
            kind: NodeKind::Switch,
            ports,
            p_keys: 32,
            enforced_p_keys: 32,
            guids: 1,
            linear_fdb: 0xc000,
            multicast_fdb: 1024,
            ..NodeConfig::channel_adapter(node_guid, &[node_guid])
        }
    }

    pub(super) fn first_port(&self) -> u8 {
        u8::from(self.kind == NodeKind::ChannelAdapter)
    }

    pub(super) fn check(&self) {
        let guids = match self.kind {
            NodeKind::ChannelAdapter => usize::from(self.ports),
            NodeKind::Switch => 1,
        };
        assert!((1..=254).contains(&self.ports), "1 to 254 ports");
        assert_eq!(self.port_guids.len(), guids, "a GUID for each port");
        assert!(self.p_keys > 0 && self.guids > 0, "tables have an entry");
        assert!(self.linear_fdb <= 0xc000 && self.multicast_fdb <= 0x3ffe);
        assert!(self.description.len() <= 64, "64 bytes of description");
    }
}

/// The addresses of an SMP on the link; it always goes on lane 15, from QP0 to QP0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Source LID; 0xffff before there are LIDs.
    pub slid: u16,
    /// Destination LID; 0xffff is whoever is at the other end of the link.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
}

impl Envelope {
    /// To the other end of the link.
    pub fn directed(sl: u8) -> Envelope {
        Envelope {
            slid: PERMISSIVE_LID,
            dlid: PERMISSIVE_LID,
            sl,
        }
    }
}

/// What verbs consumers of a port are told (section 11.6.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortEvent {
    /// `IBV_EVENT_PORT_ACTIVE`.
    Active,
    /// `IBV_EVENT_PORT_ERR`.
    Error,
    /// `IBV_EVENT_LID_CHANGE`.
    LidChange,
    /// `IBV_EVENT_PKEY_CHANGE`.
    PkeyChange,
    /// `IBV_EVENT_SM_CHANGE`.
    SmChange,
    /// `IBV_EVENT_GID_CHANGE`.
    GidChange,
    /// `IBV_EVENT_CLIENT_REREGISTER`.
    ClientReregister,
    /// The lamp has been switched; not for consumers.
    Led(bool),
}

impl PortEvent {
    /// The event's number in `enum ibv_event_type`, if consumers are told.
    pub fn verbs_number(self) -> Option<u32> {
        Some(match self {
            PortEvent::Active => 9,
            PortEvent::Error => 10,
            PortEvent::LidChange => 11,
            PortEvent::PkeyChange => 12,
            PortEvent::SmChange => 13,
            PortEvent::ClientReregister => 17,
            PortEvent::GidChange => 18,
            PortEvent::Led(_) => return None,
        })
    }
}

/// What the physical layer of a port is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkCommand {
    /// Let go of the link, if there is one, and look for a peer.
    Poll,
    /// Let go of the link, and answer if a peer looks for us.
    Sleep,
    /// Let go of the link, and be silent.
    Disable,
}

/// What a port offers in training; the best that both ends offer is taken. Sets of bits as in
/// [`LinkCapabilities`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Widths enabled.
    pub widths: u8,
    /// Speeds enabled.
    pub speeds: u8,
    /// Extended speeds enabled.
    pub speeds_ext: u8,
}

/// What has become of SMPs since the node was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmpCounters {
    /// Arrived by links.
    pub received: u64,
    /// Came from programs of this host.
    pub sent_by_programs: u64,
    /// Answered, refusals included.
    pub answered: u64,
    /// Answered with a status that is not good.
    pub refused: u64,
    /// Sent on: by the next hop, or to where programs wanted them.
    pub passed_on: u64,
    /// Handed to programs, answers to their own requests of this node aside.
    pub delivered: u64,
    /// Dropped: no way, no sense, not for us, or a wrong M_Key (which the port counts, too).
    pub dropped: u64,
    /// Traps sent, repetitions included.
    pub traps: u64,
}

/// A packet with a P_Key or Q_Key that it should not have.
pub use ferroce_wire::smp::BadKey as Violation;

/// Where SMPs, events and commands go.
pub trait Output {
    /// Sends an SMP by the link of `port`, which is never 0.
    fn send(&mut self, port: u8, to: Envelope, smp: &Mad);

    /// Hands an SMP to the programs of this host: an answer, a trap, or a request for the subnet
    /// manager.
    fn deliver(&mut self, port: u8, from: Envelope, smp: &Mad);

    /// Something happened to a port.
    fn event(&mut self, port: u8, event: PortEvent);

    /// The physical layer of a port is to do something.
    fn link(&mut self, port: u8, command: LinkCommand);
}
