//! Faults of connection management: requests that are refused, connections that are ended.

use ferroce_control::CounterPage;
use ferroce_control::faults::{Action, Direction, Given, Lane, Whom};
use ferroce_control::process;
use ferroce_fabric::cm;

use super::host::Host;
use super::id::State;
use super::serve::Server;
use super::state::Ucma;
use super::surroundings::Surroundings as View;
use crate::armed::{self, Armed};

/// A course of no queue pair's.
const LANE: Lane = Lane {
    ordinal: 0,
    direction: Direction::In,
};

/// The faults that there are.
#[derive(Debug, Default)]
pub(super) struct Faults {
    armed: Vec<Armed>,
}

impl Faults {
    /// The reason for which a request of this program's listener is to be refused, if it is.
    fn reject(&mut self, pid: u32) -> Option<u16> {
        for armed in &mut self.armed {
            let Action::CmReject { reason } = armed.given.fault.action else {
                continue;
            };
            if includes(&armed.given.fault.whom, pid) && armed.draws(LANE).is_some() {
                return Some(reason);
            }
        }
        None
    }
}

/// Whether a fault is about the program of a process.
fn includes(whom: &Whom, pid: u32) -> bool {
    let name = match whom.program {
        Some(_) => process::name(pid).unwrap_or_default(),
        None => String::new(),
    };
    whom.includes(&name, pid)
}

impl Ucma {
    /// The reason for which a fault has a request for a service refused.
    pub(super) fn refused_by_fault(&mut self, service_id: u64) -> Option<u16> {
        if self.faults.armed.is_empty() {
            return None;
        }
        let service = self.services.get(service_id);
        let listener = service.and_then(|service| service.ids.first());
        let id = listener.and_then(|id| self.ids.get(*id))?;
        let pid = self.channels.get(&id.channel)?.pid;
        self.faults.reject(pid)
    }

    /// Ends the connections of programs, as if each had said so itself. Returns how many.
    fn end_connections(&mut self, whom: &Whom, host: &Host<'_>) -> u64 {
        let connected = |id: &super::id::Id| {
            let cm = id.cm.filter(|_| id.state == State::Connect);
            cm.and_then(|cm| self.cm.state(cm)) == Some(cm::State::Established)
        };
        let pid = |channel| self.channels.get(&channel).map_or(0, |channel| channel.pid);
        let theirs: Vec<u32> = self
            .ids
            .iter()
            .filter(|(_, id)| connected(id) && includes(whom, pid(id.channel)))
            .map(|(handle, _)| handle)
            .collect();

        theirs
            .iter()
            .filter(|handle| self.disconnect(**handle, host).is_ok())
            .count() as u64
    }
}

impl Server {
    /// From now on the faults are these. Returns which of them have happened by that, and how many
    /// connections each has ended.
    pub(crate) fn take_faults(
        &mut self,
        given: Vec<Given>,
        page: CounterPage,
        view: &View<'_>,
    ) -> Vec<(u32, u64)> {
        let host = self.host(view);
        let ends = |given: &&Given| given.fault.action == Action::Disconnect;
        let ended = given.iter().filter(ends);
        let ended = ended
            .map(|given| {
                (
                    given.id,
                    self.ucma.end_connections(&given.fault.whom, &host),
                )
            })
            .collect();
        armed::replace(&mut self.ucma.faults.armed, given, &page);
        self.finish(&host);
        ended
    }
}
