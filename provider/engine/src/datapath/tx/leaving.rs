//! Giving what has been gathered to the port, and counting it.

use ferroce_control::{Counter, CounterPage, PortCounter};
use ferroce_wire::pkey;

use super::{Run, Source, Way};
use crate::datapath::path::Path;
use crate::instrument::{self, CAPTURE};
use crate::port::{Form, Outgoing};
use crate::progress::timers;

impl Run<'_> {
    /// Gives the port what the iovecs from `first` on describe: so many packets in this form, of so
    /// many bytes. `others`: packets and bytes of them that other queue pairs have counted.
    pub(super) fn hand_over(
        &mut self,
        first: usize,
        (packets, bytes): (usize, usize),
        form: Form,
        others: (usize, usize),
    ) {
        let counters = self.source.counters;
        let Some(path) = self.way.path() else {
            return;
        };

        let exit = &path.exit;
        if self.source.paced {
            exit.sent(timers::now(), bytes, packets > 1);
        }
        // What nobody can be told about does not count: the marks are for connections.
        let own = (packets - others.0, bytes - others.1);
        if matches!(self.way, Way::Path(_)) {
            path.congestion.sent(own.1);
        }

        let taps = self.source.taps;
        let captured = match self.source.tapped {
            None => taps.has(CAPTURE).then(timers::wall_clock),
            // Faults may keep a packet back, and so it is they who record.
            Some(_) => None,
        };
        let iov = &mut self.scratch.iov[first..];

        // Without a partition, since the entry of the port's table is empty, there is nobody to
        // talk to.
        let sent = pkey::is_valid(self.source.p_key)
            && match (self.source.tapped, form) {
                (None, Form::Packets(segment)) => exit.send(iov, segment).is_ok(),
                (None, Form::Stretch(mtu)) => exit.send_stretch(iov, mtu).is_ok(),
                (Some(tapped), _) => instrument::leave(tapped, counters, path, iov).is_ok(),
            };
        count_run(counters, path, sent, packets, bytes);
        if !sent {
            return;
        }

        // Stretches are of the time before the capture, if only just.
        if let (Some(time), Form::Packets(segment)) = (captured, form) {
            let (qpn, iov) = (self.source.peer.qpn, &self.scratch.iov[first..]);
            taps.captures.sent(time, qpn, path, iov, segment);
        }

        let Source { row, now, .. } = self.source;
        if own.0 > 0 {
            row.sent(own.0 as u64, own.1 as u64, now.as_nanos());
        }
    }
}

/// Counts a run at the device and its port. One that was not sent is lost like any packet: the
/// transport sends it again or reports the peer unreachable, if it promises to.
pub(super) fn count_run(
    counters: &CounterPage,
    path: &Path,
    sent: bool,
    packets: usize,
    bytes: usize,
) {
    let exit = &path.exit;
    let number = exit.number();
    let count = |counter, at_port, n: usize| {
        counters.add(counter, n as u64);
        if let Some(number) = number {
            counters.add_at(number, at_port, n as u64);
        }
    };

    if !sent {
        count(Counter::TxErrors, PortCounter::TxDiscards, packets);
        return;
    }

    if let Some(counter) = exit.also_counted() {
        counters.add(counter, packets as u64);
    }
    match path.multicast {
        false => count(Counter::TxPackets, PortCounter::TxPackets, packets),
        true => count(Counter::TxMulticast, PortCounter::TxMulticast, packets),
    }
    count(Counter::TxBytes, PortCounter::TxBytes, bytes);
}
