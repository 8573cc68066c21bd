//! What a requester sends (section 9.7.3): opcodes, PSNs, extended headers and lengths of the
//! packets of a message, and what asks to be acknowledged.

use super::bench::Bench;
use super::case::{Breaks, test, test_with};
use super::words::{PMTU, name, status};
use crate::Test;
use crate::channel::{ChannelOptions, pattern};
use crate::packet::RxPacket;
use crate::protocol::{Opcode, SendRequest, Side, send_flags};
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::{Reth, opcode::*};
use std::time::Duration;

const SECTION: &str = "9.7.3";
/// SENDs and WRITEs.
const MESSAGES: [Opcode; 4] = [
    Opcode::Send,
    Opcode::SendWithImm,
    Opcode::RdmaWrite,
    Opcode::RdmaWriteWithImm,
];
const LENGTHS: [u32; 5] = [0, 5, PMTU, PMTU + 1, 3 * PMTU - 3];

pub(super) fn tests() -> Vec<Test> {
    let mut tests = messages();
    tests.extend(path_mtus());
    tests.extend(reads());
    tests.push(solicited_events());
    tests.push(retransmissions());
    tests.push(gather_lists());
    tests
}

/// SENDs and WRITEs of every length.
fn messages() -> Vec<Test> {
    let mut tests = Vec::new();
    let both = MESSAGES
        .into_iter()
        .flat_map(|opcode| LENGTHS.map(|len| (opcode, len)));

    let invalidating = LENGTHS.map(|len| (Opcode::SendWithInv, len));
    let numbered = (1..).zip(both).chain((41..).zip(invalidating));
    for (n, (opcode, len)) in numbered {
        let title = format!("the packets of {opcode:?} of {len} bytes at a path MTU of {PMTU}");
        let test = test(SECTION, n, title, move |b| message(b, opcode, len))
            .breaks(
                "asks-for-nothing",
                "The last packet asks for no ACK.",
                || Faults::default().tx_edit(|packet| packet.bth.ack_req = false),
            )
            .breaks("skips-psns", "PSNs go up by two.", || {
                let mut count = 0;
                Faults::default().tx_edit(move |packet| {
                    packet.bth.psn = (packet.bth.psn + count) & 0xff_ffff;
                    count += 1;
                })
            });

        let test = match opcode {
            Opcode::SendWithInv => test.breaks(
                "another-key",
                "The IETH names the key after the one that was given.",
                || {
                    Faults::default().tx_edit(|packet| {
                        packet.ext.ieth = packet.ext.ieth.map(|key| key + 1);
                    })
                },
            ),
            _ => test,
        };

        // What is shorter than a packet may be has none to fill.
        let test = match len {
            PMTU.. => test.covers(&["C5-8"]),
            _ => test,
        };

        tests.push(match len {
            0 => test,
            _ => test.breaks("garbles", "The last byte of a payload is wrong.", || {
                Faults::default().tx_edit(|packet| {
                    if let Some(last) = packet.payload.last_mut() {
                        *last ^= 1;
                    }
                })
            }),
        });
    }

    tests
}

/// Every path MTU but the usual one.
fn path_mtus() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, pmtu) in (21..).zip([256, 512, 2048, 4096]) {
        let options = ChannelOptions {
            pmtu,
            ..ChannelOptions::default()
        };

        tests.push(
            test_with(
                SECTION,
                n,
                options,
                format!("a SEND of two packets and a byte at a path MTU of {pmtu}"),
                move |b| {
                    b.eq("the path MTU", b.cc.options.pmtu, pmtu)?;
                    message(b, Opcode::Send, 2 * pmtu + 1)
                },
            )
            .covers(&["C5-8"])
            .breaks(
                "takes-half",
                "Packets are half as long as they may be.",
                move || {
                    Faults::default()
                        .tx_edit(move |packet| packet.payload.truncate((pmtu / 2) as usize))
                },
            ),
        );
    }

    tests
}

/// READs take the PSNs of their responses.
fn reads() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, len) in (25..).zip([1, PMTU, PMTU + 1, 3 * PMTU]) {
        tests.push(
            test(
                SECTION,
                n,
                format!("a READ of {len} bytes takes the PSNs of its responses"),
                move |b| read(b, len),
            )
            .breaks(
                "takes-one-psn",
                "It takes one more PSN than it has responses.",
                || {
                    Faults::default().tx_edit(|packet| {
                        if packet.bth.opcode == RC_WRITE_ONLY {
                            packet.bth.psn = (packet.bth.psn + 1) & 0xff_ffff;
                        }
                    })
                },
            )
            .breaks("asks-for-less", "The RETH has another length.", || {
                Faults::default().tx_edit(|packet| {
                    if let Some(reth) = &mut packet.ext.reth {
                        reth.len = reth.len.saturating_sub(1);
                    }
                })
            }),
        );
    }

    tests
}

/// SE where a program asks for it.
fn solicited_events() -> Test {
    test(
        SECTION,
        29,
        "only the last packet of a message that solicits an event has SE set",
        solicits,
    )
    .breaks("on-every-packet", "All packets have SE set.", || {
        Faults::default().tx_edit(|packet| packet.bth.solicited = true)
    })
    .breaks("never", "No packet has SE set.", || {
        Faults::default().tx_edit(|packet| packet.bth.solicited = false)
    })
}

/// What is sent again when nobody answers.
fn retransmissions() -> Test {
    test_with(
        SECTION,
        30,
        ChannelOptions {
            timeout: 14,
            ..ChannelOptions::default()
        },
        "what is sent again is what was sent before, PSN and all",
        again,
    )
    .breaks(
        "takes-new-psns",
        "What is sent again has PSNs of its own.",
        || {
            let mut packets = 0;
            Faults::default().tx_edit(move |packet| {
                packets += 1;
                if packets > 3 {
                    packet.bth.psn = (packet.bth.psn + 3) & 0xff_ffff;
                }
            })
        },
    )
    .takes(Duration::from_millis(500))
}

/// Messages of several elements.
fn gather_lists() -> Test {
    test(
        SECTION,
        34,
        "the gather list makes one message, in order",
        gathered,
    )
    .breaks("garbles", "A byte of the payload is wrong.", || {
        Faults::default().tx_edit(|packet| {
            if let Some(first) = packet.payload.first_mut() {
                *first ^= 1;
            }
        })
    })
}

/// The opcode of packet `n` of `of`.
fn due(opcode: Opcode, n: u32, of: u32) -> u8 {
    let (only, first, middle, last) = match opcode {
        Opcode::SendWithImm => (
            RC_SEND_ONLY_IMM,
            RC_SEND_FIRST,
            RC_SEND_MIDDLE,
            RC_SEND_LAST_IMM,
        ),
        Opcode::SendWithInv => (
            RC_SEND_ONLY_INV,
            RC_SEND_FIRST,
            RC_SEND_MIDDLE,
            RC_SEND_LAST_INV,
        ),
        Opcode::RdmaWrite => (
            RC_WRITE_ONLY,
            RC_WRITE_FIRST,
            RC_WRITE_MIDDLE,
            RC_WRITE_LAST,
        ),
        Opcode::RdmaWriteWithImm => (
            RC_WRITE_ONLY_IMM,
            RC_WRITE_FIRST,
            RC_WRITE_MIDDLE,
            RC_WRITE_LAST_IMM,
        ),
        _ => (RC_SEND_ONLY, RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_LAST),
    };

    match (n == 0, n + 1 == of) {
        (true, true) => only,
        (true, false) => first,
        (false, true) => last,
        (false, false) => middle,
    }
}

/// The packets of a message from the memory's start come; `from` is its first PSN's number.
fn packets(
    b: &mut Bench<'_>,
    request: &SendRequest,
    from: u32,
    data: &[u8],
) -> Outcome<Vec<RxPacket>> {
    let pmtu = b.cc.options.pmtu as usize;
    let count = data.len().div_ceil(pmtu).max(1) as u32;
    let mut all = Vec::new();
    for n in 0..count {
        let opcode = due(request.opcode, n, count);
        let packet = b.packet(opcode, b.cc.device_psn(from + n))?;
        let part = data.chunks(pmtu).nth(n as usize).unwrap_or_default();
        b.brings(&packet, part)?;
        if let Some(reth) = packet.ext.reth {
            let due = Reth {
                va: request.remote_addr,
                rkey: request.rkey,
                len: data.len() as u32,
            };
            b.eq("the RETH", reth, due)?;
        }

        if let Some(imm) = packet.ext.imm {
            b.eq("the immediate data", imm, request.imm)?;
        }
        if let Some(key) = packet.ext.ieth {
            b.eq("the key to invalidate", key, request.invalidate)?;
        }

        b.eq("the transport version", packet.bth.tver, 0)?;
        all.push(packet);
    }

    let asks = all.last().is_some_and(|packet| packet.bth.ack_req);
    b.check(asks, || {
        format!(
            "the last packet, {}, does not ask to be acknowledged",
            name(due(request.opcode, count - 1, count))
        )
    })?;

    Ok(all)
}

fn message(b: &mut Bench<'_>, opcode: Opcode, len: u32) -> Outcome {
    let data = pattern(len);
    b.write(0, &data)?;
    b.step("The device posts two messages; their packets come");
    let count = len.div_ceil(b.cc.options.pmtu).max(1);
    for n in 0..2 {
        let request = b.request(u64::from(n) + 1, opcode, len);
        b.post_request(request.clone())?;
        packets(b, &request, n * count, &data)?;
    }
    b.step("Both complete when they are acknowledged");
    b.cc.ack(b.rig, b.cc.device_psn(2 * count - 1), 2)?;
    b.all_completed(Side::Send, &[(1, status::SUCCESS), (2, status::SUCCESS)])
}

fn read(b: &mut Bench<'_>, len: u32) -> Outcome {
    b.step("The device posts a READ and a WRITE");
    b.post(1, Opcode::RdmaRead, len)?;
    b.post(2, Opcode::RdmaWrite, 0)?;
    let request = b.packet(RC_READ_REQUEST, b.cc.device_psn(0))?;
    let reth = Reth {
        va: 0x99_9000,
        rkey: 0x12345,
        len,
    };
    b.eq("the RETH", request.ext.reth, Some(reth))?;
    b.eq("the payload's length", request.payload.len(), 0)?;
    b.step("The WRITE has the PSN after the last response");
    b.packet(RC_WRITE_ONLY, b.cc.device_psn(len.div_ceil(PMTU)))?;
    Ok(())
}

fn solicits(b: &mut Bench<'_>) -> Outcome {
    let data = pattern(3 * PMTU);
    b.write(0, &data)?;
    b.step("A SEND of 3 packets that solicits an event, and one that does not");
    for (n, flag) in [(0, send_flags::SOLICITED), (1, 0)] {
        let mut request = b.request(u64::from(n), Opcode::Send, 3 * PMTU);
        request.flags |= flag;
        b.post_request(request.clone())?;
        let all = packets(b, &request, 3 * n, &data)?;
        let seen: Vec<bool> = all.iter().map(|packet| packet.bth.solicited).collect();
        b.eq("SE of the packets", seen, vec![false, false, flag != 0])?;
    }
    Ok(())
}

fn again(b: &mut Bench<'_>) -> Outcome {
    let data = pattern(3 * PMTU - 1);
    b.write(0, &data)?;
    b.step("A WRITE with immediate of 3 packets comes, and comes again when nothing is answered");
    let request = b.request(1, Opcode::RdmaWriteWithImm, 3 * PMTU - 1);
    b.post_request(request.clone())?;
    let first = packets(b, &request, 0, &data)?;
    let second = packets(b, &request, 0, &data)?;
    b.step("The packets are the same");
    let same = first
        .iter()
        .zip(&second)
        .all(|(a, b)| a.bth == b.bth && a.ext == b.ext);
    b.check(same, || "headers differ".to_owned())?;
    b.cc.ack(b.rig, b.cc.device_psn(2), 1)?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    Ok(())
}

fn gathered(b: &mut Bench<'_>) -> Outcome {
    let data = pattern(8 * PMTU);
    b.write(0, &data)?;
    b.step("A SEND of three pieces that lie apart");
    let pieces = [(4000, 700), (10, 1), (2000, 900)];
    let mut request = b.request(1, Opcode::Send, 1);
    request.sges = pieces.map(|(at, len)| b.region.part(at, len)).into();
    let whole: Vec<u8> = pieces
        .iter()
        .flat_map(|(at, len)| &data[*at as usize..][..*len as usize])
        .copied()
        .collect();
    b.post_request(request.clone())?;
    packets(b, &request, 0, &whole)?;
    Ok(())
}
