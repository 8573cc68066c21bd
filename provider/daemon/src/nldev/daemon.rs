//! The daemon as what is told.

use ferroce_control::{DeviceInfo, IbPort};

use super::{Client, Identifier, View};
use crate::daemon::Daemon;

impl Daemon {
    /// A program's netlink socket has something to read, or room.
    pub(crate) fn serve_netlink(&mut self, id: u64) {
        let Some(mut session) = self.netlink.take(id) else {
            return;
        };
        let was_full = session.is_full();
        let mut buffer = std::mem::take(&mut self.buffer);
        let turned = session.turn(&mut buffer, self);
        self.buffer = buffer;

        // A socket at its end is closed here, with which the poller forgets it.
        let kept =
            turned.and_then(|()| self.netlink.give_back(id, session, was_full, &self.poller));
        if let Err(errno) = kept {
            tracing::debug!(error = %errno, id, "a netlink socket is closed");
        }
    }
}

impl View for Daemon {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn ib_ports(&self) -> &[IbPort] {
        &self.ib.shown
    }

    fn first_umad(&self) -> u32 {
        self.first_umad
    }

    fn hw_counters(&self) -> Vec<(&'static str, u64)> {
        self.totals().hw_counters()
    }

    fn clients(&self) -> Vec<Client> {
        let clients = self.connections.values().filter_map(|connection| {
            let claimed = connection.claimed.as_ref()?;
            Some(Client {
                pid: connection.pid,
                slot: claimed.slot,
                objects: claimed.objects.objects(),
            })
        });
        clients.collect()
    }

    fn identifiers(&self) -> Vec<Identifier> {
        self.rdma_cm.listed()
    }
}
