//! Section 10.3.1: in which states a queue pair takes what arrives. In RESET, INIT and ERROR it
//! does not; from RTR on it does.

use super::arrival::{Receiver, SERVICES, word};
use crate::catalog::{Mutant, Test};
use crate::channel::{self, ChannelOptions, must};
use crate::protocol::{Command, QpAttributes, Service, Side, qp_state};
use crate::rig::TransportRig;
use crate::run::Outcome;
use crate::sim::Faults;
use anyhow::Result;

const FAMILY: &str = "10.3.1";
/// `IBV_WC_WR_FLUSH_ERR`.
const FLUSHED: u32 = 5;

/// The tests.
pub fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for service in SERVICES {
        tests.push(nothing_in_reset(service));
        tests.push(nothing_in_init(service));
        tests.push(nothing_in_error(service));
        tests.push(receives_in_rtr(service));
        tests.push(sends_flushed_in_error(service));
    }
    tests
}

fn names(state: &str, service: Service) -> (String, String) {
    let service = word(service);
    let assertion = format!("s10.3.1:{state}-{service}").to_lowercase();
    (
        format!("S10_3_1_{state}_{service}"),
        assertion.replace('_', "-"),
    )
}

/// Moves the queue pair to a state that needs no attributes.
fn go(receiver: &Receiver, rig: &mut dyn TransportRig, state: u32) -> Result<()> {
    let attributes = QpAttributes {
        qp_state: Some(state),
        ..QpAttributes::default()
    };
    receiver.cc.modify(rig, attributes)
}

/// A device whose queue pairs stay in RTS whatever they are told.
fn stays_in_rts(assertion: &str) -> Mutant {
    Mutant::transport(
        "stays-in-rts",
        "a queue pair that is ready to send stays so, whatever state it is told to go to",
        assertion,
        || {
            let mut ready = false;
            Faults::default().command(move |command| match command {
                Command::ModifyQp { qp, attributes } => {
                    let ignored = ready;
                    ready |= attributes.qp_state == Some(qp_state::RTS);
                    match ignored {
                        true => Command::QueryQp { qp },
                        false => Command::ModifyQp { qp, attributes },
                    }
                }
                other => other,
            })
        },
    )
}

fn nothing_in_reset(service: Service) -> Test {
    let (id, assertion) = names("RESET", service);
    let a = assertion.clone();
    let title = format!("{}: in RESET nothing is taken", word(service));
    Test::transport(id, FAMILY, title, move |run, rig| {
        run.step("init", "Open a channel and post receive requests");
        let receiver = Receiver::open(rig, service)?;
        run.step("1", "The queue pair goes to RESET");
        go(&receiver, rig, qp_state::RESET)?;
        run.step("2", "The tester sends a SEND, and nothing comes of it");
        rig.transmit(&receiver.send(0, &channel::pattern(64)))?;
        receiver.verify_dropped(run, rig, &a, 0)?;
        receiver.cc.close(rig)?;
        Ok(())
    })
    .covers(&["10.3.1"])
    .asserts([&assertion])
    .mutant(stays_in_rts(&assertion))
}

fn nothing_in_init(service: Service) -> Test {
    let (id, assertion) = names("INIT", service);
    let a = assertion.clone();
    let title = format!(
        "{}: in INIT receive requests may be posted, and nothing is taken",
        word(service)
    );

    Test::transport(id, FAMILY, title, move |run, rig| {
        run.step("init", "Open a channel");
        let receiver = Receiver::empty(rig, service)?;
        run.step(
            "1",
            "The queue pair goes to RESET and INIT, and receive requests are posted",
        );

        go(&receiver, rig, qp_state::RESET)?;
        let init = receiver.cc.attributes_to(rig, qp_state::INIT);
        receiver.cc.modify(rig, init)?;
        receiver.post(rig)?;
        run.step("2", "The tester sends a SEND, and nothing comes of it");
        rig.transmit(&receiver.send(0, &channel::pattern(64)))?;
        receiver.verify_dropped(run, rig, &a, 0)?;
        run.step("3", "The queue pair goes to RTR: a SEND is delivered");
        let ready = receiver.cc.attributes_to(rig, qp_state::RTR);
        receiver.cc.modify(rig, ready)?;
        receiver.verify_message(run, rig, &a, 0, 0)?;
        receiver.cc.close(rig)?;
        Ok(())
    })
    .covers(&["10.3.1"])
    .asserts([&assertion])
    .mutant(stays_in_rts(&assertion))
}

fn nothing_in_error(service: Service) -> Test {
    let (id, assertion) = names("ERROR", service);
    let a = assertion.clone();
    let title = format!(
        "{}: in ERROR receive requests are flushed in order, and nothing is taken",
        word(service)
    );

    Test::transport(id, FAMILY, title, move |run, rig| {
        run.step("init", "Open a channel and post receive requests");
        let receiver = Receiver::open(rig, service)?;
        run.step(
            "1",
            "The queue pair goes to ERROR: the receive requests are flushed",
        );

        go(&receiver, rig, qp_state::ERR)?;
        let patience = rig.patience();
        let due: Vec<(u64, u32)> = (0..super::arrival::RECEIVES)
            .map(|n| (n.into(), FLUSHED))
            .collect();
        let done = receiver
            .cc
            .poll(rig, Side::Recv, due.len() as u32, patience)?;
        let seen: Vec<(u64, u32)> = done.iter().map(|c| (c.wr_id, c.status)).collect();
        run.check_eq(&a, "wr_id and status of what completed", seen, due)?;
        run.step("2", "The tester sends a SEND, and nothing comes of it");
        rig.transmit(&receiver.send(0, &channel::pattern(64)))?;
        receiver.verify_dropped(run, rig, &a, 0)?;
        run.step(
            "3",
            "A receive request that is posted now is flushed at once",
        );

        receiver.cc.post_recv(rig, 9, receiver.region.part(0, 64))?;
        let late = receiver.cc.poll_one(run, rig, &a, Side::Recv)?;
        run.check_eq(
            &a,
            "wr_id and status",
            (late.wr_id, late.status),
            (9, FLUSHED),
        )?;

        receiver.cc.close(rig)?;
        Ok(())
    })
    .covers(&["10.3.1"])
    .asserts([&assertion])
    .mutant(stays_in_rts(&assertion))
    .mutant(Mutant::transport(
        "forgets-the-flush",
        "receive requests vanish when the queue pair goes to ERROR",
        &assertion,
        || Faults::default().completion(|_, _| Vec::new()),
    ))
}

fn receives_in_rtr(service: Service) -> Test {
    let (id, assertion) = names("RTR", service);
    let a = assertion.clone();
    let title = format!("{}: in RTR messages are taken and answered", word(service));
    Test::transport(id, FAMILY, title, move |run, rig| -> Outcome {
        run.step(
            "init",
            "Open a channel that stops in RTR, and post receive requests",
        );

        let receiver = Receiver::with(
            rig,
            ChannelOptions {
                service,
                state: qp_state::RTR,
                ..ChannelOptions::default()
            },
        )?;

        receiver.post(rig)?;
        run.step("1", "Two SENDs are delivered");
        receiver.verify_message(run, rig, &a, 0, 0)?;
        receiver.verify_message(run, rig, &a, 1, 1)?;
        receiver.cc.close(rig)?;
        Ok(())
    })
    .covers(&["10.3.1"])
    .asserts([&assertion])
    .mutant(Mutant::transport(
        "only-in-rts",
        "packets are dropped until the queue pair is in RTR only",
        &assertion,
        || Faults::default().rx_drop(|_| true),
    ))
}

/// Send requests posted in ERROR complete as flushed, and nothing is sent.
fn sends_flushed_in_error(service: Service) -> Test {
    let (id, assertion) = names("ERROR_SENDS", service);
    let a = assertion.clone();
    let title = format!(
        "{}: in ERROR send requests are flushed, and nothing is sent",
        word(service)
    );

    Test::transport(id, FAMILY, title, move |run, rig| {
        run.step("init", "Open a channel");
        let receiver = Receiver::empty(rig, service)?;
        run.step("1", "The queue pair goes to ERROR");
        go(&receiver, rig, qp_state::ERR)?;
        run.step(
            "2",
            "The device posts two SENDs: both are flushed, in order",
        );

        for wr_id in [21, 22] {
            let request = super::unreliable::send_request(rig, &receiver, wr_id, 64)?;
            must(
                rig,
                Command::PostSend {
                    qp: receiver.cc.qp,
                    request,
                },
            )?;
        }

        let patience = rig.patience();
        let done = receiver.cc.poll(rig, Side::Send, 2, patience)?;
        let seen: Vec<(u64, u32)> = done.iter().map(|c| (c.wr_id, c.status)).collect();
        let due = vec![(21, FLUSHED), (22, FLUSHED)];
        run.check_eq(&a, "wr_id and status of what completed", seen, due)?;
        run.step("3", "Nothing is sent");
        receiver.cc.expect_none(run, rig, &a)?;
        receiver.cc.close(rig)?;
        Ok(())
    })
    .covers(&["10.3.1", "C10-96"])
    .asserts([&assertion])
    .mutant(stays_in_rts(&assertion))
}
