//! What a queue pair tells those who watch it: its states and errors at level `debug`, each packet
//! at level `trace`. While nobody does, an event costs a look at one word.

use crate::{Gather, MemoryError, QpState, QpType, Sink, TxPacket, WcStatus};
use ferroce_wire::{Packet, opcode};
use tracing::level_filters::LevelFilter;
use tracing::{debug, trace};

/// A queue pair that is connected to `peer` is in another state.
pub(crate) fn entered(qpn: u32, service: QpType, peer: u32, from: QpState, to: QpState) {
    debug!(qpn = %Hex(qpn), ?service, peer = %Hex(peer), "{from:?} to {to:?}");
}

/// Does somebody look at packets?
#[inline]
pub(crate) fn is_watched() -> bool {
    LevelFilter::current() >= LevelFilter::TRACE
}

/// A packet that has come.
#[inline]
pub(crate) fn received(qpn: u32, packet: &Packet<'_>) {
    if !is_watched() {
        return;
    }
    let bth = &packet.bth;
    trace!(
        qpn = %Hex(qpn),
        psn = bth.psn,
        bytes = packet.payload.len(),
        aeth = ?packet.ext.aeth.map(|aeth| aeth.kind()),
        "received {}",
        packet.info.name
    );
}

/// A request of the consumer's has ended, and not well.
#[inline]
pub(crate) fn failed(qpn: u32, request: &str, wr_id: u64, status: WcStatus) {
    if status != WcStatus::Success {
        debug!(qpn = %Hex(qpn), wr_id, ?status, "{request} request fails");
    }
}

/// A sink that says what goes into it.
pub(crate) struct Traced<'a, S> {
    qpn: u32,
    sink: &'a mut S,
}

impl<'a, S> Traced<'a, S> {
    pub(crate) fn new(qpn: u32, sink: &'a mut S) -> Self {
        Traced { qpn, sink }
    }
}

impl<S: Sink> Sink for Traced<'_, S> {
    fn packet(&mut self, packet: &TxPacket<'_>) -> Result<(), MemoryError> {
        let outcome = self.sink.packet(packet);
        let bth = &packet.bth;
        trace!(
            qpn = %Hex(self.qpn),
            psn = bth.psn,
            bytes = length(&packet.payload),
            aeth = ?packet.ext.aeth.map(|aeth| aeth.kind()),
            again = packet.again,
            ?outcome,
            "sent {}",
            opcode::info(bth.opcode).map_or("nothing known", |info| info.name)
        );
        outcome
    }

    fn flush(&mut self) {
        self.sink.flush();
    }
}

fn length(payload: &Gather<'_>) -> usize {
    match payload {
        Gather::None => 0,
        Gather::Bytes(bytes) => bytes.len(),
        Gather::Sges { len, .. } | Gather::Remote { len, .. } => *len as usize,
    }
}

/// A queue pair number, written as `ibv_*` programs do.
pub(crate) struct Hex(pub u32);

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}
