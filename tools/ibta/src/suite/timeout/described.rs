//! C09_142_01 as the specification describes it: a READ that nobody answers, until the retry count
//! is spent.

use super::{
    RETRY_EXCEEDED, again, is_again, never_again, other_status, t_tr, too_early, too_late,
};
use crate::catalog::{Mutant, Test};
use crate::channel::{self, Channel, ChannelOptions};
use crate::packet::RxPacket;
use crate::protocol::{Completion, Side, qp_state};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run, Stop};
use crate::sim::Faults;
use crate::suite::message::{Message, Operation, R_KEY, VA};
use anyhow::Context;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const TIMEOUT: &str = "v1c09-142#01";
const COUNT: &str = "v1c09-143#01";
const EXPONENT: u8 = 18;
const RETRIES: u8 = 2;

pub(super) fn as_described() -> Test {
    Test::transport(
        "C09_142_01",
        "C09-142",
        "a READ that nobody answers is sent again after T_tr, as often as the retry count says",
        described,
    )
    .covers(&["C9-139", "C9-142", "C9-143"])
    .asserts([TIMEOUT, COUNT])
    .takes(Duration::from_secs(11))
    .hurries(t_tr(EXPONENT))
    .mutant(too_early(TIMEOUT))
    .mutant(too_late(TIMEOUT))
    .mutant(never_again(TIMEOUT))
    .mutant(hidden_retry(COUNT, usize::from(RETRIES)))
    .mutant(other_status(COUNT))
    .mutant(gives_up_at_once())
}

fn described(run: &mut Run, rig: &mut dyn TransportRig) -> Outcome {
    if channel::device(rig)?.auto_path_mig {
        let why = "the device migrates paths by itself, which the test's description excludes";
        return Err(Stop::NotApplicable(why.to_owned()));
    }

    let (cc, exponent) = open(run, rig)?;
    let t = t_tr(exponent);
    run.note(format!("T_tr is {t:?}"));
    run.step(
        "5",
        format!("The device posts a READ of one path MTU: R_Key {R_KEY:#x}, VA {VA:#x}"),
    );

    let read = Message::post(&cc, rig, Operation::Read, 1, 1, cc.device_psn(0))?;
    let mut last = None;
    run.step("6", "While the retry count is not zero");

    for left in (0..RETRIES).rev() {
        last = Some(one_retry(run, rig, &cc, &read, last, exponent, left)?);
    }

    run.step("7", "End while");
    run.step(
        "8",
        format!("The READ was sent again {RETRIES} times, and is not any more"),
    );

    let more = rig.receive(4 * t + rig.silence())?;
    run.check(COUNT, more.is_none(), || {
        format!("a request was sent again after {RETRIES} retries")
    })?;

    completes_in_error(run, rig, &cc)?;
    run.step("13", "CloseRcChannel");
    cc.close(rig)?;
    Ok(())
}

/// Up to step 4: a channel with the timeout and the retry count, and the timeout that it tells.
fn open(run: &mut Run, rig: &mut dyn TransportRig) -> Outcome<(Channel, u8)> {
    run.step("init.1", "OpenRcChannel");
    run.step("init.2", format!("The retry count is {RETRIES}"));
    run.step("init.3", format!("The ACK timeout is {EXPONENT} (1.07 s)"));
    let cc = Channel::open(
        rig,
        ChannelOptions {
            timeout: EXPONENT,
            retry_cnt: RETRIES,
            ..ChannelOptions::default()
        },
    )?;

    run.step("1", "Register memory for the packets that will come");
    run.step(
        "2",
        "Post a receive request for each packet: the tester's queue takes them",
    );

    run.step("3", "The retry count is not zero: so it was set above");
    run.step("4", "Get T_tr from the device");
    let attributes = cc.query(rig)?;
    let exponent = attributes.timeout.context("no timeout in the attributes")?;
    run.check_eq(
        TIMEOUT,
        "the timeout that the device tells",
        exponent,
        EXPONENT,
    )?;

    run.check_eq(
        COUNT,
        "the retry count",
        attributes.retry_cnt,
        Some(RETRIES),
    )?;

    Ok((cc, exponent))
}

/// Step 6, once: the request, or its last retry, is dropped, and comes again in time. `left` is
/// what the retry count is afterwards.
fn one_retry(
    run: &mut Run,
    rig: &mut dyn TransportRig,
    cc: &Channel,
    read: &Message,
    last: Option<RxPacket>,
    exponent: u8,
    left: u8,
) -> Outcome<RxPacket> {
    let t = t_tr(exponent);
    run.step(
        "6.1",
        "Receive the request (from the second time on: the retry of 6.6)",
    );

    let packet = match last {
        None => cc.expect_any(run, rig, TIMEOUT, "a READ request")?,
        Some(packet) => packet,
    };

    run.step("6.2", "It came and is valid");
    cc.verify(run, TIMEOUT, &packet)?;
    run.step("6.3", "It is a single READ request");
    read.verify(run, cc, TIMEOUT, 0, &packet)?;
    run.step("6.4", "Drop it silently");
    run.step("6.5", format!("Sleep for T_tr, {t:?}: nothing comes"));

    // The tester may sleep for longer than it wants to.
    let found = rig.receive((packet.at + t).saturating_sub(rig.now()))?;
    let early = found.as_ref().is_some_and(|found| found.at < packet.at + t);
    run.check(TIMEOUT, !early, || format!("sent again before T_tr, {t:?}"))?;
    run.step(
        "6.6",
        "A retry comes, before 4 T_tr (the description looks when T_tr is over, and hopes; C9-142 gives the device four)",
    );

    let retry = match found {
        None => again(run, rig, cc, TIMEOUT, &packet, exponent)?,
        Some(retry) => {
            is_again(run, rig, cc, TIMEOUT, &packet, &retry, exponent)?;
            retry
        }
    };

    run.note(format!("the retry came after {:?}", retry.at - packet.at));
    run.step(
        "6.7",
        format!(
            "The retry count has gone down: {left} left. No verb shows the counter; while it is not spent the queue pair is in RTS and \
             the READ has not completed"
        ),
    );

    let state = cc.query(rig)?.qp_state;
    run.check_eq(COUNT, "the state", state, Some(qp_state::RTS))?;
    cc.verify_no_completion(run, rig, COUNT, Side::Send)?;
    Ok(retry)
}

/// Steps 9 to 12: the READ completes once, and its status says why.
fn completes_in_error(run: &mut Run, rig: &mut dyn TransportRig, cc: &Channel) -> Outcome {
    run.step(
        "9",
        "The device tells IBV_WC_RETRY_EXC_ERR (12), see step 12",
    );

    run.step("10", "Poll for the completion of the READ");
    let all = cc.poll_all(rig, Side::Send)?;
    run.step("11", "Exactly one completion is there");
    let done = cc.only(run, COUNT, &all)?;
    run.step("12", "Its status is that error");
    run.check_eq(COUNT, "the status", done.status, RETRY_EXCEEDED)?;
    run.check_eq(COUNT, "wr_id", done.wr_id, 1)
}

fn gives_up_at_once() -> Mutant {
    Mutant::transport(
        "gives-up-at-once",
        "says that the retries are spent when the request is posted, and goes on with them",
        COUNT,
        || {
            let said = Rc::new(Cell::new(false));
            let once = said.clone();
            Faults::default()
                .post(move |qp, request| {
                    said.set(true);
                    vec![Completion {
                        wr_id: request.wr_id,
                        status: RETRY_EXCEEDED,
                        qp,
                        ..Completion::default()
                    }]
                })
                .completion(move |_, completion| match once.get() {
                    true => Vec::new(),
                    false => vec![completion],
                })
        },
    )
}

/// A device that says the right retry count and sends once more all the same.
fn hidden_retry(assertion: &str, retries: usize) -> Mutant {
    Mutant::transport(
        "one-retry-more",
        "sends once more than the retry count allows",
        assertion,
        move || {
            let mut sent = 0;
            Faults::default().tx(move |packet| {
                sent += 1;
                let more = (sent == retries + 1).then(|| (2 * t_tr(18), packet.clone()));
                [Some((Duration::ZERO, packet)), more]
                    .into_iter()
                    .flatten()
                    .collect()
            })
        },
    )
}
