//! Between two listeners: a program that listens anew for each phase of its work (perftest's `-R` does) is away for a
//! moment, and its peer may be the quicker one. A request that comes then waits a little instead of being refused.

use std::collections::VecDeque;

use ferroce_fabric::cm::{CmEvent, CmId, ResolveReply, Time};
use ferroce_fabric::{reject, sidr_status};

use super::{Host, Ucma};

/// How long a service that has lost its last listener is remembered, in nanoseconds: perftest pauses for a second, and longer by a
/// time-out of its queue pair, 2.1 s, where its last acknowledgement is lost.
const LINGER: Time = 4_000_000_000;
/// How long a request waits for a listener: shorter than the 4.3 s after which rdma_cm repeats it.
const WAIT: Time = 3_000_000_000;
/// The most requests that wait.
const MAX_WAITING: usize = 1024;

/// A request that waits.
#[derive(Debug)]
struct Waiting {
    until: Time,
    service: u64,
    cm: CmId,
    event: CmEvent,
}

/// What is remembered between listeners.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// Services without a listener, and until when.
    services: VecDeque<(Time, u64)>,
    waiting: VecDeque<Waiting>,
}

impl Ucma {
    /// When [`end_pauses`](Self::end_pauses) has something to do.
    pub(super) fn next_pause(&self) -> Option<Time> {
        let service = self.pauses.services.front().map(|(until, _)| *until);
        let request = self.pauses.waiting.front().map(|waiting| waiting.until);
        service.into_iter().chain(request).min()
    }

    /// A service has lost its last listener.
    pub(super) fn pause(&mut self, service: u64, host: &Host<'_>) {
        self.pauses.services.push_back((host.now + LINGER, service));
    }

    /// Keeps a request for a listener to come; `false`: none is expected.
    pub(super) fn wait_for_listener(
        &mut self,
        service: u64,
        cm: CmId,
        event: &CmEvent,
        host: &Host<'_>,
    ) -> bool {
        let paused = self
            .services
            .get(&service)
            .is_some_and(|entry| entry.ids.is_empty());
        if !paused || self.pauses.waiting.len() >= MAX_WAITING {
            return false;
        }
        let (until, event) = (host.now + WAIT, event.clone());
        self.pauses.waiting.push_back(Waiting {
            until,
            service,
            cm,
            event,
        });
        true
    }

    /// A service has a listener again: what has waited is handled with the other events.
    pub(super) fn resume(&mut self, service: u64) {
        self.pauses
            .services
            .retain(|(_, paused)| *paused != service);
        let (theirs, rest): (VecDeque<_>, _) = self
            .pauses
            .waiting
            .drain(..)
            .partition(|waiting| waiting.service == service);
        self.pauses.waiting = rest;
        let events = theirs
            .into_iter()
            .map(|waiting| (waiting.cm, waiting.event));
        self.out.events.extend(events);
    }

    /// Forgets services and refuses requests whose time is over; `all`: whatever the time.
    pub(super) fn end_pauses(&mut self, all: bool, host: &Host<'_>) {
        while let Some((_, service)) = due(&mut self.pauses.services, |(until, _)| {
            all || *until <= host.now
        }) {
            if let Some(entry) = self.services.remove(&service) {
                let _ = self.cm.destroy(host.now, entry.cm, &mut self.out);
            }
        }
        while let Some(waiting) = due(&mut self.pauses.waiting, |waiting| {
            all || waiting.until <= host.now
        }) {
            match waiting.event {
                CmEvent::ResolveRequest { .. } => {
                    let status = sidr_status::UNSUPPORTED;
                    let reply = ResolveReply {
                        status,
                        ..ResolveReply::default()
                    };
                    let _ = self
                        .cm
                        .resolve_reply(host.now, waiting.cm, &reply, &mut self.out);
                }
                _ => {
                    let reason = reject::INVALID_SERVICE_ID;
                    let _ = self
                        .cm
                        .reject(host.now, waiting.cm, reason, &[], &[], &mut self.out);
                }
            }
            let _ = self.cm.destroy(host.now, waiting.cm, &mut self.out);
        }
    }
}

/// Takes the first if it is due; they are in the order of their times.
fn due<T>(queue: &mut VecDeque<T>, is_due: impl FnOnce(&T) -> bool) -> Option<T> {
    queue
        .front()
        .is_some_and(is_due)
        .then(|| queue.pop_front())?
}
