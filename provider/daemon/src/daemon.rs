//! The daemon itself: everything it holds, how it starts, and how it cleans up. Its loop is in `event_loop`, what clients ask in
//! `requests`, what the interface does in `port`.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use ferroce_control::{DeviceInfo, RuntimeDir, loopback, seqpacket};

use crate::DaemonError;
use crate::config::Settings;
use crate::connection::Connection;
use crate::counting::Counting;
use crate::device::{self, Source};
use crate::door::Door;
use crate::gids::GidTable;
use crate::group::Group;
use crate::gsi::Gsi;
use crate::ib_ports::IbPorts;
use crate::image::Image;
use crate::interfaces::{Snapshot, Watch};
use crate::limits;
use crate::lock::Lock;
use crate::nldev;
use crate::poller::{Poller, Token};
use crate::real;
use crate::slots::Slots;
use crate::sysfs::View;
use crate::totals::Totals;
use crate::ucma::Server;
use crate::umad;

/// A running `ferroced`: one device on one runtime directory.
#[derive(Debug)]
pub struct Daemon {
    pub(crate) dir: RuntimeDir,
    pub(crate) settings: Settings,
    pub(crate) source: Source,
    pub(crate) snapshot: Snapshot,
    pub(crate) info: DeviceInfo,
    pub(crate) gids: GidTable,
    /// One for each address that ever was in the table; the order never changes.
    pub(crate) groups: Vec<Group>,
    /// When to try again addresses that could not be opened.
    pub(crate) retry_at: Option<Instant>,
    pub(crate) slots: Slots,
    pub(crate) connections: HashMap<u64, Connection>,
    /// Pipes whose other ends programs hold, so that the daemon stays.
    pub(crate) holds: HashMap<u64, OwnedFd>,
    pub(crate) poller: Poller,
    pub(crate) started: Instant,
    pub(crate) stopping: bool,
    /// When to leave at the latest, once it is asked to stop.
    pub(crate) leave_at: Option<Instant>,
    image: Image,
    pub(crate) watch: Watch,
    pub(crate) door: Door,
    pub(crate) last_id: u64,
    /// The connection manager.
    pub(crate) rdma_cm: Server,
    /// What programs do with MADs.
    pub(crate) umad: umad::Server,
    /// Programs' netlink sockets.
    pub(crate) netlink: nldev::Server,
    /// The number of the first port's umad file.
    pub(crate) first_umad: u32,
    /// The ports, if they are InfiniBand's.
    pub(crate) ib: IbPorts,
    pub(crate) gsi: Gsi,
    pub(crate) counting: Counting,
    /// Since when there has been nobody.
    pub(crate) idle_since: Option<Instant>,
    pub(crate) buffer: Vec<u8>,
    pub(crate) lock: Option<Lock>,
}

impl Daemon {
    /// Starts: takes the runtime directory and the addresses, writes the image and begins to listen.
    /// When this returns, clients can connect; they are served by [`run`](Self::run).
    pub fn start(dir: RuntimeDir, settings: Settings) -> Result<Self, DaemonError> {
        let lock = Lock::take(&dir)?;
        limits::check()?;
        // Watch first, look then: nothing is missed between.
        let watch = Watch::new().map_err(DaemonError::os("watching the interfaces"))?;
        let snapshot = Snapshot::read().map_err(DaemonError::os("reading the interfaces"))?;
        device::check_name(&settings.name)?;
        let found = first_free(&settings)?;
        let loopback = found.as_ref().map(Group::ip);
        let source = Source::choose(&settings, &snapshot, loopback)?;
        let info = device::identify(&settings, &source, &snapshot);
        let image = Image::create(lock.premises())?;
        let poller = Poller::new().map_err(DaemonError::os("creating an epoll"))?;

        let door = Door::listen(&dir.socket(), 512, Token::Listener)?;
        let rdma_cm = Server::start(&dir, &info, &poller)?;
        let umad = umad::Server::start(&dir, &poller)?;
        let netlink = nldev::Server::start(&dir, &poller)?;
        let ports = settings.cables.len().max(1) as u8;
        let now = Instant::now();
        let mut daemon = Self {
            dir,
            settings,
            source,
            snapshot,
            info,
            gids: GidTable::default(),
            groups: found.into_iter().collect(),
            retry_at: None,
            slots: Slots::default(),
            connections: HashMap::new(),
            holds: HashMap::new(),
            poller,
            started: now,
            stopping: false,
            leave_at: None,
            image,
            watch,
            door,
            last_id: 0,
            rdma_cm,
            umad,
            netlink,
            first_umad: real::free_umad_number(),
            ib: IbPorts::default(),
            gsi: Gsi::new(ports, now),
            counting: Counting::new(now)?,
            idle_since: Some(now),
            buffer: seqpacket::buffer(),
            lock: Some(lock),
        };
        match daemon.open().and_then(|()| daemon.remember()) {
            Ok(()) => Ok(daemon),
            Err(error) => {
                daemon.clean_up();
                Err(error)
            }
        }
    }

    fn open(&mut self) -> Result<(), DaemonError> {
        match self.settings.cables.is_empty() {
            true => self.open_first_addresses()?,
            false => self.open_cables()?,
        }
        self.refresh_image()?;
        self.door.watch(&self.poller)?;
        self.poller
            .add(&self.watch, Token::Interfaces)
            .map_err(DaemonError::os("watching the interfaces"))?;
        let gids: Vec<String> = self
            .gids
            .entries()
            .map(|gid| gid.addr.to_string())
            .collect();
        tracing::info!(
            device = self.info.name,
            netdev = self.info.netdev,
            mtu = self.info.active_mtu,
            rcvbuf = self.info.rcvbuf,
            addresses = gids.join(" "),
            "serving at {}",
            self.dir.path().display()
        );
        Ok(())
    }

    /// Leaves word of how the device is configured, for who finds that this daemon has died.
    fn remember(&self) -> Result<(), DaemonError> {
        let config = self.settings.remembered(self.source.fixed());
        match &self.lock {
            Some(lock) => lock.remember(&config),
            None => Ok(()),
        }
    }

    /// The device.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// The sums as of now.
    pub(crate) fn totals(&self) -> Totals {
        self.counting.totals(&self.connections)
    }

    /// Brings the image up to date.
    pub(crate) fn refresh_image(&mut self) -> Result<(), DaemonError> {
        let totals = self.totals();
        let shown = self.performance();
        let counters = (1..=self.info.ib_ports.max(1)).map(|port| self.gsi.pma.named(port, &shown));
        let counters: Vec<_> = counters.collect();
        let ib_ports = self.ib.described();
        self.image.show(&View {
            info: &self.info,
            ib_ports: &ib_ports,
            first_umad: self.first_umad,
            gids: self.gids.entries().collect(),
            counters,
            hw_counters: totals.hw_counters(),
            cm_messages: self.rdma_cm.messages(),
        })
    }

    /// Leaves nothing behind but clients' connections.
    pub(crate) fn clean_up(&mut self) {
        if let Some(fabric) = &mut self.ib.fabric {
            fabric.leave();
        }
        let _ = fs::remove_file(self.dir.socket());
        let _ = fs::remove_file(self.dir.rdma_cm());
        let _ = fs::remove_file(self.dir.umad());
        let _ = fs::remove_file(self.dir.netlink());
        if let Err(error) = self.image.remove() {
            tracing::warn!(%error, "cannot clean up");
        }
        self.groups.clear();
        if let Some(lock) = &self.lock {
            lock.remove_links();
        }
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
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.door.listener().as_fd()
    }
}
