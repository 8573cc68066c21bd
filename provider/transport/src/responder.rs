//! The responder's receiving half: checks each request, carries it out, and notes which answer is owed.
//!
//! Errors of the peer's making end in a NAK and the error state; what is merely out of order, duplicate or too
//! early does not. Nothing is sent from here (see `respond`).

use crate::recv_queue;
use crate::requester;
use crate::resources::{Answer, Resource, Resources};
use crate::*;
use ferroce_wire::{NakCode, Operation, Packet, Position, Psn, Syndrome};

/// The message being received.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Incoming {
    #[default]
    None,
    /// A SEND into the receive request at hand.
    Send { received: u64, capacity: u64 },
    /// An RDMA WRITE to a range that was checked.
    Write {
        va: u64,
        rkey: u32,
        len: u32,
        received: u32,
    },
}

/// The responder's state.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    /// Expected PSN.
    pub epsn: Psn,
    /// Messages completed, 24 bits.
    pub msn: u32,
    pub incoming: Incoming,
    /// The request at hand, if it came from a shared receive queue (else it is the front of the own one).
    pub srq_wqe: Option<RecvWqe>,
    /// A NAK or RNR NAK was sent for the expected PSN: later packets are dropped until it comes.
    pub refused: bool,
    pub ack_pending: bool,
    /// The NAK that goes out next.
    pub nak: Option<(Syndrome, Psn)>,
    pub resources: Resources,
    /// A packet has come since the connection was made.
    pub established: bool,
}

impl Responder {
    /// Starts afresh for a connection whose first PSN is `psn`.
    pub fn connect(&mut self, psn: u32) {
        let mut resources = std::mem::take(&mut self.resources);
        resources.clear();
        *self = Responder {
            epsn: Psn::new(psn),
            resources,
            ..Responder::default()
        };
    }

    pub fn ack_owed(&self) -> bool {
        self.ack_pending && !self.resources.owed() && self.nak.is_none()
    }

    /// Drops every owed answer.
    pub fn silence(&mut self) {
        self.resources.clear();
        self.nak = None;
        self.ack_pending = false;
    }
}

/// Why a request was not carried out.
enum Refusal {
    /// No receive request: wait and send again.
    NotReady,
    /// An error that ends the connection.
    Error {
        nak: NakCode,
        /// What the receive request at hand completes with.
        status: WcStatus,
        /// Raised where there is no receive request at hand.
        event: QpEvent,
    },
}

use Refusal::NotReady;

const INVALID: Refusal = Refusal::Error {
    nak: NakCode::InvalidRequest,
    status: WcStatus::RemInvReqErr,
    event: QpEvent::ReqErr,
};
const TOO_LONG: Refusal = Refusal::Error {
    nak: NakCode::InvalidRequest,
    status: WcStatus::LocLenErr,
    event: QpEvent::ReqErr,
};
const LOCAL_PROTECTION: Refusal = Refusal::Error {
    nak: NakCode::RemoteOperationalError,
    status: WcStatus::LocProtErr,
    event: QpEvent::Fatal,
};
const ACCESS: Refusal = Refusal::Error {
    nak: NakCode::RemoteAccessError,
    status: WcStatus::LocAccessErr,
    event: QpEvent::AccessErr,
};
const OPERATIONAL: Refusal = Refusal::Error {
    nak: NakCode::RemoteOperationalError,
    status: WcStatus::LocQpOpErr,
    event: QpEvent::Fatal,
};

impl From<MemoryError> for Refusal {
    fn from(error: MemoryError) -> Refusal {
        match error {
            MemoryError::Fault => OPERATIONAL,
            _ => ACCESS,
        }
    }
}

impl Qp {
    /// Takes a request packet.
    pub(crate) fn on_request<H: Host>(&mut self, now: Time, packet: &Packet<'_>, host: &mut H) {
        if !self.resp.established {
            self.resp.established = true;
            if self.attr.qp_state == QpState::Rtr {
                host.event(QpEvent::CommEst);
            }
        }
        let psn = Psn::new(packet.bth.psn);
        let distance = psn.distance(self.resp.epsn);
        if distance < 0 {
            return self.on_duplicate(psn, packet, host);
        }
        if distance > 0 {
            // One NAK a gap.
            if !self.resp.refused {
                self.refuse(Syndrome::Nak(NakCode::PsnSequenceError), self.resp.epsn);
            }
            return;
        }
        let outcome = match packet.info.operation {
            Operation::Send => self.on_send(packet, host),
            Operation::Write => self.on_write(packet, host),
            Operation::ReadRequest => self.on_read(packet, host),
            Operation::CompareSwap | Operation::FetchAdd => self.on_atomic(packet, host),
            _ => return,
        };
        match outcome {
            Ok(()) => {
                if packet.info.ends() {
                    self.pace.message(now);
                }
            }
            Err(NotReady) => {
                let timer = self.attr.min_rnr_timer;
                self.refuse(Syndrome::RnrNak { timer }, psn);
            }
            Err(Refusal::Error { nak, status, event }) => {
                self.refuse(Syndrome::Nak(nak), psn);
                self.fail_receive(status, event, host);
                self.enter_error(host);
            }
        }
    }

    /// Owes the peer a NAK for `psn`.
    pub(crate) fn refuse(&mut self, syndrome: Syndrome, psn: Psn) {
        self.resp.refused = true;
        self.resp.nak = Some((syndrome, psn));
    }

    /// Completes the receive request at hand with an error or, where there is none, raises an event.
    fn fail_receive<H: Host>(&mut self, status: WcStatus, event: QpEvent, host: &mut H) {
        let at_hand = match (self.resp.srq_wqe.take(), self.resp.incoming) {
            (Some(wqe), _) => Some(wqe.wr_id),
            (None, Incoming::Send { .. }) => self.rq.pop(),
            _ => None,
        };
        self.resp.incoming = Incoming::None;
        match at_hand {
            Some(wr_id) => self.complete_recv(wr_id, status, 0, WcData::None, true, host),
            None => host.event(event),
        }
    }

    /// The request with the expected PSN was carried out: `packets` PSNs on.
    fn accept(&mut self, packets: u32, packet: &Packet<'_>, message: bool) {
        self.resp.epsn = self.resp.epsn.add(packets);
        self.resp.refused = false;
        self.resp.nak = None;
        if message {
            self.resp.msn = (self.resp.msn + 1) & 0xff_ffff;
        }
        self.resp.ack_pending |= packet.bth.ack_req;
    }

    fn on_duplicate<H: Host>(&mut self, psn: Psn, packet: &Packet<'_>, host: &mut H) {
        match packet.info.operation {
            // Everything up to the expected PSN is acknowledged again.
            Operation::Send | Operation::Write => self.resp.ack_pending = true,
            Operation::ReadRequest => {
                let Some(reth) = packet.ext.reth else { return };
                // The key is checked again, for the region may be gone. A ghost must not break the connection over
                // it, so the request is dropped without a NAK.
                let allowed = reth.len == 0
                    || self.may(Access::REMOTE_READ)
                        && host
                            .check_remote(
                                reth.rkey,
                                reth.va,
                                u64::from(reth.len),
                                Access::REMOTE_READ,
                            )
                            .is_ok();
                if allowed && reth.len <= MAX_MESSAGE {
                    let mtu = self.attr.path_mtu;
                    self.resp
                        .resources
                        .replay_read(psn, reth.va, reth.rkey, reth.len, mtu);
                }
            }
            Operation::CompareSwap | Operation::FetchAdd => {
                self.resp.resources.replay_atomic(psn);
            }
            _ => {}
        }
    }

    fn may(&self, access: Access) -> bool {
        self.attr.qp_access_flags.contains(access)
    }

    /// Does the payload's length fit the packet's place in its message?
    fn check_length(&self, packet: &Packet<'_>) -> Result<(), Refusal> {
        let (len, mtu) = (packet.payload.len(), self.attr.path_mtu as usize);
        let fits = match packet.info.position {
            Position::First | Position::Middle => len == mtu,
            Position::Last => len > 0 && len <= mtu,
            Position::Only => len <= mtu,
        };
        if fits { Ok(()) } else { Err(INVALID) }
    }

    /// Is there a receive request? From a shared queue it is taken now.
    fn take_receive<H: Host>(&mut self, host: &mut H) -> Result<(), Refusal> {
        if !self.config.srq {
            return if self.rq.len() > 0 {
                Ok(())
            } else {
                Err(NotReady)
            };
        }
        if self.resp.srq_wqe.is_none() {
            self.resp.srq_wqe = host.take_srq();
        }
        if self.resp.srq_wqe.is_some() {
            Ok(())
        } else {
            Err(NotReady)
        }
    }

    /// The scatter list of the receive request at hand.
    fn receive_sges(&self) -> &[Sge] {
        match &self.resp.srq_wqe {
            Some(wqe) => &wqe.sges,
            None => self.rq.front_sges(),
        }
    }

    /// Completes the receive request at hand with success.
    fn finish_receive<H: Host>(
        &mut self,
        opcode: WcOpcode,
        byte_len: u32,
        packet: &Packet<'_>,
        host: &mut H,
    ) {
        let wr_id = match self.resp.srq_wqe.take() {
            Some(wqe) => Some(wqe.wr_id),
            None => self.rq.pop(),
        };
        let data = match (packet.ext.imm, packet.ext.ieth) {
            (Some(imm), _) => WcData::Imm(imm),
            (None, Some(key)) => WcData::Invalidated(key),
            (None, None) => WcData::None,
        };
        if let Some(wr_id) = wr_id {
            host.complete_recv(Completion {
                wr_id,
                status: WcStatus::Success,
                opcode,
                byte_len,
                data,
                solicited: packet.bth.solicited,
                src_qp: self.attr.dest_qp_num,
            });
        }
    }

    fn on_send<H: Host>(&mut self, packet: &Packet<'_>, host: &mut H) -> Result<(), Refusal> {
        let (mut received, mut capacity) = match (packet.info.begins(), self.resp.incoming) {
            (true, Incoming::None) => (0, 0),
            (false, Incoming::Send { received, capacity }) => (received, capacity),
            _ => return Err(INVALID),
        };
        self.check_length(packet)?;
        if packet.info.begins() {
            self.take_receive(host)?;
            capacity = recv_queue::capacity(self.receive_sges());
            self.resp.incoming = Incoming::Send { received, capacity };
        }
        let len = packet.payload.len() as u64;
        if received + len > capacity || received + len > u64::from(MAX_MESSAGE) {
            return Err(TOO_LONG);
        }
        if len > 0 {
            host.scatter(self.receive_sges(), received as u32, packet.payload)
                .map_err(|_| LOCAL_PROTECTION)?;
        }
        received += len;
        if !packet.info.ends() {
            self.resp.incoming = Incoming::Send { received, capacity };
            self.accept(1, packet, false);
            return Ok(());
        }
        if let Some(key) = packet.ext.ieth {
            host.invalidate_remote(key).map_err(|_| ACCESS)?;
        }
        self.resp.incoming = Incoming::None;
        self.accept(1, packet, true);
        self.finish_receive(WcOpcode::Recv, received as u32, packet, host);
        Ok(())
    }

    fn on_write<H: Host>(&mut self, packet: &Packet<'_>, host: &mut H) -> Result<(), Refusal> {
        let n = packet.payload.len() as u32;
        let (va, rkey, len, received) = match (packet.ext.reth, self.resp.incoming) {
            (Some(reth), Incoming::None) => (reth.va, reth.rkey, reth.len, 0),
            (
                None,
                Incoming::Write {
                    va,
                    rkey,
                    len,
                    received,
                },
            ) => (va, rkey, len, received),
            _ => return Err(INVALID),
        };
        self.check_length(packet)?;
        let fits = if packet.info.ends() {
            n == len - received
        } else {
            n < len - received
        };
        if !fits || len > MAX_MESSAGE {
            return Err(INVALID);
        }
        // The whole range once, with the first packet. Nothing is checked where nothing is written.
        if packet.info.begins() && len > 0 {
            if !self.may(Access::REMOTE_WRITE) {
                return Err(ACCESS);
            }
            host.check_remote(rkey, va, u64::from(len), Access::REMOTE_WRITE)
                .map_err(|_| ACCESS)?;
        }
        if packet.info.has_imm() {
            self.take_receive(host)?;
        }
        if n > 0 {
            host.write_remote(rkey, va.wrapping_add(u64::from(received)), packet.payload)?;
        }
        if !packet.info.ends() {
            self.resp.incoming = Incoming::Write {
                va,
                rkey,
                len,
                received: received + n,
            };
            self.accept(1, packet, false);
            return Ok(());
        }
        self.resp.incoming = Incoming::None;
        self.accept(1, packet, true);
        if packet.info.has_imm() {
            self.finish_receive(WcOpcode::RecvRdmaWithImm, len, packet, host);
        }
        Ok(())
    }

    /// Room for one more READ or ATOMIC between messages.
    fn reserve_resource(&mut self) -> Result<(), Refusal> {
        if !matches!(self.resp.incoming, Incoming::None) {
            return Err(INVALID);
        }
        let limit = usize::from(self.attr.max_dest_rd_atomic);
        self.resp.resources.reserve(limit).map_err(|_| INVALID)
    }

    fn on_read<H: Host>(&mut self, packet: &Packet<'_>, host: &mut H) -> Result<(), Refusal> {
        let Some(reth) = packet.ext.reth else {
            return Err(INVALID);
        };
        if reth.len > MAX_MESSAGE {
            return Err(INVALID);
        }
        if reth.len > 0 && !self.may(Access::REMOTE_READ) {
            return Err(ACCESS);
        }
        self.reserve_resource()?;
        if reth.len > 0 {
            host.check_remote(reth.rkey, reth.va, u64::from(reth.len), Access::REMOTE_READ)
                .map_err(|_| ACCESS)?;
        }
        let first = self.resp.epsn;
        let count = requester::packets(reth.len, self.attr.path_mtu);
        self.accept(count, packet, true);
        self.resp.resources.push(Resource {
            first,
            count,
            msn: self.resp.msn,
            answer: Answer::Read {
                va: reth.va,
                rkey: reth.rkey,
                len: reth.len,
                start: 0,
            },
            next: 0,
            end: count,
            sent: 0,
        });
        // The response acknowledges, so no ACK is owed for it, nor for what came before.
        self.resp.ack_pending = false;
        Ok(())
    }

    fn on_atomic<H: Host>(&mut self, packet: &Packet<'_>, host: &mut H) -> Result<(), Refusal> {
        let Some(eth) = packet.ext.atomic else {
            return Err(INVALID);
        };
        if eth.va % 8 != 0 {
            return Err(INVALID);
        }
        if !self.may(Access::REMOTE_ATOMIC) {
            return Err(ACCESS);
        }
        self.reserve_resource()?;
        host.check_remote(eth.rkey, eth.va, 8, Access::REMOTE_ATOMIC)
            .map_err(|_| ACCESS)?;
        let before = match packet.info.operation {
            Operation::CompareSwap => {
                host.compare_swap(eth.rkey, eth.va, eth.compare, eth.swap_add)?
            }
            _ => host.fetch_add(eth.rkey, eth.va, eth.swap_add)?,
        };
        let first = self.resp.epsn;
        self.accept(1, packet, true);
        self.resp.resources.push(Resource {
            first,
            count: 1,
            msn: self.resp.msn,
            answer: Answer::Atomic(before),
            next: 0,
            end: 1,
            sent: 0,
        });
        self.resp.ack_pending = false;
        Ok(())
    }
}
