//! Sums of counters: of the clients that live, of those that have gone, and of the daemon itself.

use ferroce_control::{Counter, CounterPage, MAX_PORTS, PortCounter};

/// One value for each [`Counter`], and each [`PortCounter`] of each InfiniBand port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    values: Vec<u64>,
    ports: [[u64; PortCounter::COUNT]; MAX_PORTS],
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            values: vec![0; Counter::ALL.len()],
            ports: [[0; PortCounter::COUNT]; MAX_PORTS],
        }
    }
}

impl Totals {
    /// Adds what a page says now. A page counts a packet once, as one to a group or as another;
    /// here all packets are together too. Each is read once, so that what is left when those of
    /// groups are taken away never shrinks.
    pub(crate) fn add(&mut self, page: &CounterPage) {
        for &counter in Counter::ALL {
            let n = page.read(counter);
            let add = |value: &mut u64| *value = value.wrapping_add(n);
            add(&mut self.values[counter as usize]);
            match counter {
                Counter::TxMulticast => add(&mut self.values[Counter::TxPackets as usize]),
                Counter::RxMulticast => add(&mut self.values[Counter::RxPackets as usize]),
                _ => {}
            }
        }

        for (port, values) in (1..).zip(&mut self.ports) {
            for &counter in PortCounter::ALL {
                let n = page.read_at(port, counter);
                let add = |value: &mut u64| *value = value.wrapping_add(n);
                add(&mut values[counter as usize]);
                if counter == PortCounter::TxMulticast {
                    add(&mut values[PortCounter::TxPackets as usize]);
                }
            }
        }
    }

    /// One sum of an InfiniBand port; 0 of one that there is not.
    pub(crate) fn at(&self, port: u8, counter: PortCounter) -> u64 {
        let values = usize::from(port)
            .checked_sub(1)
            .and_then(|index| self.ports.get(index));
        values.map_or(0, |values| values[counter as usize])
    }

    /// One sum.
    pub(crate) fn value(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }

    /// All, by name.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Counter::ALL
            .iter()
            .map(|&counter| (counter.name(), self.value(counter)))
    }

    /// As sysfs's `hw_counters` shows them. `lifespan` is how long in milliseconds a value may be
    /// old.
    pub(crate) fn hw_counters(&self) -> Vec<(&'static str, u64)> {
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
        a.add_at(2, PortCounter::RxBytes, 5);
        b.add_at(2, PortCounter::RxBytes, 6);
        let mut totals = Totals::default();
        totals.add(&a);
        totals.add(&b);
        assert_eq!(totals.value(Counter::TxBytes), 4400);
        assert_eq!(totals.at(1, PortCounter::RxBytes), 0);
        assert_eq!(totals.at(2, PortCounter::RxBytes), 11);
        assert!(totals.hw_counters().contains(&("sent_bytes", 4400)));
    }

    #[test]
    fn packets_of_groups_are_packets() {
        let page = CounterPage::private().unwrap();
        page.add(Counter::TxPackets, 5);
        page.add(Counter::TxMulticast, 2);
        page.add(Counter::RxPackets, 7);
        page.add(Counter::RxMulticast, 4);
        page.add_at(2, PortCounter::TxPackets, 30);
        page.add_at(2, PortCounter::TxMulticast, 20);
        let mut totals = Totals::default();
        totals.add(&page);
        let sums = [
            Counter::TxPackets,
            Counter::TxMulticast,
            Counter::RxPackets,
            Counter::RxMulticast,
        ];
        assert_eq!(sums.map(|sum| totals.value(sum)), [7, 2, 11, 4]);
        assert_eq!(totals.at(2, PortCounter::TxPackets), 50);
        assert_eq!(totals.at(2, PortCounter::TxMulticast), 20);
        assert_eq!(totals.at(1, PortCounter::TxPackets), 0);
    }
}
