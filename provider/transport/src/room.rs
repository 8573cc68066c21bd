//! What there is room for, by the window and the peer's credits, and when it is room enough to go
//! on: runs of packets are cheaper than packets.

use crate::Qp;
use crate::peer::Peer;
use crate::requester::Requester;
use crate::tuning::ACK_REQUEST_SPACING;

impl Requester {
    /// What of a window may be used.
    #[inline]
    pub(crate) fn restarted(&mut self, window: u32) -> u32 {
        match self.restart {
            Some(restart) if restart < window => restart,
            _ => {
                self.restart = None;
                window
            }
        }
    }

    /// May a packet after which `in_flight` bytes are outstanding be sent? One always may; and one
    /// more where nothing on its way asks for an answer that would move the window.
    pub(crate) fn fits(&self, in_flight: u64, window: u64) -> bool {
        self.next == self.una || in_flight <= window || self.asked <= self.una
    }

    /// Do the peer's credits allow the next message to consume a receive request (section 9.7.7.2)?
    /// One more than they say may always be tried, and any when nothing is outstanding: stale
    /// credits must not stop the queue for ever.
    pub(crate) fn credited(&self) -> bool {
        let Some(limit) = self.limit else { return true };
        let beyond = self.ssn.wrapping_sub(limit) & 0xff_ffff; // (ssn + 1) − (limit + 1)
        self.una == self.max || beyond == 0 || beyond >= 1 << 23
    }
}

impl Qp {
    /// Is what the window has room for worth a visit to the network? While the window alone holds a
    /// long message back, acknowledgements of little would each let little out, which would be
    /// acknowledged as little: runs of packets would get ever shorter. So a run's worth is waited
    /// for. An answer that makes room is on its way. Where packets are lost none is waited for:
    /// what follows shows a loss sooner than a timer. With selective acknowledgements, which ask
    /// about silence, a part of it is.
    pub(crate) fn is_room_worth_a_run(&self, window: u64) -> bool {
        let req = &self.req;
        let room = window.saturating_sub(req.next_cost.saturating_sub(req.base_cost()));
        let run = ACK_REQUEST_SPACING.min(window / 4);
        let calm = req.una >= req.calm_from;
        let run = match (calm, req.peer) {
            (true, _) => run,
            (false, Peer::Selective) => run / 4,
            (false, _) => 0,
        };
        if room >= run || req.asked <= req.una {
            return true;
        }
        let left = match self.sq.wqe(req.cursor) {
            Some(wqe) if wqe.is_answered() => 0,
            Some(wqe) if req.cursor < req.started => {
                let whole = wqe.cost_at(wqe.end - wqe.first, self.attr.path_mtu);
                whole.saturating_sub(req.next_cost)
            }
            Some(wqe) => u64::from(wqe.len),
            None => 0,
        };
        left <= room
    }
}
