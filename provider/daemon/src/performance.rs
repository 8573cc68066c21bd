//! What the performance management agent is shown of the data path.

use ferroce_control::{Counter as Sum, PortCounter};
use ferroce_fabric::pma::{Counter, Counters, Totals as PortTotals};

use crate::ib::Counts;
use crate::totals::Totals;

/// A node's counters: a device's, which its processes and the ports themselves count; or a switch's.
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
        totals[Counter::XmitPackets] = sent;
        totals[Counter::RcvPackets] = received;
        totals[Counter::UnicastXmitPackets] = sent;
        totals[Counter::UnicastRcvPackets] = received;
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
        totals[Counter::XmitPackets] = sum(Sum::TxPackets);
        totals[Counter::RcvPackets] = sum(Sum::RxPackets);
        totals[Counter::UnicastXmitPackets] = sum(Sum::TxPackets);
        totals[Counter::UnicastRcvPackets] = sum(Sum::RxPackets);
        totals[Counter::RcvErrors] = sum(Sum::RxIcrcErrors) + sum(Sum::RxParseErrors);
        totals[Counter::XmitDiscards] = sum(Sum::TxErrors);
        totals[Counter::ExcessiveBufferOverruns] = sum(Sum::RxSocketOverflow);
        totals[Counter::RcvConstraintErrors] = sum(Sum::RxWrongPkey);
    }
}
