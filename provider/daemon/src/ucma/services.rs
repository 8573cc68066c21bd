//! The services that ids listen to, and the time without a listener: a program that listens anew
//! for each phase of its work (perftest's `-R` does) is away for a moment, and one that tells its
//! peer the port as soon as it has it (qperf's `-cm`) does not listen yet. Its peer may be the
//! quicker one. A request that comes then waits a little instead of being refused.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ferroce_fabric::cm::{Cm, CmError, CmEvent, CmId, ResolveReply, Time};
use ferroce_fabric::{reject, sidr_status};

use super::outbox::Outbox;

/// The longest backlog, and what an impossible one becomes; the kernel has a setting for it
/// (`net.rdma_ucm.max_backlog`).
pub(super) const MAX_BACKLOG: u32 = 1 << 14;
/// The most services that may be listened to.
pub(super) const MAX_LISTENERS: usize = 1 << 14;
/// With more services than these, none is kept for who has a port only.
const MAX_EXPECTED: usize = MAX_LISTENERS / 2;
/// How long a service that has lost its last listener is remembered, in nanoseconds: perftest
/// pauses for a second, and longer by a time-out of its queue pair, 2.1 s, where its last
/// acknowledgement is lost.
const LINGER: Duration = Duration::from_secs(4);
/// How long a request waits for a listener: shorter than the 4.3 s after which rdma_cm repeats it.
const WAIT: Duration = Duration::from_secs(3);
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

/// A service to which ids listen; the CM knows of one listener for all of them.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) cm: CmId,
    /// Empty before the first listener, and between two.
    pub(super) ids: Vec<u32>,
    /// Those that have the port and may come to listen.
    pub(super) expected: Vec<u32>,
    /// Whether the last listener has gone a moment ago.
    pub(super) paused: bool,
}

/// All services, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Services {
    entries: HashMap<u64, Service>,
    /// Those without a listener, and until when they are remembered.
    paused: VecDeque<(Time, u64)>,
    waiting: VecDeque<Waiting>,
}

impl Services {
    /// One of them.
    pub(super) fn get(&self, service: u64) -> Option<&Service> {
        self.entries.get(&service)
    }

    /// The numbers of those that have listeners.
    pub(super) fn listened(&self) -> Vec<u64> {
        let listened = |(_, entry): &(&u64, &Service)| !entry.ids.is_empty();
        let entries = self.entries.iter().filter(listened);
        entries.map(|(service, _)| *service).collect()
    }

    /// An id has the port of a service from now on, and may come to listen to it. `false`: there
    /// are so many services that none can be kept for that.
    pub(super) fn expect(&mut self, service: u64, handle: u32, cm: &mut Cm) -> bool {
        if let Some(entry) = self.entries.get_mut(&service) {
            entry.expected.push(handle);
            return true;
        }
        if self.entries.len() >= MAX_EXPECTED {
            return false;
        }
        let Ok(cm) = cm.listen(service, !0) else {
            return false;
        };
        let entry = Service {
            cm,
            ids: Vec::new(),
            expected: vec![handle],
            paused: false,
        };
        self.entries.insert(service, entry);
        true
    }

    /// An id will not come to listen to a service: who waits for nobody else is refused.
    pub(super) fn give_up(
        &mut self,
        service: u64,
        handle: u32,
        now: Time,
        cm: &mut Cm,
        out: &mut Outbox,
    ) {
        let Some(entry) = self.entries.get_mut(&service) else {
            return;
        };
        entry.expected.retain(|id| *id != handle);
        if !entry.is_needed() {
            self.forget(service, now, cm, out);
        }
        self.reconsider(service, out);
    }

    /// An id listens to a service from now on.
    pub(super) fn enter(
        &mut self,
        service: u64,
        handle: u32,
        now: Time,
        cm: &mut Cm,
        out: &mut Outbox,
    ) -> Result<(), CmError> {
        if self.entries.len() >= MAX_LISTENERS {
            self.end_pauses(true, now, cm, out);
        }
        match self.entries.get_mut(&service) {
            Some(entry) => {
                entry.ids.push(handle);
                entry.expected.retain(|id| *id != handle);
                entry.paused = false;
            }
            None => {
                let entry = Service {
                    cm: cm.listen(service, !0)?,
                    ids: vec![handle],
                    expected: Vec::new(),
                    paused: false,
                };
                self.entries.insert(service, entry);
            }
        }
        self.resume(service, out);
        Ok(())
    }

    /// An id listens to a service no more.
    pub(super) fn leave(&mut self, service: u64, handle: u32, now: Time) {
        let Some(entry) = self.entries.get_mut(&service) else {
            return;
        };
        entry.ids.retain(|id| *id != handle);
        if entry.ids.is_empty() {
            entry.paused = true;
            self.paused.push_back((now + LINGER, service));
        }
    }

    /// When [`end_pauses`](Self::end_pauses) has something to do.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let service = self.paused.front().map(|(until, _)| *until);
        let request = self.waiting.front().map(|waiting| waiting.until);
        service.into_iter().chain(request).min()
    }

    /// Keeps a request for a listener to come; `false`: too many wait already.
    pub(super) fn wait_for_listener(
        &mut self,
        service: u64,
        cm: CmId,
        event: &CmEvent,
        now: Time,
    ) -> bool {
        if self.waiting.len() >= MAX_WAITING {
            return false;
        }
        let (until, event) = (now + WAIT, event.clone());
        self.waiting.push_back(Waiting {
            until,
            service,
            cm,
            event,
        });
        true
    }

    /// A service has a listener again.
    fn resume(&mut self, service: u64, out: &mut Outbox) {
        self.paused.retain(|(_, paused)| *paused != service);
        self.reconsider(service, out);
    }

    /// What waits for a service is handled with the other events, and may have to wait again.
    fn reconsider(&mut self, service: u64, out: &mut Outbox) {
        let (theirs, rest): (VecDeque<_>, _) = self
            .waiting
            .drain(..)
            .partition(|waiting| waiting.service == service);
        self.waiting = rest;
        let events = theirs
            .into_iter()
            .map(|waiting| (waiting.cm, waiting.event));
        out.events.extend(events);
    }

    fn forget(&mut self, service: u64, now: Time, cm: &mut Cm, out: &mut Outbox) {
        if let Some(entry) = self.entries.remove(&service) {
            let _ = cm.destroy(now, entry.cm, out);
        }
    }

    /// Forgets services and refuses requests whose time is over; `all`: whatever the time.
    pub(super) fn end_pauses(&mut self, all: bool, now: Time, cm: &mut Cm, out: &mut Outbox) {
        while let Some((_, service)) = due(&mut self.paused, |(until, _)| all || *until <= now) {
            let entry = self.entries.get_mut(&service);
            let needed = entry.is_some_and(|entry| {
                entry.paused = false;
                entry.is_needed()
            });
            if !needed {
                self.forget(service, now, cm, out);
            }
        }

        while let Some(waiting) = due(&mut self.waiting, |waiting| all || waiting.until <= now) {
            refuse(waiting, now, cm, out);
        }
    }
}

impl Service {
    /// Whether somebody listens, or may come to.
    fn is_needed(&self) -> bool {
        self.paused || !self.ids.is_empty() || !self.expected.is_empty()
    }
}

/// Tells a peer that nobody listens.
fn refuse(waiting: Waiting, now: Time, cm: &mut Cm, out: &mut Outbox) {
    match waiting.event {
        CmEvent::ResolveRequest { .. } => {
            let status = sidr_status::UNSUPPORTED;
            let reply = ResolveReply {
                status,
                ..ResolveReply::default()
            };
            let _ = cm.resolve_reply(now, waiting.cm, &reply, out);
        }
        _ => {
            let reason = reject::INVALID_SERVICE_ID;
            let _ = cm.reject(now, waiting.cm, reason, &[], &[], out);
        }
    }

    let _ = cm.destroy(now, waiting.cm, out);
}

/// Takes the first if it is due; they are in the order of their times.
fn due<T>(queue: &mut VecDeque<T>, is_due: impl FnOnce(&T) -> bool) -> Option<T> {
    queue
        .front()
        .is_some_and(is_due)
        .then(|| queue.pop_front())?
}
