//! C9-143: how often a requester sends again what nobody answers, and what comes then.

use super::message::{Message, Operation};
use super::timeout::{FLUSHED, RETRY_EXCEEDED, SUCCESS, USUAL, again, open, other_status, t_tr};
use crate::catalog::{Mutant, Test};
use crate::channel::Channel;
use crate::protocol::{Command, Side, qp_state};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run};
use crate::sim::Faults;
use ferroce_wire::NakCode;

/// The tests.
pub fn tests() -> Vec<Test> {
    let mut tests = vec![restored(), after_naks()];
    tests.extend((0..=7).map(retries));
    tests.extend(Operation::ALL.map(gives_up));
    tests
}

/// The completion that says that all retries are spent comes within 4·T_tr of the last of them.
fn exhausted(
    run: &mut Run,
    rig: &mut dyn TransportRig,
    cc: &Channel,
    assertion: &str,
    wr_id: u64,
    exponent: u8,
) -> Outcome {
    let within = 4 * t_tr(exponent) + rig.silence();
    let done = cc.poll(rig, Side::Send, 1, within)?;
    run.check_eq(assertion, "the number of completions", done.len(), 1)?;
    run.check_eq(assertion, "wr_id", done[0].wr_id, wr_id)?;
    run.check_eq(assertion, "the status", done[0].status, RETRY_EXCEEDED)
}
/// A device that has another retry count than it was told.
fn other_count(assertion: &str, name: &'static str, what: &'static str, count: u8) -> Mutant {
    Mutant::transport(name, what, assertion, move || {
        Faults::default().command(move |mut command| {
            if let Command::ModifyQp { attributes, .. } = &mut command
                && attributes.retry_cnt.is_some()
            {
                attributes.retry_cnt = Some(count);
            }
            command
        })
    })
}

fn one_more(assertion: &str, count: u8) -> Mutant {
    other_count(
        assertion,
        "one-retry-more",
        "sends once more than the retry count allows",
        count + 1,
    )
}

fn one_less(assertion: &str, count: u8) -> Mutant {
    other_count(
        assertion,
        "one-retry-less",
        "gives up before its retries are spent",
        count - 1,
    )
}
/// A message is sent once and again as often as the retry count says; then it fails, and what is
/// behind it is flushed.
fn give_up(
    run: &mut Run,
    rig: &mut dyn TransportRig,
    assertion: &str,
    operation: Operation,
    count: u8,
) -> Outcome {
    operation.needs(rig)?;
    let exponent = USUAL - 1;
    let cc = open(rig, exponent, count)?;
    run.step(
        "1",
        format!(
            "The device posts {}, the retry count is {count}",
            operation.a_name()
        ),
    );

    let message = Message::post(&cc, rig, operation, 1, 1, cc.device_psn(0))?;
    let mut packet = message.receive(run, rig, &cc, assertion)?.remove(0);
    for n in 1..=count {
        run.step(format!("2.{n}"), "Drop it: it comes again");
        packet = again(run, rig, &cc, assertion, &packet, exponent)?;
    }

    run.step("3", "It does not come once more");
    let more = rig.receive(5 * t_tr(exponent))?;
    run.check(assertion, more.is_none(), || {
        format!("sent again after {count} retries")
    })?;
    run.step(
        "4",
        "It completes with IBV_WC_RETRY_EXC_ERR (12), and the queue pair is in error",
    );

    exhausted(run, rig, &cc, assertion, 1, exponent)?;
    let state = cc.query(rig)?.qp_state;
    run.check_eq(assertion, "the state", state, Some(qp_state::ERR))?;
    run.step("5", "A request behind it is flushed");
    Message::post(&cc, rig, operation, 1, 2, 0)?;
    let done = cc.poll_one(run, rig, assertion, Side::Send)?;
    run.check_eq(assertion, "the status", done.status, FLUSHED)?;
    cc.close(rig)?;
    Ok(())
}

/// Each retry count.
fn retries(count: u8) -> Test {
    let assertion = format!("c09-143:retry-{count}");
    let a = assertion.clone();
    let test = Test::transport(
        format!("C09_143_RETRY_{count}"),
        "C09-143",
        match count {
            0 => "a SEND that nobody answers is not sent again".to_owned(),
            1 => "a SEND that nobody answers is sent again once".to_owned(),
            _ => format!("a SEND that nobody answers is sent again {count} times"),
        },
        move |run, rig| give_up(run, rig, &a, Operation::Send, count),
    )
    .covers(&["C9-143"])
    .takes(t_tr(USUAL - 1) * (u32::from(count) + 1) * 5 / 2)
    .asserts([&assertion]);

    let test = match count {
        7 => test,
        _ => test.mutant(one_more(&assertion, count)),
    };

    match count {
        0 => test,
        _ => test.mutant(one_less(&assertion, count)),
    }
}

/// Each operation.
fn gives_up(operation: Operation) -> Test {
    let assertion = format!("c09-143:{}", operation.word().to_lowercase());
    let a = assertion.clone();
    Test::transport(
        format!("C09_143_{}", operation.word()),
        "C09-143",
        format!("{} that nobody answers is given up", operation.a_name()),
        move |run, rig| give_up(run, rig, &a, operation, 1),
    )
    .covers(&["C9-143"])
    .takes(t_tr(USUAL - 1) * 9)
    .mutant(one_more(&assertion, 1))
    .mutant(other_status(&assertion))
    .asserts([assertion])
}

/// Whoever gets an answer has all retries again.
fn restored() -> Test {
    const ID: &str = "c09-143:restored";

    Test::transport(
        "C09_143_RESTORED",
        "C09-143",
        "an answer restores the retry counter",
        |run, rig| {
            let cc = open(rig, USUAL, 1)?;
            let mut psn = cc.device_psn(0);
            for n in 1..=3 {
                run.step(
                    format!("{n}.1"),
                    "The device posts a SEND, the retry count is 1",
                );
                let message = Message::post(&cc, rig, Operation::Send, 1, n, psn)?;
                let packet = message.receive(run, rig, &cc, ID)?.remove(0);
                run.step(format!("{n}.2"), "Drop it: it comes again");
                again(run, rig, &cc, ID, &packet, USUAL)?;
                run.step(format!("{n}.3"), "Answer it: it completes with success");
                message.acknowledge(rig, &cc, n as u32)?;
                let done = cc.poll_one(run, rig, ID, Side::Send)?;
                run.check_eq(ID, "the status", done.status, SUCCESS)?;
                psn = message.next_psn();
            }

            cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["C9-143"])
    .takes(8 * t_tr(USUAL))
    .hurries(t_tr(USUAL))
    .asserts([ID])
    .mutant(Mutant::transport(
        "never-restored",
        "the retry counter goes down for the life of the connection",
        ID,
        || {
            // Packet, retry, packet: and the retry that the device would have sent is not.
            let mut sent = 0;
            Faults::default().tx_drop(move |_| {
                sent += 1;
                sent == 4
            })
        },
    ))
}

/// NAKs for packet sequence errors count, too.
fn after_naks() -> Test {
    const ID: &str = "c09-143:sequence-naks";
    const COUNT: u8 = 2;

    Test::transport(
        "C09_143_SEQUENCE_NAKS",
        "C09-143",
        "retries for packet sequence errors are bounded by the retry count",
        |run, rig| {
            let cc = open(rig, 0, COUNT)?;
            run.step(
                "1",
                format!("The device posts a SEND, the retry count is {COUNT}"),
            );

            let message = Message::post(&cc, rig, Operation::Send, 1, 1, cc.device_psn(0))?;
            message.receive(run, rig, &cc, ID)?;

            for n in 1..=COUNT {
                run.step(
                    format!("2.{n}"),
                    "NAK with a packet sequence error: it comes again",
                );
                cc.nak(rig, NakCode::PsnSequenceError, message.psn, 0)?;
                message.receive(run, rig, &cc, ID)?;
            }

            run.step("3", "The next NAK ends it with IBV_WC_RETRY_EXC_ERR (12)");
            cc.nak(rig, NakCode::PsnSequenceError, message.psn, 0)?;
            let done = cc.poll_one(run, rig, ID, Side::Send)?;
            run.check_eq(ID, "the status", done.status, RETRY_EXCEEDED)?;
            cc.expect_none(run, rig, ID)?;
            cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["C9-143"])
    .asserts([ID])
    .mutant(one_more(ID, COUNT))
    .mutant(one_less(ID, COUNT))
}
