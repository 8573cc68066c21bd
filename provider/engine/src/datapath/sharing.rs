//! The queue pairs of a path send in turn: what one may send, and who is next (see `turns`).

use std::sync::{Arc, Weak};

use ferroce_transport::{Qp as Transport, Time};

use crate::datapath::path::Path;
use crate::datapath::turns::{Begun, Look, Part, Turn};
use crate::hca::Hca;
use crate::memory::keys::KeyTable;
use crate::progress::timers::{Alarm, Alarmed, Alarms};
use crate::tuning::SMALL_REQUEST;
use crate::verbs::qp::{Inner, Qp};

impl Qp {
    /// How many bytes its requests may have in flight now. `None`: they wait for a turn.
    pub(super) fn window(&self, inner: &mut Inner, now: Time) -> Option<u32> {
        let Inner {
            transport,
            path: Some(path),
            part,
            ..
        } = inner
        else {
            return None;
        };

        let congestion = &path.congestion;
        if let Part::Has { turn, since } = *part {
            if !congestion.turns.are_wanted() {
                return Some(congestion.share());
            }
            let left = match congestion.turns.counts(turn) {
                true => left_of_turn(transport, since, congestion.turn()),
                false => 0,
            };
            if left > 0 || transport.packets_in_flight() > 0 {
                return Some(congestion.share().min(left));
            }
            path.take_back(part, self.hca());
        }

        if !transport.has_requests_to_send() {
            *part = Part::None;
            return Some(congestion.share());
        }
        if *part == Part::Waits {
            return None;
        }

        let little = transport.has_little_to_send(SMALL_REQUEST as u32);
        let (index, limit) = (self.qp_num() as u16, congestion.limit());
        match congestion.turns.begin(index, limit, little) {
            Begun::Turn(turn) => {
                let since = transport.sent_cost();
                *part = Part::Has { turn, since };
                Some(congestion.share())
            }
            Begun::Waits { alone } => {
                *part = Part::Waits;
                if alone {
                    self.hca().look_after_turns(path, now);
                }
                None
            }
        }
    }

    /// It has sent what it could: its turn is over if nothing is on its way.
    pub(super) fn rest(&self, inner: &mut Inner) {
        if matches!(inner.part, Part::Has { .. }) && inner.transport.packets_in_flight() == 0 {
            self.leave_turn(inner);
        }
    }

    /// Its peer may have been silent for too long, and all is to be sent again: others go first, if
    /// there are any.
    pub(super) fn stand_back(&self, inner: &mut Inner) {
        let path = inner.path.as_ref();
        if path.is_some_and(|path| path.congestion.turns.are_wanted()) {
            self.rest(inner);
        }
    }

    /// Gives its turn away, or waits no longer for one. Those to whom turns go find out by
    /// [`Hca::hand_turns`].
    pub(crate) fn leave_turn(&self, inner: &mut Inner) {
        let Inner { path, part, .. } = inner;
        match path {
            Some(path) => path.take_back(part, self.hca()),
            None => *part = Part::None,
        }
    }

    /// A turn is given to it. `path`: where it waited.
    fn take_turn(&self, path: &Arc<Path>, turn: Turn, keys: &KeyTable, now: Time) {
        let mut inner = self.inner.lock();
        let here = inner.path.as_ref();
        let waits = inner.part == Part::Waits && here.is_some_and(|here| Arc::ptr_eq(here, path));
        if !waits {
            // It does not want it any more, or has another.
            drop(inner);
            path.congestion.turns.end(turn);
            return path.hand_over(self.hca());
        }

        let since = inner.transport.sent_cost();
        inner.part = Part::Has { turn, since };
        self.pump(&mut inner, keys, now, false);
    }
}

/// Bytes that a queue pair may have in flight until its turn ends: while others wait it takes no
/// more than is its due, `turn`.
fn left_of_turn(transport: &Transport, since: u64, turn: u64) -> u32 {
    // What was lost is sent again first.
    let due = match transport.is_recovering() {
        false => turn,
        true => 2 * turn,
    };
    let left = (since + due).saturating_sub(transport.settled_cost());
    u32::try_from(left).unwrap_or(u32::MAX)
}

impl Path {
    /// A queue pair does not want its turn any more, or to wait for one.
    fn take_back(self: &Arc<Self>, part: &mut Part, hca: &Hca) {
        if let Part::Has { turn, .. } = std::mem::take(part) {
            self.congestion.turns.end(turn);
            self.hand_over(hca);
        }
    }

    /// Gives turns that nobody has to those who wait.
    fn hand_over(self: &Arc<Self>, hca: &Hca) {
        let Path { congestion, .. } = &**self;
        while let Some((index, turn)) = congestion.turns.next(congestion.limit()) {
            hca.handed.push((self.clone(), index, turn));
        }
    }
}

/// Looks whether those who wait for a turn of a path get one.
struct Overseer {
    hca: Weak<Hca>,
    path: Weak<Path>,
}

impl Alarmed for Overseer {
    fn alarm(self: Arc<Self>, now: Time) {
        let (Some(hca), Some(path)) = (self.hca.upgrade(), self.path.upgrade()) else {
            return;
        };
        match path.congestion.turns.look() {
            Look::Nobody => return,
            Look::Moving => {}
            Look::Stalled => path.hand_over(&hca),
        }
        hca.look_after_turns(&path, now);
    }
}

impl Hca {
    /// Has somebody look whether those who wait for a turn of a path get one.
    fn look_after_turns(self: &Arc<Self>, path: &Arc<Path>, now: Time) {
        let overseer = || {
            let (hca, path) = (Arc::downgrade(self), Arc::downgrade(path));
            Arc::new(Overseer { hca, path }) as Arc<dyn Alarmed>
        };
        let of = Arc::downgrade(path.overseer.get_or_init(overseer));
        let handle = 0;
        let at = now + path.congestion.turns.patience();
        self.add_alarm(at, Alarm { handle, of });
    }

    /// Lets queue pairs send to which turns were given. The caller holds no queue pair.
    #[inline]
    pub(crate) fn hand_turns(&self, now: Time) {
        if self.handed.any() {
            self.hand_all(now);
        }
    }

    #[cold]
    fn hand_all(&self, now: Time) {
        let qps = self.qps.read();
        let keys = self.keys.read();
        while let Some((path, index, turn)) = self.handed.pop() {
            match qps.find(index) {
                Some(qp) => qp.take_turn(&path, turn, &keys, now),
                None => {
                    path.congestion.turns.end(turn);
                    path.hand_over(self);
                }
            }
        }
    }
}
