//! What the daemon has to do itself when the faults are others: the port and its addresses, the
//! connection manager, and telling programs.

use std::time::Instant;

use ferroce_control::Event;

use crate::daemon::Daemon;

impl Daemon {
    /// Makes the device as the faults have it, and tells programs that they are others.
    pub(crate) fn faults_changed(&mut self) {
        let now = Instant::now();
        let adapter = &mut self.adapter;
        if let Some(fabric) = &mut adapter.ib.fabric {
            for port in 1..=fabric.ports() {
                fabric.cut(port, adapter.faults.is_down(port));
            }
        }
        let given = adapter.faults.of_connections(now);
        let page = adapter.counting.own.clone();
        self.gsi.take_faults(adapter.faults.of_messages(now), &page);

        // What becomes of port and addresses.
        self.interfaces_changed();

        let ended = self
            .rdma_cm
            .take_faults(given, page, &self.adapter.for_rdma_cm());
        for (id, connections) in ended {
            self.adapter.faults.happened(id, connections);
        }
        self.clients.broadcast(Event::Faults, &mut self.adapter);
    }

    /// Ends those faults whose time is over.
    pub(crate) fn end_faults(&mut self, now: Instant) {
        if self.adapter.faults.expire(now) {
            self.faults_changed();
        }
    }
}
