//! The device as one process has it: the slot, the tables, the sockets.

mod clock;
mod control;
mod faults;
mod gids;
mod hosts;
mod introductions;
mod lanes;
mod link;
mod notices;
mod open;
mod port_state;
mod shared;
mod sockets;

use std::collections::{HashMap, HashSet};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use ferroce_control::objects::ObjectTable;
use ferroce_control::random::random;
use ferroce_control::switches::Recovery;
use ferroce_control::{
    Attachment, Client, Counter, CounterPage, DeviceInfo, GidEntry, Network, switches,
};
use ferroce_transport::AtomicTime;
use parking_lot::{Mutex, RwLock};

use self::control::Control;
pub use self::gids::Gid;
use self::hosts::Hosts;
use self::lanes::Lanes;
use self::link::Link;
pub(crate) use self::shared::Tables;
use crate::datapath::backlog::Backlog;
use crate::datapath::held::Company;
use crate::datapath::path::Path;
use crate::datapath::rx::state::RxState;
use crate::datapath::turns::Turn;
use crate::error::{Error, Result};
use crate::forks;
use crate::instrument::Taps;
use crate::locks;
use crate::memory::dm_use::DmUse;
use crate::memory::keys::KeyTable;
use crate::port::Ports;
use crate::port::address::PathKey;
use crate::port::receiver::Receiver;
use crate::port::ring::{Inbox, Ways};
use crate::progress::answers::Answers;
use crate::progress::crowd::Crowd;
use crate::progress::driver::Driver;
use crate::progress::timers::{Alarm, Timers};
use crate::verbs::ah_table::AhTable;
use crate::verbs::async_events::AsyncEvents;
use crate::verbs::groups::Multicast;
use crate::verbs::limits::DeviceAttr;
use crate::verbs::places::Places;
use crate::verbs::qp::Qp;
use crate::verbs::table::Table;
use crate::verbs::xrc::Domains;

/// How many objects of a kind there are.
#[derive(Default)]
pub(crate) struct Count(AtomicU32);

impl Count {
    pub(crate) fn take(&self, limit: u32, what: &'static str) -> Result<()> {
        let more = |n: u32| (n < limit).then_some(n + 1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map(drop)
            .map_err(|_| Error::Full(what))
    }

    pub(crate) fn give_back(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) pd: Count,
    pub(crate) cq: Count,
    pub(crate) srq: Count,
}

/// The device in this process, or one lane of it (see `lanes`).
pub struct Hca {
    control: Control,
    /// Its further lanes.
    lanes: Lanes<Hca>,
    vectors: u32,
    /// Threads that take what the daemon has told.
    noticing: AtomicU32,
    info: DeviceInfo,
    /// Where the daemon's sockets are.
    network: Network,
    slot: u8,
    counters: CounterPage,
    /// What looks at packets on their way, or acts on them.
    pub(crate) taps: Taps,
    /// Where others see which objects there are.
    pub(crate) objects: Arc<ObjectTable>,
    gids: RwLock<Vec<GidEntry>>,
    ports: Ports,
    link: Link,
    /// The daemon is gone.
    gone: AtomicBool,
    /// Forks seen when this was opened: in a child it is another's.
    generation: u32,
    gso: bool,
    /// Packets for processes of this device go through memory.
    loopback: bool,
    /// What is known of the hosts that reliable connections go to.
    pub(crate) hosts: Hosts,
    /// The ways to such processes.
    pub(crate) rings: Ways,
    /// Where such processes put packets for us.
    pub(crate) inbox: Inbox,
    next_handle: AtomicU32,
    /// Of all contexts.
    events: Mutex<Vec<Weak<AsyncEvents>>>,
    paths: Mutex<HashMap<PathKey, Weak<Path>>>,
    pub(crate) receivers: locks::Table<Vec<Arc<Receiver<Qp>>>, { locks::RECEIVERS }>,
    pub(crate) count: Counts,
    pub(crate) qps: Arc<locks::Table<Table<Qp>, { locks::QUEUE_PAIRS }>>,
    pub(crate) ahs: Arc<locks::Table<AhTable, { locks::KEYS }>>,
    pub(crate) places: Arc<Places>,
    pub(crate) domains: Domains,
    pub(crate) multicast: Multicast<Qp>,
    /// Index parts of the numbers of shared receive queues.
    srq_numbers: Mutex<HashSet<u16>>,
    /// UD queue pairs listen at every address of the port.
    everywhere: AtomicBool,
    /// There are, or were, queue pairs whose traffic nobody acknowledges.
    unacknowledged: AtomicBool,
    pub(crate) keys: Arc<locks::Table<KeyTable, { locks::KEYS }>>,
    pub(crate) device_memory: DmUse,
    pub(crate) rx: locks::Mutex<RxState<Qp>, { locks::RECEIVE }>,
    pub(crate) timers: Timers<u16>,
    alarms: Timers<Alarm>,
    /// Turns to send, of a path, which queue pairs do not know of yet: who gives one away holds the
    /// lock of another queue pair.
    pub(crate) handed: Backlog<(Arc<Path>, u16, Turn)>,
    /// Queue pairs that have requests waiting for company which no acknowledgement will send, or
    /// had some since somebody looked.
    pub(crate) waiting: Backlog<u16>,
    /// Whether that of other queue pairs is worth waiting for.
    pub(crate) company: Company,
    /// When QPs last sent again what was not answered in time.
    retried_at: AtomicTime,
    pub(crate) driver: Driver,
    /// Whether others want the processor.
    pub(crate) crowd: Crowd,
    /// Whether waiting for peers' answers pays.
    pub(crate) answers: Mutex<Answers>,
}

impl Hca {
    /// What was attached, with its ports. Nobody receives yet, if there is no daemon but the
    /// threads that poll.
    pub(crate) fn new(
        control: Option<Client>,
        attachment: Attachment,
        gids: Vec<GidEntry>,
        ports: Ports,
        tables: Tables,
    ) -> Result<Hca> {
        Ok(Hca {
            lanes: Lanes::default(),
            vectors: lanes::vectors(),
            driver: Driver::new(attachment.inbox.wake, control.is_some()),
            control: Control::new(control),
            noticing: AtomicU32::new(0),
            link: Link::of(&attachment.device),
            info: attachment.device,
            network: attachment.network,
            slot: attachment.slot,
            counters: attachment.counters,
            taps: Taps::default(),
            objects: Arc::new(attachment.objects),
            gids: RwLock::new(gids),
            ports,
            gone: AtomicBool::new(false),
            generation: forks::count(),
            gso: switches::enabled(switches::GSO),
            loopback: switches::enabled(switches::LOOPBACK),
            hosts: Hosts::new(Recovery::chosen()),
            rings: Ways::default(),
            inbox: Inbox::new(attachment.inbox.memory)?,
            next_handle: AtomicU32::new(1),
            events: Mutex::new(Vec::new()),
            paths: Mutex::new(HashMap::new()),
            receivers: locks::Table::new(Vec::new()),
            count: Counts::default(),
            qps: tables.qps,
            ahs: tables.ahs,
            places: tables.places,
            domains: Domains::default(),
            multicast: Multicast::default(),
            srq_numbers: Mutex::default(),
            everywhere: AtomicBool::new(false),
            unacknowledged: AtomicBool::new(false),
            keys: tables.keys,
            device_memory: DmUse::default(),
            rx: locks::Mutex::new(RxState::new()),
            timers: Timers::new(),
            alarms: Timers::new(),
            handed: Backlog::default(),
            waiting: Backlog::default(),
            company: Company::default(),
            retried_at: AtomicTime::default(),
            crowd: Crowd::default(),
            answers: Mutex::default(),
        })
    }

    /// All of its lanes that are open.
    pub(crate) fn all_lanes(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Hca>> {
        self.lanes.open().chain([self])
    }

    /// Whether this process can still use it.
    #[inline]
    pub(crate) fn alive(&self) -> bool {
        !self.is_inherited() && !self.is_gone()
    }

    /// What the daemon said of the device when this was attached. What of it changes later, the
    /// port's state, MTU and speed, is in [`port_attr`](Self::port_attr).
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// What the device can do.
    pub fn device_attr(&self) -> DeviceAttr {
        let mut attr = DeviceAttr::new(self.info.node_guid);
        if let Ports::Infiniband(ports) = &self.ports {
            attr.of_infiniband(ports.iter().map(|port| port.state().p_keys.len()));
        }
        attr
    }

    /// The ports that it has.
    pub(crate) fn ports(&self) -> &Ports {
        &self.ports
    }

    /// What this process has counted.
    pub fn counted(&self, counter: Counter) -> u64 {
        self.counters.read(counter)
    }

    /// Whether packets for processes of this device go through memory.
    pub fn uses_memory(&self) -> bool {
        self.loopback
    }

    /// Whether sockets may be given runs.
    pub fn cuts_runs(&self) -> bool {
        self.gso
    }

    /// The part of the device that is this process's: the upper half of its queue pairs' numbers.
    pub fn slot(&self) -> u8 {
        self.slot
    }

    pub(crate) fn counters(&self) -> &CounterPage {
        &self.counters
    }

    /// Whether this is the parent's, in a forked child.
    /// Whether this is a forked child, whose parent the device is.
    pub fn is_inherited(&self) -> bool {
        self.generation != forks::count()
    }

    /// Whether the daemon has left, for good.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Where the daemon's events come; `None` when it is gone (a closed socket is readable for
    /// ever).
    pub(crate) fn control_fd(&self) -> Option<RawFd> {
        self.control.fd().filter(|_| !self.is_gone())
    }

    pub(crate) fn new_handle(&self) -> u32 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    /// From now on events of the port and the device go there, too.
    pub(crate) fn tell_events_to(&self, events: &Arc<AsyncEvents>) {
        let mut all = self.events.lock();
        all.retain(|events| events.strong_count() != 0);
        all.push(Arc::downgrade(events));
    }

    /// From now on what is received without acknowledgement is counted, for those who send it (see
    /// `pacing`).
    pub(crate) fn unacknowledged_traffic(&self) {
        self.unacknowledged.store(true, Ordering::Relaxed);
    }

    pub(crate) fn counts_received(&self) -> bool {
        self.unacknowledged.load(Ordering::Relaxed)
    }

    /// A number for a shared receive queue, that no other of this host has.
    pub(crate) fn new_srq_number(&self) -> u32 {
        let mut numbers = self.srq_numbers.lock();
        // At most half of them are taken (MAX_SRQ).
        loop {
            let index = random::<u16>();
            if index != 0 && numbers.insert(index) {
                return u32::from(self.slot) << 16 | u32::from(index);
            }
        }
    }

    pub(crate) fn forget_srq_number(&self, number: u32) {
        self.srq_numbers.lock().remove(&(number as u16));
    }
}
