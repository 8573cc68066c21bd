//! What only switches have: the forwarding tables.

use super::port_set::PortSet;
use super::types::NodeConfig;
use ferroce_wire::smp::{MULTICAST_LID, SwitchInfo};

/// No port.
pub(super) const NONE: u8 = 0xff;

/// Tables of a switch.
#[derive(Debug)]
pub(super) struct Switch {
    pub(super) info: SwitchInfo,
    /// Port by LID.
    pub(super) linear: Vec<u8>,
    /// Ports by multicast LID, from [`MULTICAST_LID`] on.
    pub(super) multicast: Vec<PortSet>,
    /// External ports.
    pub(super) ports: u8,
}

impl Switch {
    pub(super) fn new(config: &NodeConfig) -> Switch {
        Switch {
            info: SwitchInfo {
                linear_fdb_cap: config.linear_fdb,
                multicast_fdb_cap: config.multicast_fdb,
                life_time_value: 18,
                partition_enforcement_cap: config.enforced_p_keys,
                inbound_enforcement_cap: config.enforced_p_keys > 0,
                outbound_enforcement_cap: config.enforced_p_keys > 0,
                default_multicast_primary_port: NONE,
                default_multicast_not_primary_port: NONE,
                ..SwitchInfo::default()
            },
            linear: vec![NONE; config.linear_fdb.into()],
            multicast: vec![PortSet::default(); config.multicast_fdb.into()],
            ports: config.ports,
        }
    }

    /// The port for a LID; 0 is the switch itself.
    pub(super) fn unicast(&self, lid: u16) -> Option<u8> {
        if lid == 0 || lid > self.info.linear_fdb_top {
            return None;
        }
        let port = *self.linear.get(usize::from(lid))?;
        (port <= self.ports).then_some(port)
    }

    /// The ports for a multicast LID, if the table has it.
    pub(super) fn multicast(&self, lid: u16) -> Option<&PortSet> {
        let top = self.info.multicast_fdb_top;
        // A top below the first multicast LID is none at all; zero is a subnet manager that does
        // not know of it.
        if top != 0 && lid > top {
            return None;
        }
        self.multicast
            .get(usize::from(lid.checked_sub(MULTICAST_LID)?))
    }

    fn is_port_or_none(&self, port: u8) -> bool {
        port <= self.ports || port == NONE
    }

    /// Takes over what a Set of SwitchInfo may change; `None` if a value is not legal.
    pub(super) fn set_info(&mut self, wanted: &SwitchInfo) -> Option<()> {
        let legal = (wanted.linear_fdb_top == 0
            || wanted.linear_fdb_top < self.info.linear_fdb_cap)
            && self.is_port_or_none(wanted.default_multicast_primary_port)
            && self.is_port_or_none(wanted.default_multicast_not_primary_port)
            && is_multicast_top(wanted.multicast_fdb_top, self.info.multicast_fdb_cap);

        legal.then(|| {
            let info = &mut self.info;
            info.linear_fdb_top = wanted.linear_fdb_top;
            info.default_multicast_primary_port = wanted.default_multicast_primary_port;
            info.default_multicast_not_primary_port = wanted.default_multicast_not_primary_port;
            info.life_time_value = wanted.life_time_value;
            info.multicast_fdb_top = wanted.multicast_fdb_top;
            // Writing one clears it.
            info.port_state_change &= !wanted.port_state_change;
        })
    }
}

/// None (0 or just below the first), or a LID of the table.
fn is_multicast_top(top: u16, cap: u16) -> bool {
    top == 0 || (MULTICAST_LID - 1..MULTICAST_LID + cap).contains(&top)
}
