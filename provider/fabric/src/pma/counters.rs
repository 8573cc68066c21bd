//! Running totals, and how the attributes show them.

use super::Refusal;
use ferroce_wire::bits::Field;
use ferroce_wire::pma::{ALL_PORTS, Data, PortCounters, PortCountersExtended};
use ferroce_wire::smp::status;

/// What is counted. Data are in words of 4 bytes, counting headers and CRCs but not what frames a
/// packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Counter {
    /// Symbols that were none.
    SymbolErrors,
    /// Links that were trained again with success.
    LinkErrorRecovery,
    /// Links that were lost.
    LinkDowned,
    /// Packets received with an error.
    RcvErrors,
    /// Packets received that were marked bad on the way.
    RcvRemotePhysicalErrors,
    /// Packets received that a switch could not pass on.
    RcvSwitchRelayErrors,
    /// Packets not sent because the link is down or congested.
    XmitDiscards,
    /// Packets not sent because of their partition.
    XmitConstraintErrors,
    /// Packets received and dropped because of their partition.
    RcvConstraintErrors,
    /// Times that local errors passed the threshold.
    LocalLinkIntegrityErrors,
    /// Times that buffer overruns passed the threshold.
    ExcessiveBufferOverruns,
    /// Packets on lane 15 dropped for want of room.
    Vl15Dropped,
    /// Words sent.
    XmitData,
    /// Words received.
    RcvData,
    /// Packets sent.
    XmitPackets,
    /// Packets received.
    RcvPackets,
    /// Ticks in which there was something to send, and nothing could be sent: none, since nobody
    /// waits for credits.
    XmitWait,
    /// Packets sent to one.
    UnicastXmitPackets,
    /// Packets received for one.
    UnicastRcvPackets,
    /// Packets sent to groups.
    MulticastXmitPackets,
    /// Packets received for groups.
    MulticastRcvPackets,
}

impl Counter {
    /// What sysfs calls it on Linux.
    pub const fn name(self) -> &'static str {
        match self {
            Counter::SymbolErrors => "symbol_error",
            Counter::LinkErrorRecovery => "link_error_recovery",
            Counter::LinkDowned => "link_downed",
            Counter::RcvErrors => "port_rcv_errors",
            Counter::RcvRemotePhysicalErrors => "port_rcv_remote_physical_errors",
            Counter::RcvSwitchRelayErrors => "port_rcv_switch_relay_errors",
            Counter::XmitDiscards => "port_xmit_discards",
            Counter::XmitConstraintErrors => "port_xmit_constraint_errors",
            Counter::RcvConstraintErrors => "port_rcv_constraint_errors",
            Counter::LocalLinkIntegrityErrors => "local_link_integrity_errors",
            Counter::ExcessiveBufferOverruns => "excessive_buffer_overrun_errors",
            Counter::Vl15Dropped => "VL15_dropped",
            Counter::XmitData => "port_xmit_data",
            Counter::RcvData => "port_rcv_data",
            Counter::XmitPackets => "port_xmit_packets",
            Counter::RcvPackets => "port_rcv_packets",
            Counter::XmitWait => "port_xmit_wait",
            Counter::UnicastXmitPackets => "unicast_xmit_packets",
            Counter::UnicastRcvPackets => "unicast_rcv_packets",
            Counter::MulticastXmitPackets => "multicast_xmit_packets",
            Counter::MulticastRcvPackets => "multicast_rcv_packets",
        }
    }
}

/// How many there are.
pub const COUNTERS: usize = Counter::MulticastRcvPackets as usize + 1;

/// The totals of a port since the node was made; they only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals(pub [u64; COUNTERS]);

impl Default for Totals {
    fn default() -> Totals {
        Totals([0; COUNTERS])
    }
}

impl std::ops::Index<Counter> for Totals {
    type Output = u64;

    fn index(&self, counter: Counter) -> &u64 {
        &self.0[counter as usize]
    }
}

impl std::ops::IndexMut<Counter> for Totals {
    fn index_mut(&mut self, counter: Counter) -> &mut u64 {
        &mut self.0[counter as usize]
    }
}

/// The data path, as far as performance management looks at it.
pub trait Counters {
    /// What has been counted at a port so far.
    fn totals(&self, port: u8) -> Totals;
}

/// A counter in an attribute: what it shows, where it lies, and the bit that selects it.
pub(super) struct Shown {
    counter: Counter,
    field: &'static Field,
    bit: u32,
}

const fn shown(counter: Counter, field: &'static Field, bit: u32) -> Shown {
    Shown {
        counter,
        field,
        bit,
    }
}

const fn narrow(counter: Counter, field: usize, bit: u32) -> Shown {
    shown(counter, &PortCounters::FIELDS[field], bit)
}

const fn extended(counter: Counter, field: usize, bit: u32) -> Shown {
    shown(counter, &PortCountersExtended::FIELDS[field], bit)
}

/// PortCounters.
pub(super) const NARROW: &[Shown] = &[
    narrow(Counter::SymbolErrors, 2, 0),
    narrow(Counter::LinkErrorRecovery, 3, 1),
    narrow(Counter::LinkDowned, 4, 2),
    narrow(Counter::RcvErrors, 5, 3),
    narrow(Counter::RcvRemotePhysicalErrors, 6, 4),
    narrow(Counter::RcvSwitchRelayErrors, 7, 5),
    narrow(Counter::XmitDiscards, 8, 6),
    narrow(Counter::XmitConstraintErrors, 9, 7),
    narrow(Counter::RcvConstraintErrors, 10, 8),
    narrow(Counter::LocalLinkIntegrityErrors, 12, 9),
    narrow(Counter::ExcessiveBufferOverruns, 13, 10),
    narrow(Counter::Vl15Dropped, 14, 11),
    narrow(Counter::XmitData, 15, 12),
    narrow(Counter::RcvData, 16, 13),
    narrow(Counter::XmitPackets, 17, 14),
    narrow(Counter::RcvPackets, 18, 15),
];

/// PortCountersExtended.
pub(super) const EXTENDED: &[Shown] = &[
    extended(Counter::XmitData, 2, 0),
    extended(Counter::RcvData, 3, 1),
    extended(Counter::XmitPackets, 4, 2),
    extended(Counter::RcvPackets, 5, 3),
    extended(Counter::UnicastXmitPackets, 6, 4),
    extended(Counter::UnicastRcvPackets, 7, 5),
    extended(Counter::MulticastXmitPackets, 8, 6),
    extended(Counter::MulticastRcvPackets, 9, 7),
];

/// An attribute of counters, at all ports.
pub(super) struct View {
    shown: &'static [Shown],
    first: u8,
    /// The total at which each counter showed zero; may be before the beginning.
    zero: Vec<Totals>,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("zero", &self.zero).finish()
    }
}

impl View {
    pub(super) fn new(shown: &'static [Shown], first: u8, last: u8) -> View {
        let ports = usize::from(last - first) + 1;
        View {
            shown,
            first,
            zero: vec![Totals::default(); ports],
        }
    }

    /// Writes what `select` names of `data` into the counters, and all of them into `data`.
    pub(super) fn answer(
        &mut self,
        port: u8,
        select: Option<u32>,
        data: &mut Data,
        counters: &impl Counters,
    ) -> Result<(), Refusal> {
        let ports = self.ports(port)?;
        let wanted = *data;

        // What was asked stays in the answer; what is reserved, and what is not counted, is zero.
        data[4..].fill(0);
        let mut sums = Totals::default().0;
        for port in ports {
            let totals = counters.totals(port);
            let zero = &mut self.zero[usize::from(port - self.first)];
            for (shown, sum) in self.shown.iter().zip(&mut sums) {
                let total = totals[shown.counter];
                if select.is_some_and(|select| select & 1 << shown.bit != 0) {
                    let value = shown.field.load(&wanted) as u64;
                    zero[shown.counter] = total.wrapping_sub(value);
                }
                let value = total.wrapping_sub(zero[shown.counter]);
                *sum = sum.saturating_add(value);
            }
        }

        for (shown, sum) in self.shown.iter().zip(sums) {
            shown
                .field
                .store(data, shown.field.max().min(u128::from(sum)));
        }

        Ok(())
    }

    /// What it shows of a port.
    pub(super) fn values(&self, port: u8, totals: &Totals) -> impl Iterator<Item = (Counter, u64)> {
        let index = port.checked_sub(self.first).map(usize::from);
        let zero = index.and_then(|index| self.zero.get(index));
        zero.into_iter().flat_map(|zero| {
            self.shown.iter().map(|shown| {
                let value = totals[shown.counter].wrapping_sub(zero[shown.counter]);
                let value = shown.field.max().min(u128::from(value));
                (shown.counter, value as u64)
            })
        })
    }

    /// The ports that a PortSelect means.
    fn ports(&self, select: u8) -> Result<std::ops::RangeInclusive<u8>, Refusal> {
        let last = self.first + (self.zero.len() - 1) as u8;
        match select {
            ALL_PORTS => Ok(self.first..=last),
            port if (self.first..=last).contains(&port) => Ok(port..=port),
            _ => Err(status::INVALID_VALUE),
        }
    }
}
