//! End-to-end credits (section 9.7.7.2): what a responder says that it can receive, and how far a
//! requester goes.

use super::bench::Bench;
use super::case::{Breaks, test, test_with};
use super::mutants::sends;
use super::words::status;
use crate::Test;
use crate::channel::{ChannelOptions, must, register};
use crate::protocol::{Command, Opcode, RecvQueue, Reply, Side, access};
use crate::run::{Outcome, Stop};
use crate::sim::Faults;
use ferroce_wire::{Aeth, CreditCode, Syndrome, opcode::*};

const SECTION: &str = "9.7.7.2";
/// Receive requests that are posted, and what the AETH must say: the largest count that it can and
/// that is not more.
const COUNTS: [(u32, u8); 8] = [
    (0, 0),
    (1, 1),
    (2, 2),
    (4, 4),
    (5, 4),
    (6, 5),
    (12, 7),
    (15, 7),
];

pub(super) fn tests() -> Vec<Test> {
    let mut tests = responder();
    tests.extend(requester());
    tests
}

/// What the AETH says, by what is posted.
fn responder() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, (count, code)) in (1..).zip(COUNTS) {
        let title = format!("with {count} receive requests the AETH says credit code {code}");
        tests.push(
            test(SECTION, n, title, move |b| says(b, count, code))
                .breaks("says-more", "The code is one more.", || {
                    sends(RC_ACKNOWLEDGE, |packet| {
                        if let Some(aeth) = &mut packet.ext.aeth {
                            aeth.syndrome += 1;
                        }
                    })
                })
                .breaks(
                    "keeps-no-credits",
                    "The code is that of responders without credits.",
                    keeps_none,
                ),
        );
    }

    tests.push(
        test(
            SECTION,
            9,
            "credits fall with each message received and rise with each receive request",
            fall_and_rise,
        )
        .breaks(
            "never-fall",
            "The first count is said again and again.",
            || {
                let mut first = None;
                Faults::default().tx_edit(move |packet| {
                    if let Some(aeth) = &mut packet.ext.aeth {
                        aeth.syndrome = *first.get_or_insert(aeth.syndrome);
                    }
                })
            },
        ),
    );

    let on_srq = Test::transport(
        "S09_7_7_2_10",
        SECTION,
        "with a shared receive queue there are no credits",
        shared,
    )
    .covers(&[SECTION])
    .asserts([format!("s{SECTION}#10")]);

    tests.push(on_srq.breaks(
        "counts-the-queue",
        "The requests of the shared queue are credits.",
        || {
            sends(RC_ACKNOWLEDGE, |packet| {
                if let Some(aeth) = &mut packet.ext.aeth {
                    aeth.syndrome = 3;
                }
            })
        },
    ));

    tests
}

/// What is sent with credits and without.
fn requester() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, opcode) in (11..).zip([Opcode::Send, Opcode::SendWithImm, Opcode::RdmaWriteWithImm]) {
        let title = format!("without credits a requester tries one {opcode:?} and waits");
        tests.push(
            test(SECTION, n, title, move |b| one_more(b, opcode))
                .breaks("ignores-credits", "Credits are not looked at.", || {
                    Faults::default().rx_edit(|packet| {
                        if let Some(aeth) = &mut packet.ext.aeth
                            && matches!(aeth.kind(), Syndrome::Ack(_))
                        {
                            *aeth = Aeth::new(Syndrome::Ack(CreditCode::UNLIMITED), aeth.msn);
                        }
                    })
                })
                .breaks("never-goes-on", "It never has credits again.", || {
                    Faults::default().rx_edit(|packet| {
                        if let Some(aeth) = &mut packet.ext.aeth {
                            aeth.syndrome = 0;
                        }
                    })
                })
                .breaks(
                    "asks-for-nothing",
                    "The request beyond the credits asks for no ACK.",
                    || Faults::default().tx_edit(|packet| packet.bth.ack_req = false),
                ),
        );
    }

    for (n, opcode) in (14..).zip([Opcode::RdmaWrite, Opcode::RdmaRead]) {
        let title = format!("{opcode:?} needs no credits");
        tests.push(
            test(SECTION, n, title, move |b| needs_none(b, opcode)).breaks(
                "waits",
                "It waits as a SEND does.",
                || {
                    let mut sent = 0;
                    Faults::default().tx_drop(move |_| {
                        sent += 1;
                        sent > 2
                    })
                },
            ),
        );
    }

    tests.push(
        test(
            SECTION,
            16,
            "an ACK of nothing new may bring credits",
            unsolicited,
        )
        .breaks(
            "drops-old-acks",
            "An ACK of nothing new is dropped.",
            || {
                let mut seen = std::collections::BTreeSet::new();
                Faults::default().rx_drop(move |packet| !seen.insert(packet.bth.psn))
            },
        ),
    );

    tests.push(
        test_with(
            SECTION,
            17,
            ChannelOptions {
                max_wr: 32,
                ..ChannelOptions::default()
            },
            "a responder without credits is not limited",
            unlimited,
        )
        .breaks(
            "takes-31-for-a-count",
            "The code for no credits is one for none.",
            || {
                Faults::default().rx_edit(|packet| {
                    if let Some(aeth) = &mut packet.ext.aeth {
                        aeth.syndrome = 0;
                    }
                })
            },
        ),
    );

    tests
}

fn keeps_none() -> Faults {
    sends(RC_ACKNOWLEDGE, |packet| {
        if let Some(aeth) = &mut packet.ext.aeth {
            aeth.syndrome = 31;
        }
    })
}

fn credits(count: u32) -> Syndrome {
    Syndrome::Ack(CreditCode::for_count(count))
}

/// A WRITE of nothing is acknowledged with these credits.
fn acknowledged_with(b: &mut Bench<'_>, msn: u32, code: u8) -> Outcome {
    let ext = b.reth(0, 0);
    let psn = b.send(RC_WRITE_ONLY, ext, &[])?;
    let ack = b.acked(psn, msn)?;
    let due = Syndrome::Ack(CreditCode::new(code));
    b.eq("the syndrome", ack.syndrome(), Some(due))
}

fn says(b: &mut Bench<'_>, count: u32, code: u8) -> Outcome {
    b.step(format!("{count} receive requests are posted"));
    for wr_id in 0..count {
        b.post_recv(wr_id.into(), 0, 8)?;
    }
    b.step("A WRITE is acknowledged with the credits");
    acknowledged_with(b, 1, code)
}

fn fall_and_rise(b: &mut Bench<'_>) -> Outcome {
    for wr_id in 1..=3 {
        b.post_recv(wr_id, 0, 8)?;
    }
    b.step("A WRITE is told 3, two SENDs 2 and 1");
    acknowledged_with(b, 1, 3)?;
    for (msn, code) in [(2, 2), (3, 1)] {
        let psn = b.send(RC_SEND_ONLY, ferroce_wire::Ext::default(), &[1; 4])?;
        let ack = b.acked(psn, msn)?;
        let due = Syndrome::Ack(CreditCode::new(code));
        b.eq("the syndrome", ack.syndrome(), Some(due))?;
    }
    b.step("With another receive request a WRITE is told 2");
    b.post_recv(4, 0, 8)?;
    acknowledged_with(b, 4, 2)
}

fn shared(run: &mut crate::Run, rig: &mut dyn crate::TransportRig) -> Outcome {
    let srq = match must(
        rig,
        Command::CreateSrq {
            max_wr: 8,
            max_sge: 1,
            apart: false,
            xrcd: None,
        },
    )? {
        Reply::Srq { srq, .. } => srq,
        other => return Err(Stop::Broken(anyhow::anyhow!("{other:?}"))),
    };

    let region = register(rig, 64, access::ALL)?;
    for wr_id in 0..3 {
        let (queue, sges) = (RecvQueue::Srq(srq), vec![region.sge()]);
        must(rig, Command::PostRecv { queue, wr_id, sges })?;
    }

    let options = ChannelOptions {
        srq: Some(srq),
        ..ChannelOptions::default()
    };
    let mut b = Bench::open(run, rig, options, format!("s{SECTION}#10"))?;
    b.step("A WRITE and a SEND are acknowledged without credits");
    acknowledged_with(&mut b, 1, 31)?;
    let psn = b.send(RC_SEND_ONLY, ferroce_wire::Ext::default(), &[1; 4])?;
    let ack = b.acked(psn, 2)?;
    b.eq(
        "the syndrome",
        ack.syndrome(),
        Some(Syndrome::Ack(CreditCode::UNLIMITED)),
    )
}

/// One SEND goes through, and the ACK leaves the device with so many credits.
fn begin(b: &mut Bench<'_>, count: u32) -> Outcome {
    b.step(format!("A SEND is acknowledged with {count} credits"));
    b.post(1, Opcode::Send, 8)?;
    let psn = b.cc.device_psn(0);
    b.packet(RC_SEND_ONLY, psn)?;
    b.cc.answer(b.rig, credits(count), psn, 1)?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    Ok(())
}

fn one_more(b: &mut Bench<'_>, opcode: Opcode) -> Outcome {
    begin(b, 0)?;
    b.step("Of three requests one is tried, and asks to be acknowledged");
    for wr_id in 2..=4 {
        b.post(wr_id, opcode, 8)?;
    }
    let packet = b.next("a request")?;
    let psn = b.cc.device_psn(1);
    b.eq(
        "PSN and AckReq",
        (packet.bth.psn, packet.bth.ack_req),
        (psn, true),
    )?;

    b.silence()?;
    b.step("It is acknowledged with two credits: the others come");
    b.cc.answer(b.rig, credits(2), psn, 2)?;
    for n in [2, 3] {
        let packet = b.next("a request")?;
        b.eq("the PSN", packet.bth.psn, b.cc.device_psn(n))?;
    }

    b.cc.answer(b.rig, credits(0), b.cc.device_psn(3), 4)?;
    b.all_completed(Side::Send, &[2, 3, 4].map(|wr_id| (wr_id, status::SUCCESS)))
}

fn needs_none(b: &mut Bench<'_>, opcode: Opcode) -> Outcome {
    begin(b, 0)?;
    b.step("Three requests come without waiting");
    for wr_id in 2..=4 {
        b.post(wr_id, opcode, 8)?;
    }
    for n in 1..=3 {
        let packet = b.next("a request")?;
        b.eq("the PSN", packet.bth.psn, b.cc.device_psn(n))?;
    }
    Ok(())
}

fn unsolicited(b: &mut Bench<'_>) -> Outcome {
    begin(b, 0)?;
    b.step("Of three SENDs one is tried");
    for wr_id in 2..=4 {
        b.post(wr_id, Opcode::Send, 8)?;
    }
    b.packet(RC_SEND_ONLY, b.cc.device_psn(1))?;
    b.silence()?;
    b.step("An ACK of the first SEND comes again, with three credits: the others come");
    b.cc.answer(b.rig, credits(3), b.cc.device_psn(0), 1)?;
    b.packet(RC_SEND_ONLY, b.cc.device_psn(2))?;
    b.packet(RC_SEND_ONLY, b.cc.device_psn(3))?;
    b.step("Nothing more has completed");
    b.not_completed(Side::Send)
}

fn unlimited(b: &mut Bench<'_>) -> Outcome {
    b.step("A SEND is acknowledged by a responder without credits");
    b.post(1, Opcode::Send, 8)?;
    b.packet(RC_SEND_ONLY, b.cc.device_psn(0))?;
    b.cc.ack(b.rig, b.cc.device_psn(0), 1)?;
    b.completed(Side::Send, 1, status::SUCCESS)?;
    // Few enough for any congestion window.
    b.step("8 SENDs come without waiting");
    for wr_id in 2..=9 {
        b.post(wr_id, Opcode::Send, 8)?;
    }
    for n in 1..=8 {
        b.packet(RC_SEND_ONLY, b.cc.device_psn(n))?;
    }
    Ok(())
}
