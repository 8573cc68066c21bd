//! Packets that faults hold back: until their time has come, or until the next one of their queue
//! pair has gone before them. Bounded in bytes: what does not fit is lost, as in any queue.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock, Weak};

use ferroce_control::faults::Lane;
use ferroce_transport::{Duration, Time};
use parking_lot::Mutex;

use super::Taps;
use super::faults_out::send;
use crate::datapath::path::Path;
use crate::port::address::PathKey;
use crate::port::recvmsg::Datagram;
use crate::progress::timers::{self, Alarm, Alarmed};
use crate::tuning::{HELD_BYTES, OVERTAKEN_WITHIN};

/// A packet that waits.
pub(crate) enum Waiting {
    /// It is to leave.
    Leaving {
        /// The queue pair's number.
        qpn: u32,
        path: Arc<Path>,
        /// All that goes into the datagram.
        bytes: Vec<u8>,
    },
    /// It has come, and was found to be as it was sent.
    Arriving {
        datagram: Datagram,
        local: IpAddr,
        /// The port off whose cable it came, if it did.
        port: Option<u8>,
        /// The datagram's own payload.
        bytes: Vec<u8>,
        id: u16,
    },
}

impl Waiting {
    fn len(&self) -> usize {
        match self {
            Waiting::Leaving { bytes, .. } | Waiting::Arriving { bytes, .. } => bytes.len(),
        }
    }

    /// Leaves, if it is one that is to. An error is a loss like any other.
    pub(crate) fn leave(self, taps: &Taps) {
        if let Waiting::Leaving {
            qpn,
            path,
            mut bytes,
        } = self
        {
            let _ = send(taps, qpn, &path, &mut bytes);
        }
    }
}

/// Whose packets they are.
pub(crate) trait Keeper: Send + Sync {
    /// Has an alarm come up then.
    fn wake_at(&self, at: Time, alarm: Alarm);

    /// The path with this key, if it is in use.
    fn path_of(&self, key: &PathKey) -> Option<Arc<Path>>;

    /// Packets whose time has come. Nothing is locked.
    fn go_on(&self, packets: Vec<Waiting>);
}

/// Those that wait.
#[derive(Default)]
pub(crate) struct Held {
    queue: Mutex<Queue>,
    keeper: OnceLock<Weak<dyn Keeper>>,
}

/// When it is a packet's turn, and which packet of those of that moment it is.
type Turn = (Time, u64);

#[derive(Default)]
struct Queue {
    waiting: BTreeMap<Turn, Waiting>,
    bytes: usize,
    /// Packets that there have been.
    count: u64,
    /// When the last one of each queue pair and way goes on, as long as that is to come.
    last: HashMap<Lane, Time>,
    /// Those that the next one is to overtake.
    overtaken: HashMap<Lane, Vec<Turn>>,
}

impl Queue {
    /// Takes one in. `None`: there is no room.
    fn push(&mut self, at: Time, packet: Waiting) -> Option<Turn> {
        let bytes = self.bytes + packet.len();
        if bytes > HELD_BYTES {
            return None;
        }
        self.bytes = bytes;
        self.count += 1;
        let turn = (at, self.count);
        self.waiting.insert(turn, packet);
        Some(turn)
    }

    fn remove(&mut self, turn: Turn) -> Option<Waiting> {
        let packet = self.waiting.remove(&turn)?;
        self.bytes -= packet.len();
        Some(packet)
    }

    /// Those whose time has come, in order.
    fn due(&mut self, now: Time) -> Vec<Waiting> {
        let mut due = Vec::new();
        while let Some((&turn, _)) = self.waiting.first_key_value()
            && turn.0 <= now
        {
            due.extend(self.remove(turn));
        }
        if !due.is_empty() {
            self.last.retain(|_, at| *at > now);
            self.overtaken.retain(|_, turns| {
                turns.retain(|turn| turn.0 > now);
                !turns.is_empty()
            });
        }
        due
    }
}

impl Held {
    /// Whose packets they are.
    pub(crate) fn belongs_to(&self, keeper: Weak<dyn Keeper>) {
        let _ = self.keeper.set(keeper);
    }

    fn keeper(&self) -> Option<Arc<dyn Keeper>> {
        self.keeper.get().and_then(Weak::upgrade)
    }

    /// The path that this is, for who keeps it.
    pub(super) fn path(&self, path: &Path) -> Option<Arc<Path>> {
        let found = self.keeper()?.path_of(&path.key)?;
        std::ptr::eq(&*found, path).then_some(found)
    }

    /// Holds a packet for so long. Those of one queue pair and way keep their order. One that there
    /// is no room for is lost.
    pub(crate) fn delay(self: &Arc<Self>, lane: Lane, by: Duration, packet: Waiting) {
        let mut queue = self.queue.lock();
        let before = queue.last.get(&lane).copied();
        let at = (timers::now() + by).max(before.unwrap_or(Time::ZERO));
        if queue.push(at, packet).is_some() {
            queue.last.insert(lane, at);
        }
        drop(queue);
        self.wake_at(at);
    }

    /// Holds a packet until the next of its queue pair and way has gone; not for ever, as there may
    /// be none.
    pub(crate) fn overtake(self: &Arc<Self>, lane: Lane, packet: Waiting) {
        let mut queue = self.queue.lock();
        let at = timers::now() + OVERTAKEN_WITHIN;
        if let Some(turn) = queue.push(at, packet) {
            queue.overtaken.entry(lane).or_default().push(turn);
        }
        drop(queue);
        self.wake_at(at);
    }

    /// Takes out those that a packet of this queue pair and way, which goes now, overtakes.
    pub(crate) fn overtaken(&self, lane: Lane) -> Vec<Waiting> {
        let mut queue = self.queue.lock();
        let turns = queue.overtaken.remove(&lane).unwrap_or_default();
        turns
            .into_iter()
            .filter_map(|turn| queue.remove(turn))
            .collect()
    }

    /// The process ends: what was to leave leaves now.
    pub(crate) fn let_go(&self, taps: &Taps) {
        let Some(mut queue) = self.queue.try_lock() else {
            return;
        };
        for waiting in queue.due(Time::MAX) {
            waiting.leave(taps);
        }
    }

    fn wake_at(self: &Arc<Self>, at: Time) {
        if let Some(keeper) = self.keeper() {
            let of = Arc::downgrade(self) as Weak<dyn Alarmed>;
            // Handles of objects count from 1.
            keeper.wake_at(at, Alarm { handle: 0, of });
        }
    }
}

impl Alarmed for Held {
    fn alarm(self: Arc<Self>, now: Time) {
        let due = self.queue.lock().due(now);
        if let Some(keeper) = self.keeper()
            && !due.is_empty()
        {
            keeper.go_on(due);
        }
    }
}
