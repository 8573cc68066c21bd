//! The next hop of a directed-route SMP (C14-9, C14-13).

use ferroce_wire::mad::Mad;
use ferroce_wire::smp::{
    Directed, MAX_HOPS, PERMISSIVE_LID, initial_path, return_path, return_path_mut,
};

/// Where the SMP is.
#[derive(Clone, Copy, Debug)]
pub struct Directions {
    /// Only switches pass SMPs on.
    pub is_switch: bool,
    /// Port by which it came, or shall leave.
    pub port: u8,
    /// External ports of the node.
    pub ports: u8,
}

/// What becomes of the SMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is for the agent of this node.
    Here,
    /// It has come back to whoever sent it.
    Manager,
    /// It leaves by this port.
    Out(u8),
    /// The directed part is over; it goes on to this LID.
    Lid(u16),
    /// It makes no sense.
    Drop,
}

/// An SMP arrived by a link. Hop pointer and return path are brought up to date in it.
pub fn arrived(at: &Directions, smp: &mut Mad) -> Step {
    let mut route = Directed::parse(smp);
    if route.hop_count > MAX_HOPS {
        return Step::Drop;
    }

    if route.returning {
        return match way_back(at, smp, route) {
            Step::Out(_) if !at.is_switch => Step::Drop,
            step => step,
        };
    }

    let hop = route.hop_pointer;
    let step = if hop == 0 && route.hop_count != 0 {
        // Only where a LID-routed part ends may nobody have counted yet (C14-9:1).
        if !at.is_switch || route.dr_slid == PERMISSIVE_LID {
            return Step::Drop;
        }
        out(at, initial_path(smp)[1])
    } else if hop < route.hop_count {
        if !at.is_switch {
            return Step::Drop;
        }
        return_path_mut(smp)[usize::from(hop)] = at.port;
        let exit = initial_path(smp)[usize::from(hop) + 1];
        out(at, exit)
    } else if hop == route.hop_count {
        if hop != 0 {
            return_path_mut(smp)[usize::from(hop)] = at.port;
        }
        match route.dr_dlid {
            PERMISSIVE_LID => Step::Here,
            dlid if at.is_switch => Step::Lid(dlid),
            _ => Step::Drop,
        }
    } else if hop == route.hop_count + 1 {
        return Step::Here; // has come the last part by LID
    } else {
        Step::Drop
    };

    if step != Step::Drop {
        route.hop_pointer += 1;
        route.emit(smp);
    }

    step
}

/// An SMP leaves from a program or the agent of this node; `dlid` is where its LID-routed part, if
/// it begins with one, goes.
pub fn departing(at: &Directions, dlid: u16, smp: &mut Mad) -> Step {
    let mut route = Directed::parse(smp);
    if route.hop_count > MAX_HOPS {
        return Step::Drop;
    }

    if route.returning {
        if route.dr_dlid != PERMISSIVE_LID {
            return Step::Lid(dlid);
        }
        if route.hop_pointer != route.hop_count + 1 {
            return Step::Drop;
        }
        return way_back(at, smp, route);
    }

    if route.dr_slid != PERMISSIVE_LID {
        return Step::Lid(dlid);
    }
    if route.hop_pointer != 0 {
        return Step::Drop;
    }

    route.hop_pointer = 1;
    route.emit(smp);
    if route.hop_count == 0 {
        return match route.dr_dlid {
            PERMISSIVE_LID => Step::Here,
            dlid => Step::Lid(dlid),
        };
    }

    let exit = initial_path(smp)[1];

    // The port of an adapter knows no other way but its own.
    if !at.is_switch && exit != at.port {
        return Step::Drop;
    }

    out(at, exit)
}

fn way_back(at: &Directions, smp: &mut Mad, mut route: Directed) -> Step {
    let hop = route.hop_pointer;
    let begins = route.hop_count != 0 && hop == route.hop_count + 1;
    let step = match hop {
        0 => return Step::Manager,
        1 => match route.dr_slid {
            PERMISSIVE_LID => Step::Manager,
            slid if at.is_switch => Step::Lid(slid),
            _ => Step::Drop,
        },
        _ if begins || hop <= route.hop_count => {
            let exit = return_path(smp)[usize::from(hop) - 1];
            if at.is_switch || begins && exit == at.port {
                out(at, exit)
            } else {
                Step::Drop
            }
        }
        _ => Step::Drop,
    };

    if step != Step::Drop {
        route.hop_pointer -= 1;
        route.emit(smp);
    }

    step
}

fn out(at: &Directions, exit: u8) -> Step {
    if (1..=at.ports).contains(&exit) {
        Step::Out(exit)
    } else {
        Step::Drop
    }
}
