//! What a requester does when it is refused (section 9.7.6): completions by the NAK's code, what is
//! sent again after a sequence error, and how often.

use super::bench::Bench;
use super::case::{Breaks, test, test_with};
use super::mutants::{completes_with, is_refusal};
use super::words::{PMTU, status};
use crate::Test;
use crate::channel::{ChannelOptions, pattern};
use crate::protocol::{Command, Opcode, Side, qp_state};
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::{NakCode, opcode::*};

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

pub(super) fn tests() -> Vec<Test> {
    let mut tests = codes();
    tests.extend(sequence_errors());
    tests
}

/// Completions by the NAK's code.
fn codes() -> Vec<Test> {
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
                        if is_refusal(packet)
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

    tests
}

/// What a PSN sequence error has sent again, and how often.
fn sequence_errors() -> Vec<Test> {
    let mut tests = vec![
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
                    if is_refusal(packet) {
                        packet.bth.psn = packet.bth.psn.wrapping_sub(1) & 0xff_ffff;
                    }
                })
            },
        )
        .breaks("sends-nothing", "Nothing is sent again.", || {
            Faults::default().rx_drop(is_refusal)
        }),
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
                    if is_refusal(packet) {
                        packet.bth.psn = packet.bth.psn.wrapping_sub(1) & 0xff_ffff;
                    }
                })
            },
        ),
    ];

    for (n, retries) in (38..).zip([0, 1, 3, 7]) {
        tests.push(
            test_with(
                SECTION,
                n,
                ChannelOptions {
                    retry_cnt: retries,
                    ..ChannelOptions::default()
                },
                format!("sequence errors count as retries, of which there are {retries}"),
                move |b| gives_up(b, retries),
            )
            .covers(&["C9-143"])
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
            ChannelOptions {
                retry_cnt: 1,
                ..ChannelOptions::default()
            },
            "progress gives all retries back",
            given_back,
        )
        .covers(&["C9-143"])
        .breaks("never-gives-back", "The counter only falls.", || {
            let mut refusals = 0;
            Faults::default().rx_edit(move |packet| {
                refusals += u32::from(is_refusal(packet));
                if refusals == 2
                    && let Some(aeth) = &mut packet.ext.aeth
                {
                    aeth.syndrome = 0x63;
                }
            })
        }),
    );

    tests
}

fn retry_cnt(mut command: Command, change: impl Fn(u8) -> u8) -> Command {
    if let Command::ModifyQp { attributes, .. } = &mut command {
        attributes.retry_cnt = attributes.retry_cnt.map(change);
    }
    command
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
    b.device_sends(4)?;
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
    b.device_sends(4)?;
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

fn in_a_message(b: &mut Bench<'_>) -> Outcome {
    b.step("The device sends a SEND of 4 packets, the third of which does not arrive");
    b.write(0, &pattern(4 * PMTU))?;
    b.post(1, Opcode::Send, 4 * PMTU)?;
    b.device_message(0, 4)?;
    b.cc.nak(b.rig, NakCode::PsnSequenceError, b.cc.device_psn(2), 0)?;
    b.step("The third and the fourth come again, with the opcodes and bytes of before");
    b.device_message(2, 4)?;
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
