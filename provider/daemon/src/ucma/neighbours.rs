//! Destinations whose next hop has no hardware address yet. The kernel's rdma_cm resolves an
//! address no sooner than it knows that of the neighbour, and so does this: it has the kernel ask,
//! by a datagram that everybody drops, and looks for the answer until the program's patience is
//! over.
//! Where the kernel does not tell what it knows, addresses are resolved at once.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::Duration;

use ferroce_control::routes::{Flow, Route, Way};
use ferroce_control::rtnetlink::Socket;
use ferroce_control::{GidEntry, udp};
use ferroce_fabric::cm::Time;
use ferroce_wire::ROCE_V2_PORT;
use rustix::io::Errno;

use super::addr::Addr;
use super::host::Host;
use super::id::State;
use super::route::refusal;
use super::state::Ucma;
use crate::next_hop::{Hop, Neighbour};

/// How soon the answer of a neighbour is looked for, and the longest pause between two looks.
const FIRST_LOOK: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// What makes the kernel look for the neighbour: an empty datagram, from where a connection's
/// packets come, and to where they go. It is no packet of RoCE's, and no port of a host without
/// RoCE.
#[derive(Clone, Copy, Debug)]
struct Probe {
    from: SocketAddr,
    to: SocketAddr,
    /// The interface by which it is to leave, or 0.
    through: u32,
}

/// An id that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u32,
    /// The device's address that it will have.
    gid_index: u16,
    until: Time,
}

/// A neighbour that is being looked for.
#[derive(Debug)]
struct Sought {
    probe: Probe,
    waiting: Vec<Waiting>,
    pause: Duration,
    again: Time,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Neighbours(HashMap<Hop, Sought>);

impl Neighbours {
    /// Has the next hop of a destination looked for. `None`: there is no need to, or no way to. An
    /// error where the host's routes lead from the address to no hop at all.
    fn seek(
        &mut self,
        dst: &Addr,
        entry: &GidEntry,
        waiting: Waiting,
        host: &Host<'_>,
    ) -> Result<Option<Hop>, Errno> {
        let way = Way::find(host.kernel, entry.addr, dst.meant(), entry.ifindex);
        let hop = first_hop(&way, dst, entry, host.kernel)?;
        let probe = Probe::new(dst, entry, way.out.unwrap_or(0));
        Ok(hop.and_then(|hop| self.ask(hop, probe, waiting, host)))
    }

    /// Has a hop looked for. `None`: there is no need to, or no way to.
    fn ask(&mut self, hop: Hop, probe: Probe, waiting: Waiting, host: &Host<'_>) -> Option<Hop> {
        let (kernel, now) = (host.kernel, host.now);
        match hop.neighbour(kernel).ok()? {
            Neighbour::Known => return None,
            Neighbour::Sought => {}
            Neighbour::Unknown => {
                if !hop.is_asked(kernel).ok()? {
                    return None;
                }
                probe.send().ok()?;
                // One that is on this machine has answered by now.
                if hop.neighbour(kernel).ok()? == Neighbour::Known {
                    return None;
                }
            }
        }

        let sought = self.0.entry(hop).or_insert_with(|| Sought {
            probe,
            waiting: Vec::new(),
            pause: FIRST_LOOK,
            again: now,
        });
        sought.pause = FIRST_LOOK;
        sought.again = now + FIRST_LOOK;
        sought.waiting.push(waiting);
        Some(hop)
    }

    /// An id waits no more.
    pub(super) fn forget(&mut self, hop: Hop, id: u32) {
        if let Some(sought) = self.0.get_mut(&hop) {
            sought.waiting.retain(|waiting| waiting.id != id);
            if sought.waiting.is_empty() {
                self.0.remove(&hop);
            }
        }
    }

    /// When to look.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.0.values().map(|sought| sought.again).min()
    }

    /// Looks for answers: the ids that wait no more, each with what has come of it.
    fn look(&mut self, kernel: &Socket, now: Time) -> Vec<(Hop, Waiting, Result<(), Errno>)> {
        let mut over = Vec::new();
        if self.next_timeout().is_none_or(|at| at > now) {
            return over;
        }

        for (hop, sought) in self.0.iter_mut().filter(|(_, sought)| sought.again <= now) {
            let state = hop.neighbour(kernel).unwrap_or(Neighbour::Known);
            if state == Neighbour::Known {
                let all = sought.waiting.drain(..);
                over.extend(all.map(|waiting| (*hop, waiting, Ok(()))));
                continue;
            }

            // The kernel has given up: who is not there now may be in a moment.
            if state == Neighbour::Unknown {
                let _ = sought.probe.send();
            }
            let late = sought
                .waiting
                .extract_if(.., |waiting| waiting.until <= now);
            over.extend(late.map(|waiting| (*hop, waiting, Err(Errno::TIMEDOUT))));
            sought.pause = (sought.pause * 2).min(LONGEST_PAUSE);
            let ends = sought.waiting.iter().map(|waiting| waiting.until);
            sought.again = ends.fold(now + sought.pause, Time::min);
        }

        self.0.retain(|_, sought| !sought.waiting.is_empty());
        over
    }
}

/// Where packets go first. Who is on the link by an entry of the routing tables is the hop; what
/// lies behind a gateway, or by several ways, the kernel is asked about once more, which may know
/// better of a single host, or that nothing goes there (an error).
fn first_hop(way: &Way, dst: &Addr, own: &GidEntry, kernel: &Socket) -> Result<Option<Hop>, Errno> {
    let to = dst.meant();
    let scope = match (to, dst.scope()) {
        (IpAddr::V6(ip), 0) if ip.is_unicast_link_local() => own.ifindex,
        (_, scope) => scope,
    };
    let is_whole = |entry: &Route| {
        let asked = way.out.is_some() || scope == 0;
        asked && entry.interface.is_some() && entry.gateway.is_none()
    };
    let route = match way.entry.filter(is_whole) {
        Some(entry) => entry,
        None => {
            let flow = Flow {
                to,
                from: Some(own.addr),
                interface: way.out.unwrap_or(scope),
            };
            let answer = flow.route(kernel);
            if let Some(errno) = refusal(&answer) {
                return Err(errno);
            }
            let Ok(route) = answer else {
                return Ok(None);
            };
            route
        }
    };
    Ok(Hop::of(&route, to))
}

impl Probe {
    fn new(dst: &Addr, entry: &GidEntry, through: u32) -> Self {
        let at = |ip, port, scope| match SocketAddr::new(ip, port) {
            SocketAddr::V6(v6) => SocketAddrV6::new(*v6.ip(), port, 0, scope).into(),
            v4 => v4,
        };
        Self {
            from: at(entry.addr, 0, entry.scope_id),
            to: at(dst.meant(), ROCE_V2_PORT, dst.scope()),
            through,
        }
    }

    fn send(&self) -> std::io::Result<()> {
        let socket = UdpSocket::bind(self.from)?;
        socket.set_nonblocking(true)?;
        if self.through != 0 {
            udp::leave_through(&socket, self.to.is_ipv4(), self.through)?;
        }
        socket.send_to(&[], self.to).map(drop)
    }
}

impl Ucma {
    /// Has an id wait for its destination's neighbour. `false`: there is nothing to wait for. An
    /// error where no datagram goes there from this address: the socket's.
    pub(super) fn seek_neighbour(
        &mut self,
        handle: u32,
        dst: &Addr,
        entry: &GidEntry,
        patience: Duration,
        host: &Host<'_>,
    ) -> Result<bool, Errno> {
        let of_host = |ip| host.snapshot.addresses.iter().any(|own| own.ip == ip);
        let is_near = dst.is_zero()
            || dst.is_loopback()
            || entry.addr.is_loopback()
            || dst.names(entry)
            || of_host(dst.meant());
        if is_near || dst.is_multicast() || host.is_ib() {
            return Ok(false);
        }

        let waiting = Waiting {
            id: handle,
            gid_index: entry.index,
            until: host.now + patience,
        };
        let hop = self.neighbours.seek(dst, entry, waiting, host)?;
        if let (Some(hop), Some(id)) = (hop, self.ids.get_mut(handle)) {
            id.seeks = Some(hop);
            id.state = State::AddrQuery;
        }
        Ok(hop.is_some())
    }

    /// Resolves addresses whose neighbours have answered, and gives up those whose time is over.
    pub(super) fn look_for_neighbours(&mut self, host: &Host<'_>) {
        for (hop, waiting, result) in self.neighbours.look(host.kernel, host.now) {
            let Some(id) = self.ids.get_mut(waiting.id) else {
                continue;
            };
            if id.seeks.take_if(|seeks| *seeks == hop).is_none() || id.state != State::AddrQuery {
                continue;
            }
            id.state = State::Bound;
            self.generations.touch(waiting.id);
            // Over Ethernet there is nothing more to ask, and nothing that fails.
            let found = result.map(|()| waiting.gid_index);
            let _ = self.take_address(waiting.id, found, Duration::ZERO, host);
        }
    }
}
