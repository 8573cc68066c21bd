//! What an agent knows of one port.

use super::traps::Traps;
use super::types::{LinkCapabilities, NodeConfig, NodeKind, Offer};
use crate::cm::Time;
use ferroce_wire::mad::{DEFAULT_PKEY, Gid};
use ferroce_wire::smp::{
    MULTICAST_LID, PortInfo, SlToVl, VlWeight, capability, path_bits, phys_state, state,
};

/// Entries of an arbitration table that has any.
const ARBITRATION: u8 = 8;

/// A port.
#[derive(Debug)]
pub struct Port {
    pub(super) number: u8,
    /// What a Get answers, but for LocalPortNum and ClientReregister, which belong to the request.
    pub(super) info: PortInfo,
    pub(super) guids: Vec<u64>,
    pub(super) p_keys: Vec<u16>,
    /// By the port at which packets come in; an adapter has one.
    pub(super) sl_to_vl: Vec<SlToVl>,
    /// Low and high priority.
    pub(super) arbitration: [[VlWeight; 64]; 2],
    pub(super) led: bool,
    /// When the protection of the M_Key lapses.
    pub(super) lease: Option<Time>,
    pub(super) traps: Traps,
    pub(super) link_downed: u64,
}

impl Port {
    pub(super) fn new(config: &NodeConfig, number: u8) -> Port {
        let is_external = config.kind == NodeKind::Switch && number != 0;
        let is_switch = config.kind == NodeKind::Switch;
        let mut info = link_components(&config.link);
        let mut guids = Vec::new();
        let mut p_keys = Vec::new();
        if !is_external {
            let guid = config.port_guids[usize::from(number.saturating_sub(1))];
            guids = vec![0; config.guids.into()];
            guids[0] = guid;
            p_keys = vec![0; config.p_keys.into()];
            p_keys[0] = DEFAULT_PKEY;
            info.gid_prefix = DEFAULT_GID_PREFIX;
            info.guid_cap = config.guids;
            info.capability_mask = config.capability_mask
                | capabilities(&config.link)
                | if is_switch {
                    capability::IS_MULTICAST_FDB_TOP_SUPPORTED
                } else {
                    0
                };

            info.subnet_timeout = 18;
            info.resp_time_value = 16;
        }

        if is_external && config.enforced_p_keys > 0 {
            p_keys = vec![0; config.enforced_p_keys.into()];
            p_keys[0] = DEFAULT_PKEY;
        }

        if is_switch && number == 0 {
            info.port_state = state::ACTIVE;
            info.port_physical_state = phys_state::LINK_UP;
        }

        let inputs = if is_switch {
            usize::from(config.ports) + 1
        } else {
            1
        };

        Port {
            number,
            info,
            guids,
            p_keys,
            sl_to_vl: vec![identity(config.link.vl_cap); inputs],
            arbitration: [[VlWeight::default(); 64]; 2],
            led: false,
            lease: None,
            traps: Traps::default(),
            link_downed: 0,
        }
    }

    /// Its number.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// PortInfo as it is now. `local_port_num` and `client_reregister` are zero.
    pub fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Base LID; 0 if it has none.
    pub fn lid(&self) -> u16 {
        self.info.lid
    }

    /// The LID of the port with these path bits, of which those count that are the port's to use.
    pub fn slid(&self, bits: u8) -> u16 {
        self.info.lid | u16::from(bits) & path_bits(self.info.lmc)
    }

    /// Is this one of the port's LIDs, counting those that LMC adds (C7-66)?
    pub fn has_lid(&self, lid: u16) -> bool {
        let differs = (lid ^ self.info.lid) & !path_bits(self.info.lmc);
        self.info.lid != 0 && lid < MULTICAST_LID && differs == 0
    }

    /// The P_Key table; 0 is an empty entry.
    pub fn p_keys(&self) -> &[u16] {
        &self.p_keys
    }

    /// GUIDs; entry 0 is the port's own, 0 is an empty entry.
    pub fn guids(&self) -> &[u64] {
        &self.guids
    }

    /// The GID table: a GID for each GUID that is not empty, with its index.
    pub fn gids(&self) -> impl Iterator<Item = (usize, Gid)> {
        let prefix = u128::from(self.info.gid_prefix) << 64;
        self.guids
            .iter()
            .enumerate()
            .filter(|(_, guid)| **guid != 0)
            .map(move |(index, guid)| (index, (prefix | u128::from(*guid)).to_be_bytes()))
    }

    /// The virtual lane for a service level; of a switch, for packets that came in at `input`.
    /// `None` if they are dropped.
    pub fn virtual_lane(&self, input: u8, sl: u8) -> Option<u8> {
        let table = self
            .sl_to_vl
            .get(usize::from(input))
            .or(self.sl_to_vl.first())?;
        let vl = table.0[usize::from(sl & 15)];
        (vl < data_lanes(self.info.operational_vls)).then_some(vl)
    }

    /// The lamp.
    pub fn led(&self) -> bool {
        self.led
    }

    /// Is a subnet manager at work behind it?
    pub fn is_sm(&self) -> bool {
        self.info.capability_mask & capability::IS_SM != 0
    }

    /// Is there a link, so that SMPs can come and go? They do in Initialize and Armed, too (C7-1).
    pub fn has_link(&self) -> bool {
        self.info.port_state > state::DOWN
    }

    /// May data packets go out?
    pub fn is_active(&self) -> bool {
        self.info.port_state == state::ACTIVE
    }

    /// Links that were lost.
    pub fn link_downed(&self) -> u64 {
        self.link_downed
    }

    /// What it offers in training, or `None` if it is switched off.
    pub fn offer(&self) -> Option<Offer> {
        (self.info.port_physical_state != phys_state::DISABLED).then_some(Offer {
            widths: self.info.link_width_enabled,
            speeds: self.info.link_speed_enabled,
            speeds_ext: self.info.link_speed_ext_enabled & 15,
        })
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let trap = self.can_trap().then(|| self.traps.due()).flatten();
        self.lease.into_iter().chain(trap).min()
    }

    /// Is there somebody to send traps to, and may they go out? In Active alone (o14-3.2.1).
    pub(super) fn can_trap(&self) -> bool {
        self.info.lid != 0 && self.info.master_sm_lid != 0 && self.is_active()
    }
}

/// The prefix of GIDs before a subnet manager has given another.
pub(super) const DEFAULT_GID_PREFIX: u64 = 0xfe80_0000_0000_0000;

/// How many data lanes a code of VLCap or OperationalVLs stands for.
pub(super) fn data_lanes(code: u8) -> u8 {
    match code {
        1..=4 => 1 << (code - 1),
        5 => 15,
        _ => 0,
    }
}

fn capabilities(link: &LinkCapabilities) -> u32 {
    let mut mask = capability::IS_TRAP_SUPPORTED
        | capability::IS_LED_INFO_SUPPORTED
        | capability::IS_SYSTEM_IMAGE_GUID_SUPPORTED
        | capability::IS_DR_NOTICE_SUPPORTED
        | capability::IS_CAPABILITY_MASK_NOTICE_SUPPORTED
        | capability::IS_CLIENT_REREGISTRATION_SUPPORTED
        | capability::IS_OTHER_LOCAL_CHANGES_NOTICE_SUPPORTED;
    if link.speeds_ext != 0 {
        mask |= capability::IS_EXTENDED_SPEEDS_SUPPORTED;
    }
    if link.vl_cap > 1 {
        mask |= capability::IS_SL_MAPPING_SUPPORTED;
    }
    mask
}

/// What a port has because it has, or could have, a link.
fn link_components(link: &LinkCapabilities) -> PortInfo {
    let arbitration = if link.vl_cap > 1 { ARBITRATION } else { 0 };
    PortInfo {
        link_width_enabled: link.widths,
        link_width_supported: link.widths,
        link_width_active: 1 << link.widths.trailing_zeros().min(7),
        link_speed_supported: link.speeds,
        link_speed_enabled: link.speeds,
        link_speed_active: 1 << link.speeds.trailing_zeros().min(3),
        link_speed_ext_supported: link.speeds_ext,
        link_speed_ext_enabled: link.speeds_ext,
        port_state: state::DOWN,
        port_physical_state: phys_state::POLLING,
        link_down_default_state: phys_state::POLLING,
        // What both ends can, until a subnet manager says otherwise: else it would have to take the
        // link down first.
        neighbor_mtu: link.mtu,
        mtu_cap: link.mtu,
        vl_cap: link.vl_cap,
        operational_vls: link.vl_cap,
        vl_arbitration_high_cap: arbitration,
        vl_arbitration_low_cap: arbitration,
        ..PortInfo::default()
    }
}

/// Service level n goes by lane n, as far as there are lanes.
fn identity(vl_cap: u8) -> SlToVl {
    let lanes = data_lanes(vl_cap).max(1);
    SlToVl(std::array::from_fn(|sl| sl as u8 % lanes))
}
