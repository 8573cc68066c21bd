//! What holds of every packet that a device sends.

use super::books::Books;
use super::memory::Memory;
use crate::packet::RxPacket;
use ferroce_wire::{Operation, bth};

/// Bits of the BTH that are reserved: six of byte 4, beside FECN and BECN, and seven of byte 8,
/// beside AckReq.
const RESERVED: [(usize, u8); 2] = [(4, 0x3f), (8, 0x7f)];

/// Whether a packet may be sent by a device of which this was asked; `migreq` is MigReq of all its
/// packets, `memory` the device's.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check(
    packet: &RxPacket,
    books: &mut Books,
    migreq: &mut Option<bool>,
    memory: Memory<'_>,
) -> Result<(), String> {
    if let Some(problem) = &packet.problem {
        return Err(problem.clone());
    }
    let Some(info) = packet.info else {
        return Err("the opcode is unknown".to_owned());
    };

    let bth = &packet.bth;
    if bth.tver != 0 {
        return Err(format!("TVer is {}", bth.tver));
    }

    if packet.bytes.len() >= bth::LEN
        && RESERVED
            .iter()
            .any(|(at, bits)| packet.bytes[*at] & bits != 0)
    {
        return Err("reserved bits of the BTH are set".to_owned());
    }

    // Who has not taken packets in that were marked has nothing to tell; marks are made on the way.
    if info.operation != Operation::Cnp && (bth.fecn || bth.becn) {
        return Err("FECN or BECN is set".to_owned());
    }

    // No path migrates here. Adapters say 1 (Migrated), rdma_rxe 0.
    if *migreq.get_or_insert(bth.migreq) != bth.migreq {
        return Err("MigReq is not what it was".to_owned());
    }

    if info.is_response() {
        if bth.solicited || bth.ack_req {
            return Err("SE or AckReq is set in a response".to_owned());
        }
        return books.allows_response(packet, info, memory);
    }

    match info.operation {
        Operation::Cnp => Ok(()),
        _ => books.asked.allows_request(packet, info, memory),
    }
}
