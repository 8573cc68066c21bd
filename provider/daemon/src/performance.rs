//! What the performance management agent is shown of the data path.

use ferroce_control::Counter as Sum;
use ferroce_fabric::pma::{Counter, Counters, Totals as PortTotals};

use crate::ib::Counts;
use crate::totals::Totals;

/// A device's counters, for its one port or, with what the ports themselves count, for several.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The sums over all processes, which are the first port's. The data path does not count by port.
    pub(crate) sums: Totals,
    /// What is counted at each port beside, in order; empty with RoCE, and with one port.
    pub(crate) ports: Vec<(Counts, u64)>,
}

impl Counters for Shown {
    fn totals(&self, port: u8) -> PortTotals {
        let mut totals = PortTotals::default();
        let at = usize::from(port).saturating_sub(1);
        if self.ports.len() < 2 {
            self.device(&mut totals);
        }
        if let Some((counts, downed)) = self.ports.get(at) {
            totals[Counter::LinkDowned] = *downed;
            totals[Counter::Vl15Dropped] = counts.vl15_dropped;
            totals[Counter::RcvSwitchRelayErrors] = counts.relay_errors;
            if self.ports.len() > 1 {
                of_port(counts, &mut totals);
            }
        }
        totals
    }
}

impl Shown {
    /// Everything that the device's processes have counted.
    fn device(&self, totals: &mut PortTotals) {
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

fn of_port(counts: &Counts, totals: &mut PortTotals) {
    totals[Counter::XmitData] = counts.tx_bytes / 4;
    totals[Counter::RcvData] = counts.rx_bytes / 4;
    totals[Counter::XmitPackets] = counts.tx_packets;
    totals[Counter::RcvPackets] = counts.rx_packets;
    totals[Counter::UnicastXmitPackets] = counts.tx_packets;
    totals[Counter::UnicastRcvPackets] = counts.rx_packets;
    totals[Counter::RcvErrors] = counts.rx_errors;
    totals[Counter::XmitDiscards] = counts.tx_discards;
    totals[Counter::RcvConstraintErrors] = counts.wrong_pkey;
}
