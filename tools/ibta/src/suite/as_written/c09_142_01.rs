//! C09_142_01 as written: a READ request is dropped; about T_tr later the tester looks whether it
//! was sent again, as often as the retry count says; then the request fails with
//! `IBV_WC_RETRY_EXC_ERR`.
//!
//! The document has no lower bound for a retry but the number of them at each look, and no upper
//! one but the tester's patience: C9-142 has both, and they are the other catalogue's.

use crate::TransportRig;
use crate::catalog::{Mutant, Test};
use crate::channel::{self, Channel, ChannelOptions};
use crate::packet::RxPacket;
use crate::protocol::{Command, Side};
use crate::run::{Outcome, Run, Stop};
use crate::sim::Faults;
use crate::suite::message::{Message, Operation, R_KEY, VA};
use crate::suite::timeout::{RETRY_EXCEEDED, never_again, other_status, t_tr};
use anyhow::Context;
use std::time::Duration;

const TIMEOUT: &str = "v1c09-142#01";
const COUNT: &str = "v1c09-143#01";
/// T_tr is 1.073741824 s, in the document 1.07.
const EXPONENT: u8 = 18;
const RETRIES: usize = 2;
/// How much longer than T_tr the tester may have slept, that it is still "about" that.
const ABOUT: Duration = Duration::from_millis(100);

pub(super) fn test() -> Test {
    Test::transport(
        "C09_142_01",
        "C09-142",
        "as written: a dropped READ is sent again each time that the tester looks, about T_tr later",
        body,
    )
    .covers(&["C9-142", "C9-143"])
    .asserts([TIMEOUT, COUNT])
    .takes(Duration::from_secs(4))
    .hurries(t_tr(EXPONENT))
    .mutant(never_again(TIMEOUT))
    .mutant(clock(
        "after-the-tester-has-gone",
        "sends again after more than T_tr and the time that the tester waits for a packet",
        TIMEOUT,
        0.24,
    ))
    .mutant(clock(
        "two-retries-in-one-sleep",
        "T_tr is a third of what it says",
        COUNT,
        3.0,
    ))
    .mutant(Mutant::transport(
        "asks-for-something-else",
        "what is sent again is a READ of another address",
        TIMEOUT,
        || {
            let mut sent = 0;
            Faults::default().tx_edit(move |packet| {
                if let (Some(reth), true) = (&mut packet.ext.reth, sent > 0) {
                    reth.va += 4;
                }
                sent += 1;
            })
        },
    ))
    .mutant(Mutant::transport(
        "one-retry-more",
        "sends once more than the retry count allows",
        COUNT,
        || {
            Faults::default().command(|mut command| {
                if let Command::ModifyQp { attributes, .. } = &mut command {
                    attributes.retry_cnt = attributes.retry_cnt.map(|count| count + 1);
                }
                command
            })
        },
    ))
    .mutant(Mutant::transport(
        "a-retry-behind-the-last",
        "sends once more before it gives up, when the count is spent",
        COUNT,
        || {
            let mut sent = 0;
            Faults::default().tx(move |packet| {
                sent += 1;
                let more = (sent == RETRIES + 1).then(|| (t_tr(EXPONENT) / 2, packet.clone()));
                let now = (Duration::ZERO, packet);
                [Some(now), more].into_iter().flatten().collect()
            })
        },
    ))
    .mutant(other_status(COUNT))
    .mutant(Mutant::transport(
        "completes-twice",
        "the request that was given up completes twice",
        COUNT,
        || Faults::default().completion(|_, done| vec![done; 2]),
    ))
}

fn clock(name: &'static str, what: &'static str, assertion: &str, speed: f64) -> Mutant {
    Mutant::transport(name, what, assertion, move || {
        Faults::default().clock(speed)
    })
}

fn body(run: &mut Run, rig: &mut dyn TransportRig) -> Outcome {
    if channel::device(rig)?.auto_path_mig {
        let why = "the device migrates paths by itself, which the document excludes";
        return Err(Stop::NotApplicable(why.to_owned()));
    }

    let cc = initialize(run, rig)?;
    run.step("1", "Register memory: the tester keeps what comes");
    run.step(
        "2",
        "Post a receive request for the packet: the tester's queue takes it",
    );

    run.step(
        "3",
        format!("Set the retry count to a non-zero value: it is {RETRIES}, of init.2"),
    );

    run.step("4", "Get T_tr from the device");
    let exponent = cc.query(rig)?.timeout;
    let exponent = exponent.context("no timeout in the attributes")?;
    run.check_eq(TIMEOUT, "the timeout", exponent, EXPONENT)?;
    let t = t_tr(exponent);
    run.step(
        "5",
        format!("The device posts a READ of one path MTU: R_Key {R_KEY:#x}, VA {VA:#x}"),
    );

    let read = Message::post(&cc, rig, Operation::Read, 1, 1, cc.device_psn(0))?;
    run.step("6", "While the retry count is not zero");
    let retried = dropped_until_spent(run, rig, &cc, &read, t)?;
    run.step("7", "End while");
    run.step(
        "8",
        format!("The device sent the READ again {RETRIES} times; whether that is all is looked at again when step 10 is over"),
    );

    run.check_eq(COUNT, "the number of retries", retried, RETRIES)?;
    run.step(
        "9",
        "The device throws IBV_WC_RETRY_EXC_ERR (12): see step 12",
    );

    let patience = rig.patience();
    run.step(
        "10",
        format!("Poll for the completion of the READ, for {patience:?} at most"),
    );

    let all = cc.poll_all(rig, Side::Send)?;
    let retried = retried + waiting(rig)?.len();
    run.check_eq(COUNT, "the number of retries", retried, RETRIES)?;
    run.step("11", "Exactly one completion was dequeued");
    let done = cc.only(run, COUNT, &all)?;
    run.step("12", "Its status is that error");
    run.check_eq(COUNT, "the status", done.status, RETRY_EXCEEDED)?;
    run.step("13", "CloseRcChannel");
    cc.close(rig)?;
    Ok(())
}

fn initialize(run: &mut Run, rig: &mut dyn TransportRig) -> Outcome<Channel> {
    run.step("init.1", "OpenRcChannel");
    run.step("init.2", format!("Set the retry count to {RETRIES}"));
    run.step(
        "init.3",
        format!("Set the ACK timeout to {EXPONENT} (1.07 s)"),
    );
    let options = ChannelOptions {
        timeout: EXPONENT,
        retry_cnt: RETRIES as u8,
        ..ChannelOptions::default()
    };
    Ok(Channel::open(rig, options)?)
}

/// All packets that are there.
fn waiting(rig: &mut dyn TransportRig) -> Outcome<Vec<RxPacket>> {
    let mut packets = Vec::new();
    while let Some(packet) = rig.receive(Duration::ZERO)? {
        packets.push(packet);
    }
    Ok(packets)
}

/// Step 6; how often the READ was sent again.
fn dropped_until_spent(
    run: &mut Run,
    rig: &mut dyn TransportRig,
    cc: &Channel,
    read: &Message,
    t: Duration,
) -> Outcome<usize> {
    let (mut left, mut retried) = (RETRIES, 0);
    let mut found: Vec<RxPacket> = Vec::new();
    while left > 0 {
        run.step(
            "6.1",
            "Receive all expected packets: one (from the second time on that which step 6.6 found)",
        );

        if found.is_empty() {
            found.push(cc.expect_any(run, rig, TIMEOUT, "a READ request")?);
        }

        run.step("6.2", "It came and is valid");
        let packet = found.remove(0);
        cc.verify(run, TIMEOUT, &packet)?;
        run.step("6.3", "It is a single READ request");
        read.verify(run, cc, TIMEOUT, 0, &packet)?;
        run.step("6.4", "Drop it silently");
        about(run, rig, t)?;
        let patience = rig.patience();
        run.step(
            "6.6",
            format!(
                "Check the receive queue for a retry, a READ request. The document hopes for one; read as must, and the tester waits for it as for any \
                 packet, {patience:?} at most"
            ),
        );

        found.push(cc.expect_any(run, rig, TIMEOUT, "a retry of the READ")?);
        found.extend(waiting(rig)?);
        read.verify(run, cc, TIMEOUT, 0, &found[0])?;
        run.note(format!(
            "the retry came {:?} after what was dropped",
            found[0].at.saturating_sub(packet.at)
        ));

        left -= 1;
        run.step(
            "6.7",
            format!(
                "The retry count has gone down by one, {left} left: no verb tells it, so it is counted by the retries that came at this look"
            ),
        );

        run.check_eq(COUNT, "retries at this look", found.len(), 1)?;
        retried += found.len();
    }

    Ok(retried)
}

/// Step 6.5. A tester that slept for longer has not done what the document says, and knows nothing
/// of the device.
fn about(run: &mut Run, rig: &mut dyn TransportRig, t: Duration) -> Outcome {
    run.step(
        "6.5",
        format!("Sleep for about T_tr: for {t:?}, at most {ABOUT:?} longer"),
    );
    let begun = rig.now();
    rig.sleep(t)?;
    let slept = rig.now() - begun;
    match slept <= t + ABOUT {
        true => Ok(()),
        false => {
            let seen = format!("the tester slept for {slept:?}, which is not about {t:?}");
            Err(run.inconclusive(TIMEOUT.to_owned(), seen))
        }
    }
}
