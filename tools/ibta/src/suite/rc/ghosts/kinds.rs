//! Answers with the right PSN: not what the request is answered with, what was placed already, or
//! AETHs that say nothing.

use super::SECTION;
use crate::Test;
use crate::channel::ACK;
use crate::protocol::{Opcode, Side};
use crate::run::Outcome;
use crate::sim::Faults;
use crate::suite::rc::bench::Bench;
use crate::suite::rc::case::{Breaks, test};
use crate::suite::rc::mutants::{operation, takes_for_data};
use crate::suite::rc::words::status;
use ferroce_wire::{Aeth, NakCode, Operation, Syndrome, opcode::*};
use std::collections::BTreeSet;

/// Syndromes that are reserved.
const RESERVED: [u8; 5] = [0x40, 0x5f, 0x65, 0x80, 0xff];

/// The right PSN, but not what its request is answered with.
pub(super) fn other_kinds() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, opcode) in (7..).zip([Opcode::Send, Opcode::RdmaWrite, Opcode::RdmaRead]) {
        tests.push(
            test(
                SECTION,
                n,
                format!("{opcode:?} is not completed by the answer to an atomic"),
                move |b| answer_of_another_kind(b, opcode),
            )
            .breaks(
                "takes-it",
                "Any answer with the PSN completes the request.",
                move || takes_for(opcode),
            ),
        );
    }

    for (n, opcode) in [(10, Opcode::RdmaRead), (63, Opcode::FetchAdd)] {
        let title = format!("{opcode:?} is not completed by an ACK");
        tests.push(
            test(SECTION, n, title, move |b| ack_for_an_answer(b, opcode))
                .covers(&["C9-60"])
                .breaks("takes-it", "An ACK completes the request.", move || {
                    Faults::default().rx_edit(move |packet| {
                        if packet.bth.opcode == RC_ACKNOWLEDGE {
                            takes_for_data(packet, opcode);
                        }
                    })
                }),
        );
    }

    tests
}

/// What was placed already.
pub(super) fn repeated_responses() -> Test {
    test(
        SECTION,
        11,
        "a READ response that comes again is dropped",
        response_again,
    )
    .breaks(
        "places-it-again",
        "It is placed where the next READ goes.",
        || {
            Faults::default().rx_edit({
                let mut seen = BTreeSet::new();
                move |packet| {
                    if operation(packet) == Some(Operation::ReadResponse)
                        && !seen.insert(packet.bth.psn)
                    {
                        packet.bth.psn = (packet.bth.psn + 1) & 0xff_ffff;
                    }
                }
            })
        },
    )
}

/// AETHs that say nothing to a reliable connection.
pub(super) fn unknown_syndromes() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, syndrome) in (12..).zip(RESERVED) {
        tests.push(
            test(
                SECTION,
                n,
                format!("an AETH with the reserved syndrome {syndrome:#04x} completes nothing"),
                move |b| unknown(b, syndrome),
            )
            .breaks(
                "takes-it-for-ack",
                "Its upper bits are not looked at.",
                || {
                    Faults::default().rx_edit(|packet| {
                        if let Some(aeth) = &mut packet.ext.aeth
                            && matches!(aeth.kind(), Syndrome::Reserved(_))
                        {
                            *aeth = Aeth::new(ACK, aeth.msn);
                        }
                    })
                },
            ),
        );
    }

    let invalid_rd = Syndrome::Nak(NakCode::InvalidRdRequest).to_byte();
    tests.push(
        test(
            SECTION,
            17,
            "a NAK that is for reliable datagrams only completes nothing well",
            move |b| unknown(b, invalid_rd),
        )
        .breaks("takes-it-for-ack", "It completes the request.", || {
            Faults::default().rx_edit(|packet| {
                if let Some(aeth) = &mut packet.ext.aeth
                    && matches!(aeth.kind(), Syndrome::Nak(NakCode::InvalidRdRequest))
                {
                    *aeth = Aeth::new(ACK, aeth.msn);
                }
            })
        }),
    );

    tests
}

/// A device that takes any answer for the one that is due.
fn takes_for(opcode: Opcode) -> Faults {
    Faults::default().rx_edit(move |packet| {
        if packet.bth.opcode != RC_ATOMIC_ACKNOWLEDGE {
            return;
        }
        if opcode == Opcode::RdmaRead {
            takes_for_data(packet, opcode);
        } else {
            packet.bth.opcode = RC_ACKNOWLEDGE;
        }
    })
}

fn answer_of_another_kind(b: &mut Bench<'_>, opcode: Opcode) -> Outcome {
    b.step("The device sends a request, which is answered as an atomic would be");
    b.write(0, &[0x5a; 8])?;
    b.post(1, opcode, 8)?;
    b.next("a request")?;
    b.cc.atomic_ack(b.rig, b.cc.device_psn(0), 1, 0)?;
    b.step("It does not complete well, and its memory is as it was");
    not_well(b)?;
    b.holds(0, &[0x5a; 8])
}

/// No completion with success comes. Whether a device drops what it does not understand or fails is
/// not looked at.
fn not_well(b: &mut Bench<'_>) -> Outcome {
    let silence = b.rig.silence();
    let all = b.cc.poll(b.rig, Side::Send, 1, silence)?;
    b.check(
        all.iter().all(|done| done.status != status::SUCCESS),
        || format!("a request has completed with success: {all:?}"),
    )
}

fn ack_for_an_answer(b: &mut Bench<'_>, opcode: Opcode) -> Outcome {
    if opcode == Opcode::FetchAdd {
        b.needs_atomics()?;
    }
    b.step("The device sends a request that is answered with data; an ACK comes");
    b.write(0, &[0x5a; 8])?;
    b.post(1, opcode, 8)?;
    b.next("a request")?;
    b.cc.ack(b.rig, b.cc.device_psn(0), 1)?;
    b.step("It does not complete, and its memory is as it was");
    not_well(b)?;
    b.holds(0, &[0x5a; 8])
}

fn response_again(b: &mut Bench<'_>) -> Outcome {
    b.step("The device sends two READs; the first is answered twice");
    b.write(0, &[0x5a; 8])?;
    for wr_id in 1..=2 {
        b.post(wr_id, Opcode::RdmaRead, 8)?;
        b.packet(RC_READ_REQUEST, b.cc.device_psn(wr_id as u32 - 1))?;
    }

    b.cc.read_responses(b.rig, b.cc.device_psn(0), 1, &[1; 8])?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    b.holds(0, &[1; 8])?;
    b.cc.read_responses(b.rig, b.cc.device_psn(0), 1, &[2; 8])?;
    b.step("The second answer changes nothing");
    b.not_completed(Side::Send)?;
    b.holds(0, &[1; 8])?;
    b.step("The second READ is answered");
    b.cc.read_responses(b.rig, b.cc.device_psn(1), 2, &[3; 8])?;
    b.completed(Side::Send, 2, status::SUCCESS)?;
    b.holds(0, &[3; 8])
}

fn unknown(b: &mut Bench<'_>, syndrome: u8) -> Outcome {
    b.device_sends(1)?;
    b.step("It is answered with a syndrome that says nothing");
    b.cc.answer(b.rig, Syndrome::from_byte(syndrome), b.cc.device_psn(0), 1)?;
    not_well(b)
}
