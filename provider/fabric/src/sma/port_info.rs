//! Get and Set of PortInfo.
//!
//! A Set is looked at as a whole first; if any component has a value that it must not have, nothing
//! changes and the answer has status 7 (invalid value). Read-only components are not looked at
//! (C14-27).

use super::link::StateChange;
use super::port::Port;
use super::request::{Refusal, Request};
use super::types::{Output, PortEvent};
use super::{Node, NodeKind};
use ferroce_wire::smp::{Data, MULTICAST_LID, PortInfo, capability, state, status};

/// The port that the modifier of PortInfo names; the requester says in the top bit whether it knows
/// extended speeds.
pub(super) fn port_modifier(modifier: u32) -> u32 {
    modifier & 0x7fff_ffff
}

/// Which components a port has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Of a channel adapter.
    Adapter,
    /// Port 0 of a switch.
    Internal,
    /// Any other port of a switch.
    External,
}

impl Node {
    pub(super) fn port_info(
        &mut self,
        request: &mut Request,
        data: &mut Data,
        out: &mut impl Output,
    ) -> Result<(), Refusal> {
        let number = match port_modifier(request.modifier) {
            0 => self.key_port(request.port),
            number => u8::try_from(number).map_err(|_| status::INVALID_VALUE)?,
        };
        let role = self.role(number);
        let port = self.port(number).ok_or(status::INVALID_VALUE)?;
        let mut reregister = false;
        if request.is_set {
            let wanted = PortInfo::parse(data);
            let (info, change) = merge(port, role, &wanted).ok_or(status::INVALID_VALUE)?;
            reregister = wanted.client_reregister && has_clients(port);
            self.commit(request.now, number, info, out);
            match change {
                StateChange::None => {}
                StateChange::Arm => self.arm(number),
                StateChange::Activate => self.activate(number, out),
                // The answer may have to leave by this very port.
                StateChange::Down(physical) => request.down = Some((number, physical)),
            }

            if reregister {
                // o11-6.1.2
                out.event(number, PortEvent::ClientReregister);
            }
        }

        // The answer to a Set shows what there is after it (C14-26).
        let port = self.port(number).expect("still there");
        let mut answer = port.info;

        // Who has set it knows it; subnet managers take it from the answer.
        if !request.is_set && !port.shows_key(request.m_key) {
            answer.m_key = 0;
        }

        if let Some((_, physical)) = request.down {
            answer.port_state = state::DOWN;
            answer.port_physical_state = physical;
        }

        answer.local_port_num = request.port;

        // One in the answer to a request with one, and at no other time (o14-12.2.1, o14-13).
        answer.client_reregister = reregister;
        answer.emit(data);
        Ok(())
    }

    /// Puts the new components into force, and tells whoever has to know.
    fn commit(&mut self, now: super::Time, number: u8, info: PortInfo, out: &mut impl Output) {
        let port = self.port_mut(number).expect("the caller has looked");
        let old = std::mem::replace(&mut port.info, info);
        if (old.lid, old.lmc) != (info.lid, info.lmc) {
            out.event(number, PortEvent::LidChange);
        }
        if (old.master_sm_lid, old.master_sm_sl) != (info.master_sm_lid, info.master_sm_sl) {
            out.event(number, PortEvent::SmChange);
        }
        if old.gid_prefix != info.gid_prefix {
            out.event(number, PortEvent::GidChange);
        }
        self.flush_traps(now, out);
    }

    fn role(&self, number: u8) -> Role {
        match (self.config.kind, number) {
            (NodeKind::ChannelAdapter, _) => Role::Adapter,
            (NodeKind::Switch, 0) => Role::Internal,
            (NodeKind::Switch, _) => Role::External,
        }
    }
}

/// Takes ClientReregister out of a refused request, which is the answer otherwise: it is 1 only
/// where the event was raised (o14-13).
pub(super) fn no_reregistration(data: &mut Data) {
    let mut answer = PortInfo::parse(data);
    answer.client_reregister = false;
    answer.emit(data);
}

fn has_clients(port: &Port) -> bool {
    port.info.capability_mask & capability::IS_CLIENT_REREGISTRATION_SUPPORTED != 0
}

/// The port's components after a Set of `wanted`, and what becomes of its state; `None` if a value
/// is not legal.
fn merge(port: &Port, role: Role, wanted: &PortInfo) -> Option<(PortInfo, StateChange)> {
    let old = &port.info;
    let mut new = *old;
    if role != Role::External {
        merge_end(&mut new, old, wanted)?;
    }

    merge_link(&mut new, old, wanted)?;
    if role == Role::External {
        new.vl_stall_count = wanted.vl_stall_count;
        new.hoq_life = wanted.hoq_life;
        // Where there is no table there is nothing to enforce, nor are there filters, as SwitchInfo
        // says.
        let enforced =
            wanted.partition_enforcement_inbound || wanted.partition_enforcement_outbound;
        if wanted.filter_raw_inbound
            || wanted.filter_raw_outbound
            || enforced && port.p_keys.is_empty()
        {
            return None;
        }
        new.partition_enforcement_inbound = wanted.partition_enforcement_inbound;
        new.partition_enforcement_outbound = wanted.partition_enforcement_outbound;
    }

    let change = if role == Role::Internal {
        StateChange::of_internal_port(wanted)?
    } else {
        StateChange::wanted(old, wanted)?
    };
    Some((new, change))
}

/// What ends of paths have: addresses, keys, the way to the subnet manager.
fn merge_end(new: &mut PortInfo, old: &PortInfo, wanted: &PortInfo) -> Option<()> {
    new.m_key = wanted.m_key;
    new.m_key_protect_bits = wanted.m_key_protect_bits;
    new.m_key_lease_period = wanted.m_key_lease_period;
    new.gid_prefix = wanted.gid_prefix;
    new.lid = unicast(wanted.lid)?;
    new.lmc = wanted.lmc;
    new.master_sm_lid = unicast(wanted.master_sm_lid)?;
    new.master_sm_sl = wanted.master_sm_sl;
    new.init_type_reply = wanted.init_type_reply;
    new.subnet_timeout = wanted.subnet_timeout;
    new.m_key_violations = reset(wanted.m_key_violations, old.m_key_violations);
    new.p_key_violations = reset(wanted.p_key_violations, old.p_key_violations);
    new.q_key_violations = reset(wanted.q_key_violations, old.q_key_violations);
    Some(())
}

/// What links have.
fn merge_link(new: &mut PortInfo, old: &PortInfo, wanted: &PortInfo) -> Option<()> {
    new.link_width_enabled = subset(
        wanted.link_width_enabled,
        u8::MAX,
        old.link_width_supported,
        old.link_width_enabled,
    )?;

    new.link_speed_enabled = subset(
        wanted.link_speed_enabled,
        15,
        old.link_speed_supported,
        old.link_speed_enabled,
    )?;

    new.link_speed_ext_enabled = match wanted.link_speed_ext_enabled {
        30 if old.link_speed_ext_supported != 0 => 0,
        wanted => subset(
            wanted,
            31,
            old.link_speed_ext_supported,
            old.link_speed_ext_enabled,
        )?,
    };

    new.link_down_default_state = match wanted.link_down_default_state {
        0 => old.link_down_default_state,
        state @ 1..=2 => state,
        _ => return None,
    };

    new.neighbor_mtu = one_of(wanted.neighbor_mtu, old.mtu_cap)?;
    new.operational_vls = match wanted.operational_vls {
        0 => old.operational_vls,
        vls => one_of(vls, old.vl_cap)?,
    };

    new.vl_high_limit = wanted.vl_high_limit;
    new.local_phy_errors = wanted.local_phy_errors;
    new.overrun_errors = wanted.overrun_errors;
    Some(())
}

/// A LID that a port can have. None at all is not legal, even where there is none yet.
fn unicast(wanted: u16) -> Option<u16> {
    (1..MULTICAST_LID).contains(&wanted).then_some(wanted)
}

/// A violation counter (section 14.2.5.6): writing zero resets it, writing anything else does
/// nothing.
fn reset(wanted: u16, old: u16) -> u16 {
    if wanted == 0 { 0 } else { old }
}

/// A set of bits: zero leaves it, `all` takes what there is, anything else must be supported.
fn subset(wanted: u8, all: u8, supported: u8, old: u8) -> Option<u8> {
    match wanted {
        0 => Some(old),
        wanted if wanted == all => Some(supported),
        wanted if wanted & !supported == 0 => Some(wanted),
        _ => None,
    }
}

fn one_of(wanted: u8, cap: u8) -> Option<u8> {
    (1..=cap).contains(&wanted).then_some(wanted)
}
