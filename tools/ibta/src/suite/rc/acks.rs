//! Acknowledgements of a responder (sections 9.7.5.1.2 and 9.7.7.1): when they come, what they
//! cover and which message number they carry.

use super::bench::Bench;
use super::case::{Breaks, test};
use super::mutants::{miscounts_messages, sends};
use super::words::{PMTU, ahead, name, status};
use crate::Test;
use crate::packet::RxPacket;
use crate::protocol::Side;
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::{Ext, Operation, Syndrome, opcode::*};
use std::cell::Cell;
use std::rc::Rc;

pub(super) fn tests() -> Vec<Test> {
    let mut tests = acknowledgements();
    tests.extend(message_numbers());
    tests
}

/// When ACKs come, what they cover and what they are like.
fn acknowledgements() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, opcode) in (1..).zip([
        RC_SEND_ONLY,
        RC_SEND_ONLY_IMM,
        RC_WRITE_ONLY,
        RC_WRITE_ONLY_IMM,
    ]) {
        let title = format!("{} that asks is acknowledged", name(opcode));
        tests.push(
            test("9.7.5.1.2", n, title, move |b| asked(b, opcode))
                .breaks("does-not-answer", "AckReq is not looked at.", || {
                    Faults::default().tx_drop(|packet| packet.bth.opcode == RC_ACKNOWLEDGE)
                })
                .breaks("answers-behind", "The ACK is of the PSN before.", || {
                    sends(RC_ACKNOWLEDGE, |packet| {
                        packet.bth.psn = packet.bth.psn.wrapping_sub(1) & 0xff_ffff
                    })
                }),
        );
    }

    for (n, write) in [(5, false), (6, true)] {
        let what = if write { "an RDMA WRITE" } else { "a SEND" };
        tests.push(
            test(
                "9.7.5.1.2",
                n,
                format!("a packet in the midst of {what} that asks is acknowledged"),
                move |b| in_the_midst(b, write),
            )
            .covers(&["C9-148"])
            .breaks(
                "at-the-end-only",
                "ACKs come at the end of messages only.",
                || {
                    Faults::default().rx_edit(|packet| {
                        packet.bth.ack_req &=
                            !matches!(packet.bth.opcode, RC_SEND_MIDDLE | RC_WRITE_MIDDLE);
                    })
                },
            )
            .breaks(
                "counts-early",
                "The message is counted before it is whole.",
                miscounts_messages,
            ),
        );
    }

    tests.push(
        test(
            "9.7.5.1.2",
            7,
            "one ACK covers all that came before",
            coalesced,
        )
        .breaks("falls-back", "The last ACK is of an earlier PSN.", || {
            let mut acks = 0;
            Faults::default().tx_edit(move |packet| {
                acks += u32::from(packet.bth.opcode == RC_ACKNOWLEDGE);
                packet.bth.psn = packet.bth.psn.wrapping_sub(u32::from(acks > 0)) & 0xff_ffff;
            })
        })
        .breaks(
            "leaves-some-out",
            "What an ACK covers was not all carried out.",
            || {
                let mut count = 0;
                Faults::default().place(move |_, before, data| {
                    count += 1;
                    if count == 4 {
                        before.to_vec()
                    } else {
                        data.to_vec()
                    }
                })
            },
        ),
    );

    tests.push(
        test(
            "9.7.5.1.2",
            8,
            "an ACK is an Acknowledge without payload that asks for nothing",
            form,
        )
        .breaks("asks", "It asks to be acknowledged.", || {
            sends(RC_ACKNOWLEDGE, |packet| packet.bth.ack_req = true)
        })
        .breaks("solicits", "It has SE set.", || {
            sends(RC_ACKNOWLEDGE, |packet| packet.bth.solicited = true)
        })
        .breaks("carries", "It has a payload.", || {
            sends(RC_ACKNOWLEDGE, |packet| packet.payload = vec![0; 4])
        }),
    );

    tests
}

/// Which messages the MSN counts, and when a receive request completes.
fn message_numbers() -> Vec<Test> {
    vec![
        test(
            "9.7.7.1",
            1,
            "the MSN counts messages of every kind, not packets",
            counts_messages,
        )
        .covers(&["C9-148"])
        .breaks("counts-packets", "Each packet counts.", || {
            let packets = Rc::new(Cell::new(0));
            let seen = packets.clone();
            Faults::default()
                .rx_edit(move |_| packets.set(packets.get() + 1))
                .tx_edit(move |packet| {
                    if let Some(aeth) = &mut packet.ext.aeth {
                        aeth.msn = seen.get();
                    }
                })
        })
        .breaks("forgets-atomics", "Atomics and READs do not count.", || {
            let mut not_counted = 0;
            Faults::default().tx_edit(move |packet| {
                if matches!(
                    super::mutants::operation(packet),
                    Some(Operation::ReadResponse | Operation::AtomicAcknowledge)
                ) {
                    not_counted += 1;
                }
                if let Some(aeth) = &mut packet.ext.aeth {
                    aeth.msn -= not_counted;
                }
            })
        }),
        test(
            "9.7.7.1",
            2,
            "the MSN begins at 0 and is that of the last whole message",
            begins_at_zero,
        )
        .covers(&["C9-148"])
        .breaks(
            "begins-at-one",
            "The first ACK counts a message too many.",
            miscounts_messages,
        ),
        test(
            "9.7.7.1",
            3,
            "a receive request completes once its message is whole, and not before",
            completes_when_whole,
        )
        .breaks(
            "completes-early",
            "It completes with the first packet.",
            || super::mutants::sees(RC_SEND_FIRST, |packet| packet.bth.opcode = RC_SEND_ONLY),
        )
        .breaks("completes-twice", "It completes twice.", || {
            super::mutants::completes_twice(Side::Recv)
        }),
    ]
}

fn asked(b: &mut Bench<'_>, opcode: u8) -> Outcome {
    b.post_recv(1, 64, 8)?;
    b.step("The request asks, and its ACK comes");
    let imm = Some([1; 4]);
    let ext = Ext {
        imm,
        ..b.reth(0, 4)
    };
    let psn = b.send(opcode, ext, &[1; 4])?;
    let ack = b.acked(psn, 1)?;
    b.eq("the ACK's PSN", ack.bth.psn, psn)?;
    b.step("No second one comes");
    b.silence()
}

fn in_the_midst(b: &mut Bench<'_>, write: bool) -> Outcome {
    let pmtu = PMTU as usize;
    let (first, middle, last) = match write {
        false => (RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_LAST),
        true => (RC_WRITE_FIRST, RC_WRITE_MIDDLE, RC_WRITE_LAST),
    };

    b.post_recv(1, 0, 4 * PMTU)?;
    b.step("FIRST, which does not ask, and MIDDLE, which does");
    let ext = b.reth(0, 2 * PMTU + 4);
    b.send_quietly(first, ext, &vec![1; pmtu])?;
    let psn = b.send(middle, ext, &vec![2; pmtu])?;
    b.step("The ACK is of MIDDLE, and counts no message");
    b.acked(psn, 0)?;
    b.step("LAST is acknowledged, and counts one");
    let psn = b.send(last, ext, &[3; 4])?;
    b.acked(psn, 1)?;
    Ok(())
}

fn coalesced(b: &mut Bench<'_>) -> Outcome {
    b.step("10 WRITEs without waiting, all of which ask");
    let first = b.psn();
    for n in 0..10 {
        let ext = b.reth(n * 4, 4);
        b.send(RC_WRITE_ONLY, ext, &[n as u8 + 1; 4])?;
    }

    b.step("ACKs come in order, and the last covers all");
    let mut covered = -1;
    while covered < 9 {
        let ack: RxPacket = b.next("an ACK")?;
        let at = ahead(ack.bth.psn, first);
        let right = matches!(ack.syndrome(), Some(Syndrome::Ack(_))) && at > covered && at < 10;
        b.check(right, || {
            format!(
                "{} came, an ACK of a PSN behind the {covered}th is due",
                ack.describe()
            )
        })?;

        b.eq(
            "the MSN",
            ack.ext.aeth.map(|aeth| aeth.msn as i32),
            Some(at + 1),
        )?;

        covered = at;
    }

    b.silence()?;
    b.step("All ten were carried out");
    let due: Vec<u8> = (1..=10).flat_map(|n| [n; 4]).collect();
    b.holds(0, &due)
}

fn form(b: &mut Bench<'_>) -> Outcome {
    b.step("A WRITE is acknowledged");
    let ext = b.reth(0, 4);
    let psn = b.send(RC_WRITE_ONLY, ext, &[1; 4])?;
    let ack = b.acked(psn, 1)?;
    b.step("The ACK's fields");
    b.eq("the payload's length", ack.payload.len(), 0)?;
    b.eq(
        "AckReq and SE",
        (ack.bth.ack_req, ack.bth.solicited),
        (false, false),
    )?;
    b.eq("pad count and version", (ack.bth.pad, ack.bth.tver), (0, 0))
}

fn counts_messages(b: &mut Bench<'_>) -> Outcome {
    for wr_id in 1..=3 {
        b.post_recv(wr_id, 0, 4 * PMTU)?;
    }
    let data = vec![1; 3 * PMTU as usize];
    b.step("A SEND of 3 packets counts as one");
    let psn = b.message(false, Ext::default(), &data)?;
    b.acked(psn, 1)?;
    b.step("A WRITE of 3 packets counts as one");
    let ext = b.reth(0, 3 * PMTU);
    let psn = b.message(true, ext, &data)?;
    b.acked(psn, 2)?;
    b.step("A READ of 2 packets counts as one");
    let ext = b.reth(0, 2 * PMTU);
    let psn = b.send(RC_READ_REQUEST, ext, &[])?;
    b.skip(1);
    for (opcode, psn) in [
        (RC_READ_RESPONSE_FIRST, psn),
        (RC_READ_RESPONSE_LAST, (psn + 1) & 0xff_ffff),
    ] {
        let answer = b.packet(opcode, psn)?;
        b.eq("the MSN", answer.ext.aeth.map(|aeth| aeth.msn), Some(3))?;
    }

    b.step("An atomic counts as one");
    b.needs_atomics()?;
    let ext = b.atomic(0, 1, 0);
    let psn = b.send(RC_FETCH_ADD, ext, &[])?;
    let answer = b.packet(RC_ATOMIC_ACKNOWLEDGE, psn)?;
    b.eq("the MSN", answer.ext.aeth.map(|aeth| aeth.msn), Some(4))?;
    b.goes_on(5)
}

fn begins_at_zero(b: &mut Bench<'_>) -> Outcome {
    b.post_recv(1, 0, 4 * PMTU)?;
    b.step("A FIRST that asks is acknowledged with MSN 0");
    let psn = b.send(RC_SEND_FIRST, Ext::default(), &vec![1; PMTU as usize])?;
    b.acked(psn, 0)?;
    b.step("LAST with MSN 1");
    let psn = b.send(RC_SEND_LAST, Ext::default(), &[1])?;
    b.acked(psn, 1)?;
    Ok(())
}

fn completes_when_whole(b: &mut Bench<'_>) -> Outcome {
    for wr_id in 1..=2 {
        b.post_recv(wr_id, 0, 4 * PMTU)?;
    }
    b.step("A FIRST is acknowledged; nothing completes");
    let psn = b.send(RC_SEND_FIRST, Ext::default(), &vec![1; PMTU as usize])?;
    b.acked(psn, 0)?;
    b.not_completed(Side::Recv)?;
    b.step("LAST is acknowledged; the first receive request completes");
    let psn = b.send(RC_SEND_LAST, Ext::default(), &[1; 4])?;
    b.acked(psn, 1)?;
    b.completed(Side::Recv, 1, status::SUCCESS)?;
    b.not_completed(Side::Recv)
}
