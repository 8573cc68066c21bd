//! RDMA READs at a responder (section 9.7.5.1): the responses' opcodes, PSNs, AETHs and bytes, and
//! what duplicates are answered with.

use super::bench::Bench;
use super::case::{Breaks, test};
use super::mutants::{
    drops_duplicates, garbles_replays, overlooks, places_nothing, sends, sends_late,
};
use super::words::{MEMORY, PMTU};
use crate::Test;
use crate::channel::pattern;
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::{Ext, opcode::*};

const LENGTHS: [u32; 8] = [0, 1, 5, PMTU, PMTU + 1, 2 * PMTU, 3 * PMTU, 5 * PMTU - 1];

/// A long READ, and the part of it that is asked for again: packets to leave out and packets to ask
/// for.
const PARTS: [(&str, u32, u32); 4] = [
    ("from its first packet to its last", 0, 4),
    ("from its second packet to its last", 1, 3),
    ("its last packet", 3, 1),
    ("its two packets in the middle", 1, 2),
];

pub(super) fn tests() -> Vec<Test> {
    let mut tests = lengths();
    tests.extend(duplicates());
    tests.extend(order());
    tests.push(bounds());
    tests
}

/// Responses of READs of every length.
fn lengths() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, len) in (1..).zip(LENGTHS) {
        let title = format!("the responses of a READ of {len} bytes at a path MTU of {PMTU}");
        let statements: &[_] = match len {
            PMTU.. => &["C5-8", "C9-148"],
            _ => &["C9-148"],
        };

        tests.push(
            test("9.7.5.1", n, title, move |b| responses(b, len))
                .covers(statements)
                .breaks(
                    "no-message-number",
                    "The AETH of the last response does not count the READ.",
                    || {
                        Faults::default().tx_edit(|packet| {
                            if matches!(
                                packet.bth.opcode,
                                RC_READ_RESPONSE_LAST | RC_READ_RESPONSE_ONLY
                            ) && let Some(aeth) = &mut packet.ext.aeth
                            {
                                aeth.msn = 0;
                            }
                        })
                    },
                )
                .breaks(
                    "one-psn-for-all",
                    "The responses take one PSN, as the request does.",
                    || {
                        let mut first = None;
                        Faults::default().tx_edit(move |packet| {
                            let psn = *first.get_or_insert(packet.bth.psn);
                            packet.bth.psn = psn;
                        })
                    },
                )
                .breaks(
                    "last-as-middle",
                    "The last response is said to be in the middle.",
                    || {
                        Faults::default().tx_edit(|packet| match packet.bth.opcode {
                            RC_READ_RESPONSE_LAST => packet.bth.opcode = RC_READ_RESPONSE_MIDDLE,
                            RC_READ_RESPONSE_ONLY => packet.bth.opcode = RC_READ_RESPONSE_FIRST,
                            _ => {}
                        })
                    },
                ),
        );
    }

    tests
}

/// READs that come again.
fn duplicates() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, (what, skip, count)) in (9..).zip(PARTS) {
        let title = format!("a READ of 4 packets is asked for again {what}");
        tests.push(
            test("9.7.5.1", n, title, move |b| again(b, skip, count))
                .breaks(
                    "drops-it",
                    "A duplicate READ is dropped.",
                    drops_duplicates_of_reads,
                )
                .breaks(
                    "answers-from-the-start",
                    "A duplicate is answered with what the READ began with.",
                    move || {
                        let mut reads = 0;
                        Faults::default().rx_edit(move |packet| {
                            reads += u32::from(packet.bth.opcode == RC_READ_REQUEST);
                            if reads == 2
                                && let Some(reth) = &mut packet.ext.reth
                            {
                                reth.va -= u64::from(skip * PMTU);
                                packet.bth.psn = packet.bth.psn.wrapping_sub(skip) & 0xff_ffff;
                                reth.len = 4 * PMTU - u32::from(skip == 0) * PMTU;
                            }
                        })
                    },
                )
                .breaks(
                    "garbles-the-second",
                    "What is read again is not what is there.",
                    garbles_replays,
                ),
        );
    }

    tests.push(
        test(
            "9.7.5.1",
            13,
            "a duplicate READ does not move the expected PSN",
            psn_stays,
        )
        .covers(&["C9-148"])
        .breaks("counts-it", "The duplicate counts as a message.", || {
            let mut answers = 0;
            Faults::default().tx_edit(move |packet| {
                answers += u32::from(packet.bth.opcode == RC_READ_RESPONSE_ONLY);
                if answers > 1
                    && let Some(aeth) = &mut packet.ext.aeth
                {
                    aeth.msn += 1;
                }
            })
        })
        .breaks("drops-it", "A duplicate READ is dropped.", drops_duplicates),
    );

    tests
}

/// READs among other requests, and among themselves.
fn order() -> Vec<Test> {
    vec![
        test(
            "9.7.5.1",
            14,
            "a READ behind WRITEs that ask for nothing reads what they wrote",
            reads_what_was_written,
        )
        .breaks(
            "places-late",
            "What WRITEs bring is not there yet when the READ is carried out.",
            places_nothing,
        ),
        test(
            "9.7.5.1",
            15,
            "READs that are sent without waiting are answered in order, each with its own bytes",
            several,
        )
        .covers(&["C9-27"])
        .breaks(
            "mixes-them",
            "The first READ is answered after the second.",
            || sends_late(RC_READ_RESPONSE_ONLY),
        )
        .breaks("forgets-one", "Only the first READ is carried out.", || {
            let mut reads = 0;
            Faults::default().rx_drop(move |packet| {
                reads += u32::from(packet.bth.opcode == RC_READ_REQUEST);
                reads > 1
            })
        }),
        test(
            "9.7.5.1",
            16,
            "the response of a READ acknowledges what came before it",
            acknowledges_before,
        )
        .covers(&["C9-148"])
        .breaks("miscounts", "The response counts the READ only.", || {
            sends(RC_READ_RESPONSE_ONLY, |packet| {
                if let Some(aeth) = &mut packet.ext.aeth {
                    aeth.msn = 1;
                }
            })
        })
        .breaks("does-not-answer", "The READ is dropped.", || {
            overlooks(RC_READ_REQUEST)
        }),
    ]
}

/// READs at the end of a region.
fn bounds() -> Test {
    test(
        "9.7.5.1",
        17,
        "a READ to the last byte of a region",
        to_the_end,
    )
    .breaks("stops-before", "The last byte counts as outside.", || {
        Faults::default().rx_edit(|packet| {
            if let Some(reth) = &mut packet.ext.reth {
                reth.va += 1;
            }
        })
    })
}

/// Drops READs with a PSN that it has answered.
fn drops_duplicates_of_reads() -> Faults {
    let mut reads = 0;
    Faults::default().rx_drop(move |packet| {
        reads += u32::from(packet.bth.opcode == RC_READ_REQUEST);
        packet.bth.opcode == RC_READ_REQUEST && reads > 1
    })
}

/// The responses to a READ of `data` come, the first with that PSN.
fn answered(b: &mut Bench<'_>, psn: u32, msn: u32, data: &[u8]) -> Outcome {
    let pmtu = b.cc.options.pmtu as usize;
    let packets = data.len().div_ceil(pmtu).max(1);
    for n in 0..packets {
        let opcode = match (n == 0, n + 1 == packets) {
            (true, true) => RC_READ_RESPONSE_ONLY,
            (true, false) => RC_READ_RESPONSE_FIRST,
            (false, true) => RC_READ_RESPONSE_LAST,
            (false, false) => RC_READ_RESPONSE_MIDDLE,
        };
        let answer = b.packet(opcode, (psn + n as u32) & 0xff_ffff)?;
        let due = data.chunks(pmtu).nth(n).unwrap_or_default();
        b.check(answer.payload == due, || {
            format!("the bytes of {} are not those in memory", answer.describe())
        })?;
        if opcode != RC_READ_RESPONSE_MIDDLE {
            b.eq("the MSN", answer.ext.aeth.map(|aeth| aeth.msn), Some(msn))?;
        }
    }

    Ok(())
}

/// The memory gets contents.
fn fill(b: &mut Bench<'_>) -> Outcome<Vec<u8>> {
    let data = pattern(MEMORY);
    b.write(0, &data)?;
    Ok(data)
}

/// Asks for a part of the memory; its PSNs are used up.
fn ask(b: &mut Bench<'_>, offset: u32, len: u32) -> Outcome<u32> {
    let ext = b.reth(offset, len);
    let psn = b.send(RC_READ_REQUEST, ext, &[])?;
    b.skip(len.div_ceil(b.cc.options.pmtu).max(1) - 1);
    Ok(psn)
}

fn responses(b: &mut Bench<'_>, len: u32) -> Outcome {
    let data = fill(b)?;
    b.step("The responses come, with the PSNs from that of the request on");
    let psn = ask(b, 3, len)?;
    answered(b, psn, 1, &data[3..][..len as usize])?;
    b.step("The next request has the PSN after the last response");
    b.goes_on(2)
}

fn again(b: &mut Bench<'_>, skip: u32, count: u32) -> Outcome {
    let mut data = fill(b)?;
    b.step("A READ of 4 packets is answered");
    let psn = ask(b, 0, 4 * PMTU)?;
    answered(b, psn, 1, &data[..4 * PMTU as usize])?;
    b.step("Its memory changes, and a part of it is asked for again");
    for byte in &mut data {
        *byte = !*byte;
    }
    b.write(0, &data)?;
    let (from, len) = (skip * PMTU, count * PMTU);
    let ext = b.reth(from, len);
    b.send_at(psn + skip, RC_READ_REQUEST, ext, &[])?;
    b.step("That part comes, as a READ of its own, with the PSNs of before");
    answered(b, psn + skip, 1, &data[from as usize..][..len as usize])?;
    b.goes_on(2)
}

fn psn_stays(b: &mut Bench<'_>) -> Outcome {
    let data = fill(b)?;
    b.step("A READ, a WRITE and then the READ again");
    let psn = ask(b, 0, 8)?;
    answered(b, psn, 1, &data[..8])?;
    b.goes_on(2)?;
    let ext = b.reth(0, 8);
    b.send_at(psn, RC_READ_REQUEST, ext, &[])?;
    answered(b, psn, 1, &data[..8])?;
    b.step("The next PSN is that after the WRITE");
    b.goes_on(3)
}

fn reads_what_was_written(b: &mut Bench<'_>) -> Outcome {
    b.step("Two WRITEs that ask for nothing, and a READ of both");
    for n in 0..2 {
        let ext = b.reth(n * 4, 4);
        b.send_quietly(RC_WRITE_ONLY, ext, &[n as u8 + 1; 4])?;
    }
    let psn = ask(b, 0, 8)?;
    b.step("The response brings what they wrote");
    answered(b, psn, 3, &[1, 1, 1, 1, 2, 2, 2, 2])
}

fn several(b: &mut Bench<'_>) -> Outcome {
    let data = fill(b)?;
    b.step("Three READs without waiting");
    let mut asked = Vec::new();
    for (offset, len) in [(0, 8), (100, 2 * PMTU + 1), (7, 9)] {
        asked.push((ask(b, offset, len)?, offset as usize, len as usize));
    }
    b.step("All responses come in order");
    for (msn, (psn, offset, len)) in (1..).zip(asked) {
        answered(b, psn, msn, &data[offset..][..len])?;
    }
    Ok(())
}

fn acknowledges_before(b: &mut Bench<'_>) -> Outcome {
    b.step("A SEND and a WRITE that ask for nothing, and a READ");
    b.post_recv(1, 64, 8)?;
    b.send_quietly(RC_SEND_ONLY, Ext::default(), &[1; 4])?;
    let ext = b.reth(0, 4);
    b.send_quietly(RC_WRITE_ONLY, ext, &[2; 4])?;
    let psn = ask(b, 0, 4)?;
    b.step("The response counts three messages");
    answered(b, psn, 3, &[2; 4])
}

fn to_the_end(b: &mut Bench<'_>) -> Outcome {
    let data = fill(b)?;
    b.step("The last two packets and a byte of the region are read");
    let from = MEMORY - 2 * PMTU - 1;
    let psn = ask(b, from, 2 * PMTU + 1)?;
    answered(b, psn, 1, &data[from as usize..])?;
    b.goes_on(2)
}
