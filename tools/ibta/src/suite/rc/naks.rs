//! Why a responder refuses a request (section 9.7.5.2), and what is left of the connection.

use super::bench::Bench;
use super::case::{Breaks, test, test_with};
use super::mutants::{
    acknowledges_all, completes_with, is_refusal, miscounts_messages, other_reason,
    refuses_silently, refuses_the_next_psn,
};
use super::words::{name, status};
use crate::Test;
use crate::channel::ChannelOptions;
use crate::channel::must;
use crate::protocol::{Command, RecvQueue, Sge, Side, access};
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::{Ext, NakCode, opcode::*};

/// Operations, and the right of the queue pair that each needs.
const RIGHTS: [(u8, u32); 5] = [
    (RC_WRITE_ONLY, access::REMOTE_WRITE),
    (RC_WRITE_ONLY_IMM, access::REMOTE_WRITE),
    (RC_READ_REQUEST, access::REMOTE_READ),
    (RC_COMPARE_SWAP, access::REMOTE_ATOMIC),
    (RC_FETCH_ADD, access::REMOTE_ATOMIC),
];

pub(super) fn tests() -> Vec<Test> {
    let mut tests = reasons();
    tests.extend(aftermath());
    tests
}

/// What is refused, with which code.
fn reasons() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, (opcode, right)) in (1..).zip(RIGHTS) {
        let title = format!("{} at a queue pair that does not allow it", name(opcode));
        let options = ChannelOptions {
            access: access::ALL & !right,
            ..ChannelOptions::default()
        };
        tests.push(invalid(test_with("9.7.5.2", n, options, title, move |b| {
            b.post_empty_recv(1)?;
            single(b, opcode, NakCode::InvalidRequest)
        })));
    }

    for (n, opcode) in (6..).zip([RC_READ_REQUEST, RC_COMPARE_SWAP, RC_FETCH_ADD]) {
        let title = format!(
            "{} at a queue pair without responder resources",
            name(opcode)
        );
        let options = ChannelOptions {
            max_dest_rd_atomic: 0,
            ..ChannelOptions::default()
        };
        tests.push(invalid(test_with("9.7.5.2", n, options, title, move |b| {
            single(b, opcode, NakCode::InvalidRequest)
        })));
    }

    tests.push(
        test(
            "9.7.5.2",
            9,
            "a receive request with a bad local key is a remote operational error",
            operational,
        )
        .covers(&["C9-220"])
        .breaks("takes-it", "The packet is acknowledged.", acknowledges_all)
        .breaks("says-access", "It is refused as an access error.", || {
            other_reason(NakCode::RemoteAccessError)
        })
        .breaks(
            "completes-well",
            "The receive request completes with success.",
            || completes_with(Side::Recv, status::SUCCESS),
        ),
    );

    tests
}

/// What a refusal leaves of the connection, and what its NAK is like.
fn aftermath() -> Vec<Test> {
    vec![
        test(
            "9.7.5.2",
            10,
            "what came before a refused request stays carried out, and is acknowledged by the NAK",
            before_a_refusal,
        )
        .covers(&["C9-148", "C9-222.1.1"])
        .breaks(
            "counts-the-refused",
            "The refused request counts as a message.",
            || {
                Faults::default().tx_edit(|packet| {
                    if is_refusal(packet)
                        && let Some(aeth) = &mut packet.ext.aeth
                    {
                        aeth.msn += 1;
                    }
                })
            },
        )
        .breaks(
            "names-the-wrong-psn",
            "The NAK names the PSN after the refused one.",
            refuses_the_next_psn,
        ),
        test(
            "9.7.5.2",
            11,
            "what comes after a refused request is not carried out",
            after_a_refusal,
        )
        .covers(&["C9-222.1.1"])
        .breaks(
            "goes-on",
            "The refused request is dropped, and what follows is carried out.",
            || {
                let mut dropped = 0;
                Faults::default().rx(move |mut packet| {
                    if packet.ext.reth.is_some_and(|reth| reth.rkey == NO_KEY) {
                        dropped += 1;
                        return Vec::new();
                    }
                    packet.bth.psn = packet.bth.psn.wrapping_sub(dropped) & 0xff_ffff;
                    vec![(std::time::Duration::ZERO, packet)]
                })
            },
        ),
        test(
            "9.7.5.2",
            12,
            "receive requests are flushed when a request was refused",
            flushed,
        )
        .covers(&["C9-222.1.1"])
        .breaks("keeps-them", "They stay where they are.", || {
            super::mutants::never_completes(Side::Recv)
        })
        .breaks("completes-well", "They complete with success.", || {
            completes_with(Side::Recv, status::SUCCESS)
        }),
        test(
            "9.7.5.2",
            13,
            "a NAK is an Acknowledge without payload that asks for nothing",
            form,
        )
        .covers(&["C9-148", "C9-222.1.1"])
        .breaks("asks", "It asks to be acknowledged.", || {
            Faults::default().tx_edit(|packet| packet.bth.ack_req = true)
        })
        .breaks("counts", "It counts a message.", miscounts_messages)
        .breaks("carries", "It has a payload.", || {
            Faults::default().tx_edit(|packet| packet.payload = vec![0; 4])
        }),
    ]
}

const NO_KEY: u32 = 0x0bad_0bad;

fn invalid(test: Test) -> Test {
    test.breaks("takes-it", "The request is acknowledged.", acknowledges_all)
        .breaks("drops-it", "The request is dropped.", refuses_silently)
        .breaks(
            "says-operational",
            "It is refused as an operational error.",
            || other_reason(NakCode::RemoteOperationalError),
        )
}

/// One request to a word of the memory is refused.
fn single(b: &mut Bench<'_>, opcode: u8, code: NakCode) -> Outcome {
    b.step(format!("{} is refused with its PSN", name(opcode)));
    let imm = Some([1; 4]);
    let (ext, payload) = match opcode {
        RC_COMPARE_SWAP | RC_FETCH_ADD => (b.atomic(0, 1, 0), Vec::new()),
        RC_READ_REQUEST => (b.reth(0, 8), Vec::new()),
        _ => (
            Ext {
                imm,
                ..b.reth(0, 8)
            },
            vec![1; 8],
        ),
    };

    let psn = b.send(opcode, ext, &payload)?;
    b.nak(code, psn)?;
    b.step("Nothing has changed, and the connection has ended");
    b.holds(0, &[0; 8])?;
    b.ended()
}

fn operational(b: &mut Bench<'_>) -> Outcome {
    let sge = Sge {
        lkey: b.region.lkey ^ 0x5a5a_5a00,
        ..b.region.part(0, 64)
    };

    let queue = RecvQueue::Qp(b.cc.qp);
    must(
        b.rig,
        Command::PostRecv {
            queue,
            wr_id: 1,
            sges: vec![sge],
        },
    )?;

    b.step("A SEND is refused: it is the responder that is at fault");
    let psn = b.send(RC_SEND_ONLY, Ext::default(), &[1; 8])?;
    b.nak(NakCode::RemoteOperationalError, psn)?;
    b.step("The receive request completes with a local protection error");
    b.completed(Side::Recv, 1, status::LOC_PROT_ERR)?;
    b.holds(0, &[0; 8])?;
    b.ended()
}

fn before_a_refusal(b: &mut Bench<'_>) -> Outcome {
    b.step("Two WRITEs that ask for nothing, then one with a bad key");
    for n in 0..2 {
        let ext = b.reth(n * 4, 4);
        b.send_quietly(RC_WRITE_ONLY, ext, &[7; 4])?;
    }
    let psn = b.send(
        RC_WRITE_ONLY,
        super::words::reth(b.region.addr, NO_KEY, 4),
        &[8; 4],
    )?;
    b.step("The NAK names its PSN and counts two messages, which are placed");
    let nak = b.nak(NakCode::RemoteAccessError, psn)?;
    b.eq("the MSN", nak.ext.aeth.map(|aeth| aeth.msn), Some(2))?;
    b.holds(0, &[7; 8])
}

fn after_a_refusal(b: &mut Bench<'_>) -> Outcome {
    b.step("A WRITE with a bad key, and one with a good key behind it");
    let (good, bad) = (b.reth(0, 4), super::words::reth(b.region.addr, NO_KEY, 4));
    let refused = b.send_quietly(RC_WRITE_ONLY, bad, &[8; 4])?;
    b.send_quietly(RC_WRITE_ONLY, good, &[7; 4])?;
    b.step("The first is refused, the second is not carried out");
    b.nak(NakCode::RemoteAccessError, refused)?;
    b.silence()?;
    b.holds(0, &[0; 4])
}

fn flushed(b: &mut Bench<'_>) -> Outcome {
    for wr_id in 1..=3 {
        b.post_recv(wr_id, 0, 8)?;
    }
    b.step("A WRITE with a bad key is refused");
    let psn = b.send(
        RC_WRITE_ONLY,
        super::words::reth(b.region.addr, NO_KEY, 4),
        &[8; 4],
    )?;
    b.nak(NakCode::RemoteAccessError, psn)?;
    b.step("All receive requests are flushed, in order");
    let due = [1, 2, 3].map(|wr_id| (wr_id, status::WR_FLUSH_ERR));
    b.all_completed(Side::Recv, &due)
}

fn form(b: &mut Bench<'_>) -> Outcome {
    b.step("A WRITE with a bad key is refused");
    let psn = b.send(
        RC_WRITE_ONLY,
        super::words::reth(b.region.addr, NO_KEY, 4),
        &[8; 4],
    )?;
    let nak = b.nak(NakCode::RemoteAccessError, psn)?;
    b.step("The NAK's fields");
    b.eq("the payload's length", nak.payload.len(), 0)?;
    b.eq(
        "AckReq and SE",
        (nak.bth.ack_req, nak.bth.solicited),
        (false, false),
    )?;

    b.eq("pad count and version", (nak.bth.pad, nak.bth.tver), (0, 0))?;
    b.eq("the MSN", nak.ext.aeth.map(|aeth| aeth.msn), Some(0))
}
