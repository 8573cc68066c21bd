//! The daemon's account of itself.

use std::time::Instant;

use ferroce_control::{ClientStatus, Status};

use crate::adapter::Adapter;
use crate::clients::Clients;
use crate::ucma;

impl Clients {
    pub(super) fn status(&self, asker: u64, adapter: &Adapter, rdma_cm: &ucma::Server) -> Status {
        let now = Instant::now();
        let mut clients: Vec<ClientStatus> = self
            .connections
            .iter()
            .filter(|(id, _)| *id != asker)
            .filter(|(_, session)| self.is_told_of(asker, session.state.uid))
            .map(|(_, session)| session.state.status(now))
            .collect();
        clients.sort_by_key(|client| (client.slot.is_none(), client.slot, client.pid));

        // One message has to hold them all. Slots bound those that matter; of the others, which are
        // connected without a slot, some will do.
        clients.truncate(400);
        Status {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: now.saturating_duration_since(adapter.started).as_secs(),
            device: adapter.info.clone(),
            gids: adapter.gid_table().entries().cloned().collect(),
            clients,
            slots: self.slots.status(now),
            cm: rdma_cm.status(),
            counters: adapter
                .totals()
                .named()
                .chain(rdma_cm.dropped())
                .map(|(name, n)| (name.to_owned(), n))
                .chain(rdma_cm.messages().into_iter().filter(|(_, n)| *n > 0))
                .collect(),
        }
    }
}
