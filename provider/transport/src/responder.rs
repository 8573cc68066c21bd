//! The responder's receiving half: which requests are new, duplicate or early, and what becomes of
//! refused ones.
//!
//! New ones are carried out in `execute`. Errors of the peer's making end in a NAK and the error
//! state; what is merely out of order, duplicate or too early does not. Nothing is sent from here
//! (see `respond`).

use crate::early::Early;
use crate::resources::Resources;
use crate::trace::Hex;
use crate::{
    Access, Host, MAX_MESSAGE, MemoryError, Note, Qp, QpEvent, QpState, RecvWqe, Time, WcData,
    WcStatus,
};
use ferroce_wire::{NakCode, Operation, Packet, Psn, Syndrome};
use tracing::debug;

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
#[derive(Clone, Debug, Default)]
pub(crate) struct Responder {
    /// Expected PSN.
    pub epsn: Psn,
    /// Messages completed, 24 bits.
    pub msn: u32,
    pub incoming: Incoming,
    /// The request at hand, if it came from a shared receive queue (else it is the front of the own
    /// one).
    pub srq_wqe: Option<RecvWqe>,
    /// XRC target: number of the shared receive queue that the last request named; 0 otherwise.
    pub srq: u32,
    /// A NAK or RNR NAK was sent for the expected PSN: later packets are dropped until it comes.
    pub refused: bool,
    pub ack_pending: bool,
    /// The NAK that goes out next.
    pub nak: Option<(Syndrome, Psn)>,
    /// The last request that was refused as the host's faults had it.
    pub injected: Option<Psn>,
    pub resources: Resources,
    /// A packet has come since the connection was made.
    pub established: bool,
    /// The request that was expected has come: from the peer, as nobody else is told the PSN.
    pub heard: bool,
    /// The peer has shown that it understands selective acknowledgements, as does this side.
    pub selective: bool,
    /// What came early, if there is anything.
    pub early: Option<Box<Early>>,
}

impl Responder {
    /// Starts afresh for a connection whose first PSN is `psn`.
    pub(crate) fn connect(&mut self, psn: u32) {
        let mut resources = std::mem::take(&mut self.resources);
        resources.clear();
        *self = Responder {
            epsn: Psn::new(psn),
            resources,
            ..Responder::default()
        };
    }

    pub(crate) fn ack_owed(&self) -> bool {
        self.ack_pending && !self.resources.owed() && self.nak.is_none()
    }

    /// Drops every owed answer.
    pub(crate) fn silence(&mut self) {
        self.resources.clear();
        self.nak = None;
        self.ack_pending = false;
    }
}

/// Why a request was not carried out, and the NAK code that says so (section 9.7.5.2).
pub(crate) enum Refusal {
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

pub(crate) const INVALID: Refusal = Refusal::Error {
    nak: NakCode::InvalidRequest,
    status: WcStatus::RemInvReqErr,
    event: QpEvent::ReqErr,
};
pub(crate) const TOO_LONG: Refusal = Refusal::Error {
    nak: NakCode::InvalidRequest,
    status: WcStatus::LocLenErr,
    event: QpEvent::ReqErr,
};
/// What a receive request names cannot be written: the fault is the responder's own, and ends the
/// connection (C9-220).
pub(crate) const LOCAL_PROTECTION: Refusal = Refusal::Error {
    nak: NakCode::RemoteOperationalError,
    status: WcStatus::LocProtErr,
    event: QpEvent::Fatal,
};
pub(crate) const ACCESS: Refusal = Refusal::Error {
    nak: NakCode::RemoteAccessError,
    status: WcStatus::LocAccessErr,
    event: QpEvent::AccessErr,
};
pub(crate) const OPERATIONAL: Refusal = Refusal::Error {
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
    /// Takes a request packet: new, duplicate or early, as its PSN says (section 9.7.4); or a
    /// stretch of so many new ones.
    #[inline]
    pub(crate) fn on_request<H: Host>(
        &mut self,
        now: Time,
        packet: &Packet<'_>,
        packets: u32,
        host: &mut H,
    ) {
        self.establish(host);
        if packet.bth.selective {
            self.resp.selective = self.introduced;
        }
        let psn = Psn::new(packet.bth.psn);
        let distance = psn.distance(self.resp.epsn);
        if distance < 0 {
            host.note(Note::Duplicate);
            return self.on_duplicate(psn, packet, host);
        }

        if distance > 0 {
            return self.on_early(packet, host);
        }

        self.resp.heard = true;
        self.carry_out(now, packet, packets, host);
        if self.resp.early.is_some() {
            self.carry_out_early(now, host);
        }
    }

    /// Carries out the request with the expected PSN, or refuses it.
    #[inline(always)]
    fn carry_out<H: Host>(&mut self, now: Time, packet: &Packet<'_>, packets: u32, host: &mut H) {
        let psn = self.resp.epsn;
        let selected = match packet.ext.xrceth {
            Some(srq) => self.select_srq(srq, host),
            None => Ok(()),
        };

        let outcome = match packet.info.operation {
            _ if selected.is_err() => selected,
            Operation::Send => self.on_send(packet, packets, host),
            Operation::Write => self.on_write(packet, packets, host),
            Operation::ReadRequest => self.on_read(packet, host),
            Operation::CompareSwap | Operation::FetchAdd => self.on_atomic(packet, host),
            Operation::AtomicWrite => self.on_atomic_write(packet, host),
            Operation::Flush => self.on_flush(packet, host),
            _ => return,
        };

        match outcome {
            Ok(()) => {
                if packet.info.ends() {
                    self.ping_pong.message(now);
                }
            }
            // Section 9.7.5.2.8: the peer sends it again, no sooner than the timer says.
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

    /// A request ahead of an earlier one. It is kept where both sides know what that is good for,
    /// and the peer will be told; else the peer is to go back.
    #[cold]
    fn on_early<H: Host>(&mut self, packet: &Packet<'_>, host: &mut H) {
        host.note(Note::OutOfSequence);
        // One NAK a gap; the peer goes back.
        if self.resp.refused {
            return;
        }

        if self.resp.selective && packet.payload.len() <= self.attr.path_mtu as usize {
            let memory = self.config.selective;
            let mut early = self.resp.early.take();
            early = early.or_else(|| memory.map(|memory| Box::new(Early::new(memory))));
            if let Some(early) = &mut early {
                early.keep(self.resp.epsn, packet);
            }
            self.resp.early = early.filter(|early| !early.is_empty());
        }

        if let Some(early) = &mut self.resp.early {
            early.another(packet.bth.ack_req);
            self.resp.ack_pending = true;
        } else {
            self.refuse(Syndrome::Nak(NakCode::PsnSequenceError), self.resp.epsn);
        }
    }

    /// Goes on with what came early, up to the next gap or the first that is refused.
    #[cold]
    fn carry_out_early<H: Host>(&mut self, now: Time, host: &mut H) {
        let Some(mut early) = self.resp.early.take() else {
            return;
        };

        while self.receiving() && !self.resp.refused {
            let Some(kept) = early.take(self.resp.epsn) else {
                break;
            };
            host.carries_out(self.resp.epsn.value());
            self.carry_out(now, &kept.packet(), 1, host);
        }

        if self.receiving() {
            early.moved_on();
            self.resp.early = (!early.is_empty()).then_some(early);
            // The requester is waiting to hear how far the gap has closed.
            self.resp.ack_pending = true;
        }
    }

    /// The peer has been heard of.
    pub(crate) fn establish<H: Host>(&mut self, host: &mut H) {
        if !self.resp.established {
            self.resp.established = true;
            if self.attr.qp_state == QpState::Rtr {
                host.event(QpEvent::CommEst);
            }
        }
    }

    /// Owes the peer a NAK for `psn`: its code says what was wrong (C9-222.1.1).
    pub(crate) fn refuse(&mut self, syndrome: Syndrome, psn: Psn) {
        debug!(qpn = %Hex(self.config.qpn), psn = psn.value(), ?syndrome, "refuses");
        self.resp.refused = true;
        self.resp.nak = Some((syndrome, psn));
    }

    /// Completes the receive request at hand with an error or, where there is none, raises an
    /// event.
    pub(crate) fn fail_receive<H: Host>(&mut self, status: WcStatus, event: QpEvent, host: &mut H) {
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
    pub(crate) fn accept(&mut self, packets: u32, packet: &Packet<'_>, message: bool) {
        self.resp.epsn = self.resp.epsn.add(packets);
        self.resp.refused = false;
        self.resp.nak = None;
        // Section 9.7.7.1, C9-148: new messages are counted, not packets and not duplicates.
        if message {
            self.resp.msn = (self.resp.msn + 1) & 0xff_ffff;
        }
        self.resp.ack_pending |= packet.bth.ack_req;
    }

    fn on_duplicate<H: Host>(&mut self, psn: Psn, packet: &Packet<'_>, host: &mut H) {
        match packet.info.operation {
            // Everything up to the expected PSN is acknowledged again, and nothing done again
            // (C9-105).
            Operation::Send | Operation::Write => self.resp.ack_pending = true,
            Operation::ReadRequest => {
                let Some(reth) = packet.ext.reth else { return };
                if let Some(srq) = packet.ext.xrceth
                    && self.select_srq(srq, host).is_err()
                {
                    return;
                }

                // The key is checked again, for the region may be gone. A ghost must not break the
                // connection over it, so the request is dropped without a NAK.
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
                    let (mtu, in_turn) = (self.attr.path_mtu, self.resp.selective);
                    let resources = &mut self.resp.resources;
                    resources.replay_read(psn, &reth, reth.len, mtu, in_turn);
                }
            }
            Operation::CompareSwap | Operation::FetchAdd => {
                let in_turn = self.resp.selective;
                self.resp.resources.replay_atomic(psn, in_turn);
            }
            // What was done once is not done again (of FLUSH: oA19-14, oA19-15); its answer is
            // given again.
            Operation::AtomicWrite | Operation::Flush => {
                let Some(reth) = packet.ext.reth else { return };
                let (mtu, in_turn) = (self.attr.path_mtu, self.resp.selective);
                let resources = &mut self.resp.resources;
                resources.replay_read(psn, &reth, 0, mtu, in_turn);
            }
            _ => {}
        }
    }
}
