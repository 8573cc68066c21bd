//! The daemon as the host of the connection manager: what it lends it.

use crate::connection::claimed_as;
use crate::daemon::Daemon;
use crate::ucma::{Server, Surroundings};

impl Daemon {
    /// Lends the connection manager what it needs of the rest, and sends what it has to send: to this device's own addresses, too, by
    /// the wire, where all its connections' messages can be seen.
    pub(crate) fn with_rdma_cm<R>(
        &mut self,
        act: impl FnOnce(&mut Server, &Surroundings<'_>) -> R,
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
            heard: &heard,
        };
        let result = act(&mut self.rdma_cm, &around);
        for mad in self.rdma_cm.outgoing() {
            self.put_on_wire(&mad);
        }
        result
    }
}
