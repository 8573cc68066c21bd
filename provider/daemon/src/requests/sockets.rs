//! Sockets that clients ask for: those at which they receive, and, of clients in another network
//! namespace, those that they send by.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

use ferroce_control::protocol::Reply;
use ferroce_control::{ControlError, Errno, Outlet, outlet};

use super::{Answer, failed, out_of_something, refuse};
use crate::DaemonError;
use crate::adapter::Adapter;
use crate::clients::Clients;
use crate::gids::Wanted;

/// More packets than any receive buffer holds.
const WHOLE_BUFFER: usize = 1 << 17;

/// How many source ports in a row are tried. Where as many are taken, there are too few left to be
/// looked for while others wait.
const TRIES: u16 = 1024;

impl Clients {
    pub(super) fn receive_socket(
        &mut self,
        id: u64,
        gid_index: u16,
        adapter: &mut Adapter,
    ) -> Answer {
        let Some(slot) = self.slot_of(id) else {
            return refuse(Errno::INVAL, "attach before asking for sockets");
        };

        let group = if adapter.is_ib() {
            let index = usize::from(gid_index);
            if adapter.groups.get(index).is_none() {
                return refuse(Errno::NOENT, format!("there is no port {}", index + 1));
            }
            Ok(index)
        } else {
            let Some(entry) = adapter.gids.entry(gid_index) else {
                return refuse(Errno::NOENT, format!("GID {gid_index} is not in use"));
            };
            let wanted = Wanted {
                addr: entry.addr,
                scope_id: entry.scope_id,
                ifindex: entry.ifindex,
                ifname: entry.ifname.clone(),
            };
            adapter.open_group(&wanted)
        };

        match group.and_then(|group| self.hand_out(slot, group, adapter)) {
            Ok(fd) => Answer {
                reply: Reply::ReceiveSocket,
                fds: vec![fd],
            },
            Err(error) => {
                tracing::error!(%error, slot, "cannot hand out a socket");
                let errno = match &error {
                    DaemonError::Os { source, .. } => {
                        source.raw_os_error().map(Errno::from_raw_os_error)
                    }
                    DaemonError::PortTaken { .. } => Some(Errno::ADDRINUSE),
                    DaemonError::NoSuchAddress { .. } => Some(Errno::ADDRNOTAVAIL),
                    _ => None,
                };
                out_of_something(errno.unwrap_or(Errno::IO), &error)
            }
        }
    }

    pub(super) fn leave_socket(
        &mut self,
        id: u64,
        addr: IpAddr,
        scope_id: u32,
        adapter: &mut Adapter,
    ) -> Answer {
        let Some(slot) = self.slot_of(id) else {
            return refuse(Errno::INVAL, "attach before asking for sockets");
        };
        // Of a cable's end nobody gives one back.
        let group = match adapter.is_ib() {
            true => None,
            false => adapter.groups.of(addr, scope_id),
        };
        let claimed = adapter.claims.of_mut(slot);
        if let (Some(group), Some(claimed)) = (group, claimed)
            && claimed.groups.remove(&group)
        {
            adapter.take_socket_back(group, slot);
            adapter.close_unused_groups();
        }
        Reply::Ok.into()
    }

    fn hand_out(
        &mut self,
        slot: u8,
        index: usize,
        adapter: &mut Adapter,
    ) -> Result<OwnedFd, DaemonError> {
        let claimed = adapter.claims.of(slot);
        let user = claimed.and_then(|claimed| adapter.sockets_user(claimed.uid));
        let is_first = claimed.is_some_and(|claimed| !claimed.groups.contains(&index));
        let socket = adapter.socket(index, slot, user)?;
        let duplicate = socket
            .try_clone()
            .map_err(DaemonError::os("duplicating a socket"))?;
        if is_first {
            adapter.groups[index].hand_out(slot, user)?;
            // Until now the socket was drained from here. What came since the last look was for the
            // slot's last owner.
            if let Some(socket) = adapter.groups[index].existing(slot) {
                let _ = adapter.poller.remove(socket);
            }
            if adapter.drain(index, slot, WHOLE_BUFFER) {
                self.slots.disturb(Instant::now(), slot);
            }
            if let Some(claimed) = adapter.claims.of_mut(slot) {
                claimed.groups.insert(index);
            }
        }

        Ok(duplicate)
    }

    /// A socket to send by. It is bound before it is handed over: whoever has it can have it send
    /// anywhere, as he can the socket of his slot, but not receive at another address or port.
    pub(super) fn send_socket(
        &mut self,
        id: u64,
        gid_index: u16,
        to: IpAddr,
        first: u16,
        adapter: &mut Adapter,
    ) -> Answer {
        let outlet = adapter.outlet(gid_index, to);
        let opened = outlet.and_then(|outlet| self.lend(id, adapter, || outlet.open(first, TRIES)));
        answer(opened.map(|fd| Answer {
            reply: Reply::SendSocket,
            fds: vec![fd],
        }))
    }

    /// A socket that receives what comes for a group.
    pub(super) fn group_socket(
        &mut self,
        id: u64,
        group: IpAddr,
        mut interfaces: Vec<u32>,
        adapter: &mut Adapter,
    ) -> Answer {
        if !group.is_multicast() || adapter.is_ib() {
            return refuse(
                Errno::INVAL,
                format!("{group} is no group of a RoCE port's"),
            );
        }
        interfaces.sort_unstable();
        interfaces.dedup();
        interfaces.retain(|index| adapter.gids.entries().any(|gid| gid.ifindex == *index));
        if interfaces.is_empty() {
            return refuse(Errno::NODEV, "no address is on any of these interfaces");
        }
        let buffer = adapter.info.rcvbuf;
        let opened = self.lend(id, adapter, || outlet::member(group, &interfaces, buffer));
        answer(opened.map(|fd| Answer {
            reply: Reply::GroupSocket,
            fds: vec![fd],
        }))
    }

    /// Opens a socket, if the client may have another.
    fn lend(
        &self,
        id: u64,
        adapter: &mut Adapter,
        open: impl FnOnce() -> Result<OwnedFd, ControlError>,
    ) -> Result<OwnedFd, ControlError> {
        let slot = self.slot_of(id);
        let Some(claimed) = slot.and_then(|slot| adapter.claims.of_mut(slot)) else {
            return Err(refusal(Errno::INVAL, "attach before asking for sockets"));
        };
        if !claimed.lent.has_room() {
            let why = "the program has too many paths and groups in another network namespace";
            return Err(refusal(Errno::MFILE, why));
        }
        let socket = open()?;
        let added = claimed.lent.add(&socket);
        added.map_err(|errno| refusal(errno, "ferroced: a socket without an address"))?;
        Ok(socket)
    }
}

/// By which interface packets from a GID's address should leave.
pub(super) fn way_out(gid_index: u16, to: IpAddr, adapter: &Adapter) -> Answer {
    let way = adapter.outlet(gid_index, to);
    let way = way.and_then(|outlet| outlet.way_out());
    answer(way.map(|out| Reply::WayOut(out).into()))
}

impl Adapter {
    /// From the address of a GID, or from a port's end of its cable.
    fn outlet(&self, index: u16, to: IpAddr) -> Result<Outlet, ControlError> {
        let outlet = match &self.ib.fabric {
            Some(fabric) => {
                let port = index
                    .checked_add(1)
                    .and_then(|port| u8::try_from(port).ok());
                let cable = port.and_then(|port| fabric.cable(port));
                cable.map(|cable| Outlet::of_cable(cable.local.ip(), to))
            }
            None => self.gids.entry(index).map(|gid| Outlet::of_gid(gid, to)),
        };
        let absent = || refusal(Errno::NOENT, format!("GID or port {index} is not in use"));
        outlet.ok_or_else(absent)
    }
}

fn refusal(errno: Errno, message: impl Into<String>) -> ControlError {
    ControlError::Refused {
        errno: errno.raw_os_error(),
        message: message.into(),
    }
}

/// What was refused is the client's fault, other errors are this process's.
fn answer(made: Result<Answer, ControlError>) -> Answer {
    match made {
        Ok(answer) => answer,
        Err(ControlError::Refused { errno, message }) => Reply::Error { errno, message }.into(),
        Err(error) => failed(&error),
    }
}
