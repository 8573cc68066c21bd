//! Things that happened at about the same time, in the orders that they may have had.
//!
//! A program's threads read the clock before they take a queue pair's lock. So of what happened
//! between two packets that were sent the capture has the times, and the order up to these: a
//! packet may have been handled only after what follows it, or after the next packet was sent, or a
//! few more.

use std::collections::VecDeque;

use ferroce_transport::{Duration, Time};

use crate::compare::{Rules, Wanted};
use crate::given::Given;
use crate::journal::Completed;
use crate::machine::Machine;
use crate::subject::Event;

/// What is kept at most. What is further back has had its effect.
const MOST: usize = 96;
/// After how many packets that were sent a packet that came may be handled, and how much later.
const TURNS: usize = 4;
const LATEST: Duration = Duration::from_millis(20);

/// What happened since the last packet was sent.
pub(crate) struct Lately {
    since: Turn,
    /// What happened before each of the packets that were sent last, and that packet's place.
    turns: VecDeque<(Turn, usize)>,
}

/// What happened since a packet was sent.
struct Turn {
    /// The queue pair as it was before.
    before: Machine,
    happened: Vec<usize>,
    /// The completions that were asked for since.
    taken: Vec<Completed>,
}

impl Turn {
    fn new(machine: &Machine) -> Turn {
        Turn {
            before: machine.clone(),
            happened: Vec::new(),
            taken: Vec::new(),
        }
    }
}

impl Lately {
    pub(crate) fn new(machine: &Machine) -> Lately {
        Lately {
            since: Turn::new(machine),
            turns: VecDeque::new(),
        }
    }

    /// The packet at this place was sent after all of this, which has made `now` of the queue pair.
    pub(crate) fn turn(&mut self, sent: usize, now: &Machine) {
        let last = std::mem::replace(&mut self.since, Turn::new(now));
        self.turns.push_back((last, sent));
        if self.turns.len() > TURNS {
            self.turns.pop_front();
        }
    }

    /// This has happened, which has made `now` of the queue pair.
    pub(crate) fn happened(&mut self, at: usize, now: &Machine) {
        if self.since.happened.len() == MOST {
            *self = Lately::new(now);
        } else {
            self.since.happened.push(at);
        }
    }

    /// A completion was asked for, which the queue pair has no more.
    pub(crate) fn took(&mut self, completed: &Completed) {
        self.since.taken.push(*completed);
    }

    /// The queue pair after all of this and after it has sent what is wanted, in an order in which
    /// it does; and what may still have happened later than that.
    pub(crate) fn in_another_order(
        &self,
        given: &Given<'_, '_>,
        rules: &Rules,
        want: &Wanted<'_, '_>,
        time: Time,
    ) -> Option<(Machine, Lately)> {
        let (arrivals, others): (Vec<usize>, Vec<usize>) = self
            .since
            .happened
            .iter()
            .partition(|at| given.is_arrival(**at));
        let late = [others, arrivals].concat();

        let orders = [&self.since.happened, &late];
        let found = orders.into_iter().find_map(|order| {
            let cuts = (0..=order.len()).rev();
            let mut cuts = cuts.filter(|cut| *cut < order.len() || *order != self.since.happened);
            cuts.find_map(|cut| {
                let mut machine = self.since.before.clone();
                for at in &order[..cut] {
                    given.apply(&mut machine, *at);
                }
                let sent = rules.explain(&machine, want, time)?;
                Some((sent, order[cut..].to_vec()))
            })
        });
        let (mut before, happened) = found?;

        // What was asked for and has not been completed yet will be.
        let mut taken = self.since.taken.clone();
        taken.retain(|completed| !before.take(completed));
        let mut machine = before.clone();
        for at in &happened {
            given.apply(&mut machine, *at);
        }
        for completed in &taken {
            let _ = machine.take(completed);
        }
        let lately = Lately {
            since: Turn {
                before,
                happened,
                taken,
            },
            turns: VecDeque::new(),
        };
        Some((machine, lately))
    }

    /// The queue pair after all of this and after it has sent what is wanted, if it has handled a
    /// packet only now that came before the last packets that were sent.
    pub(crate) fn after_others(
        &self,
        given: &Given<'_, '_>,
        rules: &Rules,
        want: &Wanted<'_, '_>,
        time: Time,
    ) -> Option<(Machine, Lately)> {
        let arrivals = self
            .turns
            .iter()
            .enumerate()
            .rev()
            .flat_map(|(first, (turn, _))| {
                let happened = turn.happened.iter().rev();
                happened.map(move |late| (first, *late))
            });
        let late = arrivals
            .filter(|(_, late)| given.is_arrival(*late))
            .take_while(|(_, late)| given.time(*late) + LATEST >= time);
        let (before, taken) = late
            .filter_map(|(first, late)| self.handled_late(first, late, given, rules))
            .find_map(|(machine, taken)| Some((rules.explain(&machine, want, time)?, taken)))?;

        let mut lately = Lately::new(&before);
        lately.since.taken = taken;
        Some((before, lately))
    }

    /// The queue pair after all since a turn, with a packet that came in it handled last; and the
    /// completions that were asked for and have not been completed yet.
    fn handled_late(
        &self,
        first: usize,
        late: usize,
        given: &Given<'_, '_>,
        rules: &Rules,
    ) -> Option<(Machine, Vec<Completed>)> {
        let mut machine = self.turns[first].0.before.clone();
        let mut taken = Vec::new();
        for (turn, sent) in self.turns.iter().skip(first) {
            for at in turn.happened.iter().filter(|at| **at != late) {
                given.apply(&mut machine, *at);
            }
            let want = match given.event(*sent) {
                Event::Sent(packet) => Wanted::Packet(packet),
                Event::Leaves(fault) => Wanted::Kept(*fault),
                _ => return None,
            };
            machine = rules.explain(&machine, &want, given.time(*sent))?;
            taken.extend_from_slice(&turn.taken);
        }
        for at in self.since.happened.iter().chain([&late]) {
            given.apply(&mut machine, *at);
        }
        taken.extend_from_slice(&self.since.taken);
        taken.retain(|completed| !machine.take(completed));
        Some((machine, taken))
    }
}
