//! What a requester does with answers (section 9.7.6): NAKs and their completions, what is sent again and from where, ACKs that
//! cover several requests, READ responses that are missing or malformed.

use super::bench::{Bench, Breaks, PMTU, status, test, test_with};
use super::mutants::{completes_twice, completes_with, never_completes, operation, places_nothing};
use crate::Test;
use crate::channel::{ChannelOptions, pattern};
use crate::protocol::{Command, Opcode, Side, qp_state};
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::{NakCode, Operation, opcode::*};
use std::time::Duration;

const SECTION: &str = "9.7.6";
const CODES: [(NakCode, &str, u32); 3] = [
    (
        NakCode::InvalidRequest,
        "invalid request",
        status::REM_INV_REQ_ERR,
    ),
    (
        NakCode::RemoteAccessError,
        "remote access error",
        status::REM_ACCESS_ERR,
    ),
    (
        NakCode::RemoteOperationalError,
        "remote operational error",
        status::REM_OP_ERR,
    ),
];
const REQUESTS: [Opcode; 5] = [
    Opcode::Send,
    Opcode::RdmaWrite,
    Opcode::RdmaRead,
    Opcode::CompareSwap,
    Opcode::FetchAdd,
];
/// READ responses that do not fit: opcode, PSN of the READ's, bytes. The READ has 3 packets.
const MALFORMED: [(&str, u8, u32, u32); 5] = [
    (
        "a FIRST that is too short",
        RC_READ_RESPONSE_FIRST,
        0,
        PMTU - 4,
    ),
    (
        "a MIDDLE that is too short",
        RC_READ_RESPONSE_MIDDLE,
        1,
        PMTU - 4,
    ),
    ("a LAST that is too long", RC_READ_RESPONSE_LAST, 2, 12),
    ("a LAST that is too short", RC_READ_RESPONSE_LAST, 2, 4),
    ("a LAST where MIDDLE is due", RC_READ_RESPONSE_LAST, 1, PMTU),
];

fn options(retry_cnt: u8, timeout: u8) -> ChannelOptions {
    ChannelOptions {
        retry_cnt,
        timeout,
        ..ChannelOptions::default()
    }
}

pub fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    let refusals = CODES
        .iter()
        .flat_map(|code| REQUESTS.map(|opcode| (*code, opcode)));
    for (n, ((code, what, due), opcode)) in (20..).zip(refusals) {
        let title = format!(
            "{opcode:?} that is refused with {what} fails with status {due}, and the connection ends"
        );
        tests.push(
            test(SECTION, n, title, move |b| refused(b, opcode, code, due))
                .breaks(
                    "says-another-status",
                    "The status is that of a retry that failed.",
                    || {
                        Faults::default().completion(|_, mut done| {
                            if done.wr_id == 1 {
                                done.status = status::RETRY_EXC_ERR;
                            }
                            vec![done]
                        })
                    },
                )
                .breaks(
                    "completes-well",
                    "The request completes with success.",
                    || completes_with(Side::Send, status::SUCCESS),
                )
                .breaks("tries-again", "The request is sent again.", || {
                    Faults::default().rx_edit(|packet| {
                        if super::mutants::is_refusal(packet)
                            && let Some(aeth) = &mut packet.ext.aeth
                        {
                            aeth.syndrome &= 0xe0;
                        }
                    })
                }),
        );
    }
    tests.push(
        test(
            SECTION,
            35,
            "a NAK completes what came before it and flushes what came after",
            in_the_middle,
        )
        .breaks("flushes-all", "What came before is flushed too.", || {
            Faults::default().completion(|_, mut done| {
                if done.wr_id == 1 {
                    done.status = status::WR_FLUSH_ERR;
                }
                vec![done]
            })
        })
        .breaks(
            "forgets-the-rest",
            "What came after never completes.",
            || {
                Faults::default().completion(|_, done| {
                    if done.wr_id > 2 {
                        Vec::new()
                    } else {
                        vec![done]
                    }
                })
            },
        ),
    );
    tests.push(
        test(
            SECTION,
            36,
            "a PSN sequence error has everything sent again from its PSN on",
            from_the_gap,
        )
        .breaks(
            "begins-over",
            "What was acknowledged is sent again, too.",
            || {
                Faults::default().rx_edit(|packet| {
                    if super::mutants::is_refusal(packet) {
                        packet.bth.psn = packet.bth.psn.wrapping_sub(1) & 0xff_ffff;
                    }
                })
            },
        )
        .breaks("sends-nothing", "Nothing is sent again.", || {
            Faults::default().rx_drop(super::mutants::is_refusal)
        }),
    );
    tests.push(
        test(
            SECTION,
            37,
            "a message is gone on with in its middle where the gap is",
            in_a_message,
        )
        .breaks(
            "begins-the-message-over",
            "The message is sent again from its first packet.",
            || {
                Faults::default().rx_edit(|packet| {
                    if super::mutants::is_refusal(packet) {
                        packet.bth.psn = packet.bth.psn.wrapping_sub(1) & 0xff_ffff;
                    }
                })
            },
        ),
    );
    for (n, retries) in (38..).zip([0, 1, 3, 7]) {
        tests.push(
            test_with(
                SECTION,
                n,
                options(retries, 0),
                format!("sequence errors count as retries, of which there are {retries}"),
                move |b| gives_up(b, retries),
            )
            .breaks("one-less", "It gives up one retry early.", || {
                Faults::default().command(|command| {
                    retry_cnt(command, |count| if count == 0 { 1 } else { count - 1 })
                })
            })
            .breaks(
                "says-rnr",
                "The status is that of a receiver not ready.",
                || completes_with(Side::Send, status::RNR_RETRY_EXC_ERR),
            ),
        );
    }
    tests.push(
        test_with(
            SECTION,
            42,
            options(1, 0),
            "progress gives all retries back",
            given_back,
        )
        .breaks("never-gives-back", "The counter only falls.", || {
            let mut refusals = 0;
            Faults::default().rx_edit(move |packet| {
                refusals += u32::from(super::mutants::is_refusal(packet));
                if refusals == 2
                    && let Some(aeth) = &mut packet.ext.aeth
                {
                    aeth.syndrome = 0x63;
                }
            })
        }),
    );
    tests.push(
        test(
            SECTION,
            43,
            "an ACK completes all requests up to its PSN, in order",
            several,
        )
        .breaks("completes-one", "It completes the first only.", || {
            Faults::default().completion(|_, done| {
                if done.wr_id == 1 {
                    vec![done]
                } else {
                    Vec::new()
                }
            })
        })
        .breaks("completes-twice", "Each completes twice.", || {
            completes_twice(Side::Send)
        }),
    );
    for (n, atomic) in [(44, false), (45, true)] {
        let what = if atomic { "an atomic" } else { "a READ" };
        tests.push(
            test(
                SECTION,
                n,
                format!("the answer to {what} acknowledges what came before it"),
                move |b| implied(b, atomic),
            )
            .breaks(
                "waits-for-acks",
                "What came before waits for an ACK of its own.",
                || {
                    Faults::default().completion(|_, done| {
                        if done.wr_id < 3 {
                            Vec::new()
                        } else {
                            vec![done]
                        }
                    })
                },
            ),
        );
    }
    tests.push(
        test(
            SECTION,
            46,
            "an ACK beyond a READ that was not answered has it asked for again",
            implied_nak,
        )
        .breaks(
            "takes-it-for-answered",
            "The READ completes without its data.",
            || {
                Faults::default().rx(|packet| {
                    if packet.bth.opcode != RC_ACKNOWLEDGE {
                        return vec![(Duration::ZERO, packet)];
                    }
                    let mut answer = packet.clone();
                    answer.bth.opcode = RC_READ_RESPONSE_ONLY;
                    answer.bth.psn = packet.bth.psn.wrapping_sub(1) & 0xff_ffff;
                    answer.payload = vec![0; 8];
                    vec![(Duration::ZERO, answer), (Duration::ZERO, packet)]
                })
            },
        ),
    );
    tests.push(
        test(
            SECTION,
            47,
            "an ACK in the midst of a message completes nothing",
            part_acknowledged,
        )
        .breaks(
            "completes-early",
            "The first ACK completes the message.",
            || {
                Faults::default().rx_edit(|packet| {
                    if packet.bth.opcode == RC_ACKNOWLEDGE {
                        packet.bth.psn = (packet.bth.psn + 2) & 0xff_ffff;
                    }
                })
            },
        ),
    );
    tests.push(
        test_with(
            SECTION,
            48,
            options(7, 14),
            "a message is sent again from the first packet that was not acknowledged",
            resumes,
        )
        .breaks("begins-over", "It is sent again from the start.", || {
            Faults::default().rx_drop(|packet| packet.bth.opcode == RC_ACKNOWLEDGE)
        })
        .takes(Duration::from_millis(600)),
    );
    for (n, missing) in [(49, 0), (50, 1)] {
        tests.push(
            test(
                SECTION,
                n,
                format!(
                    "a READ whose response {missing} is missing is asked for again from there on"
                ),
                move |b| missing_response(b, missing),
            )
            .breaks(
                "places-what-comes",
                "Responses are placed whatever is missing.",
                || {
                    let mut next = None;
                    Faults::default().rx_edit(move |packet| {
                        if operation(packet) == Some(Operation::ReadResponse) {
                            if let Some(next) = next {
                                packet.bth.psn = next;
                            }
                            next = Some((packet.bth.psn + 1) & 0xff_ffff);
                        }
                    })
                },
            )
            .breaks("never-asks", "It is not asked for again.", || {
                let mut asked = 0;
                Faults::default().tx_drop(move |packet| {
                    asked += u32::from(packet.bth.opcode == RC_READ_REQUEST);
                    asked > 1
                })
            })
            .breaks(
                "asks-for-the-next",
                "It is asked for from the response behind.",
                || {
                    let mut asked = 0;
                    Faults::default().tx_edit(move |packet| {
                        asked += 1;
                        if asked > 1
                            && let Some(reth) = &mut packet.ext.reth
                        {
                            reth.va += u64::from(PMTU);
                            reth.len -= PMTU;
                            packet.bth.psn = (packet.bth.psn + 1) & 0xff_ffff;
                        }
                    })
                },
            ),
        );
    }
    tests.push(
        test_with(
            SECTION,
            51,
            options(7, 14),
            "a READ whose last response is missing is asked for again when the timer ends",
            missing_last,
        )
        .breaks(
            "takes-it-for-whole",
            "It completes without its last response.",
            || {
                Faults::default().rx(|packet| {
                    if packet.bth.opcode != RC_READ_RESPONSE_MIDDLE {
                        return vec![(Duration::ZERO, packet)];
                    }
                    let mut last = packet.clone();
                    last.bth.opcode = RC_READ_RESPONSE_LAST;
                    last.bth.psn = (packet.bth.psn + 1) & 0xff_ffff;
                    last.payload.truncate(8);
                    vec![(Duration::ZERO, packet), (Duration::ZERO, last)]
                })
            },
        )
        .takes(Duration::from_millis(600)),
    );
    for (n, (what, opcode, at, len)) in (52..).zip(MALFORMED) {
        tests.push(
            test(SECTION, n, format!("{what} is a bad response"), move |b| {
                malformed(b, opcode, at, len)
            })
            .breaks("says-nothing", "It is dropped.", || {
                never_completes(Side::Send)
            })
            .breaks("completes-well", "The READ completes with success.", || {
                completes_with(Side::Send, status::SUCCESS)
            }),
        );
    }
    for (n, len) in (57..).zip([0, 1, PMTU, PMTU + 1, 3 * PMTU]) {
        let test = test(
            SECTION,
            n,
            format!("a READ of {len} bytes is placed and completes"),
            move |b| read(b, len),
        )
        .breaks("never-completes", "It does not complete.", || {
            never_completes(Side::Send)
        });
        tests.push(match len {
            0 => test,
            _ => test.breaks(
                "does-not-place",
                "Its responses are not placed.",
                places_nothing,
            ),
        });
    }
    tests
}

fn retry_cnt(mut command: Command, change: impl Fn(u8) -> u8) -> Command {
    if let Command::ModifyQp { attributes, .. } = &mut command {
        attributes.retry_cnt = attributes.retry_cnt.map(change);
    }
    command
}

/// The device posts SENDs of one packet each, and they come.
fn sends(b: &mut Bench<'_>, count: u32) -> Outcome {
    b.step(format!("The device sends {count} SENDs"));
    for n in 0..count {
        b.post(u64::from(n) + 1, Opcode::Send, 8)?;
        b.packet(RC_SEND_ONLY, b.cc.device_psn(n))?;
    }
    Ok(())
}

fn refused(b: &mut Bench<'_>, opcode: Opcode, code: NakCode, due: u32) -> Outcome {
    if matches!(opcode, Opcode::CompareSwap | Opcode::FetchAdd) {
        b.needs_atomics()?;
    }
    b.step("The device sends the request and a SEND behind it; a receive request waits");
    b.post_recv(9, 64, 8)?;
    b.post(1, opcode, 8)?;
    b.post(2, Opcode::Send, 8)?;
    for n in 0..2 {
        let packet = b.next("a request")?;
        b.eq("the PSN", packet.bth.psn, b.cc.device_psn(n))?;
    }
    b.step("The first is refused: it fails, and everything else is flushed");
    b.cc.nak(b.rig, code, b.cc.device_psn(0), 0)?;
    b.all_completed(Side::Send, &[(1, due), (2, status::WR_FLUSH_ERR)])?;
    b.completed(Side::Recv, 9, status::WR_FLUSH_ERR)?;
    let state = b.cc.query(b.rig)?.qp_state;
    b.eq("the queue pair's state", state, Some(qp_state::ERR))?;
    b.step("Nothing is sent again");
    b.silence()
}

fn in_the_middle(b: &mut Bench<'_>) -> Outcome {
    sends(b, 4)?;
    b.step("The second is refused");
    b.cc.nak(b.rig, NakCode::InvalidRequest, b.cc.device_psn(1), 1)?;
    b.all_completed(
        Side::Send,
        &[
            (1, status::SUCCESS),
            (2, status::REM_INV_REQ_ERR),
            (3, status::WR_FLUSH_ERR),
            (4, status::WR_FLUSH_ERR),
        ],
    )
}

fn from_the_gap(b: &mut Bench<'_>) -> Outcome {
    sends(b, 4)?;
    b.step("The third did not arrive: the first two complete, and the others come again");
    b.cc.nak(b.rig, NakCode::PsnSequenceError, b.cc.device_psn(2), 2)?;
    for n in [2, 3] {
        b.packet(RC_SEND_ONLY, b.cc.device_psn(n))?;
    }
    b.all_completed(Side::Send, &[(1, status::SUCCESS), (2, status::SUCCESS)])?;
    b.silence()?;
    b.step("They are acknowledged and complete");
    b.cc.ack(b.rig, b.cc.device_psn(3), 4)?;
    b.all_completed(Side::Send, &[(3, status::SUCCESS), (4, status::SUCCESS)])
}

/// The packets of a message of the device, from packet `from` to the last.
fn message(b: &mut Bench<'_>, from: u32, packets: u32) -> Outcome {
    for n in from..packets {
        let opcode = match (n == 0, n + 1 == packets) {
            (true, _) => RC_SEND_FIRST,
            (_, true) => RC_SEND_LAST,
            _ => RC_SEND_MIDDLE,
        };
        let packet = b.packet(opcode, b.cc.device_psn(n))?;
        let data = pattern(packets * PMTU);
        let due = &data[(n * PMTU) as usize..][..PMTU as usize];
        b.check(packet.payload == due, || {
            format!("the bytes of {} are not those posted", packet.describe())
        })?;
    }
    Ok(())
}

fn in_a_message(b: &mut Bench<'_>) -> Outcome {
    b.step("The device sends a SEND of 4 packets, the third of which does not arrive");
    b.write(0, &pattern(4 * PMTU))?;
    b.post(1, Opcode::Send, 4 * PMTU)?;
    message(b, 0, 4)?;
    b.cc.nak(b.rig, NakCode::PsnSequenceError, b.cc.device_psn(2), 0)?;
    b.step("The third and the fourth come again, with the opcodes and bytes of before");
    message(b, 2, 4)?;
    b.silence()?;
    b.cc.ack(b.rig, b.cc.device_psn(3), 1)?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    Ok(())
}

fn gives_up(b: &mut Bench<'_>, retries: u8) -> Outcome {
    b.step("The device sends a SEND, which never arrives: the one before the retries are over, then no more");
    b.post(1, Opcode::Send, 8)?;
    let psn = b.cc.device_psn(0);
    for _ in 0..=retries {
        b.packet(RC_SEND_ONLY, psn)?;
        b.cc.nak(b.rig, NakCode::PsnSequenceError, psn, 0)?;
    }
    b.completed(Side::Send, 1, status::RETRY_EXC_ERR)?;
    b.silence()
}

fn given_back(b: &mut Bench<'_>) -> Outcome {
    for n in 0..3 {
        b.step("A SEND does not arrive, comes again and is acknowledged");
        b.post(u64::from(n) + 1, Opcode::Send, 8)?;
        let psn = b.cc.device_psn(n);
        b.packet(RC_SEND_ONLY, psn)?;
        b.cc.nak(b.rig, NakCode::PsnSequenceError, psn, n)?;
        b.packet(RC_SEND_ONLY, psn)?;
        b.cc.ack(b.rig, psn, n + 1)?;
        b.completed(Side::Send, u64::from(n) + 1, status::SUCCESS)?;
    }
    Ok(())
}

fn several(b: &mut Bench<'_>) -> Outcome {
    sends(b, 5)?;
    b.step("One ACK of the fourth completes four");
    b.cc.ack(b.rig, b.cc.device_psn(3), 4)?;
    let due = [1, 2, 3, 4].map(|wr_id| (wr_id, status::SUCCESS));
    b.all_completed(Side::Send, &due)?;
    b.not_completed(Side::Send)
}

fn implied(b: &mut Bench<'_>, atomic: bool) -> Outcome {
    sends(b, 2)?;
    let psn = b.cc.device_psn(2);
    b.step("Behind them a request that is answered with data; only that answer comes");
    if atomic {
        b.needs_atomics()?;
        b.post(3, Opcode::FetchAdd, 8)?;
        b.packet(RC_FETCH_ADD, psn)?;
        b.cc.atomic_ack(b.rig, psn, 3, 7)?;
    } else {
        b.post(3, Opcode::RdmaRead, 8)?;
        b.packet(RC_READ_REQUEST, psn)?;
        b.cc.read_responses(b.rig, psn, 3, &[7; 8])?;
    }
    b.step("All three complete, in order");
    b.all_completed(Side::Send, &[1, 2, 3].map(|wr_id| (wr_id, status::SUCCESS)))
}

fn implied_nak(b: &mut Bench<'_>) -> Outcome {
    b.step("The device sends a READ and a SEND; only the SEND is acknowledged");
    b.post(1, Opcode::RdmaRead, 8)?;
    b.post(2, Opcode::Send, 8)?;
    let psn = [0, 1].map(|n| b.cc.device_psn(n));
    b.packet(RC_READ_REQUEST, psn[0])?;
    b.packet(RC_SEND_ONLY, psn[1])?;
    b.cc.ack(b.rig, psn[1], 2)?;
    b.step("The READ is asked for again, and nothing completes before it is answered");
    b.packet(RC_READ_REQUEST, psn[0])?;
    b.not_completed(Side::Send)?;
    b.cc.read_responses(b.rig, psn[0], 1, &[7; 8])?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    b.holds(0, &[7; 8])?;
    b.cc.ack(b.rig, psn[1], 2)?;
    b.completed(Side::Send, 2, status::SUCCESS)?;
    Ok(())
}

fn part_acknowledged(b: &mut Bench<'_>) -> Outcome {
    b.step("The device sends a SEND of 3 packets; the first is acknowledged");
    b.write(0, &pattern(3 * PMTU))?;
    b.post(1, Opcode::Send, 3 * PMTU)?;
    message(b, 0, 3)?;
    b.cc.ack(b.rig, b.cc.device_psn(0), 0)?;
    b.step("Nothing completes before the last is");
    b.not_completed(Side::Send)?;
    b.cc.ack(b.rig, b.cc.device_psn(2), 1)?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    Ok(())
}

fn resumes(b: &mut Bench<'_>) -> Outcome {
    b.step("The device sends a SEND of 3 packets; the first is acknowledged, and nothing else");
    b.write(0, &pattern(3 * PMTU))?;
    b.post(1, Opcode::Send, 3 * PMTU)?;
    message(b, 0, 3)?;
    b.cc.ack(b.rig, b.cc.device_psn(0), 0)?;
    b.step("When the timer ends the second and the third come again");
    message(b, 1, 3)?;
    b.cc.ack(b.rig, b.cc.device_psn(2), 1)?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    Ok(())
}

/// The device sends a READ of 3 packets, the last of 8 bytes; what it is answered with.
fn read_of_three(b: &mut Bench<'_>) -> Outcome<Vec<u8>> {
    b.step("The device sends a READ of 3 packets");
    let len = 2 * PMTU + 8;
    b.post(1, Opcode::RdmaRead, len)?;
    asked(b, 0, len)?;
    Ok(pattern(len))
}

/// A READ request comes for the bytes from packet `from` of a READ on.
fn asked(b: &mut Bench<'_>, from: u32, len: u32) -> Outcome {
    let request = b.packet(RC_READ_REQUEST, b.cc.device_psn(from))?;
    let seen = request.ext.reth.map(|reth| (reth.va, reth.len));
    let skipped = from * PMTU;
    b.eq(
        "address and length",
        seen,
        Some((0x99_9000 + u64::from(skipped), len - skipped)),
    )
}

/// Transmits response `n` of the three.
fn respond(b: &mut Bench<'_>, n: u32, data: &[u8]) -> Outcome {
    let part = data
        .chunks(PMTU as usize)
        .nth(n as usize)
        .unwrap_or_default();
    let packet =
        b.cc.read_response(b.cc.device_psn(0), 1, n as usize, 3, part);
    b.transmit(&packet)
}

/// The rest comes as the answer to a READ of its own, and the whole completes.
fn finish(b: &mut Bench<'_>, from: u32, data: &[u8]) -> Outcome {
    b.step("It is answered; the READ completes and all of it is in memory");
    let rest = &data[(from * PMTU) as usize..];
    b.cc.read_responses(b.rig, b.cc.device_psn(from), 1, rest)?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    b.holds(0, data)
}

fn missing_response(b: &mut Bench<'_>, missing: u32) -> Outcome {
    let data = read_of_three(b)?;
    b.step(format!("Response {missing} does not arrive, the others do"));
    for n in (0..3).filter(|n| *n != missing) {
        respond(b, n, &data)?;
    }
    b.step("What is missing, and all behind it, is asked for again");
    asked(b, missing, data.len() as u32)?;
    b.not_completed(Side::Send)?;
    finish(b, missing, &data)
}

fn missing_last(b: &mut Bench<'_>) -> Outcome {
    let data = read_of_three(b)?;
    b.step("The last response does not arrive");
    for n in 0..2 {
        respond(b, n, &data)?;
    }
    b.step("It is asked for again");
    asked(b, 2, data.len() as u32)?;
    let none = b.cc.poll(b.rig, Side::Send, 1, Duration::ZERO)?;
    b.eq("completions", none.len(), 0)?;
    finish(b, 2, &data)
}

fn malformed(b: &mut Bench<'_>, opcode: u8, at: u32, len: u32) -> Outcome {
    let data = read_of_three(b)?;
    for n in 0..at {
        respond(b, n, &data)?;
    }
    b.step("A response that does not fit: the READ fails with a bad response");
    let (psn, payload) = (b.cc.device_psn(at), vec![0; len as usize]);
    let packet = b.cc.response(opcode, psn, crate::channel::ACK, 1, &payload);
    b.transmit(&packet)?;
    b.completed(Side::Send, 1, status::BAD_RESP_ERR)?;
    Ok(())
}

fn read(b: &mut Bench<'_>, len: u32) -> Outcome {
    b.step("The device sends a READ, which is answered");
    b.write(0, &vec![0x5a; len as usize])?;
    b.post(1, Opcode::RdmaRead, len)?;
    asked(b, 0, len)?;
    let data = pattern(len);
    b.cc.read_responses(b.rig, b.cc.device_psn(0), 1, &data)?;
    b.step("It completes, and its bytes are in memory");
    let done = b.completed(Side::Send, 1, status::SUCCESS)?;
    b.eq("the completion's length", done.byte_len, len)?;
    b.holds(0, &data)
}
