//! What is done in a round, to whom and when: all of it follows from the seed and the round's
//! number.

use std::fmt;
use std::time::Duration;

use crate::attack::hostile::Random;
use crate::lab::Place;

/// How many transfers go on at once.
pub(super) const WORKS: usize = 2;
/// The TCP port of the first of them, below the ports of the tests.
pub(super) const PORT: u16 = 18_500;
/// When the last act may begin, counted from the moment at which all transfers are under way.
const LAST: u64 = 2500;
/// A pause that every transfer survives: the shortest patience is eight times 134 ms.
const SHORT: std::ops::Range<u64> = 50..400;
/// One that a transfer with perftest's timeouts does not.
const LONG: std::ops::Range<u64> = 1500..3000;
/// What else has a length.
const SPELL: std::ops::Range<u64> = 300..1500;

/// A transfer with checked data between two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    /// `tests/verbs/stream.c`: SEND, RDMA WRITE and RDMA READ over RC, both ways.
    Stream,
    /// `rping -V`.
    Rping,
    /// `exs_echo`: lines over the Extended Sockets library.
    Echo,
}

/// An end of a transfer, or a device's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Server,
    Client,
}

/// Whom an act is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A process of the transfer of that number.
    Program(usize, End),
    /// The daemon that serves that end.
    Daemon(End),
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// SIGKILL.
    Kill(Target),
    /// SIGSTOP, and SIGCONT after so long.
    Pause(Target, Duration),
    /// No further descriptor for so long.
    Descriptors(Target, Duration),
    /// No further memory for so long.
    Memory(Target, Duration),
    /// The thread that answers for a program gets what the processors have left, for so long.
    Helper(usize, End, Duration),
    /// Twice as many processes as there are processors spin for so long.
    Spin(Duration),
    /// Datagrams without sense at both devices for so long.
    Noise(Duration),
    /// Requests for connections at the server's device for so long.
    Requests(Duration),
}

/// What is done, and when, counted from the moment at which all transfers are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Act {
    pub at: Duration,
    pub what: What,
}

/// A round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub place: Place,
    pub works: [Work; WORKS],
    /// By the time at which they begin.
    pub acts: Vec<Act>,
}

impl Plan {
    /// Of that round, 0 being the first, of a run with that seed.
    pub(super) fn new(seed: u64, round: u32) -> Plan {
        let mut dice = Dice(Random(seed ^ (u64::from(round) << 32)));
        let places = [Place::OneDaemon, Place::Sockets, Place::TwoDaemons];
        let place = dice.one_of(&places);
        let works = [(); WORKS].map(|()| dice.one_of(&[Work::Stream, Work::Rping, Work::Echo]));
        let mut acts: Vec<Act> = (0..dice.within(1..5)).map(|_| dice.act()).collect();
        acts.sort_by_key(|act| act.at);
        Plan { place, works, acts }
    }

    /// Whether an end of a transfer may wait for ever: the other one's host has died, so to speak,
    /// and cannot say so. Only who sends finds out; of the transfers, the stream looks.
    pub(super) fn may_wait(&self, work: usize, end: End) -> bool {
        let other = match end {
            End::Server => End::Client,
            End::Client => End::Server,
        };
        let dead = |act: &Act| matches!(act.what, What::Kill(Target::Daemon(of)) | What::Memory(Target::Daemon(of), _) if of == other);
        self.place == Place::TwoDaemons
            && self.works[work] != Work::Stream
            && self.acts.iter().any(dead)
    }

    /// Whether a transfer must come to its end whatever else is done in the round.
    pub(super) fn spares(&self, work: usize) -> bool {
        self.acts.iter().all(|act| act.what.spares(work))
    }
}

impl What {
    /// What it is, without to whom.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            What::Kill(Target::Program(..)) => "program killed",
            What::Kill(Target::Daemon(_)) => "daemon killed",
            What::Pause(Target::Program(..), _) => "program stopped",
            What::Pause(Target::Daemon(_), _) => "daemon stopped",
            What::Descriptors(Target::Program(..), _) => "program without descriptors",
            What::Descriptors(Target::Daemon(_), _) => "daemon without descriptors",
            What::Memory(Target::Program(..), _) => "program without memory",
            What::Memory(Target::Daemon(_), _) => "daemon without memory",
            What::Helper(..) => "helper thread starved",
            What::Spin(_) => "processors taken",
            What::Noise(_) => "flood of noise",
            What::Requests(_) => "flood of requests",
        }
    }

    /// How long it goes on.
    pub(super) fn length(&self) -> Duration {
        match *self {
            What::Kill(_) => Duration::ZERO,
            What::Pause(_, length)
            | What::Descriptors(_, length)
            | What::Memory(_, length)
            | What::Helper(_, _, length)
            | What::Spin(length)
            | What::Noise(length)
            | What::Requests(length) => length,
        }
    }

    /// Whether that transfer must survive it.
    fn spares(&self, work: usize) -> bool {
        let short = |length: &Duration| *length < millis(SHORT.end);
        match self {
            What::Pause(_, length) if short(length) => true,
            What::Kill(target)
            | What::Pause(target, _)
            | What::Descriptors(target, _)
            | What::Memory(target, _) => match target {
                Target::Program(number, _) => *number != work,
                Target::Daemon(_) => false,
            },
            What::Helper(number, ..) => *number != work,
            // How long a process waits for its turn is the scheduler's to say.
            What::Spin(_) => false,
            What::Noise(_) | What::Requests(_) => true,
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:4} ms  {:?}", self.at.as_millis(), self.what)
    }
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Draws.
struct Dice(Random);

impl Dice {
    fn within(&mut self, range: std::ops::Range<u64>) -> u64 {
        range.start + self.0.number() % (range.end - range.start)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.below(all.len())]
    }

    fn end(&mut self) -> End {
        self.one_of(&[End::Server, End::Client])
    }

    /// A program, or now and then a daemon.
    fn target(&mut self) -> Target {
        match self.within(0..4) {
            0 => Target::Daemon(self.end()),
            _ => Target::Program(self.0.below(WORKS), self.end()),
        }
    }

    fn act(&mut self) -> Act {
        let at = millis(self.within(0..LAST));
        let spell = millis(self.within(SPELL));
        let what = match self.within(0..10) {
            0 | 1 => What::Kill(self.target()),
            2 => What::Pause(self.target(), millis(self.within(SHORT))),
            3 => What::Pause(self.target(), millis(self.within(LONG))),
            4 => What::Descriptors(self.target(), spell),
            5 => What::Memory(self.target(), spell),
            6 => What::Helper(self.0.below(WORKS), self.end(), spell),
            7 => What::Spin(spell),
            8 => What::Noise(spell),
            _ => What::Requests(spell),
        };
        Act { at, what }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_says_everything_and_rounds_differ() {
        let plans: Vec<Plan> = (0..200).map(|round| Plan::new(7, round)).collect();
        for (round, plan) in (0..).zip(&plans) {
            assert_eq!(*plan, Plan::new(7, round));
            assert!((1..5).contains(&plan.acts.len()));
            assert!(plan.acts.is_sorted_by_key(|act| act.at));
        }
        assert_ne!(plans[0], plans[1]);
        assert_ne!(plans[0], Plan::new(8, 0));
    }

    #[test]
    fn everything_has_its_turn() {
        let plans = (0..300).map(|round| Plan::new(1, round));
        let acts: Vec<What> = plans
            .flat_map(|plan| plan.acts)
            .map(|act| act.what)
            .collect();
        let kinds: BTreeSet<&str> = acts.iter().map(What::kind).collect();
        assert_eq!(kinds.len(), 12, "{kinds:?}");
    }

    #[test]
    fn who_is_left_alone_must_come_to_its_end() {
        let plan = |what| Plan {
            place: Place::OneDaemon,
            works: [Work::Stream; WORKS],
            acts: vec![Act {
                at: millis(0),
                what,
            }],
        };

        let victim = Target::Program(1, End::Client);
        let killed = plan(What::Kill(victim));
        assert!(killed.spares(0) && !killed.spares(1));
        assert!(plan(What::Pause(victim, millis(300))).spares(1));
        assert!(!plan(What::Pause(victim, millis(2000))).spares(1));
        assert!(!plan(What::Kill(Target::Daemon(End::Server))).spares(0));
        assert!(plan(What::Noise(millis(1000))).spares(0));
    }

    #[test]
    fn a_host_that_died_says_nothing() {
        let acts = vec![Act {
            at: millis(0),
            what: What::Kill(Target::Daemon(End::Server)),
        }];
        let mut plan = Plan {
            place: Place::TwoDaemons,
            works: [Work::Rping, Work::Stream],
            acts,
        };
        assert!(plan.may_wait(0, End::Client) && !plan.may_wait(0, End::Server));
        assert!(!plan.may_wait(1, End::Client));
        plan.place = Place::OneDaemon;
        assert!(!plan.may_wait(0, End::Client));
    }
}
