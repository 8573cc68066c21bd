//! The device as its services share it: what it is, its addresses and sockets, its InfiniBand
//! ports, who has which slot, what was counted.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::time::Instant;

use ferroce_control::rtnetlink::Socket;
use ferroce_control::{Counter, CounterPage, DeviceInfo, IbPort};
use ferroce_fabric::sma::Port;
use ferroce_wire::mad::Gid;

use crate::DaemonError;
use crate::captures::Captures;
use crate::claims::Claims;
use crate::config::Settings;
use crate::counting::Counting;
use crate::description::Description;
use crate::device::Source;
use crate::faults::Faults;
use crate::gids::{GidTable, Wanted};
use crate::group::{self, Group};
use crate::groups::Groups;
use crate::hosts::Hosts;
use crate::ib_ports::IbPorts;
use crate::interfaces::Snapshot;
use crate::performance::Shown;
use crate::poller::{Poller, Token};
use crate::service::Service;
use crate::totals::Totals;
use crate::{ucma, umad};

/// The device.
#[derive(Debug)]
pub(crate) struct Adapter {
    pub(crate) settings: Settings,
    pub(crate) source: Source,
    pub(crate) snapshot: Snapshot,
    /// Who is asked for the host's routes and neighbours.
    pub(crate) kernel: Socket,
    pub(crate) info: DeviceInfo,
    pub(crate) description: Description,
    pub(crate) gids: GidTable,
    /// Of each address in the table, and of others that clients have sockets of.
    pub(crate) groups: Groups,
    /// The ports, if they are InfiniBand's.
    pub(crate) ib: IbPorts,
    /// The number of the first port's umad file.
    pub(crate) first_umad: u32,
    pub(crate) claims: Claims,
    /// Who sees what programs send and receive.
    pub(crate) captures: Captures,
    pub(crate) counting: Counting,
    pub(crate) faults: Faults,
    /// What is known of other hosts.
    pub(crate) hosts: Hosts,
    pub(crate) poller: Poller,
    pub(crate) started: Instant,
}

impl Service for Adapter {
    /// When its ports have something to do, what is shown of its counters is out of date, or a
    /// fault is over.
    fn next_timeout(&self) -> Option<Instant> {
        let ports = self.ib.next_timeout();
        let refresh = self.counting.next_refresh(!self.claims.is_empty());
        let faults = self.faults.next_timeout();
        ports.into_iter().chain(refresh).chain(faults).min()
    }
}

impl Adapter {
    /// How many ports it has.
    pub(crate) fn ports(&self) -> u8 {
        self.info.ib_ports.max(1)
    }

    /// Whether its ports are InfiniBand's.
    pub(crate) fn is_ib(&self) -> bool {
        self.ib.fabric.is_some()
    }

    /// Whether a GID is one of a RoCE port's.
    pub(crate) fn has_gid(&self, gid: &Gid) -> bool {
        self.gids.entries().any(|entry| entry.gid == *gid)
    }

    /// The GIDs of its ports, with the addresses that go with them.
    pub(crate) fn gid_table(&self) -> &GidTable {
        match self.is_ib() {
            true => &self.ib.gids,
            false => &self.gids,
        }
    }

    /// Its addresses, in words.
    pub(crate) fn addresses(&self) -> String {
        let gids = self.gid_table().entries().map(|gid| gid.addr.to_string());
        gids.collect::<Vec<_>>().join(" ")
    }

    /// The sums as of now.
    pub(crate) fn totals(&self) -> Totals {
        self.counting.totals(&self.claims)
    }

    /// What the performance management agent is shown.
    pub(crate) fn performance(&self) -> Shown {
        let ports = self.ib.fabric.iter().flat_map(|fabric| {
            let downed = |port| fabric.node().port(port).map_or(0, Port::link_downed);
            (1..=fabric.ports()).map(move |port| (fabric.counts(port), downed(port)))
        });
        Shown {
            sums: self.totals(),
            ports: ports.collect(),
        }
    }

    /// The ports as programs see them, if they are InfiniBand's.
    pub(crate) fn ib_ports(&mut self) -> Vec<IbPort> {
        self.take_reports();
        self.ib.described()
    }

    /// What the umad server sees.
    pub(crate) fn for_umad(&self) -> umad::Surroundings<'_> {
        umad::Surroundings {
            poller: &self.poller,
            first: self.first_umad,
            ports: self.ports(),
            smi: self.is_ib(),
        }
    }

    /// What the connection manager sees.
    pub(crate) fn for_rdma_cm(&self) -> ucma::Surroundings<'_> {
        ucma::Surroundings {
            gids: self.gid_table(),
            info: &self.info,
            snapshot: &self.snapshot,
            kernel: &self.kernel,
            given: matches!(self.source, Source::Fixed { .. }),
            ports: &self.ib.shown,
            poller: &self.poller,
            claims: &self.claims,
        }
    }

    /// Tells the agent of packets with wrong keys that processes have had since the last time.
    pub(crate) fn take_reports(&mut self) {
        if self.is_ib() {
            let totals = self.totals();
            let pages = self.claims.iter().map(|(_, claimed)| &claimed.counters);
            let pages: Vec<&CounterPage> = pages.collect();
            self.ib.take_reports(&totals, &pages);
        }
    }

    /// The index of an address's group, which is opened if it has none.
    pub(crate) fn open_group(&mut self, wanted: &Wanted) -> Result<usize, DaemonError> {
        if let Some(index) = self.groups.of(wanted.addr, wanted.scope_id) {
            return Ok(index);
        }
        let buffer = self.settings.receive_buffer;
        let group = Group::open(wanted.addr, wanted.scope_id, buffer)?;
        let index = self.groups.add(group);
        self.watch_members(index, 0);
        Ok(index)
    }

    /// Closes the groups of addresses that the table has no more and of which no client has a
    /// socket: the address may be another device's next. One of whose sockets another user has been
    /// given stays, as he may hold it still, and then nobody could bind to the address again.
    pub(crate) fn close_unused_groups(&mut self) {
        if self.is_ib() {
            return;
        }
        let unused = self.groups.iter().filter(|(number, group)| {
            let claims = &mut self.claims.iter();
            !self
                .gids
                .has(|entry| group.serves(entry.addr, entry.scope_id))
                && !claims.any(|(_, claimed)| claimed.groups.contains(number))
                && !group.is_of_users()
        });
        let unused: Vec<usize> = unused.map(|(number, _)| number).collect();
        for number in unused {
            let group = &self.groups[number];
            tracing::debug!(address = %group.ip(), "closing the sockets of an address that has gone");
            for socket in group.sockets() {
                // Who has it still would have the daemon hear of it.
                let _ = self.poller.remove(socket);
            }
            self.groups.close(number);
        }
    }

    /// What comes for a slot at the address of a group is the daemon's to drain, as its client has
    /// gone, or has closed its socket.
    pub(crate) fn take_socket_back(&self, group: usize, slot: u8) {
        if let Some(socket) = self.groups[group].existing(slot) {
            group::take_back(socket);
            self.watch(socket, group, slot);
        }
    }

    /// A group's socket of a slot, opened if it is not yet.
    pub(crate) fn socket(
        &mut self,
        index: usize,
        slot: u8,
        user: Option<u32>,
    ) -> Result<&OwnedFd, DaemonError> {
        let first_new = self.groups[index].len();
        let opened = self.groups[index].socket(slot, user).map(drop);
        self.watch_members(index, first_new);
        opened?;
        self.groups[index].socket(slot, user)
    }

    /// Whose a slot's sockets are to be: the user's, where the device has several.
    pub(crate) fn sockets_user(&self, uid: u32) -> Option<u32> {
        self.settings.group.is_some().then_some(uid)
    }

    /// Takes a slot's sockets from other users, who had them and may hold them still, for this one.
    pub(crate) fn keep_apart(&mut self, slot: u8, user: Option<u32>) -> Result<(), DaemonError> {
        for group in self.groups.iter_mut() {
            if group.is_anothers(slot, user) {
                if let Some(socket) = group.existing(slot) {
                    let _ = self.poller.remove(socket);
                }
                group.vacate(slot)?;
            }
        }
        Ok(())
    }

    /// Begins to drain a group's members from `first` on, except those that clients hold.
    pub(crate) fn watch_members(&self, group: usize, first: usize) {
        let held = self.claims.iter();
        let held = held.filter(|(_, claimed)| claimed.groups.contains(&group));
        let held: HashSet<u8> = held.map(|(slot, _)| slot).collect();
        for index in first..self.groups[group].len() {
            let Ok(slot) = u8::try_from(index) else { break };
            let Some(socket) = self.groups[group].existing(slot) else {
                break;
            };
            if !held.contains(&slot) {
                self.watch(socket, group, slot);
            }
        }
    }

    /// Has the daemon hear of what comes to a group's socket of a slot.
    fn watch(&self, socket: &OwnedFd, group: usize, slot: u8) {
        if let Err(errno) = self.poller.add(socket, Token::Slot { group, slot }) {
            tracing::error!(error = %errno, slot, "cannot drain a socket");
        }
    }

    /// Throws away packets that came for nobody, and counts them. Returns whether there were any.
    pub(crate) fn drain(&mut self, group: usize, slot: u8, limit: usize) -> bool {
        let socket = self
            .groups
            .get(group)
            .and_then(|group| group.existing(slot));
        let packets = socket.map_or(0, |socket| group::drain(socket, limit).0);
        if packets > 0 {
            self.counting.own.add(Counter::RxUnknownQp, packets);
            self.counting.dirty = true;
        }
        packets > 0
    }
}
