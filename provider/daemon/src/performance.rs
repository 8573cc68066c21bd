//! What the performance management agent is shown of the data path.

use ferroce_control::Counter as Sum;
use ferroce_fabric::pma::{Counter, Counters, Totals as PortTotals};

use crate::ib::Counts;
use crate::totals::Totals;

/// A node's counters: a device's, for its one port or, with what the ports themselves count, for several; or a switch's.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The sums over all processes, which are the first port's. The data path does not count by port.
    pub(crate) sums: Totals,
    /// What is counted at each port beside, in order, and links lost; empty with RoCE.
    pub(crate) ports: Vec<(Counts, u64)>,
    /// There are processes with queue pairs.
    pub(crate) is_device: bool,
}

impl Counters for Shown {
    fn totals(&self, port: u8) -> PortTotals {
        let mut totals = PortTotals::default();
        let by_device = self.is_device && self.ports.len() < 2;
        if by_device {
            self.device(&mut totals);
        }
        let at = usize::from(port).checked_sub(1);
        if let Some((counts, downed)) = at.and_then(|at| self.ports.get(at)) {
            totals[Counter::LinkDowned] = *downed;
            totals[Counter::Vl15Dropped] = counts.vl15_dropped;
            totals[Counter::RcvSwitchRelayErrors] = counts.relay_errors;
            if !by_device {
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
