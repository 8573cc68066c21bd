//! When the window has room enough to go on: runs of packets are cheaper than packets.

use crate::Qp;
use crate::tuning::ACK_REQUEST_SPACING;

impl Qp {
    /// Is what the window has room for worth a visit to the network? While the window alone holds a
    /// long message back, acknowledgements of little would each let little out, which would be
    /// acknowledged as little: runs of packets would get ever shorter. So a run's worth is waited
    /// for. An answer that makes room is on its way. Where packets are lost none is waited for:
    /// what follows shows a loss sooner than a timer.
    pub(crate) fn is_room_worth_a_run(&self, window: u64) -> bool {
        let req = &self.req;
        let room = window.saturating_sub(req.next_cost.saturating_sub(req.base_cost()));
        if room >= ACK_REQUEST_SPACING.min(window / 4)
            || req.asked <= req.una
            || req.una < req.calm_from
        {
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
