//! Sums of counters: of the clients that live, of those that have gone, and of the daemon itself.

use ferroce_control::{Counter, CounterPage, MAX_PORTS, PortCounter};

/// One value for each [`Counter`], and each [`PortCounter`] of each InfiniBand port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
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
    /// Adds what a page says now.
    pub fn add(&mut self, page: &CounterPage) {
        for (value, &counter) in self.values.iter_mut().zip(Counter::ALL) {
            *value = value.wrapping_add(page.read(counter));
        }
        for (port, values) in (1..).zip(&mut self.ports) {
            for (value, &counter) in values.iter_mut().zip(PortCounter::ALL) {
                *value = value.wrapping_add(page.read_at(port, counter));
            }
        }
    }

    /// One sum of an InfiniBand port; 0 of one that there is not.
    pub fn at(&self, port: u8, counter: PortCounter) -> u64 {
        let values = usize::from(port)
            .checked_sub(1)
            .and_then(|index| self.ports.get(index));
        values.map_or(0, |values| values[counter as usize])
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
}
