//! Requests of peers: which listener one is for, and the id that it becomes.

use ferroce_control::GidEntry;
use ferroce_fabric::cm::{Av, CmId, Path, ResolveReply};
use ferroce_fabric::ipcm::IpHeader;
use ferroce_fabric::{reject, sidr_status};
use ferroce_wire::cm::{Req, SidrReq, Transport};
use ferroce_wire::mad::DEFAULT_PKEY;

use super::addr::{Addr, IbAddr};
use super::events::{Detail, Params};
use super::host::Host;
use super::id::{Id, State, qp_type};
use super::route::own_end;
use super::state::Ucma;
use super::terms::{SERVICE_TIMEOUT, from_wire};

/// Why a request comes to nothing.
enum Refusal {
    /// Nobody listens there.
    NoService,
    /// The listener wants another kind of QP.
    OtherTransport,
    /// No more may wait: the peer shall try again.
    Busy,
}

impl Ucma {
    /// A peer wants a connection.
    pub(super) fn requested(
        &mut self,
        listener: CmId,
        cm: CmId,
        from: &Av,
        req: &Req,
        host: &Host<'_>,
    ) {
        if let Some(reason) = self.refused_by_fault(req.service_id) {
            return self.refuse(cm, reason, host);
        }

        let wanted = match req.transport {
            Transport::Rc => qp_type::RC,
            Transport::Uc => qp_type::UC,
            Transport::Xrc => qp_type::XRC_RECV,
            Transport::Rd => 0,
        };

        // Over Ethernet a datagram tells the way back, over InfiniBand the request does.
        let way = match host.is_ib() {
            true => self.cm.qp_rtr(cm).map_or(*from, |rtr| rtr.av),
            false => *from,
        };

        let path = Path {
            av: Av {
                local_gid: from.local_gid,
                local_index: from.local_index,
                remote_gid: from.remote_gid,
                ..way
            },
            mtu: req.mtu,
            packet_rate: req.primary.packet_rate,
            packet_life_time: req.primary.local_ack_timeout.saturating_sub(1),
        };

        match self.admit(
            listener,
            cm,
            wanted,
            &req.private_data,
            req.service_id,
            path,
            host,
        ) {
            Ok((parent, child, header_len)) => {
                let mut params = Box::new(Params {
                    ece: from_wire(req.ece),
                    ..Params::default()
                });
                let conn = &mut params.conn;

                // What the peer asks for of this side, and what it offers: the other way round.
                conn.responder_resources = req.initiator_depth;
                conn.initiator_depth = req.responder_resources;
                conn.flow_control = req.flow_control.into();
                conn.retry_count = req.retry_count;
                conn.rnr_retry_count = req.rnr_retry_count;
                conn.srq = req.srq.into();
                conn.qp_num = req.local_qpn;
                params.set_private_data(req.private_data.get(header_len..).unwrap_or_default());

                // The program may take its time: a peer that asks again is told so.
                let _ = self
                    .cm
                    .mra(host.now, cm, SERVICE_TIMEOUT, true, &[], &mut self.out);
                self.raise_request(parent, child, Detail::Connection(params));
            }
            Err(Refusal::Busy) => drop(self.cm.forget(cm)),
            Err(refusal) => {
                let reason = match refusal {
                    Refusal::OtherTransport => reject::INVALID_TRANSPORT,
                    _ => reject::INVALID_SERVICE_ID,
                };
                self.refuse(cm, reason, host);
            }
        }
    }

    /// Nothing comes of a request, of which no program hears.
    fn refuse(&mut self, cm: CmId, reason: u16, host: &Host<'_>) {
        let out = &mut self.out;
        let _ = self.cm.reject(host.now, cm, reason, &[], &[], out);
        let _ = self.cm.destroy(host.now, cm, out);
    }

    /// A peer asks for the QP of a datagram service.
    pub(super) fn resolve_requested(
        &mut self,
        listener: CmId,
        cm: CmId,
        from: &Av,
        request: &SidrReq,
        host: &Host<'_>,
    ) {
        let path = Path {
            av: *from,
            mtu: ferroce_wire::mtu::code(host.info.active_mtu),
            packet_rate: 0,
            packet_life_time: 0,
        };

        let data = &request.private_data;
        match self.admit(
            listener,
            cm,
            qp_type::UD,
            data,
            request.service_id,
            path,
            host,
        ) {
            Ok((parent, child, header_len)) => {
                let param = super::datagram::request(data.get(header_len..).unwrap_or_default());
                self.raise_request(parent, child, Detail::Datagram(param));
            }
            Err(Refusal::Busy) => drop(self.cm.forget(cm)),
            Err(_) => {
                let status = sidr_status::UNSUPPORTED;
                let reply = ResolveReply {
                    status,
                    ..ResolveReply::default()
                };
                let _ = self.cm.resolve_reply(host.now, cm, &reply, &mut self.out);
                let _ = self.cm.destroy(host.now, cm, &mut self.out);
            }
        }
    }

    /// Whether a request is for a listener that is not there yet, or not again, and may come.
    pub(super) fn is_early(
        &self,
        service_id: u64,
        from: &Av,
        data: &[u8],
        host: &Host<'_>,
    ) -> bool {
        let Some(service) = self.services.get(service_id) else {
            return false;
        };
        if service.ids.is_empty() && service.paused {
            return true;
        }

        let (header, entry) = (IpHeader::parse(data).ok(), own_end(from, host));
        let takes = |handle: &u32| {
            let id = self.ids.get(*handle);
            id.is_some_and(|id| serves(id, header.as_ref(), entry))
        };
        !service.ids.iter().any(takes) && service.expected.iter().any(takes)
    }

    /// Makes an id of a request: the listener, the id, and how much of the private data is the IP
    /// header.
    #[allow(clippy::too_many_arguments)]
    fn admit(
        &mut self,
        listener: CmId,
        cm: CmId,
        wanted: u8,
        data: &[u8],
        service_id: u64,
        path: Path,
        host: &Host<'_>,
    ) -> Result<(u32, u32, usize), Refusal> {
        let service = self
            .services
            .get(service_id)
            .filter(|service| service.cm == listener);

        let entry = own_end(&path.av, host);
        let header = IpHeader::parse(data).ok();
        let fits = |handle: &u32| {
            self.ids
                .get(*handle)
                .is_some_and(|id| serves(id, header.as_ref(), entry))
        };
        let parent = service.and_then(|service| service.ids.iter().copied().find(fits));
        let parent = parent.ok_or(Refusal::NoService)?;
        let id = self.ids.get(parent).ok_or(Refusal::NoService)?;
        let same_type =
            id.qp_type == wanted || id.qp_type == qp_type::XRC_SEND && wanted == qp_type::XRC_RECV;
        if !same_type {
            return Err(Refusal::OtherTransport);
        }

        let peer = path.av.remote_gid;
        if id.backlog == 0 || !self.quotas.has_room(&peer, self.ids.len()) {
            return Err(Refusal::Busy);
        }

        let mut child = Id::new(id.channel, 0, id.space, wanted);
        let header_len = id.header_len();
        child.known = false;
        child.peer = Some(peer);
        child.state = State::Connect;
        child.cm = Some(cm);
        child.gid_index = entry.map(|entry| entry.index);
        child.path = Some(path);
        child.tos = id.tos;
        (child.src, child.dst) = match (id.src, header) {
            (Addr::Ib(_), _) | (_, None) => native(service_id, &path.av),
            (_, Some(header)) => {
                let scope = entry.map_or(0, |entry| entry.scope_id);
                let port = service_id as u16;
                (
                    Addr::ip(header.dst, port, scope),
                    Addr::ip(header.src, header.src_port, scope),
                )
            }
        };

        let child = self.ids.insert(child).map_err(|_| Refusal::Busy)?;
        self.quotas.enter(peer);
        self.by_cm.insert(cm, child);
        self.generations.set_connected(child, true);
        Ok((parent, child, header_len))
    }
}

/// Whether a listener takes requests for where a header says, which came to that address.
fn serves(id: &Id, header: Option<&IpHeader>, entry: Option<&GidEntry>) -> bool {
    let afonly = id.afonly.unwrap_or(false);
    match (id.src, header) {
        (Addr::Ib(_), _) => true,
        _ if id.any && !afonly => true,
        (_, None) => false,
        (src, Some(header)) => {
            let own = src.meant();
            let here = src.scope() == 0 || entry.is_some_and(|e| e.scope_id == src.scope());
            own.is_ipv4() == header.dst.is_ipv4() && (id.any || own == header.dst && here)
        }
    }
}

/// `AF_IB` addresses of both ends.
fn native(service_id: u64, av: &Av) -> (Addr, Addr) {
    let addr = |gid, sid, mask| {
        Addr::Ib(IbAddr {
            pkey: DEFAULT_PKEY,
            flowinfo: 0,
            gid,
            sid,
            mask,
            scope: 0,
        })
    };
    (
        addr(av.local_gid, service_id, !0),
        addr(av.remote_gid, 0, 0),
    )
}
