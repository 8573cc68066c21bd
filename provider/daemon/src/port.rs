//! How the port follows its interface: addresses become GIDs and groups of sockets, the link's state
//! becomes the port's.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use ferroce_control::Event;

use crate::DaemonError;
use crate::daemon::Daemon;
use crate::device;
use crate::gids::Wanted;
use crate::group::Group;
use crate::interfaces::Snapshot;
use crate::poller::Token;

/// How long after a failure an address is tried again.
const RETRY: Duration = Duration::from_secs(2);

impl Daemon {
    /// Takes the addresses with which the daemon starts. One that cannot be had is an error.
    pub(crate) fn open_first_addresses(&mut self) -> Result<(), DaemonError> {
        let wanted = self.source.wanted(&self.snapshot)?;
        if wanted.is_empty() {
            return Err(DaemonError::NoAddress {
                name: self.source.netdev().to_owned(),
            });
        }
        // One is open already if it had to be looked for.
        for index in 0..self.groups.len() {
            self.watch_members(index, 0);
        }
        for address in &wanted {
            self.open_group(address)?;
        }
        self.gids.update(&wanted);
        self.info.rcvbuf = self
            .groups
            .iter()
            .map(Group::granted_receive_buffer)
            .min()
            .unwrap_or(0);
        Ok(())
    }

    /// Looks at the interfaces again and tells clients what is different.
    pub(crate) fn interfaces_changed(&mut self) {
        self.retry_at = None;
        let old = match Snapshot::read() {
            Ok(snapshot) => std::mem::replace(&mut self.snapshot, snapshot),
            Err(error) => {
                tracing::error!(%error, "cannot read the interfaces");
                self.retry_at = Some(Instant::now() + RETRY);
                return;
            }
        };
        for ifindex in self.snapshot.other_hardware(&old) {
            self.with_rdma_cm(|server, around| server.hardware_changed(ifindex, around));
        }
        if self.ib.fabric.is_some() {
            // Addresses mean nothing to cables, and a link that is gone is noticed by its silence.
            return;
        }
        let before = self.info.clone();
        let turned = device::refresh(&mut self.info, &self.source, &self.snapshot);
        // Given addresses stay, even while they cannot be used.
        let changed = match &self.source {
            device::Source::Fixed { .. } => false,
            device::Source::Interface(_) => self.follow_addresses(),
        };
        if !changed && before == self.info {
            return;
        }
        if let Err(error) = self.refresh_image() {
            tracing::error!(%error, "the sysfs image is out of date");
        }
        if changed {
            let gids: Vec<String> = self
                .gids
                .entries()
                .map(|gid| gid.addr.to_string())
                .collect();
            tracing::info!(addresses = gids.join(" "), "the GID table has changed");
            self.with_rdma_cm(|server, around| server.addresses_changed(around));
            self.broadcast(Event::GidChange);
        }
        if turned {
            tracing::info!(active = self.info.port_active, "the port has changed");
            self.broadcast(Event::PortState {
                active: self.info.port_active,
            });
        }
    }

    fn follow_addresses(&mut self) -> bool {
        let wanted = match self.source.wanted(&self.snapshot) {
            Ok(wanted) => wanted,
            Err(error) => {
                tracing::warn!(%error, "keeping the addresses as they are");
                return false;
            }
        };
        let mut usable = Vec::new();
        for address in wanted {
            match self.open_group(&address) {
                Ok(_) => usable.push(address),
                Err(error) => {
                    tracing::warn!(%error, "leaving out {}", address.addr);
                    self.retry_at = Some(Instant::now() + RETRY);
                }
            }
        }
        self.gids.update(&usable)
    }

    /// The index of an address's group, which is opened if it has none.
    pub(crate) fn open_group(&mut self, wanted: &Wanted) -> Result<usize, DaemonError> {
        if let Some(index) = self.group_of(wanted) {
            return Ok(index);
        }
        let buffer = self.settings.receive_buffer;
        let group = Group::open(wanted.addr, wanted.scope_id, buffer)?;
        self.groups.push(group);
        let index = self.groups.len() - 1;
        self.watch_members(index, 0);
        Ok(index)
    }

    /// The index of the group with that address and scope.
    pub(crate) fn group_of(&self, wanted: &Wanted) -> Option<usize> {
        self.groups
            .iter()
            .position(|group| group.serves(wanted.addr, wanted.scope_id))
    }

    /// Begins to drain a group's members from `first` on, except those that clients hold.
    pub(crate) fn watch_members(&self, group: usize, first: usize) {
        let held: HashSet<u8> = self
            .connections
            .values()
            .filter_map(|connection| connection.claimed.as_ref())
            .filter(|claimed| claimed.groups.contains(&group))
            .map(|claimed| claimed.slot)
            .collect();
        for index in first..self.groups[group].len() {
            let Ok(slot) = u8::try_from(index) else { break };
            let Some(socket) = self.groups[group].existing(slot) else {
                break;
            };
            if held.contains(&slot) {
                continue;
            }
            if let Err(errno) = self.poller.add(socket, Token::Slot { group, slot }) {
                tracing::error!(error = %errno, slot, "cannot drain a socket");
            }
        }
    }
}
