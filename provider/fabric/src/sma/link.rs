//! The states of a port (section 7.2): what a subnet manager may command, what the physical layer
//! reports, and what follows from either.

use super::types::{LinkCommand, Offer, Output, PortEvent};
use super::{Node, Port, Time};
use ferroce_wire::smp::{Notice, PortInfo, phys_state, state};

/// What a Set of PortInfo does to a port's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateChange {
    None,
    Arm,
    Activate,
    /// Down, with this physical state.
    Down(u8),
}

impl StateChange {
    /// From both states in a Set; `None` if the port cannot do that.
    pub(super) fn wanted(old: &PortInfo, wanted: &PortInfo) -> Option<StateChange> {
        let physical = wanted.port_physical_state;
        if physical > phys_state::DISABLED {
            return None;
        }

        match wanted.port_state {
            state::NO_CHANGE if physical == phys_state::NO_CHANGE => Some(StateChange::None),
            state::NO_CHANGE | state::DOWN => Some(StateChange::Down(match physical {
                // A port that is switched off stays so until it is switched on.
                phys_state::NO_CHANGE if old.port_physical_state == phys_state::DISABLED => {
                    phys_state::DISABLED
                }
                phys_state::NO_CHANGE if wanted.link_down_default_state != 0 => {
                    wanted.link_down_default_state
                }
                phys_state::NO_CHANGE => old.link_down_default_state,
                physical => physical,
            })),
            _ if physical != phys_state::NO_CHANGE => None,
            // A state is no change to itself; subnet managers know that.
            state::ARMED if old.port_state == state::INIT => Some(StateChange::Arm),
            state::ACTIVE if old.port_state == state::ARMED => Some(StateChange::Activate),
            _ => None,
        }
    }

    /// Port 0 of a switch has no link: it is active, and commands to arm or activate it change
    /// nothing.
    pub(super) fn of_internal_port(wanted: &PortInfo) -> Option<StateChange> {
        let harmless = matches!(
            wanted.port_state,
            state::NO_CHANGE | state::ARMED | state::ACTIVE
        ) && wanted.port_physical_state == phys_state::NO_CHANGE;
        harmless.then_some(StateChange::None)
    }
}

impl Node {
    /// Training is over: the port has a link with a peer that offered this. Nothing happens if the
    /// port does not want one, or has one; `false` if both ends have no width or speed in common,
    /// or the port is switched off.
    pub fn link_up(&mut self, now: Time, port: u8, peer: Offer, out: &mut impl Output) -> bool {
        if self.is_internal(port) {
            return false;
        }
        let Some(state) = self.port_mut(port) else {
            return false;
        };
        let Some(offer) = state.offer() else {
            return false;
        };
        if state.has_link() {
            return true;
        }
        if !train(&mut state.info, offer, peer) {
            return false;
        }

        state.info.port_state = state::INIT;
        state.info.port_physical_state = phys_state::LINK_UP;
        self.link_changed(now, out);
        true
    }

    /// The link is gone, not by command.
    pub fn link_down(&mut self, now: Time, port: u8, out: &mut impl Output) {
        let Some(state) = self.port_mut(port) else {
            return;
        };
        if state.number == 0 || !state.has_link() {
            return;
        }
        state.link_downed += 1;
        let physical = state.info.link_down_default_state;
        self.take_down(port, physical, out);
        self.link_changed(now, out);
    }

    /// A data packet arrived by the link of a port: may it be taken? The first one takes an armed
    /// port to active.
    pub fn data_arrived(&mut self, port: u8, out: &mut impl Output) -> bool {
        let Some(state) = self.port_mut(port) else {
            return false;
        };
        match state.info.port_state {
            state::ACTIVE => true,
            state::ARMED => {
                self.activate(port, out);
                true
            }
            _ => false,
        }
    }

    pub(super) fn arm(&mut self, port: u8) {
        self.port_mut(port).expect("exists").info.port_state = state::ARMED;
    }

    pub(super) fn activate(&mut self, port: u8, out: &mut impl Output) {
        self.port_mut(port).expect("exists").info.port_state = state::ACTIVE;
        out.event(port, PortEvent::Active);
    }

    pub(super) fn take_down(&mut self, port: u8, physical: u8, out: &mut impl Output) {
        let state = self.port_mut(port).expect("exists");
        let before = std::mem::replace(&mut state.info.port_state, state::DOWN);
        state.info.port_physical_state = physical;
        state.info.link_speed_ext_active = 0;

        // Whoever would have heard them is behind the link.
        state.traps.clear();
        if before == state::ACTIVE {
            out.event(port, PortEvent::Error);
        }

        out.link(
            port,
            match physical {
                phys_state::DISABLED => LinkCommand::Disable,
                phys_state::SLEEP => LinkCommand::Sleep,
                _ => LinkCommand::Poll,
            },
        );
    }

    /// A switch remembers that a port's link has come or gone, and says so to the subnet manager.
    /// What a subnet manager itself commands is no news.
    fn link_changed(&mut self, now: Time, out: &mut impl Output) {
        if let Some(switch) = &mut self.switch {
            switch.info.port_state_change = true;
            let lid = self.port(0).map_or(0, Port::lid);
            self.raise(now, 0, Notice::LinkState(lid), out);
        }
    }
}

/// Takes the best of what both ends offer.
fn train(info: &mut PortInfo, offer: Offer, peer: Offer) -> bool {
    // 2X is bit 4, and less than 4X.
    let widths = [8, 4, 2, 16, 1];
    let width = widths
        .into_iter()
        .find(|width| offer.widths & peer.widths & width != 0);
    let speeds = offer.speeds & peer.speeds & 15;
    let (Some(width), Some(speed)) = (width, speeds.checked_ilog2()) else {
        return false;
    };

    info.link_width_active = width;
    info.link_speed_active = 1 << speed;
    info.link_speed_ext_active = match (offer.speeds_ext & peer.speeds_ext & 15).checked_ilog2() {
        Some(speed) => 1 << speed,
        None => 0,
    };

    true
}
