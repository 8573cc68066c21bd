//! Binding, resolving and listening: from an address to the device's GID, a port, a path. Over
//! Ethernet everything is known at once, but for neighbours (`neighbours`), so what the kernel
//! answers later in an event is queued as one before the command returns.

use std::net::IpAddr;
use std::time::Duration;

use ferroce_cabi::ucma::{RDMA_PS_IB, RDMA_PS_IPOIB, RDMA_PS_TCP, RDMA_PS_UDP};
use ferroce_control::random::random;
use ferroce_fabric::cm::{Av, Path};
use ferroce_wire::mad::DEFAULT_PKEY;
use rustix::io::Errno;

use super::addr::Addr;
use super::channel::Caller;
use super::events::{Detail, Kind};
use super::host::Host;
use super::id::State;
use super::infiniband::near_end;
use super::ports::{Owner, Port};
use super::route::{NO_LID, own_gid, rate_code, remote_gid, source};
use super::services::MAX_BACKLOG;
use super::state::Ucma;
use super::terms::errno;

/// Ports below this are for the privileged.
const PRIVILEGED_PORTS: u16 = 1024;
/// 4.096 µs · 2^n that a packet may be under way: what Linux takes for RoCE.
const PACKET_LIFE_TIME: u8 = 16;
/// Hop limit of what an IP host sends.
const HOP_LIMIT: u8 = 64;

/// The bits of a service ID that name a port space (`RDMA_IB_IP_PS_MASK`).
const PS_MASK: u64 = 0xffff_ffff_ffff_0000;

impl Ucma {
    /// `BIND`: gives an id an address of the device's, or all of them, and a port.
    pub(super) fn bind(
        &mut self,
        handle: u32,
        addr: Addr,
        caller: Caller,
        host: &Host<'_>,
    ) -> Result<(), Errno> {
        self.bind_towards(handle, addr, Addr::None, caller, host)?;

        // Who has a port may tell its peer before it listens.
        let id = self.existing(handle)?;
        let service_id = id.service_id(&id.src);
        if self.services.expect(service_id, handle, &mut self.cm) {
            self.existing(handle)?.awaited = Some(service_id);
        }
        Ok(())
    }

    /// An id will not listen, whatever its port is for.
    pub(super) fn not_awaited(&mut self, handle: u32, host: &Host<'_>) {
        let id = self.ids.get_mut(handle);
        if let Some(service) = id.and_then(|id| id.awaited.take()) {
            self.services
                .give_up(service, handle, host.now, &mut self.cm, &mut self.out);
        }
    }

    fn bind_towards(
        &mut self,
        handle: u32,
        mut addr: Addr,
        dst: Addr,
        caller: Caller,
        host: &Host<'_>,
    ) -> Result<(), Errno> {
        let id = self.existing(handle)?;
        if id.state != State::Idle {
            return Err(Errno::INVAL);
        }
        if addr == Addr::None {
            return Err(Errno::AFNOSUPPORT);
        }
        if addr.is_link_local() && addr.scope() == 0 {
            return Err(Errno::INVAL);
        }

        let gid_index = own_gid(&addr, host)?;
        let any = gid_index.is_none();
        if !any && u32::from(id.space) == RDMA_PS_IPOIB {
            return Err(Errno::INVAL);
        }

        let space = port_space(id.space, &mut addr)?;
        let v4 = addr.family() == libc::AF_INET as u16;
        let owner = Owner {
            id: handle,
            src: addr,
            any,
            dst,
            dst_any: names_nobody(&dst),
            reuse: id.reuse,
            afonly: id.afonly.unwrap_or(v4),
            listening: false,
        };

        let afonly = owner.afonly;
        let number = match addr.port() {
            0 => self.ports.claim_any(space, owner, random())?,
            number if number < PRIVILEGED_PORTS && !caller.privileged => return Err(Errno::ACCESS),
            number => {
                self.ports.claim(Port { space, number }, owner)?;
                number
            }
        };

        addr.set_port(number);
        let id = self.existing(handle)?;
        id.src = addr;
        id.any = any;
        id.gid_index = gid_index;
        id.afonly = Some(afonly);
        id.port = Some(Port { space, number });
        id.state = State::Bound;
        Ok(())
    }

    /// `RESOLVE_ADDR`: finds the device's address from which the destination is reached.
    pub(super) fn resolve_addr(
        &mut self,
        handle: u32,
        src: Addr,
        dst: Addr,
        patience: Duration,
        caller: Caller,
        host: &Host<'_>,
    ) -> Result<(), Errno> {
        if dst == Addr::None {
            return Err(Errno::INVAL);
        }

        if self.existing(handle)?.state == State::Idle {
            let src = match src {
                Addr::None => wildcard_for(&dst),
                src => src,
            };
            self.bind_towards(handle, src, dst, caller, host)?;
        }

        let id = self.existing(handle)?;
        if id.state != State::Bound || id.src.family() != dst.family() {
            return Err(Errno::INVAL);
        }

        let space = u32::from(id.space);
        let found = match source(id, &dst, host) {
            Ok(_) if space == RDMA_PS_IPOIB => Err(Errno::INVAL),
            Ok(entry) => Ok(entry),
            // No device leads there, which the kernel finds out later than that no route does.
            Err(Errno::NODEV) => Err(Errno::NODEV),
            Err(errno) => return Err(errno),
        };

        let waits = match found {
            Ok(entry) => self.seek_neighbour(handle, &dst, entry, patience, host)?,
            Err(_) => false,
        };
        self.existing(handle)?.dst = dst;
        self.not_awaited(handle, host);
        if waits {
            return Ok(());
        }
        self.take_address(handle, found.map(|entry| entry.index), patience, host)
    }

    /// An id has found the device's address from which its destination is reached, or has not.
    pub(super) fn take_address(
        &mut self,
        handle: u32,
        found: Result<u16, Errno>,
        patience: Duration,
        host: &Host<'_>,
    ) -> Result<(), Errno> {
        let id = self.existing(handle)?;
        let dst = id.dst;

        // What fails leaves the id bound as it was: a wildcard's port is still all its own.
        let entry = found.and_then(|index| host.gids.entry(index).ok_or(Errno::NODEV));
        let status = match entry {
            Ok(entry) => {
                if id.any {
                    let port = id.src.port();
                    id.src = match id.src {
                        Addr::Ib(ib) => Addr::Ib(super::addr::IbAddr {
                            gid: entry.gid,
                            ..ib
                        }),
                        _ => dst.like(entry.addr, port, entry.scope_id),
                    };
                    id.any = false;
                }

                id.gid_index = Some(entry.index);
                id.state = State::AddrResolved;
                0
            }
            Err(errno) => errno.raw_os_error(),
        };

        let (port, src, any) = (id.port, id.src, id.any);
        let dst_any = status != 0 && names_nobody(&dst);
        if let Some(port) = port {
            self.ports.update(port, handle, |owner| {
                (owner.src, owner.any) = (src, any);
                (owner.dst, owner.dst_any) = (dst, dst_any);
            });
        }

        if status == 0 && host.is_ib() && self.ask_for_gid(handle, patience, host)? {
            return Ok(());
        }

        let kind = if status == 0 {
            Kind::AddrResolved
        } else {
            Kind::AddrError
        };
        self.raise(handle, kind, -status, Detail::None);
        Ok(())
    }

    /// `RESOLVE_ROUTE`: a path over Ethernet follows from the addresses, over InfiniBand the subnet
    /// administrator knows it.
    pub(super) fn resolve_route(
        &mut self,
        handle: u32,
        patience: Duration,
        host: &Host<'_>,
    ) -> Result<(), Errno> {
        let path = self.path_of(handle, host)?;
        if host.is_ib() {
            return self.ask_for_path(handle, &path, patience, host);
        }
        let id = self.existing(handle)?;
        id.path = Some(path);
        id.state = State::RouteResolved;
        self.raise(handle, Kind::RouteResolved, 0, Detail::None);
        Ok(())
    }

    /// The path of an id that knows its addresses and no more.
    pub(super) fn path_of(&mut self, handle: u32, host: &Host<'_>) -> Result<Path, Errno> {
        let id = self.existing(handle)?;
        if id.state != State::AddrResolved {
            return Err(Errno::INVAL);
        }

        let entry = id.gid_index.and_then(|index| host.gids.entry(index));
        let entry = entry.ok_or(Errno::NODEV)?;
        if host.is_ib() {
            return near_end(id, entry, host);
        }

        Ok(Path {
            av: Av {
                local_gid: entry.gid,
                local_index: entry.index,
                remote_gid: remote_gid(&id.dst, entry, host),
                pkey: DEFAULT_PKEY,
                sl: 0,
                traffic_class: id.tos.unwrap_or(0),
                flow_label: 0,
                hop_limit: HOP_LIMIT,
                local_lid: NO_LID,
                remote_lid: NO_LID,
            },
            mtu: ferroce_wire::mtu::code(host.info.active_mtu),
            packet_rate: rate_code(host.info.speed_mbps),
            packet_life_time: match id.ack_timeout {
                Some(timeout) if timeout > 0 => timeout - 1,
                _ => PACKET_LIFE_TIME,
            },
        })
    }

    /// `LISTEN`.
    pub(super) fn listen(
        &mut self,
        handle: u32,
        backlog: u32,
        caller: Caller,
        host: &Host<'_>,
    ) -> Result<(), Errno> {
        if self.existing(handle)?.state == State::Idle {
            self.bind(handle, Addr::any(libc::AF_INET as u16), caller, host)?;
        }

        let id = self.existing(handle)?;
        if id.state != State::Bound {
            return Err(Errno::INVAL);
        }

        let (port, service_id) = (id.port, id.service_id(&id.src));
        let reuse = id.reuse;
        if let Some(port) = port.filter(|_| reuse) {
            self.ports.may_listen(port, handle)?;
        }

        self.services
            .enter(service_id, handle, host.now, &mut self.cm, &mut self.out)
            .map_err(errno)?;
        if let Some(port) = port {
            self.ports
                .update(port, handle, |owner| owner.listening = true);
        }

        let id = self.existing(handle)?;
        id.service = Some(service_id);
        id.awaited = None;
        id.backlog = match backlog {
            1..MAX_BACKLOG => backlog,
            _ => MAX_BACKLOG,
        };

        id.state = State::Listen;
        Ok(())
    }
}

/// Whether a destination is nobody in particular.
fn names_nobody(dst: &Addr) -> bool {
    dst.is_zero() || dst.is_loopback()
}

/// What an unbound id is bound to on its way to a destination.
fn wildcard_for(dst: &Addr) -> Addr {
    match *dst {
        Addr::Ib(ib) => Addr::Ib(super::addr::IbAddr {
            gid: [0; 16],
            sid: ib.sid & PS_MASK,
            mask: PS_MASK,
            ..ib
        }),
        Addr::Ip { ip, .. } => Addr::Ip {
            ip: match ip {
                IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
            },
            port: 0,
            flowinfo: 0,
            scope: dst.scope(),
        },
        Addr::None => Addr::None,
    }
}

/// The port space of an address, in which it gets its port. An `AF_IB` address names it in its
/// service ID, and has it completed there.
fn port_space(space: u16, addr: &mut Addr) -> Result<u16, Errno> {
    let Addr::Ib(ib) = addr else {
        return Ok(space);
    };

    let mask = ib.mask & PS_MASK;
    let sid = ib.sid & mask;
    let candidates: &[u32] = match u32::from(space) {
        RDMA_PS_IB => &[RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP],
        RDMA_PS_TCP => &[RDMA_PS_TCP],
        RDMA_PS_UDP => &[RDMA_PS_UDP],
        _ => &[],
    };
    let found = candidates
        .iter()
        .find(|ps| sid == (u64::from(**ps) << 16 & mask));
    let found = *found.ok_or(Errno::PROTONOSUPPORT)?;
    let port = (ib.sid & ib.mask) as u16;
    ib.sid = u64::from(found) << 16 | u64::from(port);
    ib.mask |= PS_MASK;
    Ok(found as u16)
}
