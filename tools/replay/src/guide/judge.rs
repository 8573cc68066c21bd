//! Whether the transport does what the capture shows: what is sent, what is completed, what state
//! there is.

use ferroce_transport::{Completion, QpState, Time, WcStatus};

use super::Guide;
use crate::compare::{Rules, Wanted, next};
use crate::given::wait_for_receiver;
use crate::journal::{Completed, Fate, Fault, Settings};
use crate::machine::Machine;
use crate::names::{STATES, name_of};
use crate::order::Lately;
use crate::step::Verdict;
use crate::subject::Event;
use crate::words;

/// What a step came to.
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    pub(super) note: Option<String>,
}

impl Outcome {
    pub(super) fn of(verdict: Verdict) -> Outcome {
        Outcome {
            verdict,
            note: None,
        }
    }

    pub(super) fn noted(verdict: Verdict, note: impl Into<String>) -> Outcome {
        Outcome {
            verdict,
            note: Some(note.into()),
        }
    }
}

impl Guide<'_, '_> {
    /// The capture shows that this was sent.
    pub(super) fn sent(&mut self, at: usize, want: &Wanted<'_, '_>, time: Time) -> Outcome {
        wait_for_receiver(&mut self.machine, time);
        if let Some(next) = self.rules.explain(&self.machine, want, time) {
            self.learn(want, time);
            self.machine = next;
            self.lately.turn(at, &self.machine);
            return Outcome::of(Verdict::Agrees);
        }
        let other = (self.lately).in_another_order(&self.given, &self.rules, want, time);
        // Of a wire's capture nobody knows when a packet was there.
        let other = other.or_else(|| {
            let lately = self.plan.known.posts.then_some(&self.lately)?;
            lately.after_others(&self.given, &self.rules, want, time)
        });
        if let Some((next, lately)) = other {
            (self.machine, self.lately) = (next, lately);
            let note = "it was before, or after, what happened at about the same time";
            return Outcome::noted(Verdict::Agrees, note);
        }
        let key = (want.opcode(), want.psn());
        if self.kept.contains(&key) {
            return Outcome::noted(
                Verdict::Agrees,
                "a fault had kept it back, or sends it twice",
            );
        }
        if let Some((next, more)) = self.rules.beyond(&self.machine, want, time) {
            self.goes_on(next);
            let verdict = self.differs();
            let note = format!("the transport sends {more} packets before it that are not shown");
            return Outcome::noted(verdict, note);
        }

        // What it sends instead is sent, if it is in this one's place.
        let mut machine = self.machine.clone();
        let instead = next(&mut machine, want, time, u32::MAX);
        let note = match &instead {
            Some(made) => format!("the transport sends {}", words::made(made)),
            None => "the transport sends nothing".to_owned(),
        };
        if instead.is_some_and(|made| made.bth.psn == want.psn()) {
            self.goes_on(machine);
        }
        let verdict = self.differs();
        Outcome::noted(verdict, note)
    }

    /// Where records are missing, so may be what would explain it.
    pub(super) fn differs(&self) -> Verdict {
        match self.gaps {
            true => Verdict::Unknown,
            false => Verdict::Differs,
        }
    }

    /// Learns how message numbers are counted, of a queue pair that was there before.
    fn learn(&mut self, want: &Wanted<'_, '_>, time: Time) {
        if self.rules.offset.is_none() {
            let mut machine = self.machine.clone();
            let made = next(&mut machine, want, time, u32::MAX);
            self.rules.offset = made.and_then(|made| Rules::offset_of(&made, want));
        }
    }

    fn goes_on(&mut self, machine: Machine) {
        self.machine = machine;
        self.lately = Lately::new(&self.machine);
    }

    /// A fault has its way with what is sent.
    pub(super) fn leaves(&mut self, at: usize, fault: &Fault, time: Time) -> Outcome {
        match fault.fate {
            Fate::Twice => {
                self.kept.push((fault.opcode, fault.psn));
                Outcome::of(Verdict::Given)
            }
            fate => {
                let outcome = self.sent(at, &Wanted::Kept(*fault), time);
                if fate == Fate::Held {
                    self.kept.push((fault.opcode, fault.psn));
                }
                outcome
            }
        }
    }

    /// The capture shows that this was completed.
    pub(super) fn completed(&mut self, at: usize, completed: &Completed, time: Time) -> Outcome {
        if self.takes(completed) {
            return Outcome::of(Verdict::Agrees);
        }
        // The program may be about to be done with it: what that completes is told first.
        let flushed = completed.status == WcStatus::WrFlushErr;
        if let Some(settings) = self.about_to_end(at).filter(|_| flushed) {
            self.machine.set(&settings, time);
            self.lately = Lately::new(&self.machine);
            if self.takes(completed) {
                return Outcome::of(Verdict::Agrees);
            }
        }
        // Nothing is sent of what the program's own memory is the trouble of.
        if completed.status != WcStatus::Success {
            let mut tried = self.machine.clone();
            if tried.request(time, u32::MAX).is_none() && tried.take(completed) {
                self.goes_on(tried);
                return Outcome::of(Verdict::Agrees);
            }
        }
        if completed.status != WcStatus::Success
            && let Some(lapsed) = self.rules.lapsed(&self.machine, time)
        {
            let before = std::mem::replace(&mut self.machine, lapsed);
            if self.takes(completed) {
                self.lately = Lately::new(&self.machine);
                return Outcome::noted(Verdict::Agrees, "a timer has lapsed");
            }
            self.machine = before;
        }

        let verdict = self.differs();
        let of = |(receive, of): &&(bool, Completion)| {
            *receive == completed.receive && of.wr_id == completed.wr_id
        };
        let note = match self.machine.host.completions.iter().find(of) {
            Some((_, of)) => format!(
                "the transport completes it with {}",
                words::status(of.status)
            ),
            None => "the transport does not complete it".to_owned(),
        };
        Outcome::noted(verdict, note)
    }

    fn takes(&mut self, completed: &Completed) -> bool {
        let takes = self.machine.take(completed);
        if takes {
            self.lately.took(completed);
        }
        takes
    }

    /// What the program sets the queue pair to next, if that ends it, and only completions are told
    /// before.
    fn about_to_end(&self, at: usize) -> Option<Settings> {
        let next = self.plan.events[at..]
            .iter()
            .find(|timed| !matches!(timed.event, Event::Completion(_) | Event::State(_)));
        match next.map(|timed| &timed.event) {
            Some(Event::SetTo(settings)) if settings.state == QpState::Err => Some(*settings),
            _ => None,
        }
    }

    /// The capture shows this state.
    pub(super) fn is(&mut self, state: QpState, time: Time) -> Outcome {
        if self.machine.qp.state() == state {
            return Outcome::of(Verdict::Agrees);
        }
        if !self.made {
            return Outcome::of(Verdict::Given);
        }
        if let Some(lapsed) = self.rules.lapsed(&self.machine, time)
            && lapsed.qp.state() == state
        {
            self.goes_on(lapsed);
            return Outcome::noted(Verdict::Agrees, "a timer has lapsed");
        }

        let note = format!(
            "the transport stays in {}",
            name_of(&STATES, self.machine.qp.state())
        );
        let settings = Settings {
            state,
            ..self.machine.settings
        };
        self.machine.set(&settings, time);
        self.lately = Lately::new(&self.machine);
        let verdict = match self.plan.known.posts && !self.gaps {
            true => Verdict::Differs,
            false => Verdict::Unknown,
        };
        Outcome::noted(verdict, note)
    }
}
