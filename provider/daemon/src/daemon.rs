//! The daemon: which services it is composed of, how it starts, and how it cleans up. What is of
//! several of them is here, too: what a change of one means to the others. Its loop is in
//! `event_loop`.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use ferroce_control::rtnetlink::Socket;
use ferroce_control::{DeviceInfo, Event, RuntimeDir, loopback};

use crate::DaemonError;
use crate::adapter::Adapter;
use crate::attention::Attention;
use crate::captures::Captures;
use crate::claims::Claims;
use crate::clients::Clients;
use crate::config::Settings;
use crate::counting::Counting;
use crate::description::Description;
use crate::device::{self, Source};
use crate::faults::Faults;
use crate::gids::GidTable;
use crate::group::Group;
use crate::gsi::{Gsi, Served};
use crate::hosts::Hosts;
use crate::ib::Happened;
use crate::ib_ports::IbPorts;
use crate::limits;
use crate::lock::Lock;
use crate::nldev;
use crate::place::Place;
use crate::poller::Poller;
use crate::port::Interfaces;
use crate::real;
use crate::service::Service;
use crate::stay::Stay;
use crate::sysfs::View;
use crate::ucma;
use crate::umad;
use crate::users::Users;

/// How many MADs are carried before others have their turn. Two agents of one port can keep each
/// other busy.
const TURN: usize = 4096;

/// A running `ferroced`: one device on one runtime directory.
#[derive(Debug)]
pub struct Daemon {
    pub(crate) adapter: Adapter,
    pub(crate) interfaces: Interfaces,
    pub(crate) clients: Clients,
    /// The connection manager.
    pub(crate) rdma_cm: ucma::Server,
    /// What programs do with MADs.
    pub(crate) umad: umad::Server,
    /// Programs' netlink sockets.
    pub(crate) netlink: nldev::Server,
    pub(crate) gsi: Gsi,
    pub(crate) stay: Stay,
    pub(crate) attention: Attention,
    /// The last to go: until then nobody else has the directory.
    pub(crate) place: Place,
}

impl Daemon {
    /// Starts: takes the runtime directory and the addresses, writes the image and begins to
    /// listen. When this returns, clients can connect; they are served by [`run`](Self::run).
    pub fn start(dir: RuntimeDir, settings: Settings) -> Result<Self, DaemonError> {
        let lock = Lock::take(&dir)?;
        limits::check()?;
        let (interfaces, snapshot) = Interfaces::start()?;
        device::check_name(&settings.name)?;
        let found = first_free(&settings)?;
        let loopback = found.as_ref().map(Group::ip);
        let source = Source::choose(&settings, &snapshot, loopback)?;
        let info = device::identify(&settings, &source, &snapshot);
        let users = Users::named(settings.group.as_deref())?;
        let place = Place::new(dir, lock, users)?;
        let poller = Poller::new().map_err(DaemonError::os("creating an epoll"))?;

        let ports = settings.cables.len().max(1) as u8;
        let now = Instant::now();
        let mut daemon = Self {
            clients: Clients::start(place.dir(), users)?,
            rdma_cm: ucma::Server::start(place.dir(), &info, users, &poller)?,
            umad: umad::Server::start(place.dir(), &poller)?,
            netlink: nldev::Server::start(place.dir(), users, &poller)?,
            gsi: Gsi::new(ports, now),
            attention: Attention::default(),
            stay: Stay::new(settings.idle_exit, now),
            interfaces,
            adapter: Adapter {
                settings,
                source,
                snapshot,
                kernel: Socket::default(),
                description: Description::of(&info.name),
                info,
                gids: GidTable::default(),
                groups: found.into_iter().collect(),
                ib: IbPorts::default(),
                first_umad: real::free_umad_number(),
                claims: Claims::default(),
                captures: Captures::default(),
                counting: Counting::new(now)?,
                faults: Faults::default(),
                hosts: Hosts::new(now),
                poller,
                started: now,
            },
            place,
        };

        let tap = daemon.adapter.captures.tap().clone();
        daemon.gsi.watched_by(tap);
        match daemon.open() {
            Ok(()) => Ok(daemon),
            Err(error) => {
                daemon.clean_up();
                Err(error)
            }
        }
    }

    fn open(&mut self) -> Result<(), DaemonError> {
        match self.adapter.settings.cables.is_empty() {
            true => self.adapter.open_first_addresses()?,
            false => self.adapter.open_cables()?,
        }

        self.settle();
        self.refresh_image()?;
        self.take_descriptions();
        self.refresh_image()?;
        self.clients.open(&self.adapter.poller)?;
        self.interfaces.open(&self.adapter.poller)?;
        let info = &self.adapter.info;
        tracing::info!(
            device = info.name,
            netdev = info.netdev,
            mtu = info.active_mtu,
            rcvbuf = info.rcvbuf,
            addresses = self.adapter.addresses(),
            "serving at {}",
            self.place.dir().path().display()
        );

        self.remember()
    }

    /// Leaves word of how the device is configured.
    fn remember(&self) -> Result<(), DaemonError> {
        let Adapter {
            settings, source, ..
        } = &self.adapter;
        self.place
            .remember(&settings.remembered(source.fixed(), source.netdev()))
    }

    /// Stays without programs, too, and so does the daemon that is started should this one die.
    pub(crate) fn remain(&mut self) {
        self.stay.remain();
        self.adapter.settings.idle_exit = None;
        if let Err(error) = self.remember() {
            tracing::warn!(%error, "it is not remembered that the daemon is to stay");
        }
    }

    /// The device.
    pub fn info(&self) -> &DeviceInfo {
        &self.adapter.info
    }

    /// What it is composed of.
    pub(crate) fn services(&self) -> [&dyn Service; 9] {
        [
            &self.adapter,
            &self.adapter.hosts,
            &self.interfaces,
            &self.clients,
            &self.rdma_cm,
            &self.umad,
            &self.netlink,
            &self.gsi,
            &self.stay,
        ]
    }

    /// Those whom a MAD may be for.
    pub(crate) fn served(&mut self) -> Served<'_> {
        Served {
            gsi: &mut self.gsi,
            rdma_cm: &mut self.rdma_cm,
            umad: &mut self.umad,
            adapter: &mut self.adapter,
        }
    }

    /// Carries what services have for each other, until none has any more: MADs to and from the
    /// ports, and what has become of these.
    pub(crate) fn settle(&mut self) {
        let mut carried = 0;
        let mut events = Vec::new();
        loop {
            let happened = self.adapter.ib.happened();
            let looped = self.gsi.looped();
            let (mut messages, mads) = (self.rdma_cm.outgoing(), self.umad.outgoing());
            messages.extend(self.adapter.hosts.outgoing());
            for asker in self.adapter.hosts.news() {
                self.clients.tell(asker, Event::Hosts, &mut self.adapter);
            }
            let quiet = happened.is_empty() && looped.is_empty();
            if quiet && messages.is_empty() && mads.is_empty() {
                if !self.ports_changed(&std::mem::take(&mut events)) {
                    return;
                }
                continue;
            }

            for happened in happened {
                match happened {
                    Happened::Mad(incoming) => self.served().serve(&incoming),
                    Happened::Port(port, event) => {
                        let number = event.verbs_number();
                        events.extend(number.map(|event| Event::Port { port, event }));
                    }
                }
            }

            for incoming in looped {
                self.served().serve(&incoming);
            }

            // To this device's own addresses, too, by the wire, where all messages of connections
            // can be seen, as questions to other hosts.
            for mad in messages {
                self.gsi.put_on_wire(&mad, &mut self.adapter);
            }

            for mad in mads {
                carried += 1;
                if carried > TURN {
                    tracing::debug!("MADs run in a circle");
                    self.ports_changed(&events);
                    return;
                }
                self.gsi.send(&mad, &mut self.adapter);
            }
        }
    }

    /// Tells others of what has become of InfiniBand ports. `false`: nothing.
    fn ports_changed(&mut self, events: &[Event]) -> bool {
        // A port that is trained, or armed, is no event, but others can see it.
        if !self.adapter.ib_refresh() && events.is_empty() {
            return false;
        }
        if !events.is_empty() {
            tracing::debug!(?events, "the ports have changed");
        }
        self.show();
        for event in events {
            self.clients.broadcast(*event, &mut self.adapter);
        }
        self.rdma_cm.ports_changed(&self.adapter.for_rdma_cm());
        true
    }

    /// Looks at the interfaces again and tells others what is different.
    pub(crate) fn interfaces_changed(&mut self) {
        let Some(hardware) = self.interfaces.look(&mut self.adapter) else {
            return;
        };

        for ifindex in hardware {
            let around = self.adapter.for_rdma_cm();
            self.rdma_cm.hardware_changed(ifindex, &around);
        }

        let name = self.adapter.source.netdev().to_owned();
        let change = self.interfaces.follow(&mut self.adapter);
        if self.adapter.source.netdev() != name
            && let Err(error) = self.remember()
        {
            tracing::warn!(%error, "the interface's new name is not remembered");
        }
        if change.gids || change.device {
            self.show();
        }

        if change.gids {
            let addresses = self.adapter.addresses();
            tracing::info!(addresses, "the GID table has changed");
            self.rdma_cm.addresses_changed(&self.adapter.for_rdma_cm());
            self.clients.broadcast(Event::GidChange, &mut self.adapter);
        }

        // Before the state: who is told that the port is up may ask for the rest at once.
        if change.link {
            let DeviceInfo {
                active_mtu,
                speed_mbps,
                ..
            } = self.adapter.info;
            tracing::info!(active_mtu, speed_mbps, "the link has changed");
            let event = Event::Link {
                active_mtu,
                speed_mbps,
            };
            self.clients.broadcast(event, &mut self.adapter);
        }

        if change.state {
            let active = self.adapter.info.port_active;
            tracing::info!(active, "the port has changed");
            let event = Event::PortState { active };
            self.clients.broadcast(event, &mut self.adapter);
        }
    }

    /// Brings the image up to date, if that can be done.
    pub(crate) fn show(&mut self) {
        if let Err(error) = self.refresh_image() {
            tracing::error!(%error, "the sysfs image is out of date");
        }
    }

    fn refresh_image(&mut self) -> Result<(), DaemonError> {
        let adapter = &self.adapter;
        let shown = adapter.performance();
        let counters = (1..=adapter.ports()).map(|port| self.gsi.pma.named(port, &shown));
        let ib_ports = adapter.ib.described();
        self.place.show(&View {
            info: &adapter.info,
            description: (
                adapter.description.text(),
                adapter.description.is_writable(),
            ),
            ib_ports: &ib_ports,
            first_umad: adapter.first_umad,
            gids: adapter.gids.entries().collect(),
            counters: counters.collect(),
            hw_counters: shown.sums.hw_counters(),
            cm_messages: self.rdma_cm.messages(),
        })
    }

    /// Leaves nothing behind but clients' connections.
    pub(crate) fn clean_up(&mut self) {
        // It has sockets of the cables', too.
        if let Some(mut fabric) = self.adapter.ib.fabric.take() {
            fabric.leave();
        }
        self.place.clean_up();
        self.adapter.groups.clear();
    }
}

/// The sockets of the first loopback address that is free, if the settings name no address at all.
fn first_free(settings: &Settings) -> Result<Option<Group>, DaemonError> {
    if !settings.addrs.is_empty() || settings.netdev.is_some() {
        return Ok(None);
    }

    let mut taken = None;
    for ip in loopback::addresses() {
        match Group::open(ip, 0, settings.receive_buffer) {
            Ok(group) => {
                if let Some(error) = taken {
                    tracing::info!(address = %ip, "{error}");
                }
                return Ok(Some(group));
            }
            // The first says the most.
            Err(error @ DaemonError::PortTaken { .. }) => taken = taken.or(Some(error)),
            Err(error) => return Err(error),
        }
    }

    Err(taken.unwrap_or_else(|| DaemonError::NoAddress { name: "lo".into() }))
}

impl AsFd for Daemon {
    /// The control socket.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.clients.listener().as_fd()
    }
}
