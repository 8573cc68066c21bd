//! The daemon as the host of the connection manager: what it lends it, and the datagrams that it takes in for it.

use crate::connection::claimed_as;
use crate::daemon::Daemon;
use crate::group::Group;
use crate::ucma::{Server, Surroundings};

impl Daemon {
    /// Lends the connection manager what it needs of the rest.
    pub(crate) fn with_rdma_cm(&mut self, act: impl FnOnce(&mut Server, &Surroundings<'_>)) {
        self.with_rdma_cm_and_groups(|server, around, _| act(server, around));
    }

    /// Handles what came for slot 0: QP1's datagrams, and what is for nobody.
    pub(crate) fn receive_mads(&mut self, group: usize) {
        if self.ib_receive(group) {
            return;
        }
        let came = self.with_rdma_cm_and_groups(|server, around, groups| {
            let group = groups.get(group)?;
            let socket = group.existing(0)?;
            Some(server.receive(socket, group.ip(), around))
        });
        self.counting.dirty |= came.is_some();
        for (from, src_qp, mad) in came.unwrap_or_default() {
            self.gmp_came(&from, src_qp, mad);
        }
    }

    pub(crate) fn with_rdma_cm_and_groups<R>(
        &mut self,
        act: impl FnOnce(&mut Server, &Surroundings<'_>, &[Group]) -> R,
    ) -> R {
        let heard = |qp: u32| {
            let claimed = claimed_as(&self.connections, (qp >> 16) as u8);
            claimed.is_some_and(|claimed| claimed.objects.heard(qp as u16))
        };
        let around = Surroundings {
            gids: match self.ib.fabric {
                Some(_) => &self.ib.gids,
                None => &self.gids,
            },
            info: &self.info,
            snapshot: &self.snapshot,
            ports: &self.ib.shown,
            poller: &self.poller,
            counters: &self.counting.own,
            heard: &heard,
        };
        let result = act(&mut self.rdma_cm, &around, &self.groups);
        if self.ib.fabric.is_some() {
            for mad in self.rdma_cm.outgoing() {
                self.send_mad(&mad);
            }
        }
        result
    }
}
