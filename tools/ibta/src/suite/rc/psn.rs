//! Which PSNs a responder takes (section 9.7.4): the expected one, those behind it as duplicates,
//! those ahead of it as the sign of a loss.

use super::bench::Bench;
use super::case::{Breaks, test};
use super::mutants::{
    acknowledges_all, other_reason, refuses_silently, refuses_the_next_psn, refuses_twice,
};
use super::words::{MEMORY, PMTU, ahead};
use crate::Test;
use crate::channel::pattern;
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::{NakCode, Syndrome, opcode};

/// A request this far ahead of the expected PSN.
const GAPS: [u32; 4] = [1, 2, 1 << 22, (1 << 23) - 1];
/// A request this far behind it.
const PASTS: [u32; 4] = [1, 2, 1 << 22, (1 << 23) - 1];

pub(super) fn tests() -> Vec<Test> {
    let mut tests = distances();
    tests.extend(losses());
    tests
}

/// Near and far on both sides of the expected PSN.
fn distances() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, gap) in (1..).zip(GAPS) {
        let title = format!("a request {gap} PSNs ahead is refused and not carried out");
        tests.push(
            test("9.7.4", n, title, move |b| a_gap(b, gap))
                .breaks(
                    "fills-gaps",
                    "A request that is ahead is carried out as if it were the expected one.",
                    move || moves(gap as i32, -(gap as i32)),
                )
                .breaks(
                    "takes-ahead-for-behind",
                    "A request that is ahead is taken for a duplicate.",
                    move || moves(gap as i32, -(gap as i32) - 1),
                ),
        );
    }

    for (n, past) in (5..).zip(PASTS) {
        let title = format!("a request {past} PSNs behind is a duplicate");
        tests.push(
            test("9.7.4", n, title, move |b| a_past(b, past))
                .covers(&["C9-105"])
                .breaks(
                    "takes-behind-for-ahead",
                    "A duplicate is taken for a request that is ahead.",
                    move || moves(-(past as i32), past as i32 + 1),
                )
                .breaks("no-answer", "A duplicate is dropped.", move || {
                    let mut at = after_the_first();
                    Faults::default()
                        .rx_drop(move |packet| at(packet.bth.psn) == Some(-(past as i32)))
                }),
        );
    }

    tests
}

/// Gaps, how they are filled, and where PSNs wrap.
fn losses() -> Vec<Test> {
    vec![
        test(
            "9.7.4",
            9,
            "a gap is refused once, and the next one again",
            gaps_are_refused_once,
        )
        .breaks(
            "refuses-twice",
            "The same gap is refused again and again.",
            refuses_twice,
        )
        .breaks(
            "refuses-once-for-all",
            "Only the first gap is refused.",
            || {
                let mut refused = 0;
                Faults::default().tx_drop(move |packet| {
                    refused += u32::from(super::mutants::is_refusal(packet));
                    super::mutants::is_refusal(packet) && refused > 1
                })
            },
        ),
        test("9.7.4", 10, "PSNs wrap inside a message", psns_wrap).breaks(
            "does-not-wrap",
            "0 does not follow 0xffffff.",
            || {
                Faults::default().rx_edit(|packet| {
                    if packet.bth.psn < 0x80_0000 {
                        packet.bth.psn += 1;
                    }
                })
            },
        ),
        test(
            "9.7.4",
            11,
            "what comes after a gap is carried out when the gap is filled",
            a_gap_is_filled,
        )
        .breaks(
            "names-the-wrong-psn",
            "The NAK names the PSN after the missing one.",
            refuses_the_next_psn,
        )
        .breaks("says-nothing", "A gap is not refused.", refuses_silently)
        .breaks("says-ack", "A gap is acknowledged.", acknowledges_all)
        .breaks("says-invalid", "A gap is an invalid request.", || {
            other_reason(NakCode::InvalidRequest)
        }),
        test(
            "9.7.4",
            12,
            "a gap acknowledges what came before it",
            a_gap_acknowledges,
        )
        .covers(&["C9-148"])
        .breaks(
            "forgets-messages",
            "The MSN in a NAK does not count the messages before it.",
            || {
                Faults::default().tx_edit(|packet| {
                    if super::mutants::is_refusal(packet)
                        && let Some(aeth) = &mut packet.ext.aeth
                    {
                        aeth.msn = 0;
                    }
                })
            },
        ),
    ]
}

/// Tells how far a PSN is ahead of the one after the first; of the first itself nothing.
fn after_the_first() -> impl FnMut(u32) -> Option<i32> {
    let mut first = None;
    move |psn| match first {
        None => {
            first = Some(psn);
            None
        }
        Some(first) => Some(ahead(psn, first + 1)),
    }
}

/// Moves the requests at this distance from the expected PSN by so many PSNs.
fn moves(from: i32, by: i32) -> Faults {
    let mut at = after_the_first();
    Faults::default().rx_edit(move |packet| {
        if at(packet.bth.psn) == Some(from) {
            packet.bth.psn = packet.bth.psn.wrapping_add_signed(by) & 0xff_ffff;
        }
    })
}

/// One message goes through, so that there is a past.
fn begin(b: &mut Bench<'_>) -> Outcome {
    b.step("One WRITE is acknowledged");
    let ext = b.reth(0, 4);
    let psn = b.send(opcode::RC_WRITE_ONLY, ext, &[1; 4])?;
    b.acked(psn, 1)?;
    Ok(())
}

fn a_gap(b: &mut Bench<'_>, gap: u32) -> Outcome {
    begin(b)?;
    b.step(format!(
        "A WRITE {gap} PSNs ahead of the expected one is refused with the expected PSN"
    ));
    let (expected, ext) = (b.psn(), b.reth(0, 4));
    b.send_at(expected + gap, opcode::RC_WRITE_ONLY, ext, &[2; 4])?;
    let nak = b.nak(NakCode::PsnSequenceError, expected)?;
    b.eq("the MSN", nak.ext.aeth.map(|aeth| aeth.msn), Some(1))?;
    b.step("It is not carried out");
    b.holds(0, &[1; 4])?;
    b.step("The connection goes on with the expected PSN");
    b.goes_on(2)
}

fn a_past(b: &mut Bench<'_>, past: u32) -> Outcome {
    begin(b)?;
    b.step(format!(
        "A WRITE {past} PSNs behind the expected one is acknowledged, and not carried out"
    ));
    let (expected, ext) = (b.psn(), b.reth(0, 4));
    b.send_at(
        expected.wrapping_sub(past),
        opcode::RC_WRITE_ONLY,
        ext,
        &[2; 4],
    )?;

    b.acked(b.cc.tester_psn(0), 1)?;
    b.holds(0, &[1; 4])?;
    b.step("The connection goes on with the expected PSN");
    b.goes_on(2)
}

fn gaps_are_refused_once(b: &mut Bench<'_>) -> Outcome {
    for round in 0..2 {
        let (expected, ext) = (b.psn(), b.reth(0, 4));
        b.step("A WRITE after a gap is refused");
        b.send_at(expected + 1, opcode::RC_WRITE_ONLY, ext, &[2; 4])?;
        b.nak(NakCode::PsnSequenceError, expected)?;
        b.step("More of them are not");
        for psn in [expected + 2, expected + 1, expected + 5] {
            b.send_at(psn, opcode::RC_WRITE_ONLY, ext, &[2; 4])?;
        }
        b.silence()?;
        b.step("The expected one goes on");
        b.goes_on(round + 1)?;
    }
    Ok(())
}

fn psns_wrap(b: &mut Bench<'_>) -> Outcome {
    b.step("A WRITE of 6 packets, from PSN 0xfffffd to 2, is carried out");
    let data = pattern(6 * PMTU);
    let ext = b.reth(0, data.len() as u32);
    let psn = b.message(true, ext, &data)?;
    b.acked(psn, 1)?;
    b.eq("the last PSN", psn, 2)?;
    b.holds(0, &data)?;
    b.goes_on(2)
}

fn a_gap_is_filled(b: &mut Bench<'_>) -> Outcome {
    let (expected, first, second) = (b.psn(), b.reth(0, 4), b.reth(4, 4));
    b.step("The second of two WRITEs comes first and is refused");
    b.send_at(expected + 1, opcode::RC_WRITE_ONLY, second, &[2; 4])?;
    b.nak(NakCode::PsnSequenceError, expected)?;
    b.step("Both come again, and both are carried out");
    b.send(opcode::RC_WRITE_ONLY, first, &[1; 4])?;
    b.send(opcode::RC_WRITE_ONLY, second, &[2; 4])?;
    b.acked(expected + 1, 2)?;
    b.holds(0, &[1, 1, 1, 1, 2, 2, 2, 2])
}

fn a_gap_acknowledges(b: &mut Bench<'_>) -> Outcome {
    b.step("Three WRITEs that ask for nothing, then one after a gap");
    let data = [7; 16];
    for n in 0..3 {
        let ext = b.reth(n * 4, 4);
        b.send_quietly(opcode::RC_WRITE_ONLY, ext, &data[..4])?;
    }

    let (expected, ext) = (b.psn(), b.reth(MEMORY - 4, 4));
    b.send_at(expected + 1, opcode::RC_WRITE_ONLY, ext, &data[..4])?;
    b.step("The NAK names the fourth PSN, which acknowledges the three, and counts three messages");
    let nak = loop {
        // Whoever acknowledges unasked may do so.
        let packet = b.next("a NAK")?;
        if super::mutants::is_refusal(&crate::TxPacket::new(packet.bth, packet.ext, Vec::new())) {
            break packet;
        }
    };

    let due = Syndrome::Nak(NakCode::PsnSequenceError);
    b.eq("what the NAK says", nak.syndrome(), Some(due))?;
    b.eq(
        "the NAK's PSN and MSN",
        (nak.bth.psn, nak.ext.aeth.map(|a| a.msn)),
        (expected, Some(3)),
    )?;

    b.holds(0, &data[..12])
}
