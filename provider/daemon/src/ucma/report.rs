//! What the server says of itself: for the status and the image.

use ferroce_control::CmStatus;
use ferroce_fabric::cm::{KIND_NAMES, KINDS};

use super::serve::Server;

/// The most service IDs that a status message lists.
const MAX_SHOWN: usize = 1000;

impl Server {
    /// For `ferroce status`.
    pub(crate) fn status(&self) -> CmStatus {
        let mut services = self.ucma.services.listened();
        services.sort_unstable();
        services.truncate(MAX_SHOWN);
        CmStatus {
            programs: self.sessions.len() as u32,
            ids: self.ucma.ids.len() as u32,
            connections: self.ucma.cm.len() as u32,
            services,
        }
    }

    /// Messages of the connection manager, by the names of the kernel's files.
    pub(crate) fn messages(&self) -> Vec<(String, u64)> {
        let counters = self.ucma.cm.counters();
        let groups = [
            ("cm_tx_msgs", &counters.sent),
            ("cm_tx_retries", &counters.retried),
            ("cm_rx_msgs", &counters.received),
            ("cm_rx_duplicates", &counters.duplicates),
        ];
        let files = |(group, numbers): (&str, &[u64; KINDS])| {
            let group = group.to_owned();
            let named = KIND_NAMES.into_iter().zip(*numbers);
            named.map(move |(kind, n)| (format!("{group}/{kind}"), n))
        };
        groups.into_iter().flat_map(files).collect()
    }

    /// Messages that changed nothing, by reason.
    pub(crate) fn dropped(&self) -> [(&'static str, u64); 6] {
        let counters = self.ucma.cm.counters();
        [
            ("cm_malformed", counters.malformed),
            ("cm_unknown", counters.unknown),
            ("cm_unexpected", counters.unexpected),
            ("cm_refused", counters.refused),
            ("cm_evicted", counters.evicted),
            ("cm_withheld", counters.withheld),
        ]
    }
}
