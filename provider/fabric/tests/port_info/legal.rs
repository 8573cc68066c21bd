//! The values that are legal for the components of PortInfo, by the kind of port, and what becomes
//! of each (C14-24.1.1).

use ferroce_wire::bits::{Access, Field};

/// The kinds of ports that have different components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Adapter,
    Internal,
    External,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::Adapter, Kind::Internal, Kind::External];

/// What a component does with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It becomes this.
    Becomes(u128),
    /// It stays as it is.
    Stays,
    /// The request is refused.
    Refused,
}

/// The specification's legal values, for a port with the default link and eight lanes.
pub(crate) fn fate(kind: Kind, field: &Field, old: u128, value: u128) -> Fate {
    use Fate::{Becomes, Refused, Stays};

    let end = kind != Kind::External;
    let external = kind == Kind::External;
    let only = |has: bool, fate: Fate| if has { fate } else { Stays };
    let legal = |is_legal: bool| if is_legal { Becomes(value) } else { Refused };
    let subset = |all: u128, supported: u128| match value {
        0 => Stays,
        value if value == all => Becomes(supported),
        value => legal(value & !supported == 0),
    };

    match field.name {
        _ if field.access == Access::Ro => Stays,
        "m_key" | "gid_prefix" | "m_key_lease_period" | "m_key_protect_bits" | "lmc"
        | "master_sm_sl" | "init_type_reply" | "subnet_timeout" => only(end, Becomes(value)),
        "lid" | "master_sm_lid" => only(end, legal((1..0xc000).contains(&value))),
        "link_width_enabled" => subset(255, 0b11),
        "link_speed_enabled" => subset(15, 0b111),
        "link_speed_ext_enabled" => match value {
            30 => Becomes(0),
            _ => subset(31, 0b11),
        },
        "link_down_default_state" => match value {
            0 => Stays,
            _ => legal(value <= 2),
        },
        "neighbor_mtu" => legal((1..=5).contains(&value)),
        "operational_vls" => match value {
            0 => Stays,
            _ => legal(value <= 4),
        },
        "vl_high_limit" | "local_phy_errors" | "overrun_errors" => Becomes(value),
        "vl_stall_count" | "hoq_life" => only(external, Becomes(value)),
        "partition_enforcement_inbound" | "partition_enforcement_outbound" => {
            only(external, Becomes(value))
        }
        "filter_raw_inbound" | "filter_raw_outbound" => {
            if external && value != 0 {
                Refused
            } else {
                Stays
            }
        }
        "m_key_violations" | "p_key_violations" | "q_key_violations" => {
            only(end, if value == 0 { Becomes(0) } else { Stays })
        }
        // Not announced, so not there.
        "multicast_p_key_trap_suppression" => Stays,
        // In the answer only; a test of its own.
        "client_reregister" => Stays,
        "port_state" => match (value, kind) {
            (0, _) => Stays,
            (1, Kind::Adapter | Kind::External) => Becomes(1),
            (3 | 4, Kind::Internal) => Stays,
            _ => Refused, // it is active already
        },
        "port_physical_state" => match (value, kind) {
            (0, _) => Stays,
            (1..=3, Kind::Adapter | Kind::External) => Becomes(value),
            _ => Refused,
        },
        name => panic!("no rule for {name}, {old}"),
    }
}
