//! The order of opcodes at a responder (section 9.7.4): a message has its first, middle and last
//! packets in this order, and nothing of another message lies between them.

use super::bench::Bench;
use super::case::{Breaks, test};
use super::mutants::{acknowledges_all, garbles, never_completes, other_reason, refuses_silently};
use super::words::{PMTU, imm, name, status};
use crate::Test;
use crate::channel::pattern;
use crate::protocol::Side;
use crate::run::Outcome;
use ferroce_wire::{Ext, NakCode, opcode::*};

/// What came before, and opcodes that may not come now.
const WRONG: [(&[u8], &[u8]); 3] = [
    (
        &[],
        &[
            RC_SEND_MIDDLE,
            RC_SEND_LAST,
            RC_SEND_LAST_IMM,
            RC_WRITE_MIDDLE,
            RC_WRITE_LAST,
            RC_WRITE_LAST_IMM,
        ],
    ),
    (
        &[RC_SEND_FIRST],
        &[
            RC_SEND_FIRST,
            RC_SEND_ONLY,
            RC_WRITE_FIRST,
            RC_WRITE_MIDDLE,
            RC_WRITE_LAST,
            RC_WRITE_ONLY,
            RC_READ_REQUEST,
            RC_FETCH_ADD,
        ],
    ),
    (
        &[RC_WRITE_FIRST, RC_WRITE_MIDDLE],
        &[
            RC_WRITE_FIRST,
            RC_WRITE_ONLY,
            RC_SEND_FIRST,
            RC_SEND_MIDDLE,
            RC_SEND_LAST,
            RC_SEND_ONLY_IMM,
            RC_READ_REQUEST,
            RC_COMPARE_SWAP,
        ],
    ),
];

pub(super) fn tests() -> Vec<Test> {
    let wrong = WRONG
        .iter()
        .flat_map(|(before, now)| now.iter().map(move |now| (*before, *now)));
    let mut tests: Vec<Test> = (20..)
        .zip(wrong)
        .map(|(n, (before, now))| {
            let after = before.last().map_or("between messages", |last| name(*last));
            let title = format!("{} after {after} is an invalid request", name(now));
            test("9.7.4", n, title, move |b| out_of_sequence(b, before, now))
                .breaks("takes-it", "The packet is acknowledged.", acknowledges_all)
                .breaks("drops-it", "The packet is dropped.", refuses_silently)
                .breaks("says-sequence", "It is taken for a lost packet.", || {
                    other_reason(NakCode::PsnSequenceError)
                })
        })
        .collect();

    let lengths = [0, 1, PMTU, PMTU + 1, 2 * PMTU, 3 * PMTU - 3];
    for (n, len) in (42..).zip(lengths) {
        let title = format!("a SEND, and one with immediate, of {len} bytes");
        let test = test("9.7.4", n, title, move |b| sends(b, len)).breaks(
            "never-completes",
            "The message is never received.",
            || never_completes(Side::Recv),
        );
        tests.push(garbled(test, len));
    }

    for (n, len) in (48..).zip(lengths) {
        let title = format!("an RDMA WRITE, and one with immediate, of {len} bytes");
        let test = test("9.7.4", n, title, move |b| writes(b, len)).breaks(
            "never-completes",
            "The immediate data is never received.",
            || never_completes(Side::Recv),
        );
        tests.push(garbled(test, len));
    }

    tests
}

/// With a mutant that places wrong bytes, where there are any.
fn garbled(test: Test, len: u32) -> Test {
    match len {
        0 => test,
        _ => test.breaks("garbles", "The last byte of each packet is wrong.", garbles),
    }
}

/// A packet of an opcode that would be right in its place, and its payload.
fn fitting(b: &Bench<'_>, opcode: u8) -> (Ext, Vec<u8>) {
    let pmtu = PMTU as usize;
    match opcode {
        RC_SEND_FIRST | RC_SEND_MIDDLE | RC_WRITE_MIDDLE => (Ext::default(), vec![5; pmtu]),
        RC_WRITE_FIRST => (b.reth(0, 4 * PMTU), vec![5; pmtu]),
        RC_WRITE_ONLY => (b.reth(0, 8), vec![5; 8]),
        RC_READ_REQUEST => (b.reth(0, 8), Vec::new()),
        RC_FETCH_ADD | RC_COMPARE_SWAP => (b.atomic(0, 1, 0), Vec::new()),
        _ => (imm([1; 4]), vec![5; 8]),
    }
}

fn out_of_sequence(b: &mut Bench<'_>, before: &[u8], now: u8) -> Outcome {
    for wr_id in 1..=2 {
        b.post_recv(wr_id, 0, 4 * PMTU)?;
    }
    for opcode in before {
        b.step(format!("{}, which is right", name(*opcode)));
        let (ext, payload) = fitting(b, *opcode);
        let psn = b.send(*opcode, ext, &payload)?;
        b.acked(psn, 0)?;
    }

    b.step(format!("{}, which is not", name(now)));
    let (ext, payload) = fitting(b, now);
    let psn = b.send(now, ext, &payload)?;
    b.nak(NakCode::InvalidRequest, psn)?;
    b.step("The connection has ended");
    b.ended()
}

fn sends(b: &mut Bench<'_>, len: u32) -> Outcome {
    let data = pattern(len);
    b.post_recv(1, 0, len.max(1))?;
    b.post_recv(2, 4 * PMTU, len.max(1))?;
    b.step("The message is acknowledged and received");
    let psn = b.message(false, Ext::default(), &data)?;
    b.acked(psn, 1)?;
    let done = b.completed(Side::Recv, 1, status::SUCCESS)?;
    b.eq(
        "bytes and immediate data",
        (done.byte_len, done.imm),
        (len, None),
    )?;

    b.holds(0, &data)?;
    b.step("So is one with immediate data");
    let psn = b.message(false, imm([9, 8, 7, 6]), &data)?;
    b.acked(psn, 2)?;
    let done = b.completed(Side::Recv, 2, status::SUCCESS)?;
    let due = (len, Some([9, 8, 7, 6]));
    b.eq("bytes and immediate data", (done.byte_len, done.imm), due)?;
    b.holds(4 * PMTU, &data)
}

fn writes(b: &mut Bench<'_>, len: u32) -> Outcome {
    let data = pattern(len);
    b.post_empty_recv(1)?;
    b.step("The message is acknowledged and placed, and takes no receive request");
    let ext = b.reth(0, len);
    let psn = b.message(true, ext, &data)?;
    b.acked(psn, 1)?;
    b.holds(0, &data)?;
    b.not_completed(Side::Recv)?;
    b.step("So is one with immediate data, which takes one");
    let imm = Some([9, 8, 7, 6]);
    let ext = Ext {
        imm,
        ..b.reth(4 * PMTU, len)
    };
    let psn = b.message(true, ext, &data)?;
    b.acked(psn, 2)?;
    let done = b.completed(Side::Recv, 1, status::SUCCESS)?;
    b.eq(
        "bytes and immediate data",
        (done.byte_len, done.imm),
        (len, imm),
    )?;

    b.holds(4 * PMTU, &data)
}
