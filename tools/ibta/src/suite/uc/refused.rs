//! WRITEs that may not be carried out: they are dropped in silence, and the connection lives on.

use super::{FAMILY, to, verify_nothing};
use crate::catalog::{Mutant, Test};
use crate::channel;
use crate::protocol::{Service, access};
use crate::sim::Faults;
use crate::suite::arrival::Receiver;
use ferroce_wire::{Ext, Reth, opcode};

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
        let receiver = Receiver::open(rig, Service::Uc)?;
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

pub(super) fn wrong_key() -> Test {
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

pub(super) fn beyond_the_region() -> Test {
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

pub(super) fn no_right() -> Test {
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
                        crate::protocol::Command::Register { len, srq, .. } => {
                            crate::protocol::Command::Register {
                                len,
                                access: access::ALL,
                                srq,
                            }
                        }
                        other => other,
                    })
                },
            )
        },
    )
    .covers(&["C10-57"])
}
