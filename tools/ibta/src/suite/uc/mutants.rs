//! Mutants that several tests use.

use crate::catalog::Mutant;
use crate::packet::TxPacket;
use crate::sim::Faults;
use ferroce_wire::opcode;
use std::time::Duration;

/// Drops what comes in the middle of messages.
pub(super) fn loses_middles(assertion: &str) -> Mutant {
    Mutant::transport(
        "loses-middles",
        "middle packets are lost in the device",
        assertion,
        || {
            Faults::default().rx(|packet| match packet.bth.opcode {
                opcode::UC_SEND_MIDDLE | opcode::UC_WRITE_MIDDLE => Vec::new(),
                _ => vec![(Duration::ZERO, packet)],
            })
        },
    )
}

/// Has no eye for gaps: whatever comes is given the PSN that is due.
pub(super) fn blind_to_gaps(assertion: &str) -> Mutant {
    Mutant::transport(
        "blind-to-gaps",
        "PSNs of packets within a message are not checked",
        assertion,
        || {
            let mut last: Option<u32> = None;
            Faults::default().rx_edit(move |packet| {
                if let (Some(last), false) = (last, begins(packet)) {
                    packet.bth.psn = (last + 1) & 0xff_ffff;
                }
                last = Some(packet.bth.psn);
            })
        },
    )
}

pub(super) fn begins(packet: &TxPacket) -> bool {
    ferroce_wire::opcode::info(packet.bth.opcode).is_some_and(|info| info.begins())
}
