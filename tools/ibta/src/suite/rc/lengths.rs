//! Lengths at a responder (section 9.7.4): of payloads by their place in the message, of RDMA by
//! its RETH, and padding.

use super::bench::Bench;
use super::case::{Breaks, test};
use super::mutants::{acknowledges_all, other_reason, sees};
use super::words::{PMTU, imm, name, status};
use crate::Test;
use crate::channel::pattern;
use crate::packet::TxPacket;
use crate::protocol::Side;
use crate::run::Outcome;
use ferroce_wire::{Ext, NakCode, opcode::*};

/// Packets before, the packet, and bytes that do not fit its place.
const PLACES: [(&[u8], u8, &[u32]); 8] = [
    (&[], RC_SEND_FIRST, &[PMTU - 4, PMTU + 4]),
    (&[RC_SEND_FIRST], RC_SEND_MIDDLE, &[PMTU - 4, PMTU + 4]),
    (&[RC_SEND_FIRST], RC_SEND_LAST, &[0, PMTU + 4]),
    (&[], RC_SEND_ONLY, &[PMTU + 4]),
    (&[], RC_WRITE_FIRST, &[PMTU - 4, PMTU + 4]),
    (&[RC_WRITE_FIRST], RC_WRITE_MIDDLE, &[PMTU - 4, PMTU + 4]),
    (&[RC_WRITE_FIRST], RC_WRITE_LAST, &[0, PMTU + 4]),
    (&[], RC_WRITE_ONLY, &[PMTU + 4]),
];

/// Opcodes of packets, and how many bytes each brings.
type Packets = &'static [(u8, u32)];
/// What a RETH says, and the packets that come.
const WRITES: [(&str, u32, Packets); 6] = [
    ("ONLY with less", 8, &[(RC_WRITE_ONLY, 4)]),
    ("ONLY with more", 4, &[(RC_WRITE_ONLY, 8)]),
    (
        "ONLY with something where there is nothing",
        0,
        &[(RC_WRITE_ONLY, 4)],
    ),
    (
        "LAST with less",
        PMTU + 8,
        &[(RC_WRITE_FIRST, PMTU), (RC_WRITE_LAST, 4)],
    ),
    (
        "LAST with more",
        PMTU + 4,
        &[(RC_WRITE_FIRST, PMTU), (RC_WRITE_LAST, 8)],
    ),
    (
        "MIDDLE with more",
        PMTU + 8,
        &[(RC_WRITE_FIRST, PMTU), (RC_WRITE_MIDDLE, PMTU)],
    ),
];

pub(super) fn tests() -> Vec<Test> {
    let places = PLACES
        .iter()
        .flat_map(|&(before, opcode, lens)| lens.iter().map(move |&len| (before, opcode, len)));
    let mut tests: Vec<Test> = (1..)
        .zip(places)
        .map(|(n, (before, opcode, len))| {
            let title = format!("{} with {len} bytes at a path MTU of {PMTU}", name(opcode));
            let body = move |b: &mut Bench<'_>| in_place(b, before, opcode, len);
            taking(test("9.7.4.1", n, title, body).covers(&["C9-92", "C9-222.1.1"]))
        })
        .collect();

    for (n, (what, len, packets)) in (20..).zip(WRITES) {
        let title = format!("an RDMA WRITE of {len} bytes: {what}");
        let body = move |b: &mut Bench<'_>| by_reth(b, len, packets);
        tests.push(taking(
            test("9.7.4.1", n, title, body).covers(&["C9-222.1.1"]),
        ));
    }

    for (n, opcode) in [(26, RC_WRITE_FIRST), (27, RC_READ_REQUEST)] {
        let title = format!("{} of more than 2^31 bytes", name(opcode));
        let body = move |b: &mut Bench<'_>| beyond_all(b, opcode);
        tests.push(taking(
            test("9.7.4.1", n, title, body).covers(&["C9-94", "C9-222.1.1"]),
        ));
    }

    tests.push(
        test(
            "9.7.4.1",
            28,
            "payloads of 1 to 5 bytes with their pad",
            pads,
        )
        .breaks("counts-the-pad", "Pad bytes count as payload.", || {
            sees(RC_SEND_ONLY, |packet| {
                let len = packet.payload.len().next_multiple_of(4);
                packet.payload.resize(len, 0);
            })
        }),
    );

    tests.push(taking(test(
        "9.7.4.1",
        29,
        "a FIRST whose pad count is not 0",
        a_padded_first,
    )));

    tests.push(
        taking(test(
            "9.7.4.1",
            30,
            "a SEND longer than its receive request",
            beyond_the_receive,
        ))
        .breaks(
            "completes-well",
            "The receive request completes with success.",
            || super::mutants::completes_with(Side::Recv, status::SUCCESS),
        ),
    );

    tests.push(
        test(
            "9.7.4.1",
            31,
            "a SEND as long as its receive request, and one shorter",
            within_the_receive,
        )
        .breaks(
            "says-capacity",
            "The completion says how long the request is, not the message.",
            || {
                let whole = 2 * PMTU;
                crate::sim::Faults::default().completion(move |_, mut done| {
                    done.byte_len = whole;
                    vec![done]
                })
            },
        ),
    );

    tests.push(
        test(
            "9.7.4.1",
            32,
            "an RDMA WRITE or READ of no bytes is carried out whatever its R_Key",
            nothing_unchecked,
        )
        .covers(&["C9-88"])
        .breaks("checks-anyway", "The key is checked all the same.", || {
            crate::sim::Faults::default().rx_edit(|packet| {
                if let Some(reth) = &mut packet.ext.reth {
                    reth.len = 4;
                    if packet.bth.opcode == RC_WRITE_ONLY {
                        packet.payload = vec![0; 4];
                    }
                }
            })
        }),
    );

    tests
}

/// With the mutants of everything that is refused as invalid.
fn taking(test: Test) -> Test {
    test.breaks("takes-it", "The packet is acknowledged.", acknowledges_all)
        .breaks("says-access", "It is refused as an access error.", || {
            other_reason(NakCode::RemoteAccessError)
        })
}

fn first(b: &mut Bench<'_>, opcode: u8) -> Outcome {
    b.step(format!("{}, which is right", name(opcode)));
    let ext = if opcode == RC_WRITE_FIRST {
        b.reth(0, 8 * PMTU)
    } else {
        Ext::default()
    };
    let psn = b.send(opcode, ext, &vec![1; PMTU as usize])?;
    b.acked(psn, 0)?;
    Ok(())
}

fn refused(b: &mut Bench<'_>, packet: &TxPacket) -> Outcome {
    b.transmit(packet)?;
    b.nak(NakCode::InvalidRequest, packet.bth.psn)?;
    b.skip(1);
    b.step("The connection has ended");
    b.ended()
}

fn in_place(b: &mut Bench<'_>, before: &[u8], opcode: u8, len: u32) -> Outcome {
    b.post_recv(1, 0, 8 * PMTU)?;
    for opcode in before {
        first(b, *opcode)?;
    }
    b.step(format!("{} with {len} bytes is refused", name(opcode)));
    let ext = match opcode {
        RC_WRITE_FIRST => b.reth(0, 8 * PMTU),
        RC_WRITE_ONLY => b.reth(0, len),
        _ => Ext::default(),
    };
    let packet = b.cc.packet(opcode, b.psn(), ext, &vec![2; len as usize]);
    refused(b, &packet)
}

fn by_reth(b: &mut Bench<'_>, len: u32, packets: Packets) -> Outcome {
    let ext = b.reth(0, len);
    for (opcode, bytes) in &packets[..packets.len() - 1] {
        let psn = b.send(*opcode, ext, &vec![1; *bytes as usize])?;
        b.acked(psn, 0)?;
    }
    let (opcode, bytes) = packets[packets.len() - 1];
    b.step(format!("{} with {bytes} bytes is refused", name(opcode)));
    let packet = b.cc.packet(opcode, b.psn(), ext, &vec![1; bytes as usize]);
    refused(b, &packet)
}

fn beyond_all(b: &mut Bench<'_>, opcode: u8) -> Outcome {
    b.step("A length of 2^31 + 1 is refused");
    let payload = match opcode {
        RC_WRITE_FIRST => vec![1; PMTU as usize],
        _ => Vec::new(),
    };
    let packet =
        b.cc.packet(opcode, b.psn(), b.reth(0, (1 << 31) + 1), &payload);
    refused(b, &packet)
}

fn pads(b: &mut Bench<'_>) -> Outcome {
    for len in 1..=5 {
        b.step(format!("A SEND of {len} bytes"));
        let data = pattern(len);
        b.write(0, &[0xee; 8])?;
        b.post_recv(u64::from(len), 0, 8)?;
        let psn = b.send(RC_SEND_ONLY, Ext::default(), &data)?;
        b.acked(psn, len)?;
        let done = b.completed(Side::Recv, u64::from(len), status::SUCCESS)?;
        b.eq("bytes received", done.byte_len, len)?;
        let rest = vec![0xee; 8 - len as usize];
        b.holds(0, &[data, rest].concat())?;
    }
    Ok(())
}

fn a_padded_first(b: &mut Bench<'_>) -> Outcome {
    b.post_recv(1, 0, 8 * PMTU)?;
    b.step("A FIRST of the path MTU, one byte of which is pad, is refused");
    let mut packet = b.cc.packet(
        RC_SEND_FIRST,
        b.psn(),
        Ext::default(),
        &vec![1; PMTU as usize],
    );
    packet.pad = Some(1);
    refused(b, &packet)
}

fn beyond_the_receive(b: &mut Bench<'_>) -> Outcome {
    b.post_recv(1, 0, PMTU + 10)?;
    b.step("A FIRST that fits, and a LAST that is one byte too long");
    first(b, RC_SEND_FIRST)?;
    let packet =
        b.cc.packet(RC_SEND_LAST_IMM, b.psn(), imm([1; 4]), &[2; 11]);
    b.transmit(&packet)?;
    b.nak(NakCode::InvalidRequest, packet.bth.psn)?;
    b.step("The receive request completes with a local length error");
    b.completed(Side::Recv, 1, status::LOC_LEN_ERR)?;
    b.skip(1);
    b.ended()
}

fn within_the_receive(b: &mut Bench<'_>) -> Outcome {
    for (wr_id, len) in [(1, 2 * PMTU), (2, 2 * PMTU - 1)] {
        b.step(format!("A SEND of {len} bytes into {}", 2 * PMTU));
        b.post_recv(wr_id, 0, 2 * PMTU)?;
        let data = pattern(len);
        let psn = b.message(false, Ext::default(), &data)?;
        b.acked(psn, wr_id as u32)?;
        let done = b.completed(Side::Recv, wr_id, status::SUCCESS)?;
        b.eq("bytes received", done.byte_len, len)?;
        b.holds(0, &data)?;
    }
    Ok(())
}

fn nothing_unchecked(b: &mut Bench<'_>) -> Outcome {
    let nowhere = super::words::reth(0xdead_0000, 0xbad_0bad, 0);
    b.step("A WRITE of nothing to nowhere is acknowledged");
    let psn = b.send(RC_WRITE_ONLY, nowhere, &[])?;
    b.acked(psn, 1)?;
    b.step("A READ of nothing from nowhere is answered by an empty response");
    let psn = b.send(RC_READ_REQUEST, nowhere, &[])?;
    let answer = b.packet(RC_READ_RESPONSE_ONLY, psn)?;
    b.eq("the response's length", answer.payload.len(), 0)?;
    b.goes_on(3)
}
