//! Answers that a requester must not take (section 9.7.6): to PSNs never sent, to ones long
//! answered, of the wrong kind, or that say nothing known.

use super::bench::Bench;
use super::case::{Breaks, test, test_with};
use super::mutants::{operation, takes_for_data};
use super::words::status;
use crate::Test;
use crate::channel::{ACK, ChannelOptions};
use crate::protocol::{Opcode, Side};
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::{Aeth, NakCode, Operation, Syndrome, opcode::*};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const SECTION: &str = "9.7.6";
/// PSNs ahead of the last that was sent.
const AHEAD: [u32; 3] = [1, 1000, 1 << 22];
/// Syndromes that are reserved.
const RESERVED: [u8; 5] = [0x40, 0x5f, 0x65, 0x80, 0xff];

pub(super) fn tests() -> Vec<Test> {
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
                let mut seen = std::collections::BTreeSet::new();
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
                        if super::mutants::is_refusal(packet) {
                            packet.bth.psn = packet.bth.psn.wrapping_add_signed(by) & 0xff_ffff;
                        }
                    })
                },
            ),
        );
    }
    for (n, opcode) in (7..).zip([Opcode::Send, Opcode::RdmaWrite, Opcode::RdmaRead]) {
        tests.push(
            test(
                SECTION,
                n,
                format!("{opcode:?} is not completed by the answer to an atomic"),
                move |b| answer_of_another_kind(b, opcode),
            )
            .breaks(
                "takes-it",
                "Any answer with the PSN completes the request.",
                move || takes_for(opcode),
            ),
        );
    }
    for (n, opcode) in [(10, Opcode::RdmaRead), (63, Opcode::FetchAdd)] {
        let title = format!("{opcode:?} is not completed by an ACK");
        tests.push(
            test(SECTION, n, title, move |b| ack_for_an_answer(b, opcode))
                .covers(&["C9-60"])
                .breaks("takes-it", "An ACK completes the request.", move || {
                    Faults::default().rx_edit(move |packet| {
                        if packet.bth.opcode == RC_ACKNOWLEDGE {
                            takes_for_data(packet, opcode);
                        }
                    })
                }),
        );
    }
    tests.push(
        test(
            SECTION,
            11,
            "a READ response that comes again is dropped",
            response_again,
        )
        .breaks(
            "places-it-again",
            "It is placed where the next READ goes.",
            || {
                Faults::default().rx_edit({
                    let mut seen = std::collections::BTreeSet::new();
                    move |packet| {
                        if operation(packet) == Some(Operation::ReadResponse)
                            && !seen.insert(packet.bth.psn)
                        {
                            packet.bth.psn = (packet.bth.psn + 1) & 0xff_ffff;
                        }
                    }
                })
            },
        ),
    );
    for (n, syndrome) in (12..).zip(RESERVED) {
        tests.push(
            test(
                SECTION,
                n,
                format!("an AETH with the reserved syndrome {syndrome:#04x} completes nothing"),
                move |b| unknown(b, syndrome),
            )
            .breaks(
                "takes-it-for-ack",
                "Its upper bits are not looked at.",
                || {
                    Faults::default().rx_edit(|packet| {
                        if let Some(aeth) = &mut packet.ext.aeth
                            && matches!(aeth.kind(), Syndrome::Reserved(_))
                        {
                            *aeth = Aeth::new(ACK, aeth.msn);
                        }
                    })
                },
            ),
        );
    }
    let invalid_rd = Syndrome::Nak(NakCode::InvalidRdRequest).to_byte();
    tests.push(
        test(
            SECTION,
            17,
            "a NAK that is for reliable datagrams only completes nothing well",
            move |b| unknown(b, invalid_rd),
        )
        .breaks("takes-it-for-ack", "It completes the request.", || {
            Faults::default().rx_edit(|packet| {
                if let Some(aeth) = &mut packet.ext.aeth
                    && matches!(aeth.kind(), Syndrome::Nak(NakCode::InvalidRdRequest))
                {
                    *aeth = Aeth::new(ACK, aeth.msn);
                }
            })
        }),
    );
    tests.push(
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
    );
    tests.push(
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
    );
    tests
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

/// A device that takes any answer for the one that is due.
fn takes_for(opcode: Opcode) -> Faults {
    Faults::default().rx_edit(move |packet| {
        if packet.bth.opcode != RC_ATOMIC_ACKNOWLEDGE {
            return;
        }
        if opcode == Opcode::RdmaRead {
            takes_for_data(packet, opcode);
        } else {
            packet.bth.opcode = RC_ACKNOWLEDGE;
        }
    })
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

fn answer_of_another_kind(b: &mut Bench<'_>, opcode: Opcode) -> Outcome {
    b.step("The device sends a request, which is answered as an atomic would be");
    b.write(0, &[0x5a; 8])?;
    b.post(1, opcode, 8)?;
    b.next("a request")?;
    b.cc.atomic_ack(b.rig, b.cc.device_psn(0), 1, 0)?;
    b.step("It does not complete well, and its memory is as it was");
    not_well(b)?;
    b.holds(0, &[0x5a; 8])
}

/// No completion with success comes. Whether a device drops what it does not understand or fails is
/// not looked at.
fn not_well(b: &mut Bench<'_>) -> Outcome {
    let silence = b.rig.silence();
    let all = b.cc.poll(b.rig, Side::Send, 1, silence)?;
    b.check(
        all.iter().all(|done| done.status != status::SUCCESS),
        || format!("a request has completed with success: {all:?}"),
    )
}

fn ack_for_an_answer(b: &mut Bench<'_>, opcode: Opcode) -> Outcome {
    if opcode == Opcode::FetchAdd {
        b.needs_atomics()?;
    }
    b.step("The device sends a request that is answered with data; an ACK comes");
    b.write(0, &[0x5a; 8])?;
    b.post(1, opcode, 8)?;
    b.next("a request")?;
    b.cc.ack(b.rig, b.cc.device_psn(0), 1)?;
    b.step("It does not complete, and its memory is as it was");
    not_well(b)?;
    b.holds(0, &[0x5a; 8])
}

fn response_again(b: &mut Bench<'_>) -> Outcome {
    b.step("The device sends two READs; the first is answered twice");
    b.write(0, &[0x5a; 8])?;
    for wr_id in 1..=2 {
        b.post(wr_id, Opcode::RdmaRead, 8)?;
        b.packet(RC_READ_REQUEST, b.cc.device_psn(wr_id as u32 - 1))?;
    }
    b.cc.read_responses(b.rig, b.cc.device_psn(0), 1, &[1; 8])?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    b.holds(0, &[1; 8])?;
    b.cc.read_responses(b.rig, b.cc.device_psn(0), 1, &[2; 8])?;
    b.step("The second answer changes nothing");
    b.not_completed(Side::Send)?;
    b.holds(0, &[1; 8])?;
    b.step("The second READ is answered");
    b.cc.read_responses(b.rig, b.cc.device_psn(1), 2, &[3; 8])?;
    b.completed(Side::Send, 2, status::SUCCESS)?;
    b.holds(0, &[3; 8])
}

fn unknown(b: &mut Bench<'_>, syndrome: u8) -> Outcome {
    b.device_sends(1)?;
    b.step("It is answered with a syndrome that says nothing");
    b.cc.answer(b.rig, Syndrome::from_byte(syndrome), b.cc.device_psn(0), 1)?;
    not_well(b)
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
