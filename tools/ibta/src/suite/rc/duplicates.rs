//! Duplicate SENDs and RDMA WRITEs (section 9.7.4): acknowledged again, never carried out again.
//! Those of READs and atomics are with these.

use super::bench::Bench;
use super::case::{Breaks, test};
use super::mutants::{drops_duplicates, executes_duplicates, miscounts_messages};
use super::words::{PMTU, imm, status};
use crate::Test;
use crate::protocol::Side;
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::{Ext, NakCode, opcode};

const ONES: [(u8, &str, bool, bool); 4] = [
    (opcode::RC_SEND_ONLY, "SEND", false, true),
    (opcode::RC_SEND_ONLY_IMM, "SEND with immediate", false, true),
    (opcode::RC_WRITE_ONLY, "RDMA WRITE", true, false),
    (
        opcode::RC_WRITE_ONLY_IMM,
        "RDMA WRITE with immediate",
        true,
        true,
    ),
];

pub(super) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, (opcode, what, write, receives)) in (13..).zip(ONES) {
        let title = format!("a duplicate {what} is acknowledged and not carried out");
        tests.push(
            test("9.7.4", n, title, move |b| {
                duplicate(b, opcode, write, receives)
            })
            .covers(&["C9-105"])
            .breaks(
                "carries-it-out",
                "A duplicate is carried out once more.",
                executes_duplicates,
            )
            .breaks(
                "drops-it",
                "A duplicate is not acknowledged.",
                drops_duplicates,
            ),
        );
    }

    tests.push(
        test(
            "9.7.4",
            18,
            "a duplicate in the midst of a message leaves the message whole",
            in_a_message,
        )
        .covers(&["C9-105", "C9-148"])
        .breaks(
            "begins-again",
            "A duplicate FIRST is taken for the next packet.",
            executes_duplicates,
        )
        .breaks(
            "counts-it",
            "The duplicate counts as a message.",
            miscounts_messages,
        ),
    );

    tests.push(
        test(
            "9.7.4",
            19,
            "a duplicate between a gap and its NAK's answer does not hide the gap",
            in_a_gap,
        )
        .breaks("goes-on", "After a duplicate the gap is forgotten.", || {
            // The packet after the gap, come again, is taken.
            let mut seen = std::collections::BTreeMap::new();
            Faults::default().rx_edit(move |packet| {
                let times = seen.entry(packet.bth.psn).or_insert(0);
                *times += 1;
                if *times > 1 {
                    packet.bth.psn = (packet.bth.psn.wrapping_sub(1)) & 0xff_ffff;
                }
            })
        }),
    );

    tests
}

fn duplicate(b: &mut Bench<'_>, opcode: u8, write: bool, receives: bool) -> Outcome {
    for wr_id in 1..=2 {
        b.post_recv(wr_id, 64, 8)?;
    }
    let at = if write { 0 } else { 64 };
    let ext = if write { b.reth(0, 4) } else { Ext::default() };
    let ext = Ext {
        imm: imm([1, 2, 3, 4]).imm,
        ..ext
    };

    b.step("A request is carried out and acknowledged");
    let psn = b.send(opcode, ext, &[1; 4])?;
    b.acked(psn, 1)?;
    if receives {
        b.completed(Side::Recv, 1, status::SUCCESS)?;
    }

    b.holds(at, &[1; 4])?;
    b.step("A program changes what it has placed; the request comes twice more and is acknowledged each time");
    b.write(at, &[9; 4])?;
    for _ in 0..2 {
        b.send_at(psn, opcode, ext, &[1; 4])?;
        b.acked(psn, 1)?;
    }

    b.step("It is not carried out again");
    b.holds(at, &[9; 4])?;
    b.not_completed(Side::Recv)?;
    b.step("The connection goes on with the next PSN");
    b.goes_on(2)
}

fn in_a_message(b: &mut Bench<'_>) -> Outcome {
    let pmtu = PMTU as usize;
    b.post_recv(1, 0, 4 * PMTU)?;
    b.step("FIRST and MIDDLE of a SEND");
    let first = b.send_quietly(opcode::RC_SEND_FIRST, Ext::default(), &vec![1; pmtu])?;
    let middle = b.send(opcode::RC_SEND_MIDDLE, Ext::default(), &vec![2; pmtu])?;
    b.acked(middle, 0)?;
    b.step("FIRST comes again and is acknowledged; no message is complete");
    b.send_at(first, opcode::RC_SEND_FIRST, Ext::default(), &vec![8; pmtu])?;
    b.acked(middle, 0)?;
    b.step("LAST completes the message, which is whole");
    let last = b.send(opcode::RC_SEND_LAST, Ext::default(), &[3; 5])?;
    b.acked(last, 1)?;
    let done = b.completed(Side::Recv, 1, status::SUCCESS)?;
    b.eq("bytes received", done.byte_len, 2 * PMTU + 5)?;
    b.holds(0, &[vec![1; pmtu], vec![2; pmtu], vec![3; 5]].concat())
}

fn in_a_gap(b: &mut Bench<'_>) -> Outcome {
    let ext = b.reth(0, 4);
    b.step("One WRITE, then one after a gap");
    let psn = b.send(opcode::RC_WRITE_ONLY, ext, &[1; 4])?;
    b.acked(psn, 1)?;
    let expected = b.psn();
    b.send_at(expected + 1, opcode::RC_WRITE_ONLY, ext, &[2; 4])?;
    b.nak(NakCode::PsnSequenceError, expected)?;
    b.step("The first again, which is acknowledged as before");
    b.send_at(psn, opcode::RC_WRITE_ONLY, ext, &[1; 4])?;
    b.acked(psn, 1)?;
    b.step("The one after the gap again: nothing is carried out");
    b.send_at(expected + 1, opcode::RC_WRITE_ONLY, ext, &[2; 4])?;
    b.silence()?;
    b.holds(0, &[1; 4])?;
    b.goes_on(2)
}
