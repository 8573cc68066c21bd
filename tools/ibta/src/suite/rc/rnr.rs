//! Receiver not ready (section 9.7.5.2.8): what a responder says that has no receive request, and
//! what it takes afterwards.

use super::bench::Bench;
use super::case::{Breaks, test, test_with};
use super::mutants::{acknowledges_all, is_refusal, refuses_silently, refuses_twice};
use super::words::{PMTU, imm, name, status};
use crate::Test;
use crate::channel::ChannelOptions;
use crate::protocol::Side;
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::{Aeth, Ext, NakCode, Syndrome, opcode::*};
use std::time::Duration;

const SECTION: &str = "9.7.5.2.8";
/// Requests that take a receive request.
const TAKING: [u8; 5] = [
    RC_SEND_FIRST,
    RC_SEND_ONLY,
    RC_SEND_ONLY_IMM,
    RC_WRITE_ONLY_IMM,
    RC_SEND_ONLY_INV,
];
/// Timer codes that a program may ask for.
const TIMERS: [u8; 5] = [0, 1, 12, 25, 31];

pub(super) fn tests() -> Vec<Test> {
    let mut tests = refused_requests();
    tests.extend(timers());
    tests.extend(neighbours());
    tests.extend(writes());
    tests
}

/// Each request that takes a receive request.
fn refused_requests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, opcode) in (1..).zip(TAKING) {
        let title = format!(
            "{} without a receive request is refused with RNR, and taken when there is one",
            name(opcode)
        );

        tests.push(
            test(SECTION, n, title, move |b| not_ready(b, opcode))
                .breaks("drops-it", "The request is dropped.", refuses_silently)
                .breaks(
                    "takes-it",
                    "It is acknowledged all the same.",
                    acknowledges_all,
                )
                .breaks("says-invalid", "It is an invalid request.", || {
                    super::mutants::other_reason(NakCode::InvalidRequest)
                }),
        );
    }

    tests
}

/// Each timer that a program may ask for.
fn timers() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, timer) in (6..).zip(TIMERS) {
        let options = ChannelOptions {
            min_rnr_timer: timer,
            ..ChannelOptions::default()
        };

        tests.push(
            test_with(
                SECTION,
                n,
                options,
                format!("the RNR NAK says the timer that the program asked for: code {timer}"),
                move |b| {
                    b.step("A SEND without a receive request is refused with that timer");
                    let psn = b.send(RC_SEND_ONLY, Ext::default(), &[1; 4])?;
                    b.refused(Syndrome::RnrNak { timer }, psn)?;
                    Ok(())
                },
            )
            .breaks("says-another", "The timer is one step longer.", move || {
                Faults::default().tx_edit(move |packet| {
                    if is_refusal(packet)
                        && let Some(aeth) = &mut packet.ext.aeth
                    {
                        aeth.syndrome ^= 1;
                    }
                })
            }),
        );
    }

    tests
}

/// What comes behind an RNR NAK, and what came before it.
fn neighbours() -> Vec<Test> {
    vec![
        test(
            SECTION,
            11,
            "what comes behind an RNR NAK is dropped until its request comes again",
            behind_it,
        )
        .breaks(
            "refuses-each",
            "Each request behind it is refused too.",
            refuses_twice,
        )
        .breaks(
            "takes-what-is-behind",
            "What comes behind it is carried out.",
            || {
                let mut refused = false;
                Faults::default().rx(move |mut packet| {
                    // The request that must wait is thrown away the second time, and the next takes
                    // its place.
                    if packet.bth.opcode == RC_WRITE_ONLY && !refused {
                        refused = true;
                        packet.bth.psn = packet.bth.psn.wrapping_sub(1) & 0xff_ffff;
                    }
                    vec![(Duration::ZERO, packet)]
                })
            },
        ),
        test(
            SECTION,
            12,
            "an RNR NAK acknowledges what came before it",
            acknowledges_before,
        )
        .covers(&["C9-148"])
        .breaks(
            "miscounts",
            "It counts the request that it refuses.",
            super::mutants::miscounts_messages,
        ),
    ]
}

/// RDMA WRITEs, without immediate data and with it.
fn writes() -> Vec<Test> {
    vec![
        test(
            SECTION,
            13,
            "an RDMA WRITE needs no receive request",
            needs_none,
        )
        .covers(&["C10-87"])
        .breaks(
            "refuses-all",
            "Nothing is taken without a receive request.",
            || {
                Faults::default().tx_edit(|packet| {
                    if let Some(aeth) = &mut packet.ext.aeth {
                        *aeth = Aeth::new(Syndrome::RnrNak { timer: 1 }, aeth.msn);
                    }
                })
            },
        ),
        test(
            SECTION,
            14,
            "the LAST with immediate of an RDMA WRITE may have to wait",
            write_waits,
        )
        .breaks(
            "forgets-the-message",
            "After the RNR NAK the message begins over.",
            || {
                let mut last = 0;
                Faults::default().rx_edit(move |packet| {
                    last += u32::from(packet.bth.opcode == RC_WRITE_LAST_IMM);
                    if last > 1 && packet.bth.opcode == RC_WRITE_LAST_IMM {
                        packet.bth.opcode = RC_WRITE_ONLY_IMM;
                        packet.ext.reth = Some(ferroce_wire::Reth::default());
                    }
                })
            },
        ),
    ]
}

fn timer(b: &Bench<'_>) -> Syndrome {
    Syndrome::RnrNak {
        timer: b.cc.options.min_rnr_timer,
    }
}

fn not_ready(b: &mut Bench<'_>, opcode: u8) -> Outcome {
    let payload = match opcode {
        RC_SEND_FIRST => vec![1; PMTU as usize],
        RC_SEND_ONLY_INV => Vec::new(),
        _ => vec![1; 4],
    };

    let ext = Ext {
        imm: Some([1; 4]),
        ieth: Some(0),
        ..b.reth(0, 4)
    };

    b.step("The request is refused with RNR, and nothing has changed");
    let psn = b.psn();
    b.send_at(psn, opcode, ext, &payload)?;
    let nak = b.refused(timer(b), psn)?;
    b.eq("the MSN", nak.ext.aeth.map(|aeth| aeth.msn), Some(0))?;
    b.holds(0, &[0; 4])?;
    if opcode == RC_SEND_ONLY_INV {
        return Ok(()); // there is no key to invalidate: that it waits is all
    }

    b.step("A receive request is posted; the request comes again and is taken");
    b.post_recv(1, 0, 4 * PMTU)?;
    b.send_at(psn, opcode, ext, &payload)?;
    b.skip(1);
    b.acked(psn, u32::from(opcode != RC_SEND_FIRST))?;
    b.holds(0, &[1; 4])
}

fn behind_it(b: &mut Bench<'_>) -> Outcome {
    b.step("A SEND without a receive request and a WRITE behind it: one RNR NAK");
    let (psn, ext) = (b.psn(), b.reth(0, 4));
    b.send_at(psn, RC_SEND_ONLY, Ext::default(), &[1; 4])?;
    b.refused(timer(b), psn)?;
    b.send_at(psn + 1, RC_WRITE_ONLY, ext, &[2; 4])?;
    b.silence()?;
    b.holds(0, &[0; 4])?;
    b.step("With a receive request both are taken when they come again");
    b.post_recv(1, 64, 8)?;
    b.send(RC_SEND_ONLY, Ext::default(), &[1; 4])?;
    let last = b.send(RC_WRITE_ONLY, ext, &[2; 4])?;
    b.acked(last, 2)?;
    b.completed(Side::Recv, 1, status::SUCCESS)?;
    b.holds(0, &[2; 4])
}

fn acknowledges_before(b: &mut Bench<'_>) -> Outcome {
    b.step("Two WRITEs that ask for nothing, and a SEND without a receive request");
    for n in 0..2 {
        let ext = b.reth(n * 4, 4);
        b.send_quietly(RC_WRITE_ONLY, ext, &[7; 4])?;
    }
    let psn = b.send(RC_SEND_ONLY, Ext::default(), &[1; 4])?;
    b.step("The RNR NAK is of the SEND, and counts the two");
    let nak = b.refused(timer(b), psn)?;
    b.eq("the MSN", nak.ext.aeth.map(|aeth| aeth.msn), Some(2))?;
    b.holds(0, &[7; 8])
}

fn needs_none(b: &mut Bench<'_>) -> Outcome {
    b.step("A WRITE of 3 packets is acknowledged");
    let data = crate::channel::pattern(3 * PMTU);
    let ext = b.reth(0, 3 * PMTU);
    let psn = b.message(true, ext, &data)?;
    b.acked(psn, 1)?;
    b.holds(0, &data)
}

fn write_waits(b: &mut Bench<'_>) -> Outcome {
    b.step("FIRST is taken, LAST with immediate refused with RNR");
    let pmtu = PMTU as usize;
    let ext = b.reth(0, PMTU + 4);
    let psn = b.send(RC_WRITE_FIRST, ext, &vec![1; pmtu])?;
    b.acked(psn, 0)?;
    let psn = b.psn();
    b.send_at(psn, RC_WRITE_LAST_IMM, imm([1; 4]), &[2; 4])?;
    b.refused(timer(b), psn)?;
    b.step("With a receive request LAST is taken, and the message is whole");
    b.post_empty_recv(1)?;
    b.send(RC_WRITE_LAST_IMM, imm([1; 4]), &[2; 4])?;
    b.acked(psn, 1)?;
    let done = b.completed(Side::Recv, 1, status::SUCCESS)?;
    b.eq("bytes", done.byte_len, PMTU + 4)?;
    b.holds(0, &[vec![1; pmtu], vec![2; 4]].concat())
}
