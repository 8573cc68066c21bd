//! Connections: what a program asks of one. What the CM says of it is `settle`'s business.

use std::net::IpAddr;

use ferroce_fabric::cm::{self, Accept, CmId, Connect, Resolve};
use ferroce_fabric::ipcm::IpHeader;
use ferroce_fabric::{reject, sidr_status};
use ferroce_wire::cm::Transport;
use rustix::io::Errno;

use super::addr::ip_of;
use super::events::Params;
use super::host::Host;
use super::id::{Id, State, qp_type};
use super::state::Ucma;
use super::terms::{errno, to_wire};

/// 4.096 µs · 2^20 = 4.3 s, in which an answer is expected.
const RESPONSE_TIMEOUT: u8 = 20;
/// How often a message is repeated.
const MAX_RETRIES: u8 = 15;
/// `IBV_EVENT_COMM_EST`.
const COMM_EST: u32 = 4;
/// `IBV_EVENT_PATH_MIG`.
const PATH_MIG: u32 = 7;
/// The most private data that a request holds, of a connection and of a datagram service.
const REQ_DATA: usize = 92;
const SIDR_REQ_DATA: usize = 216;

impl Ucma {
    /// `CONNECT`.
    pub(super) fn connect(
        &mut self,
        handle: u32,
        params: &Params,
        host: &Host<'_>,
    ) -> Result<(), Errno> {
        let id = self.ids.get_mut(handle).ok_or(Errno::NOENT)?;
        let path = id.path.filter(|_| id.state == State::RouteResolved);
        let path = path.ok_or(Errno::INVAL)?;
        let ends = match host.is_ib() {
            false => (ip_of(&path.av.local_gid), ip_of(&path.av.remote_gid)),
            true if id.dst.is_zero() || id.dst.is_loopback() => (id.src.meant(), id.src.meant()),
            true => (id.src.meant(), id.dst.meant()),
        };
        let private_data = with_header(id, params.private_data(), ends)?;
        let service_id = id.service_id(&id.dst);
        let conn = &params.conn;
        let cm = if id.is_datagram() {
            self.cm.resolve(
                host.now,
                &Resolve {
                    service_id,
                    path,
                    response_timeout: RESPONSE_TIMEOUT,
                    max_cm_retries: MAX_RETRIES,
                    private_data: &private_data,
                },
                &mut self.out,
            )
        } else {
            self.cm.connect(
                host.now,
                &Connect {
                    service_id,
                    path,
                    qpn: conn.qp_num & 0x00ff_ffff,
                    transport: transport(id.qp_type),
                    starting_psn: id.psn,
                    responder_resources: conn.responder_resources,
                    initiator_depth: conn.initiator_depth,
                    remote_response_timeout: RESPONSE_TIMEOUT,
                    local_response_timeout: RESPONSE_TIMEOUT,
                    retry_count: conn.retry_count.min(7),
                    rnr_retry_count: conn.rnr_retry_count.min(7),
                    max_cm_retries: MAX_RETRIES,
                    flow_control: conn.flow_control != 0,
                    srq: conn.srq != 0,
                    ece: to_wire(params.ece),
                    private_data: &private_data,
                },
                &mut self.out,
            )
        };

        let cm = cm.map_err(errno)?;
        id.qp_num = conn.qp_num & 0x00ff_ffff;
        id.cm = Some(cm);
        id.state = State::Connect;
        self.by_cm.insert(cm, handle);
        self.generations.set_connected(handle, true);
        Ok(())
    }

    /// `ACCEPT` by the passive side; from now on the id's events bear `uid`.
    pub(super) fn accept(
        &mut self,
        handle: u32,
        uid: u64,
        params: &Params,
        host: &Host<'_>,
    ) -> Result<(), Errno> {
        let (id, cm) = self.connecting(handle)?;
        let conn = &params.conn;
        id.qp_num = conn.qp_num & 0x00ff_ffff;
        let (datagram, qpn, starting_psn) = (id.is_datagram(), id.qp_num, id.psn);
        let accepted = if datagram {
            let qkey = if id.src.is_ib() { conn.qkey } else { 0 };
            self.answer_datagram(handle, cm, sidr_status::VALID, qkey, params, host)
        } else {
            let accept = Accept {
                qpn,
                starting_psn,
                responder_resources: conn.responder_resources,
                initiator_depth: conn.initiator_depth,
                rnr_retry_count: conn.rnr_retry_count.min(7),
                flow_control: conn.flow_control != 0,
                srq: conn.srq != 0,
                failover_accepted: 0,
                ece: to_wire(params.ece),
                private_data: params.private_data(),
            };

            self.cm
                .accept(host.now, cm, &accept, &mut self.out)
                .map_err(errno)
        };

        if accepted.is_err() {
            self.take_back(handle, host);
        }

        accepted?;
        self.existing(handle)?.uid = uid;
        Ok(())
    }

    /// `ACCEPT` by the active side: its QP is ready.
    pub(super) fn establish(&mut self, handle: u32, host: &Host<'_>) -> Result<(), Errno> {
        let (_, cm) = self.connecting(handle)?;
        let established = self.cm.establish(host.now, cm, &[], &mut self.out);
        if established.is_err() {
            self.take_back(handle, host);
        }
        established.map_err(errno)
    }

    /// Tells the peer that nothing comes of it; whether that can still be said matters no more.
    fn take_back(&mut self, handle: u32, host: &Host<'_>) {
        let _ = self.reject(handle, 0, &[], host);
    }

    /// `REJECT`.
    pub(super) fn reject(
        &mut self,
        handle: u32,
        reason: u8,
        private: &[u8],
        host: &Host<'_>,
    ) -> Result<(), Errno> {
        let reason = match u16::from(reason) {
            0 => reject::CONSUMER_DEFINED,
            reason @ (reject::CONSUMER_DEFINED | reject::VENDOR_OPTION_NOT_SUPPORTED) => reason,
            _ => return Err(Errno::INVAL),
        };

        let id = self.existing(handle)?;
        let (cm, datagram) = (id.cm.ok_or(Errno::INVAL)?, id.is_datagram());
        if datagram {
            let mut params = Params::default();
            params.set_private_data(private);
            return self.answer_datagram(handle, cm, sidr_status::REJECTED, 0, &params, host);
        }

        self.cm
            .reject(host.now, cm, reason, &[], private, &mut self.out)
            .map_err(errno)
    }

    /// `DISCONNECT`, by whichever side: it begins the end of the connection or agrees to it. Where
    /// there is none to end, of a listener for example, it does nothing; `EINVAL`: the id has never
    /// had to do with one.
    pub(super) fn disconnect(&mut self, handle: u32, host: &Host<'_>) -> Result<(), Errno> {
        let id = self.existing(handle)?;
        if id.state == State::Listen && !id.any {
            return Ok(());
        }
        let cm = id.cm.ok_or(Errno::INVAL)?;
        if self
            .cm
            .disconnect(host.now, cm, &[], &mut self.out)
            .is_err()
        {
            let _ = self.cm.disconnect_reply(host.now, cm, &[], &mut self.out);
        }
        Ok(())
    }

    /// `NOTIFY`: an asynchronous event of the QP. `EISCONN`: that the connection stands is known.
    pub(super) fn notify(&mut self, handle: u32, event: u32, host: &Host<'_>) -> Result<(), Errno> {
        let cm = self.existing(handle)?.cm.ok_or(Errno::INVAL)?;
        let established = self.cm.state(cm) == Some(cm::State::Established);
        match event {
            COMM_EST if established => Err(Errno::ISCONN),
            COMM_EST => self
                .cm
                .communication_established(host.now, cm, &mut self.out)
                .map_err(errno),
            // Without an alternate path there is nothing to migrate to.
            PATH_MIG if established => Ok(()),
            _ => Err(Errno::INVAL),
        }
    }

    /// The id and what the CM calls it, if it is being connected.
    fn connecting(&mut self, handle: u32) -> Result<(&mut Id, CmId), Errno> {
        let id = self.existing(handle)?;
        match id.cm.filter(|_| id.state == State::Connect) {
            Some(cm) => Ok((id, cm)),
            None => Err(Errno::INVAL),
        }
    }
}

/// Private data with what the RDMA IP CM service puts in front of it.
fn with_header(id: &Id, data: &[u8], (src, dst): (IpAddr, IpAddr)) -> Result<Vec<u8>, Errno> {
    let mut whole = Vec::new();
    if !id.src.is_ib() {
        // Not what the program said: that may be a wildcard, or IPv4 in IPv6 clothes.
        let header = IpHeader {
            src_port: id.src.port(),
            src,
            dst,
        };
        whole.extend_from_slice(&header.emit());
    }

    whole.extend_from_slice(data);
    let most = if id.is_datagram() {
        SIDR_REQ_DATA
    } else {
        REQ_DATA
    };

    match whole.len() <= most {
        true => Ok(whole),
        false => Err(Errno::INVAL),
    }
}

fn transport(qp_type: u8) -> Transport {
    match qp_type {
        qp_type::UC => Transport::Uc,
        qp_type::XRC_SEND | qp_type::XRC_RECV => Transport::Xrc,
        _ => Transport::Rc,
    }
}
