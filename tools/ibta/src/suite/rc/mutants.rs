//! Mutants that several tests share, each a device that breaks one rule.

use super::words::ahead;
use crate::packet::TxPacket;
use crate::protocol::{Completion, Opcode, Side};
use crate::sim::Faults;
use ferroce_wire::{Aeth, NakCode, Operation, Syndrome, opcode};
use std::collections::BTreeSet;
use std::time::Duration;

/// What the AETH of a packet says.
pub(super) fn syndrome(packet: &TxPacket) -> Option<Syndrome> {
    packet.ext.aeth.map(Aeth::kind)
}

/// Is it a NAK or RNR NAK?
pub(super) fn is_refusal(packet: &TxPacket) -> bool {
    matches!(
        syndrome(packet),
        Some(Syndrome::Nak(_) | Syndrome::RnrNak { .. })
    )
}

/// The operation of a packet.
pub(super) fn operation(packet: &TxPacket) -> Option<Operation> {
    opcode::info(packet.bth.opcode).map(|info| info.operation)
}

/// Refuses nothing: says ACK where a NAK is due.
pub(super) fn acknowledges_all() -> Faults {
    refuses_with(Syndrome::from_byte(0x1f))
}

/// Says something else where a NAK is due.
pub(super) fn refuses_with(other: Syndrome) -> Faults {
    Faults::default().tx_edit(move |packet| {
        if is_refusal(packet)
            && let Some(aeth) = &mut packet.ext.aeth
        {
            *aeth = Aeth::new(other, aeth.msn);
        }
    })
}

/// Refuses for another reason.
pub(super) fn other_reason(code: NakCode) -> Faults {
    refuses_with(Syndrome::Nak(code))
}

/// Sends no NAK at all.
pub(super) fn refuses_silently() -> Faults {
    Faults::default().tx_drop(is_refusal)
}

/// Sends each NAK once more, a millisecond later.
pub(super) fn refuses_twice() -> Faults {
    Faults::default().tx(|packet| match is_refusal(&packet) {
        true => vec![
            (Duration::ZERO, packet.clone()),
            (Duration::from_millis(1), packet),
        ],
        false => vec![(Duration::ZERO, packet)],
    })
}

/// Sends NAKs with the PSN after the one that is due.
pub(super) fn refuses_the_next_psn() -> Faults {
    Faults::default().tx_edit(|packet| {
        if is_refusal(packet) {
            packet.bth.psn = (packet.bth.psn + 1) & 0xff_ffff;
        }
    })
}

/// Takes what it has had before for something new. For requests of one PSN each.
pub(super) fn executes_duplicates() -> Faults {
    let mut next = None;
    Faults::default().rx_edit(move |packet| {
        if let Some(next) = next
            && ahead(packet.bth.psn, next) < 0
        {
            packet.bth.psn = next;
        }
        next = Some((packet.bth.psn + 1) & 0xff_ffff);
    })
}

/// Drops what it has had before. For requests of one PSN each.
pub(super) fn drops_duplicates() -> Faults {
    let mut next: Option<u32> = None;
    Faults::default().rx_drop(move |packet| {
        if next.is_some_and(|next| ahead(packet.bth.psn, next) < 0) {
            return true;
        }
        next = Some((packet.bth.psn + 1) & 0xff_ffff);
        false
    })
}

/// Counts messages wrongly: the MSN of every answer is one more.
pub(super) fn miscounts_messages() -> Faults {
    Faults::default().tx_edit(|packet| {
        if let Some(aeth) = &mut packet.ext.aeth {
            aeth.msn = (aeth.msn + 1) & 0xff_ffff;
        }
    })
}

/// Changes one thing in packets of an opcode that the device sends.
pub(super) fn sends(opcode: u8, edit: impl Fn(&mut TxPacket) + 'static) -> Faults {
    Faults::default().tx_edit(move |packet| {
        if packet.bth.opcode == opcode {
            edit(packet);
        }
    })
}

/// Changes one thing in packets of an opcode as the device sees them.
pub(super) fn sees(opcode: u8, edit: impl Fn(&mut TxPacket) + 'static) -> Faults {
    Faults::default().rx_edit(move |packet| {
        if packet.bth.opcode == opcode {
            edit(packet);
        }
    })
}

/// Drops packets of an opcode unseen.
pub(super) fn overlooks(opcode: u8) -> Faults {
    Faults::default().rx_drop(move |packet| packet.bth.opcode == opcode)
}

/// The last byte of everything that it places is wrong.
pub(super) fn garbles() -> Faults {
    Faults::default().place(|_, _, data| {
        let mut data = data.to_vec();
        if let Some(last) = data.last_mut() {
            *last ^= 0xff;
        }
        data
    })
}

/// Places nothing.
pub(super) fn places_nothing() -> Faults {
    Faults::default().place(|_, before, _| before.to_vec())
}

/// Completions of one side say another status.
pub(super) fn completes_with(side: Side, status: u32) -> Faults {
    completions(side, move |mut done| {
        done.status = status;
        vec![done]
    })
}

/// Completions of one side are never raised.
pub(super) fn never_completes(side: Side) -> Faults {
    completions(side, |_| Vec::new())
}

/// Completions of one side are raised twice.
pub(super) fn completes_twice(side: Side) -> Faults {
    completions(side, |done| vec![done, done])
}

fn completions(side: Side, change: impl Fn(Completion) -> Vec<Completion> + 'static) -> Faults {
    Faults::default().completion(move |of, done| match of == side {
        true => change(done),
        false => vec![done],
    })
}

/// The first byte of each response with data is wrong when it is sent again.
pub(super) fn garbles_replays() -> Faults {
    let mut sent = BTreeSet::new();
    Faults::default().tx_edit(move |packet| {
        if operation(packet) == Some(Operation::ReadResponse)
            && !sent.insert(packet.bth.psn)
            && let Some(first) = packet.payload.first_mut()
        {
            *first ^= 0xff;
        }
    })
}

/// The first packet of an opcode goes out a millisecond late, behind what follows it.
pub(super) fn sends_late(opcode: u8) -> Faults {
    let mut first = true;
    Faults::default().tx(move |packet| {
        let late = first && packet.bth.opcode == opcode;
        first &= !late;
        let delay = Duration::from_millis(late.into());
        vec![(delay, packet)]
    })
}

/// Makes an answer that brings data, zeros, of one that brings none.
pub(super) fn takes_for_data(packet: &mut TxPacket, asked: Opcode) {
    if asked == Opcode::RdmaRead {
        packet.bth.opcode = opcode::RC_READ_RESPONSE_ONLY;
        packet.payload = vec![0; 8];
    } else {
        packet.bth.opcode = opcode::RC_ATOMIC_ACKNOWLEDGE;
    }
}
