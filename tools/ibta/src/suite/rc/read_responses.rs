//! What a requester does with the responses to its READs (section 9.7.6): whole ones, missing ones,
//! and ones that do not fit.

use super::bench::Bench;
use super::case::{Breaks, test, test_with};
use super::mutants::{completes_with, never_completes, operation, places_nothing};
use super::responses::patient;
use super::words::{PMTU, status};
use crate::Test;
use crate::channel::pattern;
use crate::protocol::{Opcode, Side};
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::{Operation, opcode::*};
use std::time::Duration;

const SECTION: &str = "9.7.6";
/// READ responses that do not fit: opcode, PSN of the READ's, bytes. The READ has 3 packets.
const MALFORMED: [(&str, u8, u32, u32); 5] = [
    (
        "a FIRST that is too short",
        RC_READ_RESPONSE_FIRST,
        0,
        PMTU - 4,
    ),
    (
        "a MIDDLE that is too short",
        RC_READ_RESPONSE_MIDDLE,
        1,
        PMTU - 4,
    ),
    ("a LAST that is too long", RC_READ_RESPONSE_LAST, 2, 12),
    ("a LAST that is too short", RC_READ_RESPONSE_LAST, 2, 4),
    ("a LAST where MIDDLE is due", RC_READ_RESPONSE_LAST, 1, PMTU),
];

pub(super) fn tests() -> Vec<Test> {
    let mut tests = missing_responses();
    tests.extend(malformed_responses());
    tests.extend(whole_responses());
    tests
}

/// What is asked for again.
fn missing_responses() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, missing) in [(49, 0), (50, 1)] {
        tests.push(
            test(
                SECTION,
                n,
                format!(
                    "a READ whose response {missing} is missing is asked for again from there on"
                ),
                move |b| missing_response(b, missing),
            )
            .breaks(
                "places-what-comes",
                "Responses are placed whatever is missing.",
                || {
                    let mut next = None;
                    Faults::default().rx_edit(move |packet| {
                        if operation(packet) == Some(Operation::ReadResponse) {
                            if let Some(next) = next {
                                packet.bth.psn = next;
                            }
                            next = Some((packet.bth.psn + 1) & 0xff_ffff);
                        }
                    })
                },
            )
            .breaks("never-asks", "It is not asked for again.", || {
                let mut asked = 0;
                Faults::default().tx_drop(move |packet| {
                    asked += u32::from(packet.bth.opcode == RC_READ_REQUEST);
                    asked > 1
                })
            })
            .breaks(
                "asks-for-the-next",
                "It is asked for from the response behind.",
                || {
                    let mut asked = 0;
                    Faults::default().tx_edit(move |packet| {
                        asked += 1;
                        if asked > 1
                            && let Some(reth) = &mut packet.ext.reth
                        {
                            reth.va += u64::from(PMTU);
                            reth.len -= PMTU;
                            packet.bth.psn = (packet.bth.psn + 1) & 0xff_ffff;
                        }
                    })
                },
            ),
        );
    }

    tests.push(
        test_with(
            SECTION,
            51,
            patient(),
            "a READ whose last response is missing is asked for again when the timer ends",
            missing_last,
        )
        .covers(&["C9-60", "C9-139"])
        .breaks(
            "takes-it-for-whole",
            "It completes without its last response.",
            || {
                Faults::default().rx(|packet| {
                    if packet.bth.opcode != RC_READ_RESPONSE_MIDDLE {
                        return vec![(Duration::ZERO, packet)];
                    }
                    let mut last = packet.clone();
                    last.bth.opcode = RC_READ_RESPONSE_LAST;
                    last.bth.psn = (packet.bth.psn + 1) & 0xff_ffff;
                    last.payload.truncate(8);
                    vec![(Duration::ZERO, packet), (Duration::ZERO, last)]
                })
            },
        )
        .takes(Duration::from_millis(600)),
    );

    tests
}

/// What ends the connection.
fn malformed_responses() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, (what, opcode, at, len)) in (52..).zip(MALFORMED) {
        tests.push(
            test(SECTION, n, format!("{what} is a bad response"), move |b| {
                malformed(b, opcode, at, len)
            })
            .breaks("says-nothing", "It is dropped.", || {
                never_completes(Side::Send)
            })
            .breaks("completes-well", "The READ completes with success.", || {
                completes_with(Side::Send, status::SUCCESS)
            }),
        );
    }

    tests
}

/// What completes.
fn whole_responses() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, len) in (57..).zip([0, 1, PMTU, PMTU + 1, 3 * PMTU]) {
        let test = test(
            SECTION,
            n,
            format!("a READ of {len} bytes is placed and completes"),
            move |b| read(b, len),
        )
        .covers(&["C9-60"])
        .breaks("never-completes", "It does not complete.", || {
            never_completes(Side::Send)
        });

        tests.push(match len {
            0 => test,
            _ => test.breaks(
                "does-not-place",
                "Its responses are not placed.",
                places_nothing,
            ),
        });
    }

    tests
}

/// The device sends a READ of 3 packets, the last of 8 bytes; what it is answered with.
fn read_of_three(b: &mut Bench<'_>) -> Outcome<Vec<u8>> {
    b.step("The device sends a READ of 3 packets");
    let len = 2 * PMTU + 8;
    b.post(1, Opcode::RdmaRead, len)?;
    asked(b, 0, len)?;
    Ok(pattern(len))
}

/// A READ request comes for the bytes from packet `from` of a READ on.
fn asked(b: &mut Bench<'_>, from: u32, len: u32) -> Outcome {
    let request = b.packet(RC_READ_REQUEST, b.cc.device_psn(from))?;
    let seen = request.ext.reth.map(|reth| (reth.va, reth.len));
    let skipped = from * PMTU;
    b.eq(
        "address and length",
        seen,
        Some((0x99_9000 + u64::from(skipped), len - skipped)),
    )
}

/// Transmits response `n` of the three.
fn respond(b: &mut Bench<'_>, n: u32, data: &[u8]) -> Outcome {
    let part = data
        .chunks(PMTU as usize)
        .nth(n as usize)
        .unwrap_or_default();
    let packet =
        b.cc.read_response(b.cc.device_psn(0), 1, n as usize, 3, part);
    b.transmit(&packet)
}

/// The rest comes as the answer to a READ of its own, and the whole completes.
fn finish(b: &mut Bench<'_>, from: u32, data: &[u8]) -> Outcome {
    b.step("It is answered; the READ completes and all of it is in memory");
    let rest = &data[(from * PMTU) as usize..];
    b.cc.read_responses(b.rig, b.cc.device_psn(from), 1, rest)?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    b.holds(0, data)
}

fn missing_response(b: &mut Bench<'_>, missing: u32) -> Outcome {
    let data = read_of_three(b)?;
    b.step(format!("Response {missing} does not arrive, the others do"));
    for n in (0..3).filter(|n| *n != missing) {
        respond(b, n, &data)?;
    }
    b.step("What is missing, and all behind it, is asked for again");
    asked(b, missing, data.len() as u32)?;
    b.not_completed(Side::Send)?;
    finish(b, missing, &data)
}

fn missing_last(b: &mut Bench<'_>) -> Outcome {
    let data = read_of_three(b)?;
    b.step("The last response does not arrive");
    for n in 0..2 {
        respond(b, n, &data)?;
    }
    b.step("It is asked for again");
    asked(b, 2, data.len() as u32)?;
    let none = b.cc.poll(b.rig, Side::Send, 1, Duration::ZERO)?;
    b.eq("completions", none.len(), 0)?;
    finish(b, 2, &data)
}

fn malformed(b: &mut Bench<'_>, opcode: u8, at: u32, len: u32) -> Outcome {
    let data = read_of_three(b)?;
    for n in 0..at {
        respond(b, n, &data)?;
    }
    b.step("A response that does not fit: the READ fails with a bad response");
    let (psn, payload) = (b.cc.device_psn(at), vec![0; len as usize]);
    let packet = b.cc.response(opcode, psn, crate::channel::ACK, 1, &payload);
    b.transmit(&packet)?;
    b.completed(Side::Send, 1, status::BAD_RESP_ERR)?;
    Ok(())
}

fn read(b: &mut Bench<'_>, len: u32) -> Outcome {
    b.step("The device sends a READ, which is answered");
    b.write(0, &vec![0x5a; len as usize])?;
    b.post(1, Opcode::RdmaRead, len)?;
    asked(b, 0, len)?;
    let data = pattern(len);
    b.cc.read_responses(b.rig, b.cc.device_psn(0), 1, &data)?;
    b.step("It completes, and its bytes are in memory");
    let done = b.completed(Side::Send, 1, status::SUCCESS)?;
    b.eq("the completion's length", done.byte_len, len)?;
    b.holds(0, &data)
}
