//! The replay of one queue pair: each thing that happened to it is done to the transport's queue
//! pair in its turn, and each thing that it did is asked for.

mod judge;

use std::ops::ControlFlow;

use ferroce_transport::{Duration, Time};

use self::judge::Outcome;
use crate::compare::{Rules, Wanted, spread};
use crate::given::Given;
use crate::machine::{Machine, View};
use crate::names::{SERVICES, STATES, name_of};
use crate::order::Lately;
use crate::plan::Plan;
use crate::step::{Kind, Step, Summary, Verdict, changes};
use crate::subject::{Event, Timed};
use crate::words;

/// A timer that has lapsed so long ago, and whose queue pair has done nothing since, is missed.
const PATIENCE: Duration = Duration::from_secs(2);

/// The replay of a queue pair.
pub(crate) struct Guide<'p, 'a> {
    qpn: u32,
    plan: &'p Plan<'a>,
    given: Given<'p, 'a>,
    rules: Rules,
    machine: Machine,
    lately: Lately,
    /// What a fault has kept back, or sends twice.
    kept: Vec<(u8, u32)>,
    /// Records are missing in the capture.
    gaps: bool,
    /// The first settings have been taken.
    made: bool,
    number: u64,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    steps: u64,
    agreed: u64,
    differed: u64,
    unknown: u64,
}

impl<'p, 'a> Guide<'p, 'a> {
    pub(crate) fn new(qpn: u32, plan: &'p Plan<'a>, gaps: bool, number: u64) -> Guide<'p, 'a> {
        let first = plan.events.iter().find_map(|timed| match &timed.event {
            Event::SetTo(settings) => Some(*settings),
            _ => None,
        });
        let settings = first.unwrap_or_default();
        let introduced = |timed: &Timed<'_>| matches!(timed.event, Event::Introduced);
        let selective = plan.events.iter().any(introduced);
        let machine = Machine::new(qpn, settings, selective);
        Guide {
            qpn,
            plan,
            given: Given::new(plan),
            rules: Rules {
                known: plan.known,
                offset: plan.known.posts.then_some(0),
            },
            lately: Lately::new(&machine),
            machine,
            kept: Vec::new(),
            gaps,
            made: false,
            number,
            counts: Counts::default(),
        }
    }

    /// Steps so far, those of others included.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Goes through all that happened. `last`: when the capture ends.
    pub(crate) fn run(
        &mut self,
        last: Option<Time>,
        show: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for at in 0..self.plan.events.len() {
            self.missed(self.plan.events[at].time, show)?;
            self.happened(at, show)?;
        }
        match last {
            Some(last) => self.missed(last, show),
            None => ControlFlow::Continue(()),
        }
    }

    pub(crate) fn summary(&self) -> Summary {
        let Counts {
            steps,
            agreed,
            differed,
            unknown,
        } = self.counts;
        let settings = &self.machine.settings;
        let mut assumed = Vec::new();
        if !self.plan.known.attributes {
            assumed.push("attributes (path MTU, timeout, retries)");
        }
        if !self.plan.known.posts {
            assumed.push("posts, receive requests and message numbers");
        }
        Summary {
            qp: self.qpn,
            peer: settings.dest_qp_num,
            service: name_of(&SERVICES, settings.service),
            steps,
            agreed,
            differed,
            unknown,
            state: name_of(&STATES, self.machine.qp.state()),
            assumed,
        }
    }

    fn happened(
        &mut self,
        at: usize,
        show: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Timed { time, event } = &self.plan.events[at];
        let (time, before) = (*time, self.machine.view());
        let (kind, text, outcome) = match event {
            Event::Sent(packet) => {
                let outcome = self.sent(at, &Wanted::Packet(packet), time);
                (Kind::Sent, words::packet(packet), outcome)
            }
            Event::Leaves(fault) => (
                Kind::Fault,
                words::fault(fault),
                self.leaves(at, fault, time),
            ),
            Event::Completion(completed) => {
                let outcome = self.completed(at, completed, time);
                (Kind::Completed, words::completed(completed), outcome)
            }
            Event::State(state) => {
                let name = name_of(&STATES, *state);
                (Kind::State, name.to_owned(), self.is(*state, time))
            }
            given => {
                let (kind, text) = in_words(given);
                self.give(at);
                (kind, text, Outcome::of(Verdict::Given))
            }
        };
        self.step(time, kind, text, &before, outcome, show)
    }

    fn step(
        &mut self,
        time: Time,
        kind: Kind,
        text: String,
        before: &View,
        outcome: Outcome,
        show: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.number += 1;
        self.counts.steps += 1;
        match outcome.verdict {
            Verdict::Agrees => self.counts.agreed += 1,
            Verdict::Differs => self.counts.differed += 1,
            Verdict::Unknown => self.counts.unknown += 1,
            Verdict::Given => {}
        }
        let after = self.machine.view();
        show(&Step {
            number: self.number,
            time: time.as_nanos(),
            qp: self.qpn,
            kind,
            text,
            state: name_of(&STATES, after.state),
            changes: changes(before, &after),
            verdict: outcome.verdict,
            note: outcome.note,
        })
    }

    /// What is done to the queue pair, and noted, as it may have been done a little later.
    fn give(&mut self, at: usize) {
        self.given.apply(&mut self.machine, at);
        self.made |= matches!(self.plan.events[at].event, Event::SetTo(_));
        self.lately.happened(at, &self.machine);
    }

    /// A timer of the transport's has lapsed long before `time`, and nothing shows it.
    fn missed(
        &mut self,
        time: Time,
        show: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if !self.plan.known.posts || !self.machine.is_reliable() {
            return ControlFlow::Continue(());
        }
        // As often as there are retries, at most.
        for _ in 0..16 {
            let waits = self.machine.qp.standing().waits_for_receiver;
            let deadline = self.machine.qp.next_retry().filter(|_| !waits);
            let Some(deadline) = deadline else { break };
            if deadline + spread(&self.machine) + PATIENCE >= time {
                break;
            }
            let before = self.machine.view();
            self.machine.lapse(deadline);
            self.lately = Lately::new(&self.machine);
            let text = "Local ACK Timeout".to_owned();
            let verdict = self.differs();
            let outcome = Outcome::noted(verdict, "the capture does not show that it has lapsed");
            self.step(deadline, Kind::Timer, text, &before, outcome, show)?;
        }
        ControlFlow::Continue(())
    }
}

/// What is done to a queue pair, in words.
fn in_words(event: &Event<'_>) -> (Kind, String) {
    match event {
        Event::SetTo(settings) => (Kind::Set, words::settings(settings)),
        Event::Post(request) => (Kind::Posted, words::request(request)),
        Event::Introduced => {
            let text = "its peer may understand selective acknowledgements";
            (Kind::State, text.to_owned())
        }
        Event::PostRecv { wr_id, bytes } => (
            Kind::Posted,
            format!("receive, wr_id {wr_id:#x}, {bytes} bytes"),
        ),
        Event::Came(packet, None) => (Kind::Came, words::packet(packet)),
        Event::Came(packet, Some(fate)) => {
            let text = words::packet(packet);
            (Kind::Came, format!("{text}; by a fault: {fate:?}"))
        }
        _ => (Kind::State, String::new()),
    }
}
