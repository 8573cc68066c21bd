//! Where addresses lead: which of them are the device's, from which of these another is reached,
//! and what the path between them is like. Looks, and changes nothing.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use ferroce_control::GidEntry;
use ferroce_control::link::Rate;
use ferroce_control::routes::{Flow, Route, Way};
use ferroce_fabric::cm::Av;
use ferroce_wire::smp::state::ACTIVE;
use rustix::io::Errno;

use super::addr::{Addr, Gid, gid_of};
use super::host::Host;
use super::id::Id;
use crate::next_hop::Hop;

/// LIDs have no meaning over Ethernet.
pub(super) const NO_LID: u16 = 0xffff;

/// The port of a GID's index: InfiniBand ports have a table each, which one after another are 256
/// entries long here.
pub(super) fn port_of(index: u16) -> u8 {
    (index >> 8) as u8 + 1
}

/// The other way round, of a GID of a port's table.
pub(super) fn index_of(port: u8, index: u8) -> u16 {
    u16::from(port - 1) << 8 | u16::from(index)
}

/// The device's GID that an address names; `None`: the address stands for all of them, as a
/// loopback address does unless the device is at such addresses itself. Then the others are those
/// of other devices (`ENODEV`): a datagram rsocket whose source the host's routes choose would else
/// find itself bound to no device, and go on regardless.
pub(super) fn own_gid(addr: &Addr, host: &Host<'_>) -> Result<Option<u16>, Errno> {
    if let Some(entry) = host.gids.entries().find(|entry| addr.names(entry)) {
        return Ok(Some(entry.index));
    }
    if addr.is_zero() {
        return Ok(None);
    }

    if addr.is_loopback() {
        let v4 = addr.meant().is_ipv4();
        let mut own = host.gids.entries().map(|entry| entry.addr);
        return match own.any(|own| own.is_loopback() && own.is_ipv4() == v4) {
            true => Err(Errno::NODEV),
            false => Ok(None),
        };
    }

    let scope = Some(addr.scope()).filter(|scope| *scope != 0);
    let of_host = host.snapshot.addresses.iter().any(|address| {
        address.ip == addr.meant() && scope.is_none_or(|scope| scope == address.ifindex)
    });
    match of_host {
        true => Err(Errno::NODEV),
        false => Err(Errno::ADDRNOTAVAIL),
    }
}

/// The device's address to which a message came. Its GID alone does not tell: the same link-local
/// address may be that of several interfaces.
pub(super) fn own_end<'a>(av: &Av, host: &Host<'a>) -> Option<&'a GidEntry> {
    let entry = host.gids.entry(av.local_index);
    entry.filter(|entry| entry.gid == av.local_gid)
}

/// The device's address from which an id reaches a destination.
pub(super) fn source<'a>(id: &Id, dst: &Addr, host: &Host<'a>) -> Result<&'a GidEntry, Errno> {
    if let Some(index) = id.gid_index {
        return host.gids.entry(index).ok_or(Errno::NODEV);
    }
    if host.is_ib() {
        return infiniband_source(dst, host);
    }

    let v4 = dst.meant().is_ipv4();
    let suits = |entry: &&GidEntry| {
        entry.addr.is_ipv4() == v4
            && (!dst.is_link_local() || dst.scope() == 0 || dst.scope() == entry.scope_id)
    };
    let mut suitable = host.gids.entries().filter(suits);

    // To itself, a host speaks from the address it speaks to.
    if let Some(entry) = host.gids.entries().find(|entry| dst.names(entry)) {
        return Ok(entry);
    }
    if dst.is_zero() || dst.is_loopback() {
        return suitable.next().ok_or(Errno::NODEV);
    }
    if dst.is_multicast() {
        return multicast_source(dst, host);
    }

    let route = route(dst, host)?;
    // A host without an address sends from none over IPv4, and nothing over IPv6.
    let none = v4.then_some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let routed = route.source.or(none).ok_or(Errno::ADDRNOTAVAIL)?;
    let is_routed = |entry: &&GidEntry| {
        entry.addr == routed && (entry.scope_id == 0 || Some(entry.scope_id) == route.interface)
    };
    let exact = host.gids.entries().filter(suits).find(is_routed);
    if exact.is_some() {
        return exact.ok_or(Errno::NODEV);
    }

    // To another address of this host any of the device's will do, as to another device's.
    let of_host = |ip: IpAddr| host.snapshot.addresses.iter().any(|own| own.ip == ip);
    if routed.is_loopback() || routed == dst.meant() || of_host(dst.meant()) {
        return suitable.next().ok_or(Errno::NODEV);
    }

    let Some(hop) = Hop::of(&route, dst.meant()) else {
        // Nothing is known of the way, or it ends here.
        return suitable.next().ok_or(Errno::NODEV);
    };
    let all = || host.gids.entries().filter(suits);
    let there = all().find(|entry| entry.ifindex == hop.ifindex);
    // Of two interfaces in one subnet the host's routes prefer one; packets leave by the other,
    // too, if it is the device's.
    let as_good = |entry: &&GidEntry| {
        let way = Way::find(host.kernel, entry.addr, dst.meant(), entry.ifindex);
        way.out.is_some()
    };
    there
        .or_else(|| all().find(as_good))
        .or_else(|| all().find(|entry| is_portable(entry, host)))
        .ok_or(Errno::NODEV)
}

/// The same of a multicast group, which is another one at each interface: the host's routes, or the
/// scope, say at which one it is meant. A device of the loopback interface's has its groups there,
/// where routes hardly ever lead.
fn multicast_source<'a>(dst: &Addr, host: &Host<'a>) -> Result<&'a GidEntry, Errno> {
    let v4 = dst.meant().is_ipv4();
    let suits = |entry: &&GidEntry| {
        entry.addr.is_ipv4() == v4 && (dst.scope() == 0 || dst.scope() == entry.ifindex)
    };
    let all = || host.gids.entries().filter(suits);
    let found = route(dst, host).and_then(|route| {
        let there = || all().filter(|entry| Some(entry.ifindex) == route.interface);
        let exact = there().find(|entry| Some(entry.addr) == route.source);
        exact.or_else(|| there().next()).ok_or(Errno::NODEV)
    });
    found.or_else(|errno| {
        let mut local = all().filter(|entry| is_at_loopback(entry, host));
        local.next().ok_or(errno)
    })
}

/// Whether packets from an address of the device's leave by any interface: it is a service's, at
/// the loopback interface, or who made the device has chosen it, and knows the way back to it.
fn is_portable(entry: &GidEntry, host: &Host<'_>) -> bool {
    !entry.addr.is_loopback() && (host.given || is_at_loopback(entry, host))
}

fn is_at_loopback(entry: &GidEntry, host: &Host<'_>) -> bool {
    let link = host.snapshot.link_at(entry.ifindex);
    link.is_some_and(|link| link.loopback)
}

/// The same over InfiniBand, where the host's routes say nothing: a port that is active before one
/// that is not. Between IP addresses one leads from ports that have one of that family.
fn infiniband_source<'a>(dst: &Addr, host: &Host<'a>) -> Result<&'a GidEntry, Errno> {
    let own = host.gids.entries().find(|entry| dst.names(entry));
    let suits = |entry: &&GidEntry| {
        let has_address = entry.gid != gid_of(entry.addr);
        let same_family = entry.addr.is_ipv4() == dst.meant().is_ipv4();
        dst.is_ib() || has_address && same_family
    };
    let active = |entry: &&GidEntry| {
        let port = host.port(port_of(entry.index));
        port.is_some_and(|port| port.state == ACTIVE)
    };
    let mut all = host.gids.entries().filter(suits);
    let first = || host.gids.entries().filter(suits).find(active);
    let found = own.or_else(first).or_else(|| all.next());
    found.ok_or(Errno::NODEV)
}

/// How the host's routes lead to a destination, or the errno with which no datagram of a program's
/// would be sent there.
fn route(dst: &Addr, host: &Host<'_>) -> Result<Route, Errno> {
    if dst.is_link_local() && dst.scope() == 0 {
        return Err(Errno::INVAL);
    }

    let flow = Flow {
        to: dst.meant(),
        from: None,
        interface: dst.scope(),
    };
    let answer = flow.route(host.kernel);
    match refusal(&answer) {
        // Over IPv6 datagrams look for their own address first.
        Some(Errno::NETUNREACH) if flow.to.is_ipv6() && !has_ipv6(host) => Err(Errno::ADDRNOTAVAIL),
        Some(errno) => Err(errno),
        None => answer.map_err(|error| match Errno::from_io_error(&error) {
            // Kernels without IPv6 do not know the question.
            Some(Errno::OPNOTSUPP) => Errno::AFNOSUPPORT,
            errno => errno.unwrap_or(Errno::NETUNREACH),
        }),
    }
}

/// The errno with which no datagram of a program's would be sent, by what the kernel says of its
/// route: there is none, or one that is unreachable, prohibited (or for all of a network), or a
/// blackhole. `None`, too, where the kernel does not say.
pub(super) fn refusal(answer: &io::Result<Route>) -> Option<Errno> {
    const NO: [Errno; 4] = [
        Errno::NETUNREACH,
        Errno::HOSTUNREACH,
        Errno::ACCESS,
        Errno::INVAL,
    ];
    match answer {
        Ok(route) => (route.kind == libc::RTN_BROADCAST).then_some(Errno::ACCESS),
        Err(error) => Errno::from_io_error(error).filter(|errno| NO.contains(errno)),
    }
}

fn has_ipv6(host: &Host<'_>) -> bool {
    let mut addresses = host.snapshot.addresses.iter();
    addresses.any(|address| address.ip.is_ipv6())
}

/// The peer's GID. A wildcard or a loopback address that nobody here serves means the device
/// itself.
pub(super) fn remote_gid(dst: &Addr, own: &GidEntry, host: &Host<'_>) -> Gid {
    let served = host.gids.entries().any(|entry| dst.names(entry));
    let local = own.addr.is_loopback();
    match dst.is_zero() || dst.is_loopback() && !served && !local {
        true => gid_of(own.addr),
        false => dst.gid(),
    }
}

/// `enum ibv_rate` of an interface.
pub(super) fn rate_code(mbps: u32) -> u8 {
    match Rate::of_mbps(mbps).tenths_gbps {
        25 => 2,
        100 => 3,
        200 => 6,
        250 => 15,
        400 => 7,
        500 => 20,
        1_000 => 16,
        2_000 => 18,
        _ => 2,
    }
}
