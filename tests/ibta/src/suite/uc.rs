//! Section 9.8.2, unreliable connections, the device as receiver: messages that came whole and in order, nothing of the others,
//! and never an answer.

use super::arrival::{Receiver, SUCCESS};
use crate::catalog::{Mutant, Test};
use crate::channel::{self, Channel};
use crate::packet::TxPacket;
use crate::protocol::{Region, Service, Side, access};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run};
use crate::sim::Faults;
use anyhow::Result;
use ferroce_wire::{Ext, Reth, opcode};
use std::time::Duration;

const FAMILY: &str = "9.8.2";
const IMM: [u8; 4] = [0x11, 0x22, 0x33, 0x44];
/// `IBV_WC_RECV` and `IBV_WC_RECV_RDMA_WITH_IMM`.
const RECV: u32 = 128;
const RECV_WRITE: u32 = 129;

/// The tests.
pub fn tests() -> Vec<Test> {
    vec![
        send(),
        send_imm(),
        write(),
        write_imm(),
        lost(0, "FIRST"),
        lost(1, "MIDDLE"),
        lost(2, "LAST"),
        lost_write(),
        begins_anew(),
        wrong_key(),
        beyond_the_region(),
        no_right(),
        no_receive(),
    ]
}

fn open(rig: &mut dyn TransportRig) -> Result<Receiver> {
    Receiver::open(rig, Service::Uc)
}

/// The packets of a message of three, the tester's `n`th and those after it; every one asks to be acknowledged, in vain.
fn message(receiver: &Receiver, n: u32, opcodes: [u8; 3], exts: [Ext; 3]) -> Vec<TxPacket> {
    let pmtu = receiver.cc.options.pmtu;
    let data = data(&receiver.cc);
    let parts = data.chunks(pmtu as usize);
    let headers = opcodes.into_iter().zip(exts);
    (n..)
        .zip(headers.zip(parts))
        .map(|(n, ((opcode, ext), part))| receiver.packet(opcode, n, ext, part))
        .collect()
}

/// What a message of three packets carries.
fn data(cc: &Channel) -> Vec<u8> {
    channel::pattern(3 * cc.options.pmtu - 7)
}

const SEND: [u8; 3] = [
    opcode::UC_SEND_FIRST,
    opcode::UC_SEND_MIDDLE,
    opcode::UC_SEND_LAST,
];

const WRITE: [u8; 3] = [
    opcode::UC_WRITE_FIRST,
    opcode::UC_WRITE_MIDDLE,
    opcode::UC_WRITE_LAST,
];

fn plain() -> [Ext; 3] {
    [Ext::default(); 3]
}

fn imm() -> Ext {
    Ext {
        imm: Some(IMM),
        ..Ext::default()
    }
}

fn to(target: &Region, len: u32) -> Ext {
    Ext {
        reth: Some(Reth {
            va: target.addr,
            rkey: target.rkey,
            len,
        }),
        ..Ext::default()
    }
}

fn transmit(rig: &mut dyn TransportRig, packets: &[TxPacket]) -> Result<()> {
    packets.iter().try_for_each(|packet| rig.transmit(packet))
}

/// No receive request completes, and nothing is answered.
fn verify_nothing(
    run: &mut Run,
    rig: &mut dyn TransportRig,
    receiver: &Receiver,
    assertion: &str,
) -> Outcome {
    receiver.cc.expect_none(run, rig, assertion)?;
    let done = receiver.cc.poll(rig, Side::Recv, 1, Duration::ZERO)?;
    run.check(assertion, done.is_empty(), || {
        format!("a receive request completed: {done:?}")
    })
}

/// Drops what comes in the middle of messages.
fn loses_middles(assertion: &str) -> Mutant {
    Mutant::transport(
        "loses-middles",
        "middle packets are lost in the device",
        assertion,
        || {
            Faults::default().rx(|packet| match packet.bth.opcode {
                opcode::UC_SEND_MIDDLE | opcode::UC_WRITE_MIDDLE => Vec::new(),
                _ => vec![(Duration::ZERO, packet)],
            })
        },
    )
}

/// Has no eye for gaps: whatever comes is given the PSN that is due.
fn blind_to_gaps(assertion: &str) -> Mutant {
    Mutant::transport(
        "blind-to-gaps",
        "PSNs of packets within a message are not checked",
        assertion,
        || {
            let mut last: Option<u32> = None;
            Faults::default().rx_edit(move |packet| {
                if let (Some(last), false) = (last, begins(packet)) {
                    packet.bth.psn = (last + 1) & 0xff_ffff;
                }
                last = Some(packet.bth.psn);
            })
        },
    )
}

fn begins(packet: &TxPacket) -> bool {
    ferroce_wire::opcode::info(packet.bth.opcode).is_some_and(|info| info.begins())
}

fn send() -> Test {
    const A: &str = "s9.8.2:send";
    Test::transport(
        "S09_8_2_RECEIVES_SEND",
        FAMILY,
        "a UC SEND of three packets is delivered, and nothing is answered",
        |run, rig| {
            run.step("init", "Open a UC channel and post receive requests");
            let receiver = open(rig)?;
            run.step(
                "1",
                "The tester sends First, Middle and Last, each with AckReq",
            );
            transmit(rig, &message(&receiver, 0, SEND, plain()))?;
            run.step("2", "One receive request completes with all of it");
            let done = receiver.verify_delivered(run, rig, A, 0, &data(&receiver.cc))?;
            run.check_eq(A, "the opcode", done.opcode, RECV)?;
            run.step("3", "No packet comes");
            receiver.cc.expect_none(run, rig, A)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2"])
    .asserts([A])
    .mutant(loses_middles(A))
}

fn send_imm() -> Test {
    const A: &str = "s9.8.2:send-imm";
    Test::transport(
        "S09_8_2_RECEIVES_SEND_IMM",
        FAMILY,
        "the immediate data of a UC SEND comes with its completion",
        |run, rig| {
            run.step("init", "Open a UC channel and post receive requests");
            let receiver = open(rig)?;
            run.step(
                "1",
                "The tester sends First, Middle and Last with Immediate",
            );
            let opcodes = [SEND[0], SEND[1], opcode::UC_SEND_LAST_IMM];
            let exts = [Ext::default(), Ext::default(), imm()];
            transmit(rig, &message(&receiver, 0, opcodes, exts))?;
            run.step("2", "The completion has the data and the immediate data");
            let done = receiver.verify_delivered(run, rig, A, 0, &data(&receiver.cc))?;
            run.check_eq(A, "the immediate data", done.imm, Some(IMM))?;
            run.step(
                "3",
                "A Send Only with Immediate and without payload is a message, too",
            );
            rig.transmit(&receiver.packet(opcode::UC_SEND_ONLY_IMM, 3, imm(), &[]))?;
            let done = receiver.verify_delivered(run, rig, A, 1, &[])?;
            run.check_eq(A, "the immediate data", done.imm, Some(IMM))?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2"])
    .asserts([A])
    .mutant(Mutant::transport(
        "forgets-immediate-data",
        "completions have no immediate data",
        A,
        || {
            Faults::default().completion(|_, mut done| {
                done.imm = None;
                vec![done]
            })
        },
    ))
}

fn write() -> Test {
    const A: &str = "s9.8.2:write";
    Test::transport(
        "S09_8_2_RECEIVES_WRITE",
        FAMILY,
        "a UC WRITE is placed, takes no receive request and is not answered",
        |run, rig| {
            run.step(
                "init",
                "Open a UC channel; memory that the tester may write",
            );
            let receiver = open(rig)?;
            let data = data(&receiver.cc);
            let target = channel::register(rig, data.len() as u32, access::ALL)?;
            run.step(
                "1",
                "The tester sends First, Middle and Last, each with AckReq",
            );
            let exts = [to(&target, target.len), Ext::default(), Ext::default()];
            transmit(rig, &message(&receiver, 0, WRITE, exts))?;
            run.step("2", "No packet comes, and no receive request completes");
            verify_nothing(run, rig, &receiver, A)?;
            run.step("3", "The data is in memory");
            let memory = channel::read_memory(rig, target.addr, target.len)?;
            run.check(A, memory == data, || {
                "memory is not what was written".to_owned()
            })?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2"])
    .asserts([A])
    .mutant(loses_middles(A))
}

fn write_imm() -> Test {
    const A: &str = "s9.8.2:write-imm";
    Test::transport(
        "S09_8_2_RECEIVES_WRITE_IMM",
        FAMILY,
        "a UC WRITE with immediate is placed and takes a receive request",
        |run, rig| {
            run.step(
                "init",
                "Open a UC channel; memory that the tester may write",
            );
            let receiver = open(rig)?;
            let data = data(&receiver.cc);
            let target = channel::register(rig, data.len() as u32, access::ALL)?;
            run.step(
                "1",
                "The tester sends First, Middle and Last with Immediate",
            );
            let opcodes = [WRITE[0], WRITE[1], opcode::UC_WRITE_LAST_IMM];
            let exts = [to(&target, target.len), Ext::default(), imm()];
            transmit(rig, &message(&receiver, 0, opcodes, exts))?;
            run.step(
                "2",
                "One receive request completes, with the immediate data",
            );
            let done = receiver.cc.poll_one(run, rig, A, Side::Recv)?;
            let seen = (done.wr_id, done.status, done.opcode, done.imm);
            run.check_eq(
                A,
                "the completion",
                seen,
                (0, SUCCESS, RECV_WRITE, Some(IMM)),
            )?;
            run.step(
                "3",
                "The data is where the WRITE says, and nothing in the receive request",
            );
            let memory = channel::read_memory(rig, target.addr, target.len)?;
            run.check(A, memory == data, || {
                "memory is not what was written".to_owned()
            })?;
            receiver.verify_placed(run, rig, A, 0, &[0; 64])?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2"])
    .asserts([A])
    .mutant(Mutant::transport(
        "without-a-receive-request",
        "a WRITE with immediate raises no completion",
        A,
        || Faults::default().completion(|_, _| Vec::new()),
    ))
}

/// Of a SEND of three packets one is lost: it is never delivered, and its receive request takes the next message.
fn lost(which: usize, word: &'static str) -> Test {
    let assertion = format!("s9.8.2:lost-{}", word.to_lowercase());
    let a = assertion.clone();
    let mutant = match which {
        0 => Mutant::transport(
            "begins-anywhere",
            "a middle packet may begin a message",
            &assertion,
            || {
                let mut begun = false;
                Faults::default().rx_edit(move |packet| {
                    if packet.bth.opcode == opcode::UC_SEND_MIDDLE && !begun {
                        packet.bth.opcode = opcode::UC_SEND_FIRST;
                    }
                    begun |= begins(packet);
                })
            },
        ),
        1 => blind_to_gaps(&assertion),
        _ => Mutant::transport(
            "ends-anywhere",
            "a middle packet ends a message whose last packet does not come",
            &assertion,
            || {
                Faults::default().rx_edit(|packet| {
                    if packet.bth.opcode == opcode::UC_SEND_MIDDLE {
                        packet.bth.opcode = opcode::UC_SEND_LAST;
                    }
                })
            },
        ),
    };
    Test::transport(
        format!("S09_8_2_LOST_{word}"),
        FAMILY,
        format!(
            "a UC SEND whose {} packet is lost is not delivered, and the next one is",
            word.to_lowercase()
        ),
        move |run, rig| {
            run.step("init", "Open a UC channel and post receive requests");
            let receiver = open(rig)?;
            run.step(
                "1",
                format!("The tester sends a SEND of three packets without its {word}"),
            );
            let mut packets = message(&receiver, 0, SEND, plain());
            packets.remove(which);
            transmit(rig, &packets)?;
            run.step("2", "Nothing is answered and nothing completes");
            verify_nothing(run, rig, &receiver, &a)?;
            run.step("3", "The next SEND takes the receive request");
            transmit(rig, &message(&receiver, 3, SEND, plain()))?;
            receiver.verify_delivered(run, rig, &a, 0, &data(&receiver.cc))?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2"])
    .asserts([&assertion])
    .mutant(mutant)
}

/// A WRITE with immediate that lost its middle raises no completion.
fn lost_write() -> Test {
    const A: &str = "s9.8.2:lost-write";
    Test::transport(
        "S09_8_2_LOST_WRITE",
        FAMILY,
        "a UC WRITE with immediate that lost a packet raises no completion",
        |run, rig| {
            run.step(
                "init",
                "Open a UC channel; memory that the tester may write",
            );
            let receiver = open(rig)?;
            let len = data(&receiver.cc).len() as u32;
            let target = channel::register(rig, len, access::ALL)?;
            run.step(
                "1",
                "The tester sends First and Last with Immediate, not Middle",
            );
            let opcodes = [WRITE[0], WRITE[1], opcode::UC_WRITE_LAST_IMM];
            let exts = [to(&target, len), Ext::default(), imm()];
            let mut packets = message(&receiver, 0, opcodes, exts);
            packets.remove(1);
            transmit(rig, &packets)?;
            run.step("2", "Nothing is answered and nothing completes");
            verify_nothing(run, rig, &receiver, A)?;
            run.step("3", "A SEND is delivered");
            receiver.verify_message(run, rig, A, 3, 0)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2"])
    .asserts([A])
    .mutant(Mutant::transport(
        "immediate-data-alone",
        "the packet with immediate data completes, whatever was before it",
        A,
        || {
            Faults::default().rx_edit(|packet| {
                if packet.bth.opcode == opcode::UC_WRITE_LAST_IMM {
                    packet.bth.opcode = opcode::UC_SEND_ONLY_IMM;
                }
            })
        },
    ))
}

/// A message that is given up in the middle is not delivered.
fn begins_anew() -> Test {
    const A: &str = "s9.8.2:begins-anew";
    Test::transport(
        "S09_8_2_BEGINS_ANEW",
        FAMILY,
        "a UC SEND that is given up in the middle is never delivered",
        |run, rig| {
            run.step("init", "Open a UC channel and post receive requests");
            let receiver = open(rig)?;
            run.step(
                "1",
                "The tester sends First, and then the Last of no message two PSNs on",
            );
            let packets = message(&receiver, 0, SEND, plain());
            rig.transmit(&packets[0])?;
            let part = channel::pattern(9);
            rig.transmit(&receiver.packet(opcode::UC_SEND_LAST, 3, Ext::default(), &part))?;
            run.step("2", "Nothing is answered and nothing completes");
            verify_nothing(run, rig, &receiver, A)?;
            run.step("3", "A whole SEND is delivered");
            transmit(rig, &message(&receiver, 4, SEND, plain()))?;
            receiver.verify_delivered(run, rig, A, 0, &data(&receiver.cc))?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2"])
    .asserts([A])
    .mutant(blind_to_gaps(A))
}

/// A test in which a WRITE must not be carried out: `spoil` makes a good one bad.
fn refused(
    word: &str,
    title: &str,
    rights: u32,
    spoil: fn(&mut Reth),
    mutant: impl Fn(&str) -> Mutant,
) -> Test {
    let assertion = format!("s9.8.2:{}", word.to_lowercase().replace('_', "-"));
    let a = assertion.clone();
    let test = Test::transport(format!("S09_8_2_{word}"), FAMILY, title, move |run, rig| {
        run.step("init", "Open a UC channel; memory for the tester");
        let receiver = open(rig)?;
        let target = channel::register(rig, 64, rights)?;
        let mut reth = to(&target, 64).reth.unwrap_or_default();
        spoil(&mut reth);
        let ext = Ext {
            reth: Some(reth),
            ..Ext::default()
        };
        run.step("1", "The tester sends the WRITE");
        let data = channel::pattern(64);
        rig.transmit(&receiver.packet(opcode::UC_WRITE_ONLY, 0, ext, &data))?;
        run.step("2", "Nothing is answered, completed or written");
        verify_nothing(run, rig, &receiver, &a)?;
        let memory = channel::read_memory(rig, target.addr, 64)?;
        run.check(&a, memory == [0; 64], || "memory has changed".to_owned())?;
        run.step("3", "A SEND is delivered");
        receiver.verify_message(run, rig, &a, 1, 0)?;
        receiver.cc.close(rig)?;
        Ok(())
    })
    .covers(&["9.8.2"])
    .asserts([&assertion]);
    let mutant = mutant(&assertion);
    test.mutant(mutant)
}

const FLIP: u32 = 0x4000_0000;

fn wrong_key() -> Test {
    refused(
        "WRONG_R_KEY",
        "a UC WRITE with a wrong R_Key is dropped",
        access::ALL,
        |reth| reth.rkey ^= FLIP,
        |a| {
            Mutant::transport(
                "does-not-look",
                "a part of the R_Key is not looked at",
                a,
                || {
                    Faults::default().rx_edit(|packet| {
                        if let Some(reth) = &mut packet.ext.reth {
                            reth.rkey ^= FLIP;
                        }
                    })
                },
            )
        },
    )
}

fn beyond_the_region() -> Test {
    refused(
        "BEYOND_THE_REGION",
        "a UC WRITE that goes beyond the region is dropped",
        access::ALL,
        |reth| reth.va += 8,
        |a| {
            Mutant::transport(
                "as-much-as-fits",
                "of a WRITE beyond the region as much is carried out as fits",
                a,
                || {
                    Faults::default().rx_edit(|packet| {
                        if let Some(reth) = &mut packet.ext.reth {
                            reth.len = 56;
                            packet.payload.truncate(56);
                        }
                    })
                },
            )
        },
    )
}

fn no_right() -> Test {
    refused(
        "NO_WRITE_RIGHT",
        "a UC WRITE to memory that may not be written is dropped",
        access::LOCAL_WRITE | access::REMOTE_READ,
        |_| {},
        |a| {
            Mutant::transport(
                "rights-do-not-matter",
                "memory is registered with all rights",
                a,
                || {
                    Faults::default().command(|command| match command {
                        crate::protocol::Command::Register { len, .. } => {
                            crate::protocol::Command::Register {
                                len,
                                access: access::ALL,
                            }
                        }
                        other => other,
                    })
                },
            )
        },
    )
}

/// What comes while no receive request is posted is lost, and nobody is told.
fn no_receive() -> Test {
    const A: &str = "s9.8.2:no-receive";
    Test::transport(
        "S09_8_2_NO_RECEIVE",
        FAMILY,
        "a UC SEND without a receive request is dropped: no RNR NAK, and it is not kept",
        |run, rig| {
            run.step("init", "Open a UC channel without receive requests");
            let receiver = Receiver::empty(rig, Service::Uc)?;
            run.step("1", "The tester sends a SEND: no packet comes");
            rig.transmit(&receiver.send(0, &channel::pattern(64)))?;
            receiver.cc.expect_none(run, rig, A)?;
            run.step("2", "Receive requests are posted: nothing completes");
            receiver.post(rig)?;
            verify_nothing(run, rig, &receiver, A)?;
            run.step("3", "The next SEND is delivered");
            receiver.verify_message(run, rig, A, 1, 0)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2"])
    .asserts([A])
    .mutant(Mutant::transport(
        "keeps-it",
        "what comes too early is delivered later",
        A,
        || {
            let mut kept = false;
            Faults::default().rx(move |packet| {
                let wait = if kept { 0 } else { 150 };
                kept = true;
                vec![(Duration::from_millis(wait), packet)]
            })
        },
    ))
}
