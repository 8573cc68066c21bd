//! Atomics at a responder (section 9.4.5): what they do, their alignment, and that each is done
//! once, however often it comes.

use super::bench::Bench;
use super::case::{Breaks, test, test_with};
use super::mutants::{
    acknowledges_all, completes_with, drops_duplicates, executes_duplicates, miscounts_messages,
    other_reason, places_nothing, sends,
};
use super::words::status;
use crate::Test;
use crate::channel::ChannelOptions;
use crate::protocol::{Opcode, Side};
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::{NakCode, opcode::*};

const START: u64 = 0x0123_4567_89ab_cdef;

/// A request and what it leaves in a word that holds [`START`]: opcode, swap or add, compare, value
/// afterwards.
const DEEDS: [(&str, u8, u64, u64, u64); 5] = [
    ("FETCH & ADD", RC_FETCH_ADD, 5, 0, START + 5),
    (
        "FETCH & ADD beyond 2^64",
        RC_FETCH_ADD,
        u64::MAX,
        0,
        START - 1,
    ),
    ("FETCH & ADD of nothing", RC_FETCH_ADD, 0, 0, START),
    (
        "COMPARE & SWAP of what is there",
        RC_COMPARE_SWAP,
        7,
        START,
        7,
    ),
    (
        "COMPARE & SWAP of what is not there",
        RC_COMPARE_SWAP,
        7,
        START ^ (1 << 63),
        START,
    ),
];

pub(super) fn tests() -> Vec<Test> {
    let mut tests = results();
    tests.extend(alignment());
    tests.extend(duplicates());
    tests.push(order());
    tests.extend(requester());
    tests
}

/// What atomics leave in memory, and what they answer.
fn results() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, (what, opcode, swap_add, compare, after)) in (1..).zip(DEEDS) {
        let test = test("9.4.5", n, what, move |b| {
            deed(b, opcode, swap_add, compare, after)
        })
        .covers(&["C9-148"])
        .breaks(
            "answers-with-the-new",
            "The answer is another value than was there before.",
            || {
                sends(RC_ATOMIC_ACKNOWLEDGE, |packet| {
                    packet.ext.atomic_ack =
                        packet.ext.atomic_ack.map(|value| value.wrapping_add(5));
                })
            },
        )
        .breaks("changes-too-much", "The word behind takes part.", || {
            sees_at(|va| va + 8)
        })
        .breaks(
            "counts-no-message",
            "The message number is another.",
            miscounts_messages,
        );

        tests.push(match after {
            START => test,
            _ => test.breaks(
                "does-nothing",
                "The word is left as it was.",
                places_nothing,
            ),
        });
    }

    tests
}

/// Addresses that are not a word's.
fn alignment() -> Vec<Test> {
    let mut tests = Vec::new();
    let places = [1, 2, 4, 7].map(|at| (RC_FETCH_ADD, at)).into_iter();
    let places = places.chain([1, 4].map(|at| (RC_COMPARE_SWAP, at)));
    for (n, (opcode, at)) in (6..).zip(places) {
        let title = format!(
            "{} {at} bytes off a word is an invalid request",
            super::words::name(opcode)
        );

        tests.push(
            test("9.4.5", n, title, move |b| misaligned(b, opcode, at))
                .covers(&["C9-222.1.1"])
                .breaks(
                    "rounds-down",
                    "The word that the address lies in is taken.",
                    || sees_at(|va| va & !7),
                )
                .breaks("takes-it", "It is acknowledged.", acknowledges_all)
                .breaks("says-access", "It is refused as an access error.", || {
                    other_reason(NakCode::RemoteAccessError)
                }),
        );
    }

    tests
}

/// Answers are kept for duplicates.
fn duplicates() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, opcode) in (12..).zip([RC_FETCH_ADD, RC_COMPARE_SWAP]) {
        let title = format!(
            "a duplicate {} is answered as before and not done again",
            super::words::name(opcode)
        );

        tests.push(
            test("9.4.5", n, title, move |b| replayed(b, opcode))
                .breaks(
                    "does-it-again",
                    "A duplicate is carried out once more.",
                    executes_duplicates,
                )
                .breaks("drops-it", "A duplicate is not answered.", drops_duplicates)
                .breaks(
                    "answers-anew",
                    "A duplicate is answered with another value.",
                    || {
                        let mut seen = std::collections::BTreeSet::new();
                        Faults::default().tx_edit(move |packet| {
                            if packet.ext.atomic_ack.is_some() && !seen.insert(packet.bth.psn) {
                                packet.ext.atomic_ack = Some(0);
                            }
                        })
                    },
                ),
        );
    }

    let options = ChannelOptions {
        max_dest_rd_atomic: 4,
        ..ChannelOptions::default()
    };

    tests.push(
        test_with(
            "9.4.5",
            14,
            options,
            "the answers of as many atomics as may be outstanding are kept",
            keeps_all,
        )
        .breaks("keeps-the-last", "Only the last answer is kept.", || {
            let mut last = None;
            Faults::default().rx_drop(move |packet| {
                let again = last.is_some_and(|last| super::words::ahead(packet.bth.psn, last) < 0);
                if !again {
                    last = Some(packet.bth.psn);
                }
                again
            })
        }),
    );

    tests
}

/// Each after the other.
fn order() -> Test {
    test(
        "9.4.5",
        15,
        "atomics are done in the order of their PSNs, and answered each for itself",
        in_order,
    )
    .breaks("coalesces", "Only the last is answered.", || {
        let mut count = 0;
        Faults::default().tx_drop(move |packet| {
            count += u32::from(packet.bth.opcode == RC_ATOMIC_ACKNOWLEDGE);
            packet.bth.opcode == RC_ATOMIC_ACKNOWLEDGE && count < 3
        })
    })
}

/// Atomics of the device's own.
fn requester() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, opcode) in (16..).zip([Opcode::FetchAdd, Opcode::CompareSwap]) {
        tests.push(
            test(
                "9.4.5",
                n,
                format!("{opcode:?} by the device: the answer is in its memory"),
                move |b| asked(b, opcode),
            )
            .breaks(
                "completes-with-error",
                "The completion is an error.",
                || completes_with(Side::Send, status::REM_OP_ERR),
            )
            .breaks("leaves-memory", "The answer is not placed.", places_nothing),
        );
    }

    tests
}

/// Sees atomics at another address.
fn sees_at(change: impl Fn(u64) -> u64 + 'static) -> Faults {
    Faults::default().rx_edit(move |packet| {
        if let Some(atomic) = &mut packet.ext.atomic {
            atomic.va = change(atomic.va);
        }
    })
}

/// The next packet answers an atomic.
fn answered(b: &mut Bench<'_>, psn: u32, msn: u32, before: u64) -> Outcome {
    let answer = b.packet(RC_ATOMIC_ACKNOWLEDGE, psn)?;
    let msn_seen = answer.ext.aeth.map(|aeth| aeth.msn);
    b.eq("the value before", answer.ext.atomic_ack, Some(before))?;
    b.eq("the MSN", msn_seen, Some(msn))
}

fn deed(b: &mut Bench<'_>, opcode: u8, swap_add: u64, compare: u64, after: u64) -> Outcome {
    b.needs_atomics()?;
    b.write_word(8, START)?;
    b.write_word(16, !START)?;
    b.step("The request is answered with what was there before");
    let ext = b.atomic(8, swap_add, compare);
    let psn = b.send(opcode, ext, &[])?;
    answered(b, psn, 1, START)?;
    b.step("The word holds what it must, and its neighbours what they did");
    b.holds_word(8, after)?;
    b.holds_word(0, 0)?;
    b.holds_word(16, !START)?;
    b.goes_on(2)
}

fn misaligned(b: &mut Bench<'_>, opcode: u8, at: u32) -> Outcome {
    b.needs_atomics()?;
    b.step("The request is refused, and nothing has changed");
    let ext = b.atomic(at, 1, 0);
    let psn = b.send(opcode, ext, &[])?;
    b.nak(NakCode::InvalidRequest, psn)?;
    b.holds(0, &[0; 24])?;
    b.ended()
}

fn replayed(b: &mut Bench<'_>, opcode: u8) -> Outcome {
    b.needs_atomics()?;
    b.write_word(8, START)?;
    b.step("The request is answered");
    let ext = b.atomic(8, 3, START);
    let psn = b.send(opcode, ext, &[])?;
    answered(b, psn, 1, START)?;
    b.step("A program writes the value of before; the request comes twice more and is answered as before");
    b.write_word(8, START)?;
    for _ in 0..2 {
        b.send_at(psn, opcode, ext, &[])?;
        answered(b, psn, 1, START)?;
    }

    b.step("It was not carried out again");
    b.holds_word(8, START)?;
    b.goes_on(2)
}

fn keeps_all(b: &mut Bench<'_>) -> Outcome {
    b.needs_atomics()?;
    b.step("Four FETCH & ADDs are answered");
    let (first, ext) = (b.psn(), b.atomic(8, 1, 0));
    for n in 0..4 {
        let psn = b.send(RC_FETCH_ADD, ext, &[])?;
        answered(b, psn, n + 1, u64::from(n))?;
    }
    b.step("Each is answered again as before, the oldest too");
    for n in [0, 3, 1, 2] {
        b.send_at(first + n, RC_FETCH_ADD, ext, &[])?;
        answered(b, (first + n) & 0xff_ffff, n + 1, u64::from(n))?;
    }
    b.step("They were carried out once");
    b.holds_word(8, 4)
}

fn in_order(b: &mut Bench<'_>) -> Outcome {
    b.needs_atomics()?;
    b.step("Three FETCH & ADDs are sent without waiting");
    let ext = b.atomic(8, 1, 0);
    let first = b.psn();
    for _ in 0..3 {
        b.send(RC_FETCH_ADD, ext, &[])?;
    }
    b.step("Three answers come, in order");
    for n in 0..3 {
        answered(b, (first + n) & 0xff_ffff, n + 1, u64::from(n))?;
    }
    b.holds_word(8, 3)
}

fn asked(b: &mut Bench<'_>, opcode: Opcode) -> Outcome {
    b.needs_atomics()?;
    b.step("The device posts an atomic, and the tester answers it");
    b.post(1, opcode, 8)?;
    let psn = b.cc.device_psn(0);
    let due = if opcode == Opcode::FetchAdd {
        RC_FETCH_ADD
    } else {
        RC_COMPARE_SWAP
    };
    b.packet(due, psn)?;
    b.cc.atomic_ack(b.rig, psn, 1, START)?;
    b.step("It completes, and the value is in the program's memory");
    let done = b.completed(Side::Send, 1, status::SUCCESS)?;
    b.eq("the completion's length", done.byte_len, 8)?;
    b.holds_word(0, START)
}
