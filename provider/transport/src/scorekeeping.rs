//! When there is a scoreboard, and what it knows at first.

use crate::board::Board;
use crate::peer::Peer;
use crate::tuning::LOSS_FREE_PACKETS;
use crate::{Qp, QpState, SendOp};

impl Qp {
    /// Is what is lost sent again by itself, towards this peer? Then there is a scoreboard from now
    /// on. If all was being sent again from the oldest on, after a NAK or an RNR NAK, that ends:
    /// what of it is still to be sent counts as lost.
    pub(crate) fn keeps_score(&mut self) -> bool {
        let req = &self.req;
        let waits = req.timers.rnr.is_some();
        if req.peer != Peer::Selective || waits || self.attr.qp_state == QpState::Err {
            return false;
        }

        let (next, max) = (req.next, req.max);
        self.set_board_up();
        if next < max {
            if let Some(board) = &mut self.req.board {
                board.lose_from(next);
            }
            self.resume_at(max);
            self.req.asked = max;
        }
        true
    }

    /// Sets the scoreboard up, if there is none: what is outstanding was sent in the order of its
    /// PSNs.
    fn set_board_up(&mut self) {
        if self.req.board.is_some() {
            return;
        }

        let mtu = self.attr.path_mtu;
        let (una, max) = (self.req.una, self.req.max);
        let mut board = Box::new(Board::new(mtu, una));
        for seq in self.sq.base()..self.req.started {
            let Some(wqe) = self.sq.wqe(seq) else { break };
            let mut psn = wqe.first.max(una);
            while psn < wqe.end.min(max) {
                let end = match wqe.op {
                    SendOp::Read { .. } => self.req.chunk_end(psn).min(wqe.end),
                    _ => psn + 1,
                };
                let cost = wqe.cost_at(end - wqe.first, mtu) - wqe.cost_at(psn - wqe.first, mtu);
                board.sent(psn, end, cost, None);
                if wqe.is_answered() {
                    board.awaits(self.req.is_start(psn));
                }
                psn = end;
            }
        }

        self.req.timed = None; // Karn: an answer now includes the time that filling the gap took.
        self.req.calm_from = max + LOSS_FREE_PACKETS;
        self.req.board = Some(board);
    }

    /// Has the next packet be the one with this PSN, which is outstanding or the first that is not.
    pub(crate) fn resume_at(&mut self, psn: u64) {
        let mtu = self.attr.path_mtu;
        let within = psn.min(self.req.max - 1);
        let seq = self.sq.find(within, self.req.started);
        let Some((seq, wqe)) = seq.and_then(|seq| Some((seq, self.sq.wqe(seq)?))) else {
            return;
        };

        let (cost, end) = (wqe.cost_at(psn - wqe.first, mtu), wqe.end);
        let req = &mut self.req;
        req.next_cost = cost;
        req.next = psn;
        req.cursor = seq + u64::from(psn == end);
    }
}
