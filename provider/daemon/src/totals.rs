//! Sums of counters: of the clients that live, of those that have gone, and of the daemon itself.

use ferroce_control::{Counter, CounterPage};

/// One value for each [`Counter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    values: Vec<u64>,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            values: vec![0; Counter::ALL.len()],
        }
    }
}

impl Totals {
    /// Adds what a page says now.
    pub fn add(&mut self, page: &CounterPage) {
        for (value, &counter) in self.values.iter_mut().zip(Counter::ALL) {
            *value = value.wrapping_add(page.read(counter));
        }
    }

    /// One sum.
    pub fn value(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }

    /// All, by name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Counter::ALL
            .iter()
            .map(|&counter| (counter.name(), self.value(counter)))
    }

    /// As sysfs's `counters` shows a port: data in units of four octets, errors that an Ethernet port
    /// cannot have as zeros.
    pub fn port_counters(&self) -> Vec<(&'static str, u64)> {
        let (rx, tx) = (
            self.value(Counter::RxPackets),
            self.value(Counter::TxPackets),
        );
        let bad = self
            .value(Counter::RxIcrcErrors)
            .wrapping_add(self.value(Counter::RxParseErrors));
        vec![
            ("port_xmit_data", self.value(Counter::TxBytes) / 4),
            ("port_rcv_data", self.value(Counter::RxBytes) / 4),
            ("port_xmit_packets", tx),
            ("port_rcv_packets", rx),
            ("unicast_xmit_packets", tx),
            ("unicast_rcv_packets", rx),
            ("multicast_xmit_packets", 0),
            ("multicast_rcv_packets", 0),
            ("port_rcv_errors", bad),
            ("port_xmit_discards", self.value(Counter::TxErrors)),
            ("port_rcv_remote_physical_errors", 0),
            ("port_rcv_switch_relay_errors", 0),
            ("port_rcv_constraint_errors", 0),
            ("port_xmit_constraint_errors", 0),
            ("port_xmit_wait", 0),
            ("symbol_error", 0),
            ("link_error_recovery", 0),
            ("link_downed", 0),
            ("local_link_integrity_errors", 0),
            ("excessive_buffer_overrun_errors", 0),
            ("VL15_dropped", 0),
        ]
    }

    /// As sysfs's `hw_counters` shows them. `lifespan` is how long in milliseconds a value may be old.
    pub fn hw_counters(&self) -> Vec<(&'static str, u64)> {
        self.named().chain([("lifespan", 1000)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_add_up() {
        let (a, b) = (
            CounterPage::private().unwrap(),
            CounterPage::private().unwrap(),
        );
        a.add(Counter::TxBytes, 4000);
        b.add(Counter::TxBytes, 400);
        b.add(Counter::RxIcrcErrors, u64::MAX);
        let mut totals = Totals::default();
        totals.add(&a);
        totals.add(&b);
        assert_eq!(totals.value(Counter::TxBytes), 4400);
        assert!(totals.port_counters().contains(&("port_xmit_data", 1100)));
        assert!(totals.hw_counters().contains(&("sent_bytes", 4400)));
    }
}
