//! What is known of a receiver of unacknowledged traffic (UC, UD) on this machine: the counters of
//! its address, in memory that senders and receivers share (`FlowPage`). How fast it is sent to by
//! them is decided by the transport's [`Pacer`](ferroce_transport::congestion::Pacer).

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use ferroce_control::FlowPage;
use ferroce_transport::congestion::Gauge;

/// The counters of a receiver's address, which senders on the same machine keep too.
pub(crate) struct Counters {
    ip: IpAddr,
    scope_id: u32,
    slot: u8,
    /// Looked for at the first use; many receivers have none.
    page: OnceLock<Option<FlowPage>>,
}

impl Counters {
    pub(super) fn of(ip: IpAddr, scope_id: u32, slot: u8) -> Counters {
        Counters {
            ip,
            scope_id,
            slot,
            page: OnceLock::new(),
        }
    }

    fn page(&self) -> Option<&FlowPage> {
        let open = || (!self.ip.is_multicast()).then(|| FlowPage::open(self.ip, self.scope_id));
        self.page.get_or_init(|| open().flatten()).as_ref()
    }
}

impl Gauge for Counters {
    fn in_flight(&self) -> Option<u64> {
        self.page().map(|page| page.in_flight(self.slot))
    }

    fn taken(&self) -> u64 {
        self.page()
            .map_or(0, |page| page.received(self.slot).load(Relaxed))
    }

    fn sent(&self, cost: u64) {
        if let Some(page) = self.page() {
            page.sent(self.slot).fetch_add(cost, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_control::FlowFile;

    #[test]
    fn what_is_sent_and_taken_is_seen_by_both() {
        let ip = IpAddr::from([192, 0, 2, 92]);
        let _file = FlowFile::create(ip, 0).unwrap();
        let page = FlowPage::open(ip, 0).unwrap();
        let counters = Counters::of(ip, 0, 3);
        counters.sent(100_000);
        page.take(3, 30_000);
        assert_eq!(counters.in_flight(), Some(70_000));
        assert_eq!(counters.taken(), 30_000);
        // Another slot's are others.
        assert_eq!(Counters::of(ip, 0, 4).in_flight(), Some(0));
    }

    #[test]
    fn of_other_machines_and_groups_nothing_is_known() {
        for ip in [[192, 0, 2, 93], [239, 1, 2, 3]] {
            assert_eq!(Counters::of(ip.into(), 0, 3).in_flight(), None);
        }
    }
}
