//! Answers with PSNs that nothing is outstanding of: never sent, long acknowledged, or at a time
//! when nobody waits for them.

use super::SECTION;
use crate::Test;
use crate::channel::ChannelOptions;
use crate::protocol::{Opcode, Side};
use crate::run::Outcome;
use crate::sim::Faults;
use crate::suite::rc::bench::Bench;
use crate::suite::rc::case::{Breaks, test, test_with};
use crate::suite::rc::mutants::is_refusal;
use crate::suite::rc::words::status;
use ferroce_wire::{NakCode, Syndrome, opcode::*};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// PSNs ahead of the last that was sent.
const AHEAD: [u32; 3] = [1, 1000, 1 << 22];

/// Of PSNs never sent, and of ones long acknowledged.
pub(super) fn other_psns() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, ahead) in (1..).zip(AHEAD) {
        tests.push(completing_all(test(
            SECTION,
            n,
            format!("an ACK of a PSN {ahead} beyond what was sent is dropped"),
            move |b| from_the_future(b, ahead),
        )));
    }

    tests.push(
        test(
            SECTION,
            4,
            "an ACK of what was acknowledged before is dropped",
            from_the_past,
        )
        .breaks(
            "takes-it-for-the-next",
            "It acknowledges the next request.",
            || {
                let mut seen = BTreeSet::new();
                Faults::default().rx_edit(move |packet| {
                    if !seen.insert(packet.bth.psn) {
                        packet.bth.psn = (packet.bth.psn + 1) & 0xff_ffff;
                    }
                })
            },
        ),
    );

    for (n, ahead) in [(5, true), (6, false)] {
        let where_ = if ahead {
            "never sent"
        } else {
            "long acknowledged"
        };

        tests.push(
            test(
                SECTION,
                n,
                format!("a NAK of a PSN {where_} is dropped"),
                move |b| nak_elsewhere(b, ahead),
            )
            .breaks(
                "takes-it",
                "It is taken for one of the oldest request.",
                move || {
                    let by = if ahead { -5 } else { 1 };
                    Faults::default().rx_edit(move |packet| {
                        if is_refusal(packet) {
                            packet.bth.psn = packet.bth.psn.wrapping_add_signed(by) & 0xff_ffff;
                        }
                    })
                },
            ),
        );
    }

    tests
}

/// ACKs at a time when nobody waits for them.
pub(super) fn late_and_early() -> Vec<Test> {
    vec![
        test_with(
            SECTION,
            18,
            ChannelOptions {
                timeout: 14,
                ..ChannelOptions::default()
            },
            "a late ACK of the first transmission acknowledges a request that was sent again, once",
            late_ack,
        )
        .breaks(
            "counts-it-for-the-next",
            "The second ACK is taken for the next request.",
            || {
                let mut acks = 0;
                Faults::default().rx_edit(move |packet| {
                    acks += u32::from(packet.bth.opcode == RC_ACKNOWLEDGE);
                    if acks == 2 {
                        packet.bth.psn = (packet.bth.psn + 1) & 0xff_ffff;
                    }
                })
            },
        ),
        test(
            SECTION,
            19,
            "an answer does not complete what is posted after it",
            acked_before_sent,
        )
        .breaks(
            "remembers-it",
            "An ACK that came too early is kept until the request is there.",
            || {
                Faults::default().rx(|packet| {
                    vec![
                        (Duration::ZERO, packet.clone()),
                        (Duration::from_millis(150), packet),
                    ]
                })
            },
        ),
    ]
}

/// With a device that takes every ACK for one of its last request.
fn completing_all(test: Test) -> Test {
    test.breaks(
        "takes-it",
        "It acknowledges everything that was sent.",
        || {
            let last = Rc::new(Cell::new(None));
            let seen = last.clone();
            Faults::default()
                .tx_edit(move |packet| seen.set(Some(packet.bth.psn)))
                .rx_edit(move |packet| {
                    if let Some(psn) = last.get() {
                        packet.bth.psn = psn;
                    }
                })
        },
    )
}

/// An ACK of the last of them completes those that are left.
fn complete(b: &mut Bench<'_>, from: u64, count: u32) -> Outcome {
    b.step("The right ACK completes what is left");
    b.cc.ack(b.rig, b.cc.device_psn(count - 1), count)?;
    let due: Vec<_> = (from..=u64::from(count))
        .map(|wr_id| (wr_id, status::SUCCESS))
        .collect();
    b.all_completed(Side::Send, &due)
}

fn from_the_future(b: &mut Bench<'_>, ahead: u32) -> Outcome {
    b.device_sends(2)?;
    b.step("An ACK of a PSN that was never sent completes nothing");
    b.cc.ack(b.rig, b.cc.device_psn(1 + ahead), 2)?;
    b.not_completed(Side::Send)?;
    complete(b, 1, 2)
}

fn from_the_past(b: &mut Bench<'_>) -> Outcome {
    b.device_sends(3)?;
    b.step("The first is acknowledged twice, and something before it: only the first completes");
    for psn in [0, 0, u32::MAX, u32::MAX - 1000] {
        b.cc.ack(b.rig, b.cc.device_psn(psn), 1)?;
    }
    b.completed(Side::Send, 1, status::SUCCESS)?;
    b.not_completed(Side::Send)?;
    complete(b, 2, 3)
}

fn nak_elsewhere(b: &mut Bench<'_>, ahead: bool) -> Outcome {
    b.device_sends(2)?;
    b.cc.ack(b.rig, b.cc.device_psn(0), 1)?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    b.step("NAKs of every kind for another PSN change nothing");
    let psn = b.cc.device_psn(if ahead { 6 } else { 0 });
    for code in [
        NakCode::PsnSequenceError,
        NakCode::InvalidRequest,
        NakCode::RemoteAccessError,
        NakCode::RemoteOperationalError,
    ] {
        b.cc.nak(b.rig, code, psn, 1)?;
    }

    b.cc.answer(b.rig, Syndrome::RnrNak { timer: 1 }, psn, 1)?;
    b.silence()?;
    b.not_completed(Side::Send)?;
    complete(b, 2, 2)
}

fn late_ack(b: &mut Bench<'_>) -> Outcome {
    b.device_sends(1)?;
    b.step("Without an answer it comes again");
    b.packet(RC_SEND_ONLY, b.cc.device_psn(0))?;
    b.step("Both transmissions are acknowledged: it completes once");
    b.cc.ack(b.rig, b.cc.device_psn(0), 1)?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    b.post(2, Opcode::Send, 8)?;
    b.packet(RC_SEND_ONLY, b.cc.device_psn(1))?;
    b.cc.ack(b.rig, b.cc.device_psn(0), 1)?;
    b.step("The one behind it does not");
    let none = b.cc.poll(b.rig, Side::Send, 1, Duration::from_millis(20))?;
    b.eq("completions", none.len(), 0)?;
    b.cc.ack(b.rig, b.cc.device_psn(1), 2)?;
    b.completed(Side::Send, 2, status::SUCCESS)?;
    Ok(())
}

fn acked_before_sent(b: &mut Bench<'_>) -> Outcome {
    b.step("An ACK comes before anything was sent");
    b.cc.ack(b.rig, b.cc.device_psn(0), 1)?;
    b.silence()?;
    b.step("A SEND does not complete by it");
    b.post(1, Opcode::Send, 8)?;
    b.packet(RC_SEND_ONLY, b.cc.device_psn(0))?;
    b.not_completed(Side::Send)?;
    complete(b, 1, 1)
}
