//! The daemon itself: everything it holds, how it starts, its loop, and how it leaves. What clients ask
//! is in `requests`, what the interface does in `port`.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use ferroce_control::{
    Counter, CounterPage, DeviceInfo, Event, IbPort, MAX_PORTS, RuntimeDir, loopback, seqpacket,
};
use ferroce_fabric::pma::Pma;
use nix::sys::signalfd::SignalFd;

use crate::DaemonError;
use crate::config::Settings;
use crate::connection::{Connection, claimed_as};
use crate::device::{self, Source};
use crate::door::Door;
use crate::gids::GidTable;
use crate::group::{self, Group};
use crate::ib::Fabric;
use crate::image::Image;
use crate::interfaces::{Snapshot, Watch};
use crate::limits;
use crate::lock::Lock;
use crate::nldev;
use crate::poller::{Poller, Ready, Token};
use crate::real;
use crate::slots::Slots;
use crate::sysfs::View;
use crate::totals::Totals;
use crate::ucma::{Server, Surroundings};
use crate::umad;

/// How often the counters in the image are brought up to date.
const REFRESH: Duration = Duration::from_secs(1);

/// How long programs have for the connection manager's ids when the device goes.
const FAREWELL: Duration = Duration::from_millis(500);

/// How many packets are drained of one socket before others have their turn.
const DRAIN_BATCH: usize = 256;

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
    leave_at: Option<Instant>,
    image: Image,
    watch: Watch,
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
    pub(crate) fabric: Option<Fabric>,
    /// The ports as the image shows them.
    pub(crate) ib_shown: Vec<IbPort>,
    /// Their GIDs, with the IP addresses that go with them.
    pub(crate) ib_gids: GidTable,
    /// Who answers questions about performance.
    pub(crate) pma: Pma,
    pub(crate) own: CounterPage,
    pub(crate) departed: Totals,
    /// Packets with wrong keys that the subnet manager has been told of, by port and key.
    pub(crate) reported: [[u64; 2]; MAX_PORTS],
    pub(crate) refreshed: Instant,
    /// Whether sums may have changed since though nobody is attached.
    pub(crate) dirty: bool,
    /// Since when there has been nobody.
    idle_since: Option<Instant>,
    pub(crate) buffer: Vec<u8>,
    lock: Option<Lock>,
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
            fabric: None,
            ib_shown: Vec::new(),
            ib_gids: GidTable::default(),
            pma: Pma::new(1, ports),
            own: CounterPage::private()?,
            departed: Totals::default(),
            reported: [[0; 2]; MAX_PORTS],
            refreshed: now,
            dirty: false,
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

    /// Serves until a client asks it to stop, one of `signals` comes, or it has been idle for as long as
    /// the settings say; then cleans up the runtime directory.
    pub fn run(mut self, signals: Option<&SignalFd>) -> Result<(), DaemonError> {
        if let Some(signals) = signals {
            self.poller
                .add(signals, Token::Signals)
                .map_err(DaemonError::os("watching for signals"))?;
        }
        let result = loop {
            match self.turn(signals) {
                Ok(()) if self.may_leave() => break Ok(()),
                Ok(()) => {}
                Err(error) => break Err(error),
            }
        };
        self.clean_up();
        match (&result, &mut self.lock) {
            (Ok(()), Some(lock)) => lock.forget(),
            // It has died, as it were: its log is to be read, and who finds it gone shall start it again as it was.
            (Err(_), Some(lock)) => lock.keep_log(),
            (_, None) => {}
        }
        self.lock = None;
        // The last word comes after the clean-up, so that who waits for it can start anew at once.
        for connection in self.connections.values_mut() {
            connection.push_event(Event::Shutdown);
            let _ = connection.flush_events();
        }
        result
    }

    /// Whether it is asked to stop, and programs have had their chance to let go of the connection manager.
    fn may_leave(&mut self) -> bool {
        if !self.stopping {
            return false;
        }
        let until = match self.leave_at {
            Some(until) => until,
            None => {
                self.with_rdma_cm(|server, around| server.remove_device(around));
                *self.leave_at.insert(Instant::now() + FAREWELL)
            }
        };
        self.rdma_cm.is_gone() || until <= Instant::now()
    }

    fn turn(&mut self, signals: Option<&SignalFd>) -> Result<(), DaemonError> {
        let timeout = self
            .next_deadline()
            .map(|at| at.saturating_duration_since(Instant::now()));
        let ready = self
            .poller
            .wait(timeout)
            .map_err(DaemonError::os("waiting for something to do"))?;
        for ready in ready {
            self.handle(ready, signals);
        }
        let now = Instant::now();
        let doors = [
            &mut self.door,
            &mut self.rdma_cm.door,
            &mut self.umad.door,
            &mut self.netlink.door,
        ];
        for door in doors {
            door.reopen(now, &self.poller);
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.interfaces_changed();
        }
        if now.saturating_duration_since(self.refreshed) >= REFRESH {
            self.refreshed = now;
            self.dirty = false;
            if let Err(error) = self.refresh_image() {
                tracing::error!(%error, "the sysfs image is out of date");
            }
        }
        if self.rdma_cm.next_timeout().is_some_and(|at| at <= now) {
            self.with_rdma_cm(|server, around| server.handle_timeout(around));
        }
        if self.pma_timeout().is_some_and(|at| at <= now) {
            let shown = self.performance();
            self.pma.handle_timeout(self.clock(), &shown);
        }
        if self.ib_timeout().is_some_and(|at| at <= now) {
            self.ib_tick();
        }
        if self.umad.next_timeout().is_some_and(|at| at <= now) {
            self.with_umad(umad::Server::handle_timeout);
        }
        let used = !self.connections.is_empty()
            || !self.holds.is_empty()
            || !self.rdma_cm.is_idle()
            || !self.umad.is_idle()
            || !self.netlink.is_idle();
        self.idle_since = match !used {
            true => self.idle_since.or(Some(now)),
            false => None,
        };
        if self.idle_deadline().is_some_and(|at| at <= now) {
            tracing::info!("nobody has needed the device for a while: leaving");
            self.stopping = true;
        }
        Ok(())
    }

    fn idle_deadline(&self) -> Option<Instant> {
        Some(self.idle_since? + self.settings.idle_exit?)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let attached = || self.connections.values().any(|c| c.claimed.is_some());
        let counting = self.dirty || attached();
        let refresh = counting.then(|| self.refreshed + REFRESH);
        let cm = self.rdma_cm.next_timeout();
        let doors = [
            &self.door,
            &self.rdma_cm.door,
            &self.umad.door,
            &self.netlink.door,
        ];
        [
            doors.iter().filter_map(|door| door.reopens_at()).min(),
            refresh,
            self.idle_deadline(),
            self.retry_at,
            cm,
            self.umad.next_timeout(),
            self.pma_timeout(),
            self.ib_timeout(),
            self.leave_at,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn handle(&mut self, ready: Ready, signals: Option<&SignalFd>) {
        match ready.token {
            Token::Listener => self.accept(),
            Token::Signals => {
                if let Some(Ok(Some(info))) = signals.map(SignalFd::read_signal) {
                    tracing::info!(signal = info.ssi_signo, "asked to leave");
                }
                self.stopping = true;
            }
            Token::Interfaces => {
                self.watch.drain();
                self.interfaces_changed();
            }
            Token::Connection(id) => {
                if ready.writable {
                    self.flush(id);
                }
                if ready.readable {
                    self.serve(id);
                }
            }
            Token::Process(id) => {
                tracing::debug!(id, "a client's process has died");
                self.disconnect(id);
            }
            Token::Hold(id) => self.let_go(id),
            Token::Slot { group, slot: 0 } => self.receive_mads(group),
            Token::Slot { group, slot } => self.drain(group, slot, DRAIN_BATCH),
            Token::CmListener => self.with_rdma_cm(|server, around| server.accept(around.poller)),
            Token::CmSession(id) => self.with_rdma_cm(|server, around| server.serve(id, around)),
            Token::CmChannel(id) => self.with_rdma_cm(|server, around| server.hung_up(id, around)),
            Token::CmProcess(id) => self.with_rdma_cm(|server, around| server.died(id, around)),
            Token::UmadListener => self.with_umad(umad::Server::accept),
            Token::UmadSession(id) => {
                self.with_umad(|server, around| server.serve(id, around));
                self.ib_update_sm();
            }
            Token::NetlinkListener => self.netlink.accept(&self.poller),
            Token::NetlinkSession(id) => self.serve_netlink(id),
            Token::UmadFile(inode) => {
                let room = ready.writable && !ready.readable;
                self.with_umad(|server, around| server.file_event(inode, room, around));
                self.ib_update_sm();
            }
        }
    }

    /// Lends the connection manager what it needs of the rest.
    pub(crate) fn with_rdma_cm(&mut self, act: impl FnOnce(&mut Server, &Surroundings<'_>)) {
        self.with_rdma_cm_and_groups(|server, around, _| act(server, around));
    }

    /// Handles what came for slot 0: QP1's datagrams, and what is for nobody.
    fn receive_mads(&mut self, group: usize) {
        if self.ib_receive(group) {
            return;
        }
        let came = self.with_rdma_cm_and_groups(|server, around, groups| {
            let group = groups.get(group)?;
            let socket = group.existing(0)?;
            Some(server.receive(socket, group.ip(), around))
        });
        self.dirty |= came.is_some();
        for (from, src_qp, mad) in came.unwrap_or_default() {
            self.gmp_came(&from, src_qp, mad);
        }
    }

    pub(crate) fn with_rdma_cm_and_groups<R>(
        &mut self,
        act: impl FnOnce(&mut Server, &Surroundings<'_>, &[Group]) -> R,
    ) -> R {
        let heard = |qp: u32| {
            let claimed = claimed_as(&self.connections, (qp >> 16) as u8);
            claimed.is_some_and(|claimed| claimed.objects.heard(qp as u16))
        };
        let around = Surroundings {
            gids: match self.fabric {
                Some(_) => &self.ib_gids,
                None => &self.gids,
            },
            info: &self.info,
            snapshot: &self.snapshot,
            ports: &self.ib_shown,
            poller: &self.poller,
            counters: &self.own,
            heard: &heard,
        };
        let result = act(&mut self.rdma_cm, &around, &self.groups);
        if self.fabric.is_some() {
            for mad in self.rdma_cm.outgoing() {
                self.send_mad(&mad);
            }
        }
        result
    }

    /// Throws away packets that came for nobody, and counts them.
    pub(crate) fn drain(&mut self, group: usize, slot: u8, limit: usize) {
        let Some(socket) = self
            .groups
            .get(group)
            .and_then(|group| group.existing(slot))
        else {
            return;
        };
        let (packets, _) = group::drain(socket, limit);
        if packets > 0 {
            self.own.add(Counter::RxUnknownQp, packets);
            self.dirty = true;
            self.slots.disturb(Instant::now(), slot);
        }
    }

    /// The sums as of now.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.departed.clone();
        totals.add(&self.own);
        for claimed in self.connections.values().filter_map(|c| c.claimed.as_ref()) {
            totals.add(&claimed.counters);
        }
        totals
    }

    /// Brings the image up to date.
    pub(crate) fn refresh_image(&mut self) -> Result<(), DaemonError> {
        let totals = self.totals();
        let shown = self.performance();
        let counters = (1..=self.info.ib_ports.max(1)).map(|port| self.pma.named(port, &shown));
        let counters: Vec<_> = counters.collect();
        let ib_ports = self.ib_ports();
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
    fn clean_up(&mut self) {
        if let Some(fabric) = &mut self.fabric {
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
