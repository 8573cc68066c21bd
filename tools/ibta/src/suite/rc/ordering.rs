//! Order of responses (section 9.5, C9-27): all answers to a READ or atomic are on the wire before
//! the answer to anything behind it.

use super::bench::Bench;
use super::case::{Breaks, named, test};
use super::mutants::{overlooks, sends_late};
use super::words::{PMTU, name};
use crate::Test;
use crate::channel::{ChannelOptions, pattern};
use crate::run::Outcome;
use ferroce_wire::{Ext, opcode::*};

/// What may follow.
const FOLLOWERS: [u8; 5] = [
    RC_READ_REQUEST,
    RC_SEND_ONLY,
    RC_WRITE_ONLY,
    RC_FETCH_ADD,
    RC_COMPARE_SWAP,
];

pub(super) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, second) in (1..).zip(FOLLOWERS) {
        let title = format!(
            "the answer to {} comes after those of READs before it",
            name(second)
        );

        let body = move |b: &mut Bench<'_>| after_reads(b, second);
        let test = match second {
            // The specification's own test of COMPARE & SWAP has this number.
            RC_COMPARE_SWAP => named(
                "C09_027_05",
                "C09-027",
                "v1c09-027#05",
                ChannelOptions::default(),
                title,
                body,
            ),
            _ => test("9.5", n, title, body),
        };

        tests.push(
            test.covers(&["C9-27"])
                .breaks(
                    "overtakes",
                    "The last response of the READs is sent behind the answer that follows.",
                    || sends_late(RC_READ_RESPONSE_LAST),
                )
                .breaks(
                    "answers-the-last",
                    "What follows is answered, the READs are not.",
                    || overlooks(RC_READ_REQUEST),
                ),
        );
    }

    for (n, second) in (6..).zip(FOLLOWERS) {
        let title = format!(
            "the answer to {} comes after those of atomics before it",
            name(second)
        );
        tests.push(
            test("9.5", n, title, move |b| after_atomics(b, second))
                .covers(&["C9-27"])
                .breaks("overtakes", "The first atomic is answered last.", || {
                    sends_late(RC_ATOMIC_ACKNOWLEDGE)
                }),
        );
    }

    tests
}

/// Sends a request to the end of the memory's first page; the opcode of its answer.
fn follow(b: &mut Bench<'_>, opcode: u8) -> Outcome<(u8, u32)> {
    b.step(format!("{} behind them", name(opcode)));
    let (ext, payload, answer): (Ext, &[u8], u8) = match opcode {
        RC_READ_REQUEST => (b.reth(0, 8), &[], RC_READ_RESPONSE_ONLY),
        RC_SEND_ONLY => (Ext::default(), &[1; 4], RC_ACKNOWLEDGE),
        RC_WRITE_ONLY => (b.reth(8 * PMTU, 4), &[1; 4], RC_ACKNOWLEDGE),
        _ => (b.atomic(8 * PMTU, 1, 0), &[], RC_ATOMIC_ACKNOWLEDGE),
    };
    let psn = b.send(opcode, ext, payload)?;
    Ok((answer, psn))
}

fn after_reads(b: &mut Bench<'_>, second: u8) -> Outcome {
    b.needs_atomics()?;
    b.post_recv(1, 12 * PMTU, 8)?;
    let data = pattern(8 * PMTU);
    b.write(0, &data)?;
    b.step("Two READs of 3 packets, without waiting");
    let mut due = Vec::new();
    for n in 0..2 {
        let ext = b.reth(n * 3 * PMTU, 3 * PMTU);
        let psn = b.send(RC_READ_REQUEST, ext, &[])?;
        b.skip(2);
        for (k, opcode) in [
            RC_READ_RESPONSE_FIRST,
            RC_READ_RESPONSE_MIDDLE,
            RC_READ_RESPONSE_LAST,
        ]
        .into_iter()
        .enumerate()
        {
            due.push((opcode, psn + k as u32));
        }
    }

    due.push(follow(b, second)?);
    in_order(b, due, 3)
}

fn after_atomics(b: &mut Bench<'_>, second: u8) -> Outcome {
    b.needs_atomics()?;
    b.post_recv(1, 12 * PMTU, 8)?;
    b.step("Two atomics, without waiting");
    let mut due = Vec::new();
    for opcode in [RC_COMPARE_SWAP, RC_FETCH_ADD] {
        let ext = b.atomic(0, 1, 0);
        due.push((RC_ATOMIC_ACKNOWLEDGE, b.send(opcode, ext, &[])?));
    }
    due.push(follow(b, second)?);
    in_order(b, due, 3)
}

fn in_order(b: &mut Bench<'_>, due: Vec<(u8, u32)>, msn: u32) -> Outcome {
    b.step("All answers come in the order of their requests");
    let mut last = None;
    for (opcode, psn) in due {
        last = b
            .packet(opcode, psn & 0xff_ffff)?
            .ext
            .aeth
            .map(|aeth| aeth.msn);
    }
    b.eq("the last MSN", last, Some(msn))
}
