//! The faults of the device: which there are, for how long, and how often they have hit. Programs
//! carry most of them out; what is the daemon's own to do is in `faulty`.

use std::time::Instant;

use ferroce_control::CounterPage;
use ferroce_control::faults::{Action, Fault, FaultStatus, Given, GivenFaults, MAX_FAULTS, Target};

/// A fault.
#[derive(Debug)]
pub(crate) struct Entry {
    id: u32,
    place: u8,
    pub(crate) fault: Fault,
    /// When its time is over.
    until: Option<Instant>,
    over: bool,
    /// How often it has hit in programs that have gone, and where no page is there to count it.
    hits: u64,
}

impl Entry {
    /// What programs get of it.
    fn given(&self, now: Instant) -> Given {
        let left = self.until.map(|at| at.saturating_duration_since(now));
        Given {
            id: self.id,
            place: self.place,
            fault: self.fault.clone(),
            left_ns: left.map(|left| u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)),
        }
    }
}

/// All of them, in the order of their numbers.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    entries: Vec<Entry>,
    last: u32,
    generation: u64,
}

impl Faults {
    /// Adds one. `None`: there is no room.
    pub(crate) fn add(&mut self, fault: Fault, now: Instant) -> Option<u32> {
        if self.entries.len() == MAX_FAULTS {
            let over = self.entries.iter().position(|entry| entry.over)?;
            self.entries.remove(over);
        }

        let taken = |place: &u8| self.entries.iter().any(|entry| entry.place == *place);
        let place = (0..MAX_FAULTS as u8).find(|place| !taken(place))?;
        self.last += 1;
        self.generation += 1;
        self.entries.push(Entry {
            id: self.last,
            place,
            until: fault.lasts.map(|lasts| now + lasts.duration()),
            // What is done at once is done once.
            hits: u64::from(matches!(fault.action, Action::GidRemove { .. })),
            fault,
            over: false,
        });
        Some(self.last)
    }

    /// Ends one, or all. `false`: there is none of that number.
    pub(crate) fn clear(&mut self, id: Option<u32>) -> bool {
        let before = self.entries.len();
        self.entries
            .retain(|entry| id.is_some_and(|id| id != entry.id));
        self.generation += 1;
        id.is_none() || self.entries.len() < before
    }

    /// Which list this is: another number with every change.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Those that are not over.
    pub(crate) fn active(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| !entry.over)
    }

    /// Those of a program.
    pub(crate) fn of(&self, program: &str, pid: u32, now: Instant) -> GivenFaults {
        // A port that is down sends and receives nothing, which is the program's part.
        let own = |entry: &&Entry| {
            let action = &entry.fault.action;
            match action.target() {
                Target::Connections => false,
                Target::Port => matches!(action, Action::PortDown { .. }),
                _ if entry.fault.is_of_messages() => false,
                _ => entry.fault.whom.includes(program, pid),
            }
        };
        GivenFaults {
            generation: self.generation,
            faults: self.active().filter(own).map(|e| e.given(now)).collect(),
        }
    }

    /// Those that are about connections, for who manages them.
    pub(crate) fn of_connections(&self, now: Instant) -> Vec<Given> {
        let theirs = |entry: &&Entry| entry.fault.action.target() == Target::Connections;
        self.active().filter(theirs).map(|e| e.given(now)).collect()
    }

    /// Those that are about messages of QP1, for who sends and receives them.
    pub(crate) fn of_messages(&self, now: Instant) -> Vec<Given> {
        let theirs = |entry: &&Entry| entry.fault.is_of_messages();
        self.active().filter(theirs).map(|e| e.given(now)).collect()
    }

    /// Whether a port is to be down.
    pub(crate) fn is_down(&self, port: u8) -> bool {
        self.active()
            .any(|entry| entry.fault.action == Action::PortDown { port })
    }

    /// Which entries of the GID table are to be gone.
    pub(crate) fn removed_gids(&self) -> Vec<u16> {
        let index = |entry: &Entry| match entry.fault.action {
            Action::GidRemove { index } => Some(index),
            _ => None,
        };
        self.active().filter_map(index).collect()
    }

    /// All, with what living programs' pages say.
    pub(crate) fn list<'a>(
        &self,
        pages: impl Iterator<Item = &'a CounterPage> + Clone,
        now: Instant,
    ) -> Vec<FaultStatus> {
        let status = |entry: &Entry| {
            let counted = pages.clone().map(|page| page.hits(entry.id, entry.place));
            let left = entry.until.filter(|_| !entry.over);
            let left = left.map(|at| at.saturating_duration_since(now).as_millis());
            FaultStatus {
                id: entry.id,
                fault: entry.fault.clone(),
                hits: entry.hits + counted.sum::<u64>(),
                left_ms: left.map(|left| u64::try_from(left).unwrap_or(u64::MAX)),
                over: entry.over,
            }
        };
        self.entries.iter().map(status).collect()
    }

    /// A program has gone: what its page says stays.
    pub(crate) fn departed(&mut self, page: &CounterPage) {
        for entry in &mut self.entries {
            entry.hits += page.hits(entry.id, entry.place);
        }
    }

    /// A fault that happens once has happened, to so many.
    pub(crate) fn happened(&mut self, id: u32, hits: u64) {
        let found = self.entries.iter_mut().find(|entry| entry.id == id);
        if let Some(entry) = found {
            entry.hits += hits;
            entry.over = true;
        }
    }

    /// When the next one is over.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.active().filter_map(|entry| entry.until).min()
    }

    /// Ends those whose time is over. `false`: none is.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let over = |entry: &Entry| !entry.over && entry.until.is_some_and(|at| at <= now);
        let mut any = false;
        for entry in self.entries.iter_mut() {
            let ends = over(entry);
            entry.over |= ends;
            any |= ends;
        }
        self.generation += u64::from(any);
        any
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use ferroce_control::faults::{Often, Whom};

    fn fault(action: Action, lasts: Option<&str>) -> Fault {
        Fault {
            action,
            whom: Whom::default(),
            often: Often::default(),
            lasts: lasts.map(|lasts| lasts.parse().unwrap()),
            seed: 0,
        }
    }

    #[test]
    fn what_is_over_is_shown_until_there_is_no_room() {
        let now = Instant::now();
        let mut faults = Faults::default();
        let first = faults.add(fault(Action::Loss, Some("1s")), now);
        assert_eq!(first, Some(1));
        let later = now + Duration::from_secs(1);
        assert_eq!(faults.next_timeout(), Some(later));
        assert!(!faults.expire(now) && faults.expire(later) && !faults.expire(later));
        let shown = |faults: &Faults| {
            let list = faults.list(std::iter::empty(), later);
            list.iter()
                .map(|one| (one.id, one.over))
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(&faults), [(1, true)]);

        for id in 2..=MAX_FAULTS as u32 + 1 {
            assert_eq!(faults.add(fault(Action::Rnr, None), later), Some(id));
        }
        assert_eq!(faults.add(fault(Action::Rnr, None), later), None);
        assert_eq!(shown(&faults)[0], (2, false));
        assert!(faults.clear(Some(2)) && !faults.clear(Some(2)) && faults.clear(None));
        assert!(shown(&faults).is_empty() && faults.next_timeout().is_none());
    }

    #[test]
    fn programs_get_what_is_theirs() {
        let now = Instant::now();
        let mut faults = Faults::default();
        let mut theirs = fault(Action::Duplicate, Some("10s"));
        theirs.whom.program = Some("ib_write_bw".to_owned());
        faults.add(theirs, now);
        faults.add(fault(Action::CmReject { reason: 28 }, None), now);
        faults.add(fault(Action::PortDown { port: 1 }, None), now);
        let ids = |program| {
            let given = faults.of(program, 7, now).faults;
            given.iter().map(|one| one.id).collect::<Vec<_>>()
        };
        assert_eq!(ids("ib_write_bw"), [1, 3]);
        assert_eq!(ids("rping"), [3]);
        assert_eq!(faults.of_connections(now)[0].id, 2);
        assert_eq!(
            faults.of("ib_write_bw", 7, now).faults[0].left_ns,
            Some(10_000_000_000)
        );
        assert!(faults.is_down(1) && !faults.is_down(2));
    }

    #[test]
    fn hits_of_programs_that_have_gone_stay() {
        let now = Instant::now();
        let mut faults = Faults::default();
        faults.add(fault(Action::Loss, None), now);
        let (gone, lives) = (
            CounterPage::private().unwrap(),
            CounterPage::private().unwrap(),
        );
        for page in [&gone, &lives] {
            page.take_faults(1, [(1, 0)]);
            page.hit(0);
        }
        faults.departed(&gone);
        assert_eq!(faults.list([&lives].into_iter(), now)[0].hits, 2);
    }
}
