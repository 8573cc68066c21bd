//! What a requester does with acknowledgements (section 9.7.6): those that cover several requests
//! or part of one, and those that READ and atomic responses are.

use super::bench::Bench;
use super::case::{Breaks, test, test_with};
use super::mutants::completes_twice;
use super::words::{PMTU, status};
use crate::Test;
use crate::channel::{ChannelOptions, pattern};
use crate::protocol::{Opcode, Side};
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::opcode::*;
use std::time::Duration;

const SECTION: &str = "9.7.6";

/// Without an answer a request is sent again after 67 ms at the earliest.
pub(super) fn patient() -> ChannelOptions {
    ChannelOptions {
        timeout: 14,
        ..ChannelOptions::default()
    }
}

pub(super) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    tests.push(
        test(
            SECTION,
            43,
            "an ACK completes all requests up to its PSN, in order",
            several,
        )
        .covers(&["C9-60"])
        .breaks("completes-one", "It completes the first only.", || {
            Faults::default().completion(|_, done| {
                if done.wr_id == 1 {
                    vec![done]
                } else {
                    Vec::new()
                }
            })
        })
        .breaks("completes-twice", "Each completes twice.", || {
            completes_twice(Side::Send)
        }),
    );

    for (n, atomic) in [(44, false), (45, true)] {
        let what = if atomic { "an atomic" } else { "a READ" };
        tests.push(
            test(
                SECTION,
                n,
                format!("the answer to {what} acknowledges what came before it"),
                move |b| implied(b, atomic),
            )
            .covers(&["C9-60"])
            .breaks(
                "waits-for-acks",
                "What came before waits for an ACK of its own.",
                || {
                    Faults::default().completion(|_, done| {
                        if done.wr_id < 3 {
                            Vec::new()
                        } else {
                            vec![done]
                        }
                    })
                },
            ),
        );
    }

    for (n, atomic) in [(46, false), (62, true)] {
        let what = if atomic { "an atomic" } else { "a READ" };
        let title = format!("an ACK beyond {what} that was not answered has it asked for again");
        tests.push(
            test(SECTION, n, title, move |b| implied_nak(b, atomic))
                .breaks(
                    "takes-it-for-answered",
                    "It completes without its data.",
                    move || answers_before_acks(atomic),
                )
                .breaks("does-not-ask", "It is not asked for again.", move || {
                    let (mut sent, request) = (0, request_of(atomic));
                    Faults::default().tx_drop(move |packet| {
                        sent += u32::from(packet.bth.opcode == request);
                        packet.bth.opcode == request && sent > 1
                    })
                }),
        );
    }

    tests.push(
        test(
            SECTION,
            47,
            "an ACK in the midst of a message completes nothing",
            part_acknowledged,
        )
        .covers(&["C9-60"])
        .breaks(
            "completes-early",
            "The first ACK completes the message.",
            || {
                Faults::default().rx_edit(|packet| {
                    if packet.bth.opcode == RC_ACKNOWLEDGE {
                        packet.bth.psn = (packet.bth.psn + 2) & 0xff_ffff;
                    }
                })
            },
        ),
    );

    tests.push(
        test_with(
            SECTION,
            48,
            patient(),
            "a message is sent again from the first packet that was not acknowledged",
            resumes,
        )
        .breaks("begins-over", "It is sent again from the start.", || {
            Faults::default().rx_drop(|packet| packet.bth.opcode == RC_ACKNOWLEDGE)
        })
        .takes(Duration::from_millis(600)),
    );

    tests
}

fn several(b: &mut Bench<'_>) -> Outcome {
    b.device_sends(5)?;
    b.step("One ACK of the fourth completes four");
    b.cc.ack(b.rig, b.cc.device_psn(3), 4)?;
    let due = [1, 2, 3, 4].map(|wr_id| (wr_id, status::SUCCESS));
    b.all_completed(Side::Send, &due)?;
    b.not_completed(Side::Send)
}

fn implied(b: &mut Bench<'_>, atomic: bool) -> Outcome {
    b.device_sends(2)?;
    let psn = b.cc.device_psn(2);
    b.step("Behind them a request that is answered with data; only that answer comes");
    if atomic {
        b.needs_atomics()?;
        b.post(3, Opcode::FetchAdd, 8)?;
        b.packet(RC_FETCH_ADD, psn)?;
        b.cc.atomic_ack(b.rig, psn, 3, 7)?;
    } else {
        b.post(3, Opcode::RdmaRead, 8)?;
        b.packet(RC_READ_REQUEST, psn)?;
        b.cc.read_responses(b.rig, psn, 3, &[7; 8])?;
    }

    b.step("All three complete, in order");
    b.all_completed(Side::Send, &[1, 2, 3].map(|wr_id| (wr_id, status::SUCCESS)))
}

/// The opcode of an atomic's or a READ's request.
fn request_of(atomic: bool) -> u8 {
    if atomic {
        RC_FETCH_ADD
    } else {
        RC_READ_REQUEST
    }
}

/// Sees, before each ACK, an answer of zeros to the PSN before.
fn answers_before_acks(atomic: bool) -> Faults {
    Faults::default().rx(move |packet| {
        if packet.bth.opcode != RC_ACKNOWLEDGE {
            return vec![(Duration::ZERO, packet)];
        }
        let mut answer = packet.clone();
        answer.bth.psn = packet.bth.psn.wrapping_sub(1) & 0xff_ffff;
        if atomic {
            answer.bth.opcode = RC_ATOMIC_ACKNOWLEDGE;
        } else {
            answer.bth.opcode = RC_READ_RESPONSE_ONLY;
            answer.payload = vec![0; 8];
        }
        vec![(Duration::ZERO, answer), (Duration::ZERO, packet)]
    })
}

/// The tester answers the device's first request, a READ or an atomic, with bytes of 7.
fn answer(b: &mut Bench<'_>, atomic: bool) -> Outcome {
    let psn = b.cc.device_psn(0);
    match atomic {
        true => b.cc.atomic_ack(b.rig, psn, 1, 0x0707_0707_0707_0707)?,
        false => b.cc.read_responses(b.rig, psn, 1, &[7; 8])?,
    }
    Ok(())
}

fn implied_nak(b: &mut Bench<'_>, atomic: bool) -> Outcome {
    let request = request_of(atomic);
    let opcode = if atomic {
        Opcode::FetchAdd
    } else {
        Opcode::RdmaRead
    };

    if atomic {
        b.needs_atomics()?;
    }

    b.step("The device sends the request and a SEND; only the SEND is acknowledged");
    b.post(1, opcode, 8)?;
    b.post(2, Opcode::Send, 8)?;
    let psn = [0, 1].map(|n| b.cc.device_psn(n));
    b.packet(request, psn[0])?;
    b.packet(RC_SEND_ONLY, psn[1])?;
    b.cc.ack(b.rig, psn[1], 2)?;
    b.step("The request comes again, and nothing completes before it is answered");
    b.packet(request, psn[0])?;
    b.not_completed(Side::Send)?;
    answer(b, atomic)?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    b.holds(0, &[7; 8])?;
    b.cc.ack(b.rig, psn[1], 2)?;
    b.completed(Side::Send, 2, status::SUCCESS)?;
    Ok(())
}

fn part_acknowledged(b: &mut Bench<'_>) -> Outcome {
    b.step("The device sends a SEND of 3 packets; the first is acknowledged");
    b.write(0, &pattern(3 * PMTU))?;
    b.post(1, Opcode::Send, 3 * PMTU)?;
    b.device_message(0, 3)?;
    b.cc.ack(b.rig, b.cc.device_psn(0), 0)?;
    b.step("Nothing completes before the last is");
    b.not_completed(Side::Send)?;
    b.cc.ack(b.rig, b.cc.device_psn(2), 1)?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    Ok(())
}

fn resumes(b: &mut Bench<'_>) -> Outcome {
    b.step("The device sends a SEND of 3 packets; the first is acknowledged, and nothing else");
    b.write(0, &pattern(3 * PMTU))?;
    b.post(1, Opcode::Send, 3 * PMTU)?;
    b.device_message(0, 3)?;
    b.cc.ack(b.rig, b.cc.device_psn(0), 0)?;
    b.step("When the timer ends the second and the third come again");
    b.device_message(1, 3)?;
    b.cc.ack(b.rig, b.cc.device_psn(2), 1)?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    Ok(())
}
