//! Things that happened at about the same time, in the orders that they may have had.
//!
//! A program's threads read the clock before they take a queue pair's lock. So of what happened
//! between two packets that were sent the capture has the times, and the order up to these: a
//! packet may have been handled only after what follows it, or after the next packet was sent.

use ferroce_transport::Time;

use crate::compare::{Rules, Wanted};
use crate::given::Given;
use crate::journal::Completed;
use crate::machine::Machine;

/// What is kept at most. What is further back has had its effect.
const MOST: usize = 96;

/// What happened since the last packet was sent.
pub(crate) struct Lately {
    /// The queue pair as it was before.
    before: Machine,
    happened: Vec<usize>,
    /// The completions that were asked for since.
    taken: Vec<Completed>,
}

impl Lately {
    pub(crate) fn new(machine: &Machine) -> Lately {
        Lately {
            before: machine.clone(),
            happened: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// This has happened, which has made `now` of the queue pair.
    pub(crate) fn happened(&mut self, at: usize, now: &Machine) {
        if self.happened.len() == MOST {
            *self = Lately::new(now);
        } else {
            self.happened.push(at);
        }
    }

    /// A completion was asked for, which the queue pair has no more.
    pub(crate) fn took(&mut self, completed: &Completed) {
        self.taken.push(*completed);
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
        let (arrivals, others): (Vec<usize>, Vec<usize>) =
            self.happened.iter().partition(|at| given.is_arrival(**at));
        let late = [others, arrivals].concat();

        let orders = [&self.happened, &late];
        let found = orders.into_iter().find_map(|order| {
            let cuts = (0..=order.len()).rev();
            let mut cuts = cuts.filter(|cut| *cut < order.len() || *order != self.happened);
            cuts.find_map(|cut| {
                let mut machine = self.before.clone();
                for at in &order[..cut] {
                    given.apply(&mut machine, *at);
                }
                let sent = rules.explain(&machine, want, time)?;
                Some((sent, order[cut..].to_vec()))
            })
        });
        let (mut before, happened) = found?;

        // What was asked for and has not been completed yet will be.
        let mut taken = self.taken.clone();
        taken.retain(|completed| !before.take(completed));
        let mut machine = before.clone();
        for at in &happened {
            given.apply(&mut machine, *at);
        }
        for completed in &taken {
            let _ = machine.take(completed);
        }
        let lately = Lately {
            before,
            happened,
            taken,
        };
        Some((machine, lately))
    }
}
