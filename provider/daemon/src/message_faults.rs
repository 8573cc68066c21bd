//! Faults of QP1's messages (`--qp 1`): those of connection management above all. They are the
//! daemon's to send and receive, whatever the port's link is, so it is the daemon who loses them,
//! keeps them back, doubles or changes them. Without such faults messages pass untouched.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ferroce_control::CounterPage;
use ferroce_control::faults::{Action, Direction, Draw, Given, Lane};
use ferroce_wire::mad::{self, QP1};
use ferroce_wire::{Deth, Packet};

use crate::armed::{self, Armed};
use crate::mads::{Incoming, Outgoing};
use crate::qp1::{self, PACKET};

/// How long a message that the next one is to overtake waits for that at most.
const OVERTAKEN_WITHIN: Duration = Duration::from_millis(100);
/// Messages that are kept back at most; what does not fit is lost.
const HELD: usize = 4096;
/// A message on its way.
#[derive(Clone, Debug)]
pub(crate) enum Passing {
    /// It leaves.
    Leaving {
        /// What it is.
        out: Outgoing,
        /// By the port's link, even to the device itself.
        by_wire: bool,
    },
    /// It has come.
    Coming(Incoming),
}

/// When it is a message's turn, and which message of those of that moment it is.
type Turn = (Instant, u64);

/// Messages of one way that wait.
#[derive(Debug, Default)]
struct Way {
    /// When the last one that was delayed goes on: they keep their order.
    last: Option<Instant>,
    /// Those that the next one is to overtake.
    overtaken: Vec<Turn>,
}

/// The faults that there are, and the messages that they keep back.
#[derive(Debug, Default)]
pub(crate) struct MessageFaults {
    armed: Vec<Armed>,
    waiting: BTreeMap<Turn, Passing>,
    /// Messages that have waited.
    count: u64,
    leaving: Way,
    coming: Way,
}

/// What becomes of a message.
#[derive(Debug, Default)]
struct Verdict {
    lost: bool,
    twice: bool,
    delayed: Option<Duration>,
    /// The next one goes before it.
    overtaken: bool,
    /// Which bit is turned over.
    bit: Option<u64>,
}

impl Passing {
    fn direction(&self) -> Direction {
        match self {
            Passing::Leaving { .. } => Direction::Out,
            Passing::Coming(_) => Direction::In,
        }
    }

    fn mad(&mut self) -> &mut mad::Mad {
        match self {
            Passing::Leaving { out, .. } => &mut out.mad,
            Passing::Coming(incoming) => &mut incoming.mad,
        }
    }

    /// The packet that it is or was, but for what its way alone knows: PSN and ICRC.
    fn packet(&mut self) -> [u8; PACKET] {
        let (dest_qp, src_qp, qkey) = match self {
            Passing::Leaving { out, .. } => (out.to.qpn, out.qpn, out.to.qkey),
            Passing::Coming(came) => (came.qpn, came.from.qpn, came.from.qkey),
        };
        let header = qp1::header(dest_qp, 0, Deth { qkey, src_qp });
        let mut bytes = [0; PACKET];
        let n = header.emit(&mut bytes);
        bytes[n..n + mad::LEN].copy_from_slice(self.mad());
        bytes
    }
}

impl MessageFaults {
    /// From now on it is these. What has begun goes on.
    pub(crate) fn replace(&mut self, given: Vec<Given>, page: &CounterPage) {
        armed::replace(&mut self.armed, given, page);
    }

    /// What leaves now where this one was to.
    pub(crate) fn leave(&mut self, out: &Outgoing, by_wire: bool) -> Vec<Outgoing> {
        let out = out.clone();
        if out.qpn != QP1 {
            return vec![out];
        }
        let on = self.pass(Passing::Leaving { out, by_wire });
        let leaving = |passing| match passing {
            Passing::Leaving { out, .. } => Some(out),
            Passing::Coming(_) => None,
        };
        on.into_iter().filter_map(leaving).collect()
    }

    /// What comes now where this one was to.
    pub(crate) fn come(&mut self, incoming: &Incoming) -> Vec<Incoming> {
        let incoming = incoming.clone();
        if incoming.qpn != QP1 {
            return vec![incoming];
        }
        let on = self.pass(Passing::Coming(incoming));
        let coming = |passing| match passing {
            Passing::Leaving { .. } => None,
            Passing::Coming(incoming) => Some(incoming),
        };
        on.into_iter().filter_map(coming).collect()
    }

    /// When the first that waits goes on.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.waiting.keys().next().map(|(at, _)| *at)
    }

    /// Those whose time has come, in order.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Passing> {
        let mut due = Vec::new();
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        for way in [&mut self.leaving, &mut self.coming] {
            way.overtaken.retain(|turn| turn.0 > now);
        }
        due
    }

    /// What goes on in the place of a message: itself or not, once or twice, and those that it was
    /// to overtake.
    fn pass(&mut self, mut passing: Passing) -> Vec<Passing> {
        if self.armed.is_empty() && self.waiting.is_empty() {
            return vec![passing];
        }

        let verdict = self.judge(&mut passing);
        if let Some(random) = verdict.bit {
            let mad = passing.mad();
            let bit = random as usize % (mad.len() * 8);
            mad[bit / 8] ^= 1 << (bit % 8);
        }

        let now = Instant::now();
        let direction = passing.direction();
        let overtaken = std::mem::take(&mut self.way(direction).overtaken);
        let mut on = Vec::new();
        let copies = match (verdict.lost, verdict.twice) {
            (true, _) => 0,
            (false, twice) => 1 + usize::from(twice),
        };
        for _ in 0..copies {
            match (verdict.delayed, verdict.overtaken) {
                (None, false) => on.push(passing.clone()),
                (Some(by), _) => {
                    let way = self.way(direction);
                    let at = (now + by).max(way.last.unwrap_or(now));
                    way.last = Some(at);
                    self.wait(at, passing.clone());
                }
                (None, true) => {
                    let turn = self.wait(now + OVERTAKEN_WITHIN, passing.clone());
                    self.way(direction).overtaken.extend(turn);
                }
            }
        }

        let waiting = &mut self.waiting;
        on.extend(overtaken.iter().filter_map(|turn| waiting.remove(turn)));
        on
    }

    /// Asks the faults. The first by which it is lost is the last that it meets.
    fn judge(&mut self, passing: &mut Passing) -> Verdict {
        let lane = Lane {
            ordinal: 0,
            direction: passing.direction(),
        };
        let bytes = passing.packet();
        let mut verdict = Verdict::default();
        let Ok(packet) = Packet::parse(&bytes) else {
            return verdict;
        };

        for armed in &mut self.armed {
            let Given { id, fault, .. } = &armed.given;
            let (id, action, whom) = (*id, fault.action, &fault.whom);
            let packets = whom.packets.as_ref();
            let other = |peer: u32| whom.peer_qp.is_some_and(|wanted| wanted.0 != peer);
            let peer = match lane.direction {
                Direction::Out => packet.bth.dest_qp,
                Direction::In => packet.ext.deth.map_or(QP1, |deth| deth.src_qp),
            };
            let about = whom.direction == lane.direction
                && !other(peer)
                && packets.is_none_or(|packets| packets.matches(&packet, PACKET));
            if !about {
                continue;
            }
            let Some(Draw(random)) = armed.draws(lane) else {
                continue;
            };

            tracing::debug!(fault = id, "{action} hits a message");
            match action {
                Action::Loss => verdict.lost = true,
                Action::Duplicate => verdict.twice = true,
                Action::Reorder => verdict.overtaken = true,
                Action::Corrupt { .. } => verdict.bit = Some(random),
                Action::Delay { by } => {
                    let more = Duration::from_nanos(by.draw(random));
                    verdict.delayed = Some(verdict.delayed.unwrap_or_default() + more);
                }
                _ => {}
            }
            if verdict.lost {
                break;
            }
        }
        verdict
    }

    fn way(&mut self, direction: Direction) -> &mut Way {
        match direction {
            Direction::Out => &mut self.leaving,
            Direction::In => &mut self.coming,
        }
    }

    /// Keeps a message back. `None`: there is no room, and it is lost.
    fn wait(&mut self, at: Instant, passing: Passing) -> Option<Turn> {
        if self.waiting.len() >= HELD {
            return None;
        }
        self.count += 1;
        let turn = (at, self.count);
        self.waiting.insert(turn, passing);
        Some(turn)
    }
}

#[cfg(test)]
#[path = "message_faults_tests.rs"]
mod tests;
