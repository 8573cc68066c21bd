//! The sockets of the device in this process: a way out for each path, a way in for each address
//! and cable.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use ferroce_control::outlet::{self, PORTS};
use ferroce_control::random::random;
use ferroce_control::udp::enlarge;
use ferroce_control::{Client, ControlError, GidEntry, Network, Outlet};

use super::Hca;
use crate::datapath::path::Path;
use crate::error::{Error, Result};
use crate::port::address::{PathKey, scope};
use crate::port::ib::Port;
use crate::port::receiver::Receiver;
use crate::port::ring::RingSender;
use crate::port::{Exit, Ports, first_port};

impl Hca {
    /// The ring by which a path leads to a process of this device.
    pub(crate) fn ring_to(&self, key: PathKey) -> Option<Arc<RingSender>> {
        // Slot 0 is the daemon, which has no inbox.
        if !self.loopback || key.slot == 0 || !self.has_address(key.remote) {
            return None;
        }
        self.rings.to(key.slot, self.slot, || {
            self.ask_beside(|daemon| daemon.inbox(key.slot))
        })
    }

    /// The path with this key, if some QP has it and it leads somewhere.
    pub(crate) fn open_path(&self, key: &PathKey) -> Option<Arc<Path>> {
        fresh(&self.paths.lock(), key)
    }

    /// The path with this key, opened if no QP has it yet.
    pub(crate) fn path_or(
        &self,
        key: PathKey,
        open: impl FnOnce() -> Result<Exit>,
    ) -> Result<Arc<Path>> {
        let mut paths = self.paths.lock();
        if let Some(path) = fresh(&paths, &key) {
            return Ok(path);
        }
        paths.retain(|_, p| p.strong_count() != 0);
        let path = Arc::new(Path::new(self.slot, key, open()?, self.info.congestion));
        paths.insert(key, Arc::downgrade(&path));
        Ok(path)
    }

    /// The paths that somebody has.
    fn paths_in_use(&self) -> Vec<Arc<Path>> {
        let paths = self.paths.lock();
        paths.values().filter_map(Weak::upgrade).collect()
    }

    /// GIDs that are new, or on other interfaces: what is open follows.
    pub(super) fn follow_interfaces(&self, moved: &[GidEntry]) {
        for path in self.paths_in_use() {
            if let Some(gid) = moved.iter().find(|gid| gid.addr == path.key.local) {
                // Its address may have gone while the path was made.
                if let Err(error) = self.listen(gid) {
                    tracing::warn!(%error, "packets to an address are not received");
                }
                let out = self.way_out(gid, path.key.remote).unwrap_or_else(|error| {
                    // They leave as the routes say once there is one.
                    tracing::debug!(%error, "packets may not leave");
                    None
                });
                path.exit.follow(path.key, gid, out);
            }
        }
    }

    /// The path with this key, if some QP has it.
    pub(crate) fn path_of(&self, key: &PathKey) -> Option<Arc<Path>> {
        self.paths.lock().get(key).and_then(Weak::upgrade)
    }

    /// Makes sure that packets for a GID's address are received.
    pub(crate) fn listen(&self, gid: &GidEntry) -> Result<()> {
        if !self.ports.has_sockets() {
            return Ok(());
        }

        let mut receivers = self.receivers.write();
        if receivers.iter().any(|r| r.local == gid.addr) {
            return Ok(());
        }

        let socket = (self.control).ask(|daemon| daemon.receive_socket(gid.index))?;
        receivers.push(Arc::new(Receiver::of_slot(
            socket,
            gid.addr,
            scope(gid.addr, gid.scope_id),
            self.slot,
        )));

        drop(receivers);
        self.driver.wake();
        self.control_events();
        Ok(())
    }

    /// Closes the sockets of addresses that the port has no more, unless a path leads from there: a
    /// queue pair goes on should its address return. Another device may want the others.
    pub(super) fn leave_addresses(&self, gone: &[GidEntry]) {
        let paths = self.paths_in_use();
        let is_used = |addr| paths.iter().any(|path| path.key.local == addr);
        let mut any = false;
        // Until the daemon knows: another thread may hear that the address is there again.
        let mut receivers = self.receivers.write();
        for GidEntry { addr, scope_id, .. } in gone {
            if is_used(*addr) || self.has_address(*addr) {
                continue;
            }
            let is_its = |r: &mut Arc<Receiver<_>>| r.is_of_slot() && r.local == *addr;
            for receiver in receivers.extract_if(.., is_its) {
                any = true;
                receiver.leave();
                let told = (self.control).ask(|daemon| daemon.leave_socket(*addr, *scope_id));
                if let Err(error) = told {
                    tracing::debug!(%error, %addr, "it is not said that an address is left");
                }
            }
        }
        drop(receivers);

        if any {
            self.driver.let_go();
        }
    }

    /// Makes sure that packets off a port's cable are received.
    pub(crate) fn listen_at(&self, port: &Arc<Port>) -> Result<()> {
        let mut receivers = self.receivers.write();
        let same = |r: &Arc<Receiver<_>>| r.port.as_ref().is_some_and(|p| p.number == port.number);
        if receivers.iter().any(same) {
            return Ok(());
        }

        let socket = (self.control).ask(|daemon| daemon.receive_socket(port.index()))?;
        receivers.push(Arc::new(Receiver::of_cable(
            socket,
            port.clone(),
            self.slot,
        )));

        drop(receivers);
        self.driver.wake();
        self.control_events();
        Ok(())
    }

    /// A socket, and its address, to which the daemon sends a copy of each packet that comes to a
    /// port for a multicast group.
    pub(crate) fn copies_of_group(
        &self,
        port: &Port,
        gid: [u8; 16],
    ) -> Result<(OwnedFd, SocketAddr)> {
        let io = |e| Error::io("opening a socket for a multicast group", e);
        let own = port.local();
        let socket = match self.is_elsewhere() {
            false => UdpSocket::bind((own, 0)).map_err(io)?,
            true => {
                let first = random::<u16>();
                (self.control)
                    .ask(|daemon| daemon.send_socket(port.index(), own, first))?
                    .into()
            }
        };
        let end = socket.local_addr().map_err(io)?;
        // As large as the slots' sockets, which the kernel reports at twice the size asked for.
        let _ = enlarge(&socket, self.info.rcvbuf as usize / 2);
        self.control
            .ask(|daemon| daemon.join_group(port.number, gid, end))?;
        self.control_events();
        Ok((socket.into(), end))
    }

    /// Ends the copies to these addresses. A daemon that has gone sends none.
    pub(crate) fn no_copies(&self, ends: &[SocketAddr]) {
        for end in ends.iter().filter(|_| !self.is_gone()) {
            let _ = self.control.ask(|daemon| daemon.leave_group(*end));
            self.control_events();
        }
    }

    /// Makes sure that packets for every address of the port are received, now and when addresses
    /// are added.
    pub(crate) fn listen_everywhere(&self) -> Result<()> {
        if let Ports::Infiniband(ports) = &self.ports {
            return ports.iter().try_for_each(|port| self.listen_at(port));
        }
        self.everywhere.store(true, Ordering::Relaxed);
        for gid in self.gids() {
            self.listen(&gid)?;
        }
        for receiver in self.receivers.read().iter() {
            receiver.ask_for_headers();
        }
        Ok(())
    }

    /// Whether the calling thread's sockets would be of another network than the daemon's, whose
    /// addresses and interfaces it has not.
    fn is_elsewhere(&self) -> bool {
        Network::here().differs(self.network)
    }

    /// A socket for a path, whose GID or port has this index, bound to the path's own address.
    pub(crate) fn send_socket(&self, key: PathKey, index: u16, outlet: &Outlet) -> Result<OwnedFd> {
        let first = first_port(key, self.slot);
        match self.is_elsewhere() {
            false => Ok(outlet.open(first, PORTS)?),
            true => Ok(self.ask_beside(|daemon| daemon.send_socket(index, key.remote, first))?),
        }
    }

    /// The interface by which packets from a GID should leave, if it is that of the GID; an error
    /// where there is no route by any.
    pub(crate) fn way_out(&self, gid: &GidEntry, to: IpAddr) -> Result<Option<u32>> {
        match self.is_elsewhere() && !to.is_multicast() {
            false => Ok(Outlet::of_gid(gid, to).way_out()?),
            true => Ok(self.ask_beside(|daemon| daemon.way_out(gid.index, to))?),
        }
    }

    /// A socket that receives what comes for a group through any of the interfaces.
    pub(crate) fn group_socket(&self, group: IpAddr, interfaces: &[u32]) -> Result<OwnedFd> {
        match self.is_elsewhere() {
            false => Ok(outlet::member(group, interfaces, self.info.rcvbuf)?),
            true => Ok(self.ask_beside(|daemon| daemon.group_socket(group, interfaces))?),
        }
    }

    /// Asks where locks may be held that the handling of an event needs, which may have come before
    /// the answer; the helper holds none.
    fn ask_beside<R>(
        &self,
        request: impl FnOnce(&mut Client) -> Result<R, ControlError>,
    ) -> Result<R, ControlError> {
        let answer = self.control.ask(request);
        self.driver.wake();
        answer
    }
}

/// A path that somebody has, and that leads somewhere.
fn fresh(paths: &HashMap<PathKey, Weak<Path>>, key: &PathKey) -> Option<Arc<Path>> {
    let known = paths.get(key).and_then(Weak::upgrade);
    known.filter(|path| !path.is_stale())
}
