//! Receiver not ready, at a requester (section 9.7.5.2.8, C9-130): how long it waits, how often it
//! tries, and what it sends again.

use super::bench::Bench;
use super::case::{Breaks, named, test_with};
use super::mutants::syndrome;
use super::words::{PMTU, status};
use crate::Test;
use crate::channel::ChannelOptions;
use crate::protocol::{Command, Opcode, Side};
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::{Aeth, NakCode, Syndrome, opcode::*, rnr_timer_nanos};
use std::time::Duration;

const SECTION: &str = "9.7.5.2.8";
/// Codes that the tester says, shortest first; the longest is tested as the specification's own
/// test does it.
const WAITS: [u8; 4] = [1, 14, 22, 0];

fn options(rnr_retry: u8) -> ChannelOptions {
    ChannelOptions {
        rnr_retry,
        ..ChannelOptions::default()
    }
}

pub(super) fn tests() -> Vec<Test> {
    let mut tests = timers();
    tests.extend(retry_counts());
    tests.push(resumption());
    tests
}

/// How long it waits.
fn timers() -> Vec<Test> {
    let mut tests = vec![waits(
        named(
            "C09_130_01",
            "C09-130",
            "v1c09-130#01",
            options(1),
            "a requester waits as long as the RNR NAK says: 491.52 ms",
            |b| waits_at_least(b, 31),
        )
        .takes(Duration::from_millis(900)),
    )];

    for (n, timer) in (15..).zip(WAITS) {
        let time = Duration::from_nanos(rnr_timer_nanos(timer));
        let title = format!("a requester waits as long as the RNR NAK says: {time:?}");
        tests.push(waits(
            test_with(SECTION, n, options(1), title, move |b| {
                waits_at_least(b, timer)
            })
            .takes(time + Duration::from_millis(200)),
        ));
    }

    tests
}

/// How often it tries.
fn retry_counts() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, retries) in (20..).zip([0, 1, 3, 6]) {
        let title = format!("after {retries} RNR retries the request fails");
        tests.push(
            test_with(SECTION, n, options(retries), title, move |b| {
                gives_up(b, retries)
            })
            .covers(&["C9-132"])
            .breaks("one-more", "It is tried once more than that.", || {
                Faults::default().command(|command| rnr_retry(command, |count| count + 1))
            })
            .breaks(
                "says-retry-exceeded",
                "The status is that of lost answers.",
                || super::mutants::completes_with(Side::Send, status::RETRY_EXC_ERR),
            ),
        );
    }

    tests.push(
        test_with(
            SECTION,
            24,
            options(7),
            "an RNR retry count of 7 is for ever",
            goes_on_for_ever,
        )
        .covers(&["C9-132"])
        .breaks("counts-7", "7 is a number as any other.", || {
            let mut sent = 0;
            Faults::default().tx_drop(move |packet| {
                sent += u32::from(packet.bth.opcode == RC_SEND_ONLY);
                packet.bth.opcode == RC_SEND_ONLY && sent > 8
            })
        }),
    );

    tests.push(
        test_with(
            SECTION,
            25,
            ChannelOptions {
                retry_cnt: 1,
                rnr_retry: 7,
                timeout: 14,
                ..ChannelOptions::default()
            },
            "RNR NAKs do not count as retries",
            not_retries,
        )
        .breaks(
            "counts-them-all",
            "Both are counted by one counter.",
            || Faults::default().command(|command| rnr_retry(command, |_| 1)),
        ),
    );

    tests.push(
        test_with(
            SECTION,
            26,
            options(2),
            "progress gives all RNR retries back",
            given_back,
        )
        .breaks("never-gives-back", "The counter only falls.", || {
            let mut refusals = 0;
            Faults::default().rx_edit(move |packet| {
                refusals += u32::from(matches!(syndrome(packet), Some(Syndrome::RnrNak { .. })));
                if refusals == 4 {
                    packet.ext.aeth =
                        Some(Aeth::new(Syndrome::Nak(NakCode::RemoteOperationalError), 1));
                }
            })
        }),
    );

    tests
}

/// What it sends again.
fn resumption() -> Test {
    test_with(
        SECTION,
        27,
        options(7),
        "an RNR NAK completes what came before it, and the rest is sent again in order",
        resumes_at,
    )
    .breaks(
        "begins-over",
        "Everything unacknowledged is sent again, what was acknowledged too.",
        || {
            Faults::default().rx_edit(|packet| {
                if matches!(syndrome(packet), Some(Syndrome::RnrNak { .. })) {
                    packet.bth.psn = packet.bth.psn.wrapping_sub(1) & 0xff_ffff;
                }
            })
        },
    )
}

/// Changes the RNR retry count that a program asks for.
fn rnr_retry(mut command: Command, change: impl Fn(u8) -> u8) -> Command {
    if let Command::ModifyQp { attributes, .. } = &mut command {
        attributes.rnr_retry = attributes.rnr_retry.map(change);
    }
    command
}

/// With the mutants of whoever does not wait as it should.
fn waits(test: Test) -> Test {
    test.covers(&["C9-130"])
        .breaks(
            "does-not-wait",
            "The request is sent again at once.",
            || {
                Faults::default().rx_edit(|packet| {
                    if let Some(Syndrome::RnrNak { .. }) = syndrome(packet)
                        && let Some(aeth) = &mut packet.ext.aeth
                    {
                        *aeth = Aeth::new(Syndrome::Nak(NakCode::PsnSequenceError), aeth.msn);
                    }
                })
            },
        )
        .breaks(
            "waits-half-as-long",
            "Its clock runs at twice the speed.",
            || Faults::default().clock(2.0),
        )
        .breaks("waits-for-ever", "The request is not sent again.", || {
            let mut sent = 0;
            Faults::default().tx_drop(move |packet| {
                sent += u32::from(packet.bth.opcode == RC_SEND_ONLY);
                packet.bth.opcode == RC_SEND_ONLY && sent > 1
            })
        })
}

/// The tester refuses a request with RNR.
fn refuse(b: &mut Bench<'_>, psn: u32, timer: u8, msn: u32) -> Outcome {
    Ok(b.cc.answer(b.rig, Syndrome::RnrNak { timer }, psn, msn)?)
}

fn waits_at_least(b: &mut Bench<'_>, timer: u8) -> Outcome {
    b.step("The device sends a SEND of one packet");
    b.post(1, Opcode::Send, PMTU)?;
    let psn = b.cc.device_psn(0);
    b.packet(RC_SEND_ONLY, psn)?;
    b.step("The tester is not ready, and says for how long");
    let from = b.rig.now();
    refuse(b, psn, timer, 0)?;
    let none = b.cc.poll(b.rig, Side::Send, 1, Duration::ZERO)?;
    b.eq("completions", none.len(), 0)?;
    b.step("The request comes again, and not before");
    let again = b.packet(RC_SEND_ONLY, psn)?;
    let (waited, due) = (
        again.at.saturating_sub(from),
        Duration::from_nanos(rnr_timer_nanos(timer)),
    );
    b.check(waited >= due, || {
        format!("it came after {waited:?}, at least {due:?} are due")
    })?;
    b.step("Refused once more it fails with RNR retry exceeded");
    refuse(b, psn, timer, 0)?;
    b.completed(Side::Send, 1, status::RNR_RETRY_EXC_ERR)?;
    Ok(())
}

fn gives_up(b: &mut Bench<'_>, retries: u8) -> Outcome {
    b.step("The device sends a SEND, and is refused each time it does");
    b.post(1, Opcode::Send, 8)?;
    let psn = b.cc.device_psn(0);
    for _ in 0..=retries {
        b.packet(RC_SEND_ONLY, psn)?;
        refuse(b, psn, 1, 0)?;
    }
    b.step("It fails with RNR retry exceeded, and is not sent again");
    b.completed(Side::Send, 1, status::RNR_RETRY_EXC_ERR)?;
    b.silence()
}

fn goes_on_for_ever(b: &mut Bench<'_>) -> Outcome {
    b.step("The device sends a SEND, and is refused 20 times");
    b.post(1, Opcode::Send, 8)?;
    let psn = b.cc.device_psn(0);
    for _ in 0..20 {
        b.packet(RC_SEND_ONLY, psn)?;
        refuse(b, psn, 1, 0)?;
    }
    b.step("It is sent again, acknowledged and completes");
    b.packet(RC_SEND_ONLY, psn)?;
    b.cc.ack(b.rig, psn, 1)?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    Ok(())
}

fn not_retries(b: &mut Bench<'_>) -> Outcome {
    b.step("With a retry count of 1 the device is refused with RNR 4 times, and goes on");
    b.post(1, Opcode::Send, 8)?;
    let psn = b.cc.device_psn(0);
    for _ in 0..4 {
        b.packet(RC_SEND_ONLY, psn)?;
        refuse(b, psn, 1, 0)?;
    }
    b.packet(RC_SEND_ONLY, psn)?;
    b.step("The retry is still to be had: without an answer it comes once more");
    b.packet(RC_SEND_ONLY, psn)?;
    b.cc.ack(b.rig, psn, 1)?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    Ok(())
}

fn given_back(b: &mut Bench<'_>) -> Outcome {
    for n in 0..3 {
        b.step("A SEND is refused twice, which is all that there is, and acknowledged then");
        b.post(u64::from(n) + 1, Opcode::Send, 8)?;
        let psn = b.cc.device_psn(n);
        for _ in 0..2 {
            b.packet(RC_SEND_ONLY, psn)?;
            refuse(b, psn, 1, n)?;
        }
        b.packet(RC_SEND_ONLY, psn)?;
        b.cc.ack(b.rig, psn, n + 1)?;
        b.completed(Side::Send, u64::from(n) + 1, status::SUCCESS)?;
    }
    Ok(())
}

fn resumes_at(b: &mut Bench<'_>) -> Outcome {
    b.step("Three SENDs, the second of which is refused with RNR");
    for wr_id in 1..=3 {
        b.post(wr_id, Opcode::Send, 8)?;
    }
    let psn = [0, 1, 2].map(|n| b.cc.device_psn(n));
    for psn in psn {
        b.packet(RC_SEND_ONLY, psn)?;
    }
    refuse(b, psn[1], 1, 1)?;
    b.step("The first completes; the second and the third come again");
    b.completed(Side::Send, 1, status::SUCCESS)?;
    b.packet(RC_SEND_ONLY, psn[1])?;
    b.packet(RC_SEND_ONLY, psn[2])?;
    b.cc.ack(b.rig, psn[2], 3)?;
    b.all_completed(Side::Send, &[(2, status::SUCCESS), (3, status::SUCCESS)])
}
