//! Everything that programs have of the server: channels, ids, groups, ports, services, and what is
//! asked of others for them. What becomes of it is in the modules above, each of which knows this
//! one and few of its kind.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use ferroce_control::random::random;
use ferroce_control::{ControlError, DeviceInfo, Generations};
use ferroce_fabric::cm::{Cm, CmConfig, CmId, Limits, Time};
use rustix::io::Errno;

use super::channel::{Caller, Channel};
use super::faults::Faults;
use super::groups::Group;
use super::id::{Id, State};
use super::names::Names;
use super::neighbours::Neighbours;
use super::outbox::Outbox;
use super::ports::Ports;
use super::questions::Questions;
use super::quotas::{MAX_REQUESTED, Quotas};
use super::services::{MAX_BACKLOG, MAX_LISTENERS, Services};
use super::table::{MAX_IDS, Table};

/// Connections that are being made at the same time; the oldest makes room. Ten thousand of one
/// peer's at one listener are in use (cmtime), and have to be within the bounds.
const HALF_OPEN: usize = 5 << 12;
const HALF_OPEN_OF_PEER: usize = 3 << 12;
const _: () = assert!(HALF_OPEN_OF_PEER < MAX_BACKLOG as usize);
const _: () = assert!((MAX_BACKLOG as usize) < HALF_OPEN && HALF_OPEN < MAX_REQUESTED);

/// Everything the programs have.
pub(crate) struct Ucma {
    pub(super) channels: HashMap<u64, Channel>,
    /// The channels' numbers.
    pub(super) numbers: Table<u64>,
    /// Channels that may have something to announce.
    pub(super) unannounced: Vec<u64>,
    pub(super) ids: Table<Id>,
    pub(super) quotas: Quotas,
    pub(super) generations: Generations,
    pub(super) groups: Table<Group>,
    pub(super) ports: Ports,
    pub(super) services: Services,
    pub(super) by_cm: HashMap<CmId, u32>,
    pub(super) cm: Cm,
    pub(super) questions: Questions,
    pub(super) names: Names,
    pub(super) neighbours: Neighbours,
    /// When memberships in groups are asked for again.
    pub(super) regroup_at: Option<Time>,
    pub(super) faults: Faults,
    pub(super) out: Outbox,
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
    pub(super) fn new(info: &DeviceInfo) -> Result<Self, ControlError> {
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
            quotas: Quotas::default(),
            generations: Generations::create()?,
            groups: Table::default(),
            ports: Ports::default(),
            services: Services::default(),
            by_cm: HashMap::new(),
            cm: Cm::new(config),
            questions: Questions::default(),
            names: Names::default(),
            neighbours: Neighbours::default(),
            regroup_at: None,
            faults: Faults::default(),
            out: Outbox::default(),
        })
    }

    /// Adds a channel, whose other end is `inode` to its program, process `pid` of session
    /// `session`. Returns its number.
    pub(super) fn open(
        &mut self,
        inode: u64,
        socket: OwnedFd,
        opener: Caller,
    ) -> Result<u32, Errno> {
        let number = self.numbers.insert(inode)?;
        self.channels
            .insert(inode, Channel::new(socket, opener, number));
        Ok(number)
    }

    /// An id as a command on a channel names it, which is about to change it.
    pub(super) fn id(&mut self, channel: u64, handle: u32) -> Result<&mut Id, Errno> {
        self.look(channel, handle)?;
        self.generations.touch(handle);
        self.existing(handle)
    }

    /// An id as a command on a channel names it, which asks about it.
    pub(super) fn look(&self, channel: u64, handle: u32) -> Result<&Id, Errno> {
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

    /// Whether a channel has an id, in whatever state.
    pub(super) fn check_known(&self, channel: u64, handle: u32) -> Result<(), Errno> {
        match self.ids.get(handle).filter(|id| id.known) {
            Some(id) if id.channel == channel => Ok(()),
            Some(_) => Err(Errno::INVAL),
            None => Err(Errno::NOENT),
        }
    }

    /// An id that exists for certain.
    pub(super) fn existing(&mut self, handle: u32) -> Result<&mut Id, Errno> {
        self.ids.get_mut(handle).ok_or(Errno::NOENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_documents() {
        let page = include_str!("../../../../docs/architecture/strangers.md");
        let thousands = |n: usize| format!("{},{:03}", n / 1_000, n % 1_000);
        let said = format!(
            "of each peer ({}), at each listener ({}) and in all ({})",
            thousands(HALF_OPEN_OF_PEER),
            thousands(MAX_BACKLOG as usize),
            thousands(HALF_OPEN)
        );
        assert!(
            page.contains(&said),
            "docs/architecture/strangers.md: {said}"
        );
    }
}
