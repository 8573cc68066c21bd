//! What the CM has to say, of connections and of requests, and what programs are told of it.

use ferroce_fabric::cm::{CmEvent, CmId};
use ferroce_wire::cm::{Rej, Rep};
use rustix::io::Errno;

use super::events::{Detail, Kind, Params};
use super::host::Host;
use super::id::State;
use super::state::Ucma;
use super::terms::{SERVICE_TIMEOUT, from_wire};

/// With more ids than these, requests that were taken back before a program was told of them are
/// dropped. Below it gets both events, as from the kernel.
const FLOOD: usize = 1024;

impl Ucma {
    /// Handles what the CM has to say, until it has nothing more.
    pub(super) fn settle(&mut self, host: &Host<'_>) {
        while let Some((cm, event)) = self.out.events.pop_front() {
            let asked = match &event {
                CmEvent::Request { from, request, .. } => {
                    Some((request.service_id, from, &request.private_data[..]))
                }
                CmEvent::ResolveRequest { from, request, .. } => {
                    Some((request.service_id, from, &request.private_data[..]))
                }
                _ => None,
            };

            if let Some((service, from, data)) = asked
                && self.is_early(service, from, data, host)
                && self
                    .services
                    .wait_for_listener(service, cm, &event, host.now)
            {
                continue;
            }

            match event {
                CmEvent::Request {
                    listener,
                    from,
                    request,
                } => self.requested(listener, cm, &from, &request, host),
                CmEvent::ResolveRequest {
                    listener,
                    from,
                    request,
                } => {
                    self.resolve_requested(listener, cm, &from, &request, host);
                }
                event => self.progress(cm, event, host),
            }
        }
    }

    fn progress(&mut self, cm: CmId, event: CmEvent, host: &Host<'_>) {
        let Some(&handle) = self.by_cm.get(&cm) else {
            return;
        };

        self.generations.touch(handle);
        if matches!(event, CmEvent::Rejected(_))
            && self.ids.len() > FLOOD
            && self.forget_request(handle, host)
        {
            return;
        }

        let Some(id) = self.ids.get_mut(handle) else {
            return;
        };

        let wanted = match event {
            CmEvent::TimewaitExit => State::Disconnect,
            _ => State::Connect,
        };
        if id.state != wanted {
            return;
        }

        let timed_out = -Errno::TIMEDOUT.raw_os_error();
        let (kind, status, detail) = match event {
            CmEvent::RequestTimedOut | CmEvent::ReplyTimedOut | CmEvent::ResolveTimedOut => {
                (Kind::Unreachable, timed_out, Detail::None)
            }
            CmEvent::Reply(rep) => {
                // The program may take its time: a peer that asks again is told so.
                let _ = self
                    .cm
                    .mra(host.now, cm, SERVICE_TIMEOUT, true, &[], &mut self.out);
                (Kind::ConnectResponse, 0, Detail::Connection(replied(&rep)))
            }
            CmEvent::Established(_) => (Kind::Established, 0, Detail::None),
            CmEvent::Rejected(rej) => (
                Kind::Rejected,
                rej.reason.into(),
                Detail::Connection(rejected(&rej)),
            ),
            CmEvent::DisconnectRequest(_) | CmEvent::Disconnected(Some(_)) => {
                id.state = State::Disconnect;
                (Kind::Disconnected, 0, Detail::None)
            }
            CmEvent::Disconnected(None) => {
                id.state = State::Disconnect;
                (Kind::Disconnected, timed_out, Detail::None)
            }
            CmEvent::TimewaitExit => (Kind::TimewaitExit, 0, Detail::None),
            CmEvent::ResolveReply(rep) => return self.resolved(handle, &rep),
            CmEvent::Acknowledged(_) | CmEvent::Request { .. } | CmEvent::ResolveRequest { .. } => {
                return;
            }
        };

        self.raise(handle, kind, status, detail);
    }
}

fn replied(rep: &Rep) -> Box<Params> {
    let mut params = Box::new(Params {
        ece: from_wire(rep.ece),
        ..Params::default()
    });
    let conn = &mut params.conn;
    conn.responder_resources = rep.initiator_depth;
    conn.initiator_depth = rep.responder_resources;
    conn.flow_control = rep.flow_control.into();
    conn.rnr_retry_count = rep.rnr_retry_count;
    conn.srq = rep.srq.into();
    conn.qp_num = rep.local_qpn;
    params.set_private_data(&rep.private_data);
    params
}

fn rejected(rej: &Rej) -> Box<Params> {
    let mut params = Box::<Params>::default();
    params.set_private_data(&rej.private_data);
    params
}
