//! What holds of every PortInfo (C14-24.1.1): values that are legal together, what a SubnSet makes
//! of it, what programs are told.

use super::management::due;
use crate::protocol::PortState;
use ferroce_wire::bits::{Access, Field};
use ferroce_wire::mtu;
use ferroce_wire::smp::{Data, PortInfo, phys_state, state};

/// Components that change by themselves.
const MOVING: &[&str] = &[
    "capability_mask",
    "link_speed_active",
    "link_speed_ext_active",
    "link_width_active",
    "m_key",
    "m_key_protect_bits",
    "m_key_violations",
    "neighbor_mtu",
    "operational_vls",
    "p_key_violations",
    "port_physical_state",
    "port_state",
    "q_key_violations",
    // Of the port that was asked, and of one request.
    "local_port_num",
    "client_reregister",
];

/// Components that a device need not have, or a channel adapter has not: a Set may leave them.
const OPTIONAL: &[&str] = &[
    "filter_raw_inbound",
    "filter_raw_outbound",
    "hoq_life",
    "multicast_p_key_trap_suppression",
    "partition_enforcement_inbound",
    "partition_enforcement_outbound",
    "vl_stall_count",
];

/// Those in which a value of a Set stands for something else: it changes nothing, or means all or
/// none.
const COMMANDS: &[(&str, &[u128])] = &[
    ("link_down_default_state", &[0]),
    ("link_speed_enabled", &[0, 15]),
    ("link_speed_ext_enabled", &[0, 30, 31]),
    ("link_width_enabled", &[0, 255]),
    ("operational_vls", &[0]),
];

/// `IsCapabilityMask2Supported`, `IsMulticastPKeyTrapSuppressionSupported`.
const CAPABILITY_MASK2: u32 = 1 << 15;
const MULTICAST_P_KEY_TRAP_SUPPRESSION: u32 = 1 << 22;

/// Values that a port cannot have, or not together.
///
/// # Errors
/// Which.
pub(super) fn legal(data: &Data) -> Result<(), String> {
    let info = PortInfo::parse(data);
    let good = [
        (
            "PortState",
            (state::DOWN..=state::ACTIVE).contains(&info.port_state),
        ),
        (
            "PortPhysicalState",
            info.port_physical_state != 0
                && (info.port_state == state::DOWN
                    || info.port_physical_state == phys_state::LINK_UP),
        ),
        (
            "LinkDownDefaultState",
            (1..=2).contains(&info.link_down_default_state),
        ),
        ("MTUCap", (1..=5).contains(&info.mtu_cap)),
        (
            "NeighborMTU",
            (1..=info.mtu_cap).contains(&info.neighbor_mtu),
        ),
        ("VLCap", (1..=5).contains(&info.vl_cap)),
        (
            "OperationalVLs",
            (1..=info.vl_cap).contains(&info.operational_vls),
        ),
        ("VLArbitrationHighCap", info.vl_arbitration_high_cap <= 64),
        ("VLArbitrationLowCap", info.vl_arbitration_low_cap <= 64),
        (
            "LinkWidthEnabled",
            info.link_width_enabled != 0
                && info.link_width_enabled & !info.link_width_supported == 0,
        ),
        (
            "LinkSpeedEnabled",
            info.link_speed_enabled != 0
                && info.link_speed_enabled & !info.link_speed_supported == 0,
        ),
        (
            "LinkWidthActive",
            info.port_state == state::DOWN
                || info.link_width_active.is_power_of_two()
                    && info.link_width_active & info.link_width_supported != 0,
        ),
        (
            "LinkSpeedActive",
            info.port_state == state::DOWN
                || info.link_speed_active.is_power_of_two()
                    && info.link_speed_active & info.link_speed_supported != 0,
        ),
        (
            "LinkSpeedExtActive",
            info.link_speed_ext_active & !info.link_speed_ext_supported == 0
                && info.link_speed_ext_active.count_ones() <= 1,
        ),
        (
            "LinkSpeedExtEnabled",
            info.link_speed_ext_enabled == 30
                || info.link_speed_ext_enabled & !info.link_speed_ext_supported == 0,
        ),
        (
            "CapabilityMask2",
            info.capability_mask & CAPABILITY_MASK2 != 0 || info.capability_mask2 == 0,
        ),
        (
            "MulticastPKeyTrapSuppressionEnabled",
            info.capability_mask & MULTICAST_P_KEY_TRAP_SUPPRESSION != 0
                || info.multicast_p_key_trap_suppression == 0,
        ),
        (
            "VLArbitrationHighCap, VLArbitrationLowCap",
            info.vl_cap == 1 || info.vl_arbitration_high_cap > 0 && info.vl_arbitration_low_cap > 0,
        ),
    ];

    match good.iter().find(|(_, good)| !good) {
        Some((name, _)) => Err(format!("{name} cannot be so: {info:x?}")),
        None => Ok(()),
    }
}

/// What a component must be after a Set of `set`; `None` where that is not known.
fn after(field: &Field, set: u128) -> Option<u128> {
    let commands = COMMANDS.iter().find(|(name, _)| *name == field.name);
    let is_command = commands.is_some_and(|(_, values)| values.contains(&set));
    match field.name {
        // Zero resets a counter, and nothing else changes it; zero changes no state.
        "m_key_violations" | "p_key_violations" | "q_key_violations" if set != 0 => None,
        "port_state" | "port_physical_state" => None,
        name if OPTIONAL.contains(&name) => None,
        _ => (field.access == Access::Rw && !is_command).then_some(set),
    }
}

/// An answer shows what was set (C14-26), and else what was there (C14-27, C14-30).
/// ClientReregister is 1 in the answer to who set it alone (o14-13.2); nobody but its owner is
/// shown another M_Key than none.
///
/// # Errors
/// What it must be, and is not.
pub(super) fn changed(now: &Data, last: Option<&Data>, set: Option<&Data>) -> Result<(), String> {
    for field in PortInfo::FIELDS {
        let seen = field.load(now);
        let expected = match set {
            Some(set) => after(field, field.load(set)),
            None if field.name == "client_reregister" => Some(0),
            None => None,
        };
        if let Some(expected) = expected {
            due(field.name, seen, expected)?;
        } else if let Some(last) = last.map(|last| field.load(last))
            && (set.is_none() || field.access == Access::Ro)
            && !MOVING.contains(&field.name)
        {
            due(field.name, seen, last).map_err(|why| format!("nobody has set it: {why}"))?;
        }
    }

    Ok(())
}

/// What programs are told of a port is what it told last. `moves`: its state may be another by now.
///
/// # Errors
/// What is not.
pub(super) fn agrees(
    data: &Data,
    seen: &PortState,
    is_sm: bool,
    moves: bool,
) -> Result<(), String> {
    let info = PortInfo::parse(data);
    due("GUIDCap", u32::from(info.guid_cap), seen.gid_tbl_len)?;
    due(
        "MTUCap",
        mtu::bytes(info.mtu_cap).unwrap_or(0),
        seen.max_mtu,
    )?;

    due("VLCap", info.vl_cap, seen.max_vl_num)?;
    if !moves {
        due("PortState", u32::from(info.port_state), seen.state)?;
    }

    if seen.state == u32::from(info.port_state) {
        due(
            "PortPhysicalState",
            info.port_physical_state,
            seen.phys_state,
        )?;
        due("LinkWidthActive", info.link_width_active, seen.active_width)?;
        let mtu = mtu::bytes(info.neighbor_mtu).unwrap_or(0);
        due("NeighborMTU", mtu, seen.active_mtu)?;
    }

    match is_sm {
        true => Ok(()),
        false => due("CapabilityMask", info.capability_mask, seen.capabilities),
    }
}
