//! Receiver not ready (section 9.7.5.2.8, C9-130): what a responder says that has no receive request, and how long and how often a
//! requester waits.

use super::bench::{Bench, Breaks, PMTU, imm, name, named, status, test_with};
use super::mutants::{acknowledges_all, is_refusal, refuses_silently, refuses_twice, syndrome};
use crate::Test;
use crate::channel::ChannelOptions;
use crate::protocol::{Command, Opcode, Side};
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::{Aeth, Ext, NakCode, Syndrome, opcode::*, rnr_timer_nanos};
use std::time::Duration;

const SECTION: &str = "9.7.5.2.8";
/// Requests that take a receive request.
const TAKING: [u8; 5] = [
    RC_SEND_FIRST,
    RC_SEND_ONLY,
    RC_SEND_ONLY_IMM,
    RC_WRITE_ONLY_IMM,
    RC_SEND_ONLY_INV,
];
/// Timer codes that a program may ask for.
const TIMERS: [u8; 5] = [0, 1, 12, 25, 31];
/// Codes that the tester says, shortest first; the longest is tested as the specification's own test does it.
const WAITS: [u8; 4] = [1, 14, 22, 0];

fn options(rnr_retry: u8) -> ChannelOptions {
    ChannelOptions {
        rnr_retry,
        ..ChannelOptions::default()
    }
}

pub fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (n, opcode) in (1..).zip(TAKING) {
        let title = format!(
            "{} without a receive request is refused with RNR, and taken when there is one",
            name(opcode)
        );
        tests.push(
            test_with(SECTION, n, options(7), title, move |b| not_ready(b, opcode))
                .breaks("drops-it", "The request is dropped.", refuses_silently)
                .breaks(
                    "takes-it",
                    "It is acknowledged all the same.",
                    acknowledges_all,
                )
                .breaks("says-invalid", "It is an invalid request.", || {
                    super::mutants::other_reason(NakCode::InvalidRequest)
                }),
        );
    }
    for (n, timer) in (6..).zip(TIMERS) {
        let options = ChannelOptions {
            min_rnr_timer: timer,
            ..ChannelOptions::default()
        };
        tests.push(
            test_with(
                SECTION,
                n,
                options,
                format!("the RNR NAK says the timer that the program asked for: code {timer}"),
                move |b| {
                    b.step("A SEND without a receive request is refused with that timer");
                    let psn = b.send(RC_SEND_ONLY, Ext::default(), &[1; 4])?;
                    b.refused(Syndrome::RnrNak { timer }, psn)?;
                    Ok(())
                },
            )
            .breaks("says-another", "The timer is one step longer.", move || {
                Faults::default().tx_edit(move |packet| {
                    if is_refusal(packet)
                        && let Some(aeth) = &mut packet.ext.aeth
                    {
                        aeth.syndrome ^= 1;
                    }
                })
            }),
        );
    }
    tests.push(
        test_with(
            SECTION,
            11,
            options(7),
            "what comes behind an RNR NAK is dropped until its request comes again",
            behind_it,
        )
        .breaks(
            "refuses-each",
            "Each request behind it is refused too.",
            refuses_twice,
        )
        .breaks(
            "takes-what-is-behind",
            "What comes behind it is carried out.",
            || {
                let mut refused = false;
                Faults::default().rx(move |mut packet| {
                    // The request that must wait is thrown away the second time, and the next takes its place.
                    if packet.bth.opcode == RC_WRITE_ONLY && !refused {
                        refused = true;
                        packet.bth.psn = packet.bth.psn.wrapping_sub(1) & 0xff_ffff;
                    }
                    vec![(Duration::ZERO, packet)]
                })
            },
        ),
    );
    tests.push(
        test_with(
            SECTION,
            12,
            options(7),
            "an RNR NAK acknowledges what came before it",
            acknowledges_before,
        )
        .breaks(
            "miscounts",
            "It counts the request that it refuses.",
            super::mutants::miscounts_messages,
        ),
    );
    tests.push(
        test_with(
            SECTION,
            13,
            options(7),
            "an RDMA WRITE needs no receive request",
            needs_none,
        )
        .breaks(
            "refuses-all",
            "Nothing is taken without a receive request.",
            || {
                Faults::default().tx_edit(|packet| {
                    if let Some(aeth) = &mut packet.ext.aeth {
                        *aeth = Aeth::new(Syndrome::RnrNak { timer: 1 }, aeth.msn);
                    }
                })
            },
        ),
    );
    tests.push(
        test_with(SECTION, 14, options(7), "the last packet of an RDMA WRITE with immediate may have to wait; nothing is placed twice", write_waits)
            .breaks("forgets-the-message", "After the RNR NAK the message begins over.", || {
                let mut last = 0;
                Faults::default().rx_edit(move |packet| {
                    last += u32::from(packet.bth.opcode == RC_WRITE_LAST_IMM);
                    if last > 1 && packet.bth.opcode == RC_WRITE_LAST_IMM {
                        packet.bth.opcode = RC_WRITE_ONLY_IMM;
                        packet.ext.reth = Some(ferroce_wire::Reth::default());
                    }
                })
            }),
    );
    tests.push(waits(
        named(
            "C09_130_01",
            "C09-130",
            "v1c09-130#01",
            options(1),
            "a requester waits as long as the RNR NAK says: 491.52 ms",
            |b| waits_at_least(b, 31),
        )
        .takes(Duration::from_millis(900)),
    ));
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
    for (n, retries) in (20..).zip([0, 1, 3, 6]) {
        let title = format!("after {retries} RNR retries the request fails");
        tests.push(
            test_with(SECTION, n, options(retries), title, move |b| {
                gives_up(b, retries)
            })
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
    tests.push(
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
        ),
    );
    tests
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

fn timer(b: &Bench<'_>) -> Syndrome {
    Syndrome::RnrNak {
        timer: b.cc.options.min_rnr_timer,
    }
}

fn not_ready(b: &mut Bench<'_>, opcode: u8) -> Outcome {
    let payload = match opcode {
        RC_SEND_FIRST => vec![1; PMTU as usize],
        RC_SEND_ONLY_INV => Vec::new(),
        _ => vec![1; 4],
    };
    let ext = Ext {
        imm: Some([1; 4]),
        ieth: Some(0),
        ..b.reth(0, 4)
    };
    b.step("The request is refused with RNR, and nothing has changed");
    let psn = b.psn();
    b.send_at(psn, opcode, ext, &payload)?;
    let nak = b.refused(timer(b), psn)?;
    b.eq("the MSN", nak.ext.aeth.map(|aeth| aeth.msn), Some(0))?;
    b.holds(0, &[0; 4])?;
    if opcode == RC_SEND_ONLY_INV {
        return Ok(()); // there is no key to invalidate: that it waits is all
    }
    b.step("A receive request is posted; the request comes again and is taken");
    b.post_recv(1, 0, 4 * PMTU)?;
    b.send_at(psn, opcode, ext, &payload)?;
    b.skip(1);
    b.acked(psn, u32::from(opcode != RC_SEND_FIRST))?;
    b.holds(0, &[1; 4])
}

fn behind_it(b: &mut Bench<'_>) -> Outcome {
    b.step("A SEND without a receive request and a WRITE behind it: one RNR NAK");
    let (psn, ext) = (b.psn(), b.reth(0, 4));
    b.send_at(psn, RC_SEND_ONLY, Ext::default(), &[1; 4])?;
    b.refused(timer(b), psn)?;
    b.send_at(psn + 1, RC_WRITE_ONLY, ext, &[2; 4])?;
    b.silence()?;
    b.holds(0, &[0; 4])?;
    b.step("With a receive request both are taken when they come again");
    b.post_recv(1, 64, 8)?;
    b.send(RC_SEND_ONLY, Ext::default(), &[1; 4])?;
    let last = b.send(RC_WRITE_ONLY, ext, &[2; 4])?;
    b.acked(last, 2)?;
    b.completed(Side::Recv, 1, status::SUCCESS)?;
    b.holds(0, &[2; 4])
}

fn acknowledges_before(b: &mut Bench<'_>) -> Outcome {
    b.step("Two WRITEs that ask for nothing, and a SEND without a receive request");
    for n in 0..2 {
        let ext = b.reth(n * 4, 4);
        b.send_quietly(RC_WRITE_ONLY, ext, &[7; 4])?;
    }
    let psn = b.send(RC_SEND_ONLY, Ext::default(), &[1; 4])?;
    b.step("The RNR NAK is of the SEND, and counts the two");
    let nak = b.refused(timer(b), psn)?;
    b.eq("the MSN", nak.ext.aeth.map(|aeth| aeth.msn), Some(2))?;
    b.holds(0, &[7; 8])
}

fn needs_none(b: &mut Bench<'_>) -> Outcome {
    b.step("A WRITE of 3 packets is acknowledged");
    let data = crate::channel::pattern(3 * PMTU);
    let ext = b.reth(0, 3 * PMTU);
    let psn = b.message(true, ext, &data)?;
    b.acked(psn, 1)?;
    b.holds(0, &data)
}

fn write_waits(b: &mut Bench<'_>) -> Outcome {
    b.step("FIRST is taken, LAST with immediate refused with RNR");
    let pmtu = PMTU as usize;
    let ext = b.reth(0, PMTU + 4);
    let psn = b.send(RC_WRITE_FIRST, ext, &vec![1; pmtu])?;
    b.acked(psn, 0)?;
    let psn = b.psn();
    b.send_at(psn, RC_WRITE_LAST_IMM, imm([1; 4]), &[2; 4])?;
    b.refused(timer(b), psn)?;
    b.step("With a receive request LAST is taken, and the message is whole");
    b.post_empty_recv(1)?;
    b.send(RC_WRITE_LAST_IMM, imm([1; 4]), &[2; 4])?;
    b.acked(psn, 1)?;
    let done = b.completed(Side::Recv, 1, status::SUCCESS)?;
    b.eq("bytes", done.byte_len, PMTU + 4)?;
    b.holds(0, &[vec![1; pmtu], vec![2; 4]].concat())
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
