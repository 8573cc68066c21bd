//! The faults of this program: which there are, and what they have become of a packet, a completion
//! or a verb. `faults_out` and `rx::tapped` carry it out.

use std::collections::HashMap;
use std::sync::Arc;

use ferroce_control::CounterPage;
use ferroce_control::faults::{
    Action, Course, Damage, Direction, Draw, Fault, Given, GivenFaults, Lane, Nak, QpNumber,
    Status, Verb,
};
use ferroce_transport::{Completion, Duration, Injected, Time, WcStatus};
use ferroce_wire::Packet;
use parking_lot::{Mutex, RwLock};

use super::faults_held::Held;
use crate::error::{Error, Result};
use crate::progress::timers;

/// The faults, and the packets that they hold back.
#[derive(Default)]
pub(crate) struct Faults {
    list: RwLock<Arc<[Arc<Armed>]>>,
    pub(crate) held: Arc<Held>,
}

/// A fault, and how far it has come with each queue pair.
struct Armed {
    given: Given,
    /// When its time is over, should the daemon not say so.
    until: Time,
    courses: Mutex<HashMap<Lane, Course>>,
}

/// A packet that faults are asked about.
pub(crate) struct Passing<'a> {
    /// The queue pair's number, and which of the program's it is.
    pub(crate) qp: u32,
    pub(crate) ordinal: u32,
    /// The queue pair at the other end, if that is known.
    pub(crate) peer: Option<u32>,
    pub(crate) direction: Direction,
    pub(crate) packet: &'a Packet<'a>,
    /// Bytes from the BTH to the ICRC.
    pub(crate) length: usize,
    /// It could be refused as it is: a request with the expected PSN.
    pub(crate) refusable: bool,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) lost: bool,
    /// Changed, and by which random number.
    pub(crate) damaged: Option<(Damage, u64)>,
    pub(crate) delayed: Option<Duration>,
    pub(crate) twice: bool,
    /// The next one goes before it.
    pub(crate) overtaken: bool,
    pub(crate) refused: Option<Injected>,
}

impl Armed {
    fn new(given: Given, now: Time) -> Armed {
        Armed {
            until: given
                .left_ns
                .map_or(Time::MAX, |left| now + Duration::from_nanos(left)),
            given,
            courses: Mutex::default(),
        }
    }

    /// Whether it hits what it is about this time.
    fn draws(&self, lane: Lane, response: bool) -> Option<Draw> {
        let mut courses = self.courses.lock();
        let course = courses.entry(lane).or_default();
        course.next(&self.given.fault, lane, response)
    }

    fn is_about(&self, passing: &Passing<'_>) -> bool {
        let whom = &self.given.fault.whom;
        let action = &self.given.fault.action;
        if let Action::PortDown { .. } = action {
            return true;
        }

        let numbered = |wanted: Option<QpNumber>, number: Option<u32>| {
            wanted.is_none_or(|wanted| number == Some(wanted.0))
        };
        numbered(whom.qp, Some(passing.qp))
            && numbered(whom.peer_qp, passing.peer)
            && action.fits(passing.packet)
            && (whom.packets.as_ref())
                .is_none_or(|packets| packets.matches(passing.packet, passing.length))
    }

    /// Whether packets of a direction are what it is about.
    fn watches(&self, direction: Direction, refusable: bool) -> bool {
        match self.given.fault.action {
            Action::PortDown { .. } => true,
            // They are the responder's, to whom requests come.
            Action::Rnr | Action::Nak { .. } => direction == Direction::In && refusable,
            Action::Loss
            | Action::Delay { .. }
            | Action::Duplicate
            | Action::Reorder
            | Action::Corrupt { .. } => self.given.fault.whom.direction == direction,
            _ => false,
        }
    }
}

impl Verdict {
    fn add(&mut self, action: Action, Draw(random): Draw) {
        match action {
            Action::Loss | Action::PortDown { .. } => self.lost = true,
            Action::Delay { by } => {
                let more = Duration::from_nanos(by.draw(random));
                self.delayed = Some(self.delayed.map_or(more, |delay| delay + more));
            }
            Action::Duplicate => self.twice = true,
            Action::Reorder => self.overtaken = true,
            Action::Corrupt { damage } => self.damaged = Some((damage, random)),
            Action::Rnr => self.refused = Some(Injected::NotReady),
            Action::Nak { code } => {
                self.refused = Some(match code {
                    Nak::Psn => Injected::PsnSequence,
                    Nak::InvalidRequest => Injected::InvalidRequest,
                    Nak::RemoteAccess => Injected::RemoteAccess,
                    Nak::RemoteOperation => Injected::RemoteOperational,
                });
            }
            _ => {}
        }
    }
}

impl Faults {
    /// From now on it is these. What has begun goes on. Returns whether there are any.
    pub(crate) fn replace(&self, given: &GivenFaults, counters: &CounterPage) -> bool {
        let now = timers::now();
        let mut list = self.list.write();
        let known = |id| list.iter().find(|armed| armed.given.id == id).cloned();
        let all: Arc<[Arc<Armed>]> = (given.faults.iter())
            .map(|given| {
                known(given.id).unwrap_or_else(|| Arc::new(Armed::new(given.clone(), now)))
            })
            .collect();

        let new = (given.faults.iter()).filter(|given| known(given.id).is_none());
        let new: Vec<_> = new.map(|given| (given.id, given.place)).collect();
        counters.take_faults(given.generation, new);
        *list = all;
        !list.is_empty()
    }

    /// The list as it is; nothing is locked afterwards.
    fn list(&self) -> Arc<[Arc<Armed>]> {
        self.list.read().clone()
    }

    /// What becomes of a packet. The first fault by which it is lost is the last that it meets.
    pub(crate) fn judge(&self, passing: &Passing<'_>, counters: &CounterPage) -> Verdict {
        let mut verdict = Verdict::default();
        let lane = Lane {
            ordinal: passing.ordinal,
            direction: passing.direction,
        };

        let now = timers::now();
        let response = passing.packet.info.is_response();
        for armed in self.list().iter() {
            if armed.until <= now
                || !armed.watches(passing.direction, passing.refusable)
                || !armed.is_about(passing)
            {
                continue;
            }
            let Some(draw) = armed.draws(lane, response) else {
                continue;
            };
            counters.hit(armed.given.place);
            tracing::debug!(
                fault = armed.given.id,
                qpn = passing.qp,
                psn = passing.packet.bth.psn,
                "{} hits {}",
                armed.given.fault.action,
                passing.packet.info.name
            );
            verdict.add(armed.given.fault.action, draw);
            if verdict.lost {
                break;
            }
        }
        verdict
    }

    /// Has a completion that is a success be an error, where that is asked for. Returns whether it
    /// is one.
    pub(crate) fn spoil(
        &self,
        (qp, ordinal): (u32, u32),
        completion: &mut Completion,
        direction: Direction,
        counters: &CounterPage,
    ) -> bool {
        if completion.status != WcStatus::Success {
            return false;
        }
        let lane = Lane { ordinal, direction };
        let now = timers::now();
        for armed in self.list().iter() {
            let Fault { action, whom, .. } = &armed.given.fault;
            let Action::WcError { status } = *action else {
                continue;
            };
            let about = armed.until > now
                && whom.direction == direction
                && whom.qp.is_none_or(|wanted| wanted.0 == qp)
                && (whom.peer_qp).is_none_or(|wanted| wanted.0 == completion.src_qp);
            if about && armed.draws(lane, false).is_some() {
                counters.hit(armed.given.place);
                completion.status = wc_status(status);
                completion.solicited = true;
                return true;
            }
        }
        false
    }

    /// Whether a verb may be carried out.
    pub(super) fn allows(&self, verb: Verb, hit: impl Fn(u8)) -> Result<()> {
        let lane = Lane {
            ordinal: 0,
            direction: Direction::Out,
        };
        let now = timers::now();
        for armed in self.list().iter() {
            let Action::AllocFail { verb: of, errno } = armed.given.fault.action else {
                continue;
            };
            if of == verb && armed.until > now && armed.draws(lane, false).is_some() {
                hit(armed.given.place);
                return Err(Error::Injected {
                    fault: armed.given.id,
                    verb: verb.name(),
                    errno: errno.number(),
                });
            }
        }
        Ok(())
    }

    /// Whether the port is down, so that nothing comes.
    pub(crate) fn is_port_down(&self) -> bool {
        let down = |armed: &Arc<Armed>| matches!(armed.given.fault.action, Action::PortDown { .. });
        self.list().iter().any(down)
    }

    /// A queue pair has gone: nothing of it is kept.
    pub(crate) fn forget(&self, ordinal: u32) {
        for armed in self.list().iter() {
            let mut courses = armed.courses.lock();
            courses.retain(|lane, _| lane.ordinal != ordinal);
        }
    }
}

fn wc_status(status: Status) -> WcStatus {
    match status {
        Status::LocLen => WcStatus::LocLenErr,
        Status::LocQpOp => WcStatus::LocQpOpErr,
        Status::LocEecOp => WcStatus::LocEecOpErr,
        Status::LocProt => WcStatus::LocProtErr,
        Status::WrFlush => WcStatus::WrFlushErr,
        Status::MwBind => WcStatus::MwBindErr,
        Status::BadResp => WcStatus::BadRespErr,
        Status::LocAccess => WcStatus::LocAccessErr,
        Status::RemInvReq => WcStatus::RemInvReqErr,
        Status::RemAccess => WcStatus::RemAccessErr,
        Status::RemOp => WcStatus::RemOpErr,
        Status::RetryExc => WcStatus::RetryExcErr,
        Status::RnrRetryExc => WcStatus::RnrRetryExcErr,
        Status::LocRddViol => WcStatus::LocRddViolErr,
        Status::RemInvRdReq => WcStatus::RemInvRdReqErr,
        Status::RemAbort => WcStatus::RemAbortErr,
        Status::InvEecn => WcStatus::InvEecnErr,
        Status::InvEecState => WcStatus::InvEecStateErr,
        Status::Fatal => WcStatus::FatalErr,
        Status::RespTimeout => WcStatus::RespTimeoutErr,
        Status::General => WcStatus::GeneralErr,
    }
}
