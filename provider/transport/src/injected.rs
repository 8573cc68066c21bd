//! Refusing a request that nothing is wrong with, as the host's faults on command have it. What
//! becomes of the connection then is what becomes of it after a real one.

use crate::responder::{ACCESS, INVALID, OPERATIONAL, Refusal};
use crate::trace::received;
use crate::{Host, Qp, QpState, QpType};
use ferroce_wire::{NakCode, Packet, Psn, Service, Syndrome};

/// What a responder answers a request with instead of carrying it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injected {
    /// RNR NAK, with the queue pair's timer: the requester sends it again.
    NotReady,
    /// NAK: PSN sequence error, likewise.
    PsnSequence,
    /// NAK: invalid request.
    InvalidRequest,
    /// NAK: remote access error.
    RemoteAccess,
    /// NAK: remote operational error.
    RemoteOperational,
}

impl Injected {
    /// The error that ends the connection, if it is one.
    fn error(self) -> Option<Refusal> {
        match self {
            Injected::NotReady | Injected::PsnSequence => None,
            Injected::InvalidRequest => Some(INVALID),
            Injected::RemoteAccess => Some(ACCESS),
            Injected::RemoteOperational => Some(OPERATIONAL),
        }
    }
}

impl Qp {
    /// Whether [`refuse_request`](Self::refuse_request) would refuse the packet: only a request
    /// with the expected PSN can be.
    pub fn may_refuse(&self, packet: &Packet<'_>) -> bool {
        let service = match self.config.qp_type {
            QpType::Rc => Service::Rc,
            QpType::XrcRecv => Service::Xrc,
            _ => return false,
        };
        self.receiving()
            && packet.info.service == service
            && packet.info.is_request()
            && packet.bth.psn == self.resp.epsn.value()
    }

    /// Why the answer that goes out next refuses this very request, if
    /// [`refuse_request`](Self::refuse_request) has it do so. A copy that comes before that answer
    /// has gone gets no other: the requester hears of one refusal, whatever number of copies it
    /// has sent.
    pub fn refusing(&self, packet: &Packet<'_>) -> Option<Injected> {
        let (syndrome, psn) = self.resp.nak?;
        let same = packet.bth.psn == psn.value() && self.may_refuse(packet);
        let injected = same && self.resp.injected == Some(psn);
        injected.then_some(match syndrome {
            Syndrome::RnrNak { .. } => Injected::NotReady,
            _ => Injected::PsnSequence,
        })
    }

    /// Takes a request, as [`receive`](Self::receive) does, and refuses it. The caller has asked
    /// whether it may be.
    pub fn refuse_request<H: Host>(&mut self, packet: &Packet<'_>, why: Injected, host: &mut H) {
        debug_assert!(self.may_refuse(packet) && self.attr.qp_state != QpState::Err);
        received(self.config.qpn, packet);
        self.establish(host);
        self.resp.heard = true;

        let psn = Psn::new(packet.bth.psn);
        self.resp.injected = Some(psn);
        match why.error() {
            Some(Refusal::Error { nak, status, event }) => {
                self.refuse(Syndrome::Nak(nak), psn);
                self.fail_receive(status, event, host);
                self.enter_error(host);
            }
            _ => {
                let syndrome = match why {
                    Injected::PsnSequence => Syndrome::Nak(NakCode::PsnSequenceError),
                    _ => Syndrome::RnrNak {
                        timer: self.attr.min_rnr_timer,
                    },
                };
                self.refuse(syndrome, psn);
            }
        }
    }
}
