//! The server behind `/dev/infiniband/rdma_cm`: what the kernel's `rdma_ucm` and `rdma_cm` modules are to librdmacm.
//!
//! A program's descriptor is a *channel* with a queue of events; its ids live here until the channel closes or the process
//! dies. Commands come in as the bytes that librdmacm wrote (`commands`), and nothing in them is trusted. What an id
//! wants of the wire is asked of the CM (`ferroce_fabric`), which answers with events. Nothing here waits: each
//! command is answered at once, and what takes time ends in an event. Sockets are `serve`'s and `qp1`'s business.

mod accept;
mod addr;
mod answers;
mod channel;
mod commands;
mod connect;
mod datagram;
mod device;
mod events;
#[cfg(feature = "fuzzing")]
pub(crate) mod frames;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod gmp;
mod id;
mod infiniband;
mod listed;
mod membership;
mod multicast;
mod names;
mod options;
mod outbox;
mod pause;
mod ports;
mod posted;
mod qp_attr;
mod query;
mod report;
mod requests;
mod resolve;
mod route;
mod serve;
mod session;
mod turns;
mod written;

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use ferroce_cabi::ucma_frame::MAX_CHANNELS;
use ferroce_control::random::random;
use ferroce_control::{ControlError, DeviceInfo, GENERATIONS, Generations, IbPort};
use ferroce_fabric::cm::{Cm, CmConfig, CmId, Limits, Time};
use rustix::io::Errno;

use self::channel::Channel;
use self::id::{Id, State};
use self::multicast::Group;
use self::outbox::Outbox;
use self::ports::Ports;
use self::requests::{MAX_REQUESTED, Requested};
use self::resolve::MAX_BACKLOG;
pub(crate) use self::serve::Server;
use crate::gids::GidTable;
use crate::interfaces::Snapshot;

/// The most ids that there may be; the CM keeps no more connections either.
const MAX_IDS: usize = GENERATIONS;
const _: () = assert!(MAX_IDS <= MAX_CHANNELS);
/// Connections that are being made at the same time; the oldest makes room. Ten thousand of one peer's at one listener are in use
/// (cmtime), and have to be within the bounds.
const HALF_OPEN: usize = 5 << 12;
const HALF_OPEN_OF_PEER: usize = 3 << 12;
const _: () = assert!(HALF_OPEN_OF_PEER < MAX_BACKLOG as usize);
const _: () = assert!((MAX_BACKLOG as usize) < HALF_OPEN && HALF_OPEN < MAX_REQUESTED);
/// `IBV_PORT_ACTIVE`.
const ACTIVE: u8 = 4;
/// The most services that may be listened to.
const MAX_LISTENERS: usize = 1 << 14;

/// What the server looks at beyond its own.
pub(crate) struct Host<'a> {
    /// The device's addresses.
    pub gids: &'a GidTable,
    /// The device.
    pub info: &'a DeviceInfo,
    /// The host's interfaces.
    pub snapshot: &'a Snapshot,
    /// The device's ports, if they are InfiniBand's.
    pub ports: &'a [IbPort],
    /// Now.
    pub now: Time,
}

impl<'a> Host<'a> {
    /// Whether the ports are InfiniBand's.
    fn is_ib(&self) -> bool {
        !self.ports.is_empty()
    }

    /// One of these, from 1.
    fn port(&self, number: u8) -> Option<&'a IbPort> {
        self.ports.iter().find(|port| port.number == number)
    }
}

/// A service to which ids listen; the CM knows of one listener for all of them.
#[derive(Debug)]
struct Service {
    cm: CmId,
    /// Empty between two listeners (`pause`).
    ids: Vec<u32>,
}

/// Everything the programs have.
pub(crate) struct Ucma {
    channels: HashMap<u64, Channel>,
    /// The channels' numbers.
    numbers: Table<u64>,
    /// Channels that may have something to announce.
    unannounced: Vec<u64>,
    ids: Table<Id>,
    requested: Requested,
    generations: Generations,
    groups: Table<Group>,
    ports: Ports,
    services: HashMap<u64, Service>,
    by_cm: HashMap<CmId, u32>,
    pauses: pause::Pauses,
    cm: Cm,
    questions: infiniband::Questions,
    names: names::Names,
    /// When memberships in groups are asked for again.
    regroup_at: Option<Time>,
    out: Outbox,
}

impl std::fmt::Debug for Ucma {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ucma")
            .field("channels", &self.channels.len())
            .field("ids", &self.ids.len())
            .finish_non_exhaustive()
    }
}

impl Ucma {
    /// A server without clients, for that device.
    pub fn new(info: &DeviceInfo) -> Result<Self, ControlError> {
        let config = CmConfig {
            ca_guid: u64::from_be_bytes(info.node_guid),
            // What the engine says of itself: local_ca_ack_delay.
            ack_delay: 15,
            seed: random(),
            limits: Limits {
                connections: MAX_IDS,
                half_open: HALF_OPEN,
                half_open_of_peer: HALF_OPEN_OF_PEER,
                half_open_of_listener: MAX_BACKLOG as usize,
                listeners: MAX_LISTENERS,
            },
            stretch: info.stretch_timeouts,
        };
        Ok(Self {
            channels: HashMap::new(),
            numbers: Table::default(),
            unannounced: Vec::new(),
            ids: Table::default(),
            requested: Requested::default(),
            generations: Generations::create()?,
            groups: Table::default(),
            ports: Ports::default(),
            services: HashMap::new(),
            by_cm: HashMap::new(),
            pauses: pause::Pauses::default(),
            cm: Cm::new(config),
            questions: infiniband::Questions::default(),
            names: names::Names::default(),
            regroup_at: None,
            out: Outbox::default(),
        })
    }

    /// Adds a channel, whose other end is `inode` to its program, process `pid` of session `session`. Returns its number.
    pub fn open(
        &mut self,
        inode: u64,
        socket: OwnedFd,
        session: u64,
        pid: u32,
    ) -> Result<u32, Errno> {
        let number = self.numbers.insert(inode)?;
        self.channels
            .insert(inode, Channel::new(socket, session, pid, number));
        Ok(number)
    }

    /// Removes a channel with everything on it.
    pub fn close(&mut self, inode: u64, host: &Host<'_>) {
        let mine: Vec<u32> = self
            .ids
            .iter()
            .filter(|(_, id)| id.channel == inode)
            .map(|(handle, _)| handle)
            .collect();
        for handle in mine {
            self.remove_id(handle, host);
        }
        if let Some(channel) = self.channels.remove(&inode) {
            self.numbers.remove(channel.number);
        }
    }

    /// An id as a command on a channel names it, which is about to change it.
    fn id(&mut self, channel: u64, handle: u32) -> Result<&mut Id, Errno> {
        self.look(channel, handle)?;
        self.generations.touch(handle);
        self.existing(handle)
    }

    /// An id as a command on a channel names it, which asks about it.
    fn look(&self, channel: u64, handle: u32) -> Result<&Id, Errno> {
        let id = self.ids.get(handle).filter(|id| id.known);
        let id = id.ok_or(Errno::NOENT)?;
        if id.channel != channel {
            return Err(Errno::INVAL);
        }
        if id.state == State::Removed {
            return Err(Errno::IO);
        }
        Ok(id)
    }

    /// An id that exists for certain.
    fn existing(&mut self, handle: u32) -> Result<&mut Id, Errno> {
        self.ids.get_mut(handle).ok_or(Errno::NOENT)
    }

    /// Takes an id out of everything, whatever it is in the middle of. Returns how many of its events were fetched.
    fn remove_id(&mut self, handle: u32, host: &Host<'_>) -> u32 {
        let Some(id) = self.ids.remove(handle) else {
            return 0;
        };
        self.requested.leave(id.peer);
        self.generations.touch(handle);
        self.generations.end(handle);
        if let Some(service) = id.service {
            self.stop_listening(service, handle, host);
        }
        if let Some(number) = id.asks {
            self.questions.forget(number);
        }
        if let Some(cm) = id.cm {
            self.by_cm.remove(&cm);
            let _ = self.cm.destroy(host.now, cm, &mut self.out);
        }
        if let Some(port) = id.port {
            self.ports.release(port, handle);
        }
        for group in id.groups {
            self.remove_group(group, host);
        }
        // Requests that nobody will accept any more go with the listener.
        let requests = self
            .channels
            .get_mut(&id.channel)
            .map(|channel| channel.forget(handle))
            .unwrap_or_default();
        self.announce_on(id.channel);
        for request in requests {
            self.remove_id(request, host);
        }
        id.reported
    }

    fn stop_listening(&mut self, service: u64, handle: u32, host: &Host<'_>) {
        let Some(entry) = self.services.get_mut(&service) else {
            return;
        };
        entry.ids.retain(|id| *id != handle);
        if entry.ids.is_empty() {
            self.pause(service, host);
        }
    }
}

/// Values by small numbers that are used again.
#[derive(Debug)]
struct Table<T> {
    entries: Vec<Option<Box<T>>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Table<T> {
    fn insert(&mut self, value: T) -> Result<u32, Errno> {
        if let Some(handle) = self.free.pop() {
            self.entries[handle as usize] = Some(Box::new(value));
            return Ok(handle);
        }
        if self.entries.len() >= MAX_IDS {
            return Err(Errno::NOMEM);
        }
        self.entries.push(Some(Box::new(value)));
        Ok(self.entries.len() as u32 - 1)
    }

    fn get(&self, handle: u32) -> Option<&T> {
        self.entries.get(handle as usize)?.as_deref()
    }

    fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        self.entries.get_mut(handle as usize)?.as_deref_mut()
    }

    fn remove(&mut self, handle: u32) -> Option<T> {
        let value = self.entries.get_mut(handle as usize)?.take()?;
        self.free.push(handle);
        Some(*value)
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(i, value)| Some((i as u32, value.as_deref()?)))
    }

    fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_documents() {
        let page = include_str!("../../../../docs/architecture.md");
        let thousands = |n: usize| format!("{},{:03}", n / 1_000, n % 1_000);
        let said = format!(
            "of each peer ({}), at each listener ({}) and in all ({})",
            thousands(HALF_OPEN_OF_PEER),
            thousands(MAX_BACKLOG as usize),
            thousands(HALF_OPEN)
        );
        assert!(page.contains(&said), "docs/architecture.md: {said}");
    }
}
