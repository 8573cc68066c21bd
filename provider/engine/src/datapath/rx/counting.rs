//! What is counted of packets that come.

use ferroce_control::{Counter, CounterPage, PortCounter};
use ferroce_wire::{NakCode, Operation, Packet, Syndrome};

use crate::port::ib::Port;

/// Counts at the device, and at the port if that counts for itself.
pub(super) fn count(
    counters: &CounterPage,
    port: Option<&Port>,
    counter: Counter,
    at_port: PortCounter,
    n: u64,
) {
    counters.add(counter, n);
    if let Some(port) = port {
        counters.add_at(port.number, at_port, n);
    }
}

/// Counts what a packet asks for or refuses; returns whether it is a NAK for a PSN sequence error.
pub(super) fn count_kind(counters: &CounterPage, packet: &Packet<'_>) -> bool {
    let syndrome = packet.ext.aeth.map(|aeth| aeth.kind());
    let request = match packet.info.operation {
        Operation::Send => Counter::RxSendRequests,
        Operation::Write => Counter::RxWriteRequests,
        Operation::ReadRequest => Counter::RxReadRequests,
        Operation::CompareSwap | Operation::FetchAdd | Operation::AtomicWrite => {
            Counter::RxAtomicRequests
        }
        _ => {
            return syndrome == Some(Syndrome::Nak(NakCode::PsnSequenceError));
        }
    };

    if packet.info.begins() {
        counters.add(request, 1);
    }

    false
}
