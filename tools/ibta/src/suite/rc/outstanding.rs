//! Which requests a requester has on their way (section 9.7.3): their order, how many are answered
//! with data, and what waits for whom.

use super::bench::Bench;
use super::case::{Breaks, test, test_with};
use super::mutants::sends_late;
use crate::Test;
use crate::channel::ChannelOptions;
use crate::protocol::{Command, Opcode, send_flags};
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::opcode::*;

const SECTION: &str = "9.7.3";

pub(super) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, limit) in (31..).zip([1, 2]) {
        let options = ChannelOptions {
            max_rd_atomic: limit,
            ..ChannelOptions::default()
        };

        tests.push(
            test_with(
                SECTION,
                n,
                options,
                format!("no more than {limit} READs and atomics are on their way"),
                move |b| outstanding(b, u32::from(limit)),
            )
            .breaks("one-more", "There is one more on its way.", || {
                Faults::default().command(|mut command| {
                    if let Command::ModifyQp { attributes, .. } = &mut command {
                        attributes.max_rd_atomic = attributes.max_rd_atomic.map(|limit| limit + 1);
                    }
                    command
                })
            })
            .breaks("stops", "Answers let no more go.", move || {
                let mut sent = 0;
                Faults::default().tx_drop(move |_| {
                    sent += 1;
                    sent > limit
                })
            }),
        );
    }

    tests.push(
        test(
            SECTION,
            33,
            "a fenced request waits for the answers to READs before it",
            fenced,
        )
        .covers(&["C10-78"])
        .breaks("does-not-wait", "The fence is not looked at.", || {
            Faults::default().command(|mut command| {
                if let Command::PostSend { request, .. } = &mut command {
                    request.flags &= !send_flags::FENCE;
                }
                command
            })
        }),
    );

    tests.push(
        test(
            SECTION,
            35,
            "requests are sent in the order in which they were posted",
            in_order,
        )
        .breaks(
            "atomics-last",
            "An atomic goes out behind what follows it.",
            || sends_late(RC_FETCH_ADD),
        ),
    );

    tests
}

fn outstanding(b: &mut Bench<'_>, limit: u32) -> Outcome {
    b.needs_atomics()?;
    b.step("The device posts READs and atomics by turns");
    let requests = [
        (Opcode::RdmaRead, RC_READ_REQUEST),
        (Opcode::FetchAdd, RC_FETCH_ADD),
        (Opcode::RdmaRead, RC_READ_REQUEST),
        (Opcode::CompareSwap, RC_COMPARE_SWAP),
    ];
    for (wr_id, (opcode, _)) in (1..).zip(requests) {
        b.post(wr_id, opcode, 8)?;
    }
    b.step(format!("{limit} come, and no more"));
    for n in 0..limit {
        b.packet(requests[n as usize].1, b.cc.device_psn(n))?;
    }
    b.silence()?;
    b.step("Each answer lets one more go");

    for n in limit..4 {
        let done = n - limit;
        let psn = b.cc.device_psn(done);
        match requests[done as usize].1 {
            RC_READ_REQUEST => b.cc.read_responses(b.rig, psn, done + 1, &[1; 8])?,
            _ => b.cc.atomic_ack(b.rig, psn, done + 1, 1)?,
        }
        b.packet(requests[n as usize].1, b.cc.device_psn(n))?;
    }

    b.silence()
}

fn fenced(b: &mut Bench<'_>) -> Outcome {
    b.step("The device posts a READ, and a fenced SEND behind it: only the READ comes");
    b.post(1, Opcode::RdmaRead, 8)?;
    let mut request = b.request(2, Opcode::Send, 8);
    request.flags |= send_flags::FENCE;
    b.post_request(request)?;
    b.packet(RC_READ_REQUEST, b.cc.device_psn(0))?;
    b.silence()?;
    b.step("It is answered, and the SEND comes");
    b.cc.read_responses(b.rig, b.cc.device_psn(0), 1, &[1; 8])?;
    let send = b.packet(RC_SEND_ONLY, b.cc.device_psn(1))?;
    b.eq("what the SEND brings", send.payload, vec![1; 8])
}

fn in_order(b: &mut Bench<'_>) -> Outcome {
    b.needs_atomics()?;
    b.step("A SEND, a WRITE, an atomic, a READ and a SEND come as they were posted");
    let requests = [
        (Opcode::Send, RC_SEND_ONLY),
        (Opcode::RdmaWrite, RC_WRITE_ONLY),
        (Opcode::FetchAdd, RC_FETCH_ADD),
        (Opcode::RdmaRead, RC_READ_REQUEST),
        (Opcode::Send, RC_SEND_ONLY),
    ];
    for (wr_id, (opcode, _)) in (1..).zip(requests) {
        b.post(wr_id, opcode, 8)?;
    }
    for (n, (_, opcode)) in (0..).zip(requests) {
        b.packet(opcode, b.cc.device_psn(n))?;
    }
    Ok(())
}
