//! Stretches at the receiving end: packets of one message in one piece, between ends that have
//! memory in common ([`ferroce_wire::stretch`]).
//!
//! Nearly all of them are what is expected next, and then what is checked and placed of each packet
//! can be checked and placed of all at once. Anything else is for the packets one by one.

use crate::state::QpType;
use crate::trace::is_watched;
use crate::{Host, Qp, QpState, Time};
use ferroce_wire::{Operation, Psn, Service, Stretch};

impl Qp {
    /// As [`receive`](Self::receive) for each packet of a stretch. Returns whether it was taken so:
    /// if not, nothing has happened, and the packets are to be handed over one by one.
    #[inline]
    pub fn receive_stretch<H: Host>(
        &mut self,
        now: Time,
        stretch: &Stretch<'_>,
        host: &mut H,
    ) -> bool {
        let (packet, packets) = (stretch.whole(), stretch.packets());
        let response = packet.info.is_response();
        let served = match (self.config.qp_type, packet.info.service) {
            (QpType::Rc, Service::Rc) => true,
            (QpType::XrcSend, Service::Xrc) => response,
            (QpType::XrcRecv, Service::Xrc) => !response,
            _ => false,
        };
        if !served || stretch.mtu() != self.attr.path_mtu || packet.bth.filled || is_watched() {
            return false;
        }

        match packet.info.operation {
            Operation::Send | Operation::Write if self.expects(packet.bth.psn) => {
                self.on_request(now, packet, packets, host);
                true
            }
            Operation::ReadResponse if self.awaits(packet.bth.psn, packets) => {
                self.on_response(now, packet, packets, host);
                true
            }
            _ => false,
        }
    }

    /// Whether a request with this PSN is the one that comes next, and none came before its turn.
    fn expects(&self, psn: u32) -> bool {
        self.receiving() && self.resp.early.is_none() && Psn::new(psn) == self.resp.epsn
    }

    /// Whether so many responses from this PSN on are the ones that come next, all of one READ.
    fn awaits(&self, psn: u32, packets: u32) -> bool {
        let req = &self.req;
        let Some(awaited) = req.awaited.front() else {
            return false;
        };
        let next = awaited.start.max(req.una);
        self.receiving()
            && self.attr.qp_state != QpState::Rtr
            && req.board.is_none()
            && next as u32 & 0xff_ffff == psn
            && next + u64::from(packets) <= awaited.end
    }
}
