//! What the performance management agent is shown of the data path.

use ferroce_control::{Counter as Sum, PortCounter};
use ferroce_fabric::pma::{Counter, Counters, Totals as PortTotals};

use crate::ib::Counts;
use crate::totals::Totals;

/// A node's counters: a device's, which its processes and the ports themselves count; or a
/// switch's.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The sums over all processes.
    pub(crate) sums: Totals,
    /// What is counted at each InfiniBand port beside, in order, and links lost; empty with RoCE.
    pub(crate) ports: Vec<(Counts, u64)>,
}

impl Counters for Shown {
    fn totals(&self, port: u8) -> PortTotals {
        let mut totals = PortTotals::default();
        if self.ports.is_empty() {
            self.roce(&mut totals);
            return totals;
        }

        let at = usize::from(port).checked_sub(1);
        let Some((counts, downed)) = at.and_then(|at| self.ports.get(at)) else {
            return totals;
        };

        let sum = |own: u64, counter| own.wrapping_add(self.sums.at(port, counter));
        let sent = sum(counts.tx_packets, PortCounter::TxPackets);
        let received = sum(counts.rx_packets, PortCounter::RxPackets);
        totals[Counter::XmitData] = sum(counts.tx_bytes, PortCounter::TxBytes) / 4;
        totals[Counter::RcvData] = sum(counts.rx_bytes, PortCounter::RxBytes) / 4;
        packets(
            &mut totals,
            (sent, sum(counts.tx_multicast, PortCounter::TxMulticast)),
            // Those that a program gets are copies of what the daemon has counted.
            (received, counts.rx_multicast),
        );

        totals[Counter::RcvErrors] = sum(counts.rx_errors, PortCounter::RxErrors);
        totals[Counter::XmitDiscards] = sum(counts.tx_discards, PortCounter::TxDiscards);
        totals[Counter::ExcessiveBufferOverruns] = sum(0, PortCounter::Overruns);
        totals[Counter::RcvConstraintErrors] = sum(counts.wrong_pkey, PortCounter::WrongPkey);
        totals[Counter::XmitConstraintErrors] = counts.kept_in;
        totals[Counter::LinkDowned] = *downed;
        totals[Counter::Vl15Dropped] = counts.vl15_dropped;
        totals[Counter::RcvSwitchRelayErrors] = counts.relay_errors;
        totals
    }
}

impl Shown {
    /// The one port of a RoCE device: everything that its processes have counted.
    fn roce(&self, totals: &mut PortTotals) {
        let sum = |sum| self.sums.value(sum);
        totals[Counter::XmitData] = sum(Sum::TxBytes) / 4;
        totals[Counter::RcvData] = sum(Sum::RxBytes) / 4;
        packets(
            totals,
            (sum(Sum::TxPackets), sum(Sum::TxMulticast)),
            (sum(Sum::RxPackets), sum(Sum::RxMulticast)),
        );
        totals[Counter::RcvErrors] = sum(Sum::RxIcrcErrors) + sum(Sum::RxParseErrors);
        totals[Counter::XmitDiscards] = sum(Sum::TxErrors);
        totals[Counter::ExcessiveBufferOverruns] = sum(Sum::RxSocketOverflow);
        totals[Counter::RcvConstraintErrors] = sum(Sum::RxWrongPkey);
    }
}

/// Packets that were sent and received, all and of these the ones of groups.
fn packets(totals: &mut PortTotals, sent: (u64, u64), received: (u64, u64)) {
    totals[Counter::XmitPackets] = sent.0;
    totals[Counter::RcvPackets] = received.0;
    totals[Counter::MulticastXmitPackets] = sent.1;
    totals[Counter::MulticastRcvPackets] = received.1;
    totals[Counter::UnicastXmitPackets] = sent.0.wrapping_sub(sent.1);
    totals[Counter::UnicastRcvPackets] = received.0.wrapping_sub(received.1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_control::CounterPage;

    /// All, and how many of them are of one and of groups, as sent and as received.
    fn shown(shown: &Shown, port: u8) -> [[u64; 3]; 2] {
        let totals = shown.totals(port);
        [
            [
                totals[Counter::XmitPackets],
                totals[Counter::UnicastXmitPackets],
                totals[Counter::MulticastXmitPackets],
            ],
            [
                totals[Counter::RcvPackets],
                totals[Counter::UnicastRcvPackets],
                totals[Counter::MulticastRcvPackets],
            ],
        ]
    }

    #[test]
    fn packets_of_groups_are_told_from_others() {
        let page = CounterPage::private().unwrap();
        page.add(Sum::TxPackets, 10);
        page.add(Sum::TxMulticast, 3);
        page.add(Sum::RxPackets, 20);
        page.add(Sum::RxMulticast, 4);
        page.add_at(2, PortCounter::TxPackets, 100);
        page.add_at(2, PortCounter::TxMulticast, 30);
        page.add_at(2, PortCounter::RxPackets, 200);
        let mut sums = Totals::default();
        sums.add(&page);
        let roce = Shown {
            sums: sums.clone(),
            ports: Vec::new(),
        };
        assert_eq!(shown(&roce, 1), [[13, 10, 3], [24, 20, 4]]);
        let counts = Counts {
            tx_packets: 7,
            tx_multicast: 2,
            rx_packets: 9,
            rx_multicast: 6,
            ..Counts::default()
        };

        let ib = Shown {
            sums,
            ports: vec![(counts, 0), (counts, 0)],
        };
        assert_eq!(shown(&ib, 1), [[7, 5, 2], [9, 3, 6]]);
        assert_eq!(shown(&ib, 2), [[137, 105, 32], [209, 203, 6]]);
    }
}
