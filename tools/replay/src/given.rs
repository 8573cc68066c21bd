//! What is done to a queue pair, with what a packet finds there: memory and receive requests, which
//! are not in a capture, are as the answer to it shows.

use ferroce_transport::{MemoryError, QpState, Time};
use ferroce_wire::{NakCode, Operation, Packet, Psn, Syndrome};

use crate::host::Found;
use crate::journal::Fate;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::subject::{Event, Timed};

/// Answers that are looked at to find the one to a request.
const LOOK_AHEAD: usize = 4096;

/// All that happened to a queue pair.
pub(crate) struct Given<'p, 'a> {
    plan: &'p Plan<'a>,
    /// The answers that it sent, by their place among the events.
    answers: Vec<(usize, &'p Packet<'a>)>,
    /// The requests that it refused as invalid: the answer's place, and the PSN.
    invalid: Vec<(usize, Psn)>,
}

impl<'p, 'a> Given<'p, 'a> {
    pub(crate) fn new(plan: &'p Plan<'a>) -> Given<'p, 'a> {
        let answer = |(at, timed): (usize, &'p Timed<'a>)| match &timed.event {
            Event::Sent(packet) if packet.info.is_response() => Some((at, packet)),
            _ => None,
        };
        let answers: Vec<_> = plan.events.iter().enumerate().filter_map(answer).collect();
        let is_invalid = |(at, answer): &(usize, &Packet<'_>)| {
            let kind = answer.ext.aeth?.kind();
            let invalid = kind == Syndrome::Nak(NakCode::InvalidRequest);
            invalid.then(|| (*at, Psn::new(answer.bth.psn)))
        };
        Given {
            plan,
            invalid: answers.iter().filter_map(is_invalid).collect(),
            answers,
        }
    }

    /// Whether it is that a packet came.
    pub(crate) fn is_arrival(&self, at: usize) -> bool {
        matches!(self.plan.events[at].event, Event::Came(..))
    }

    pub(crate) fn event(&self, at: usize) -> &'p Event<'a> {
        &self.plan.events[at].event
    }

    pub(crate) fn time(&self, at: usize) -> Time {
        self.plan.events[at].time
    }

    /// Does to a queue pair what happened.
    pub(crate) fn apply(&self, machine: &mut Machine, at: usize) {
        let timed = &self.plan.events[at];
        match &timed.event {
            Event::SetTo(settings) => {
                let anew = settings.service != machine.settings.service
                    || (settings.srq, settings.sq_sig_all)
                        != (machine.settings.srq, machine.settings.sq_sig_all);
                if anew || settings.state == QpState::Reset {
                    *machine = machine.anew(*settings);
                }
                machine.set(settings, timed.time);
            }
            // What cannot be posted now is missed when it is to be sent.
            Event::Post(request) => {
                let _ = machine.post(request);
            }
            Event::Introduced => machine.qp.introduce(),
            Event::PostRecv { wr_id, bytes } => {
                let _ = machine.post_recv(*wr_id, *bytes);
            }
            Event::Came(packet, fate) => {
                wait_for_receiver(machine, timed.time);
                let times = match fate {
                    Some(Fate::Lost | Fate::Held) => 0,
                    Some(Fate::Twice) => 2,
                    _ => 1,
                };
                for _ in 0..times {
                    self.prepare(machine, at, packet);
                    machine.receive(timed.time, packet, *fate);
                }
            }
            _ => {}
        }
        if !self.plan.known.posts {
            machine.host.completions.clear();
        }
    }

    /// Has the memory and the receive requests be there for a packet, or not, as the answer to it
    /// shows.
    fn prepare(&self, machine: &mut Machine, at: usize, packet: &Packet<'_>) {
        let mut found = Found {
            shared: true,
            ..Found::default()
        };
        if !packet.info.is_request() {
            machine.host.found = found;
            return;
        }

        let verdict = self.verdict_on(at, packet);
        match verdict {
            Some(Syndrome::RnrNak { .. }) => found.shared = false,
            Some(Syndrome::Nak(NakCode::RemoteAccessError)) => {
                found.refuses = Some(MemoryError::Rights);
                // A SEND names no other key than one to invalidate.
                let named = packet.info.operation != Operation::Send || packet.ext.ieth.is_some();
                found.no_queue = !named;
            }
            Some(Syndrome::Nak(NakCode::RemoteOperationalError)) => {
                found.refuses = Some(MemoryError::Fault);
            }
            _ => {}
        }
        if matches!(
            packet.info.operation,
            Operation::CompareSwap | Operation::FetchAdd
        ) {
            found.word = self.word_for(at, packet.bth.psn).unwrap_or_default();
        }

        if packet.info.begins() {
            // A shared receive queue's request may have been too short, for its message only.
            let refused = self.invalid.iter().find(|(place, _)| *place > at);
            let packets = refused.map(|(_, of)| of.forward_from(Psn::new(packet.bth.psn)));
            found.room = packets.map(|n| n.saturating_mul(machine.settings.path_mtu));
        }
        machine.host.found = found;
        if machine.may_keep(packet.bth.psn) {
            let expected = Psn::new(machine.qp.standing().expected_psn);
            let early = &mut machine.host.early;
            early.retain(|psn, _| !Psn::new(*psn).before(expected));
            early.insert(packet.bth.psn, found);
        }

        let consumes = match packet.info.operation {
            Operation::Send => packet.info.begins(),
            _ => packet.info.has_imm(),
        };
        if consumes
            && !self.plan.known.posts
            && !matches!(verdict, Some(Syndrome::RnrNak { .. }))
            && machine.qp.standing().receives == 0
        {
            let _ = machine.post_recv(0, u64::from(u32::MAX));
        }
    }

    /// The answers after an event.
    fn answers_after(&self, at: usize) -> impl Iterator<Item = &'p Packet<'a>> {
        let from = self.answers.partition_point(|(place, _)| *place <= at);
        self.answers[from..]
            .iter()
            .take(LOOK_AHEAD)
            .map(|(_, packet)| *packet)
    }

    /// What a request was answered with, if it was refused.
    fn verdict_on(&self, at: usize, packet: &Packet<'_>) -> Option<Syndrome> {
        let psn = Psn::new(packet.bth.psn);
        for answer in self.answers_after(at) {
            let kind = answer.ext.aeth.map(|aeth| aeth.kind());
            let of = Psn::new(answer.bth.psn);
            match kind {
                Some(Syndrome::Nak(_) | Syndrome::RnrNak { .. }) if of == psn => return kind,
                _ if !of.before(psn) => return None,
                _ => {}
            }
        }
        None
    }

    /// The value that an ATOMIC was answered with.
    fn word_for(&self, at: usize, psn: u32) -> Option<u64> {
        let mut answers = self.answers_after(at);
        answers.find_map(|answer| answer.ext.atomic_ack.filter(|_| answer.bth.psn == psn))
    }
}

/// Ends the wait that an RNR NAK has asked for, if it is over.
pub(crate) fn wait_for_receiver(machine: &mut Machine, time: Time) {
    let waits = machine.qp.standing().waits_for_receiver;
    if waits && machine.qp.next_retry().is_some_and(|end| end <= time) {
        machine.lapse(time);
    }
}
