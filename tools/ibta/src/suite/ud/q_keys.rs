//! Q_Keys of datagrams: a wrong one is dropped, and one that is changed counts from then on.

use super::{FAMILY, open};
use crate::catalog::{Mutant, Test};
use crate::channel;
use crate::packet::TxPacket;
use crate::protocol::{Command, QpAttributes, qp_state};
use crate::sim::Faults;

fn with_q_key(mut packet: TxPacket, qkey: u32) -> TxPacket {
    if let Some(deth) = &mut packet.ext.deth {
        deth.qkey = qkey;
    }
    packet
}

/// What differs from the queue pair's Q_Key in a bit.
const OTHER: u32 = 1;

pub(super) fn q_key() -> Test {
    const A: &str = "s9.8.3:q-key";

    Test::transport(
        "S09_8_3_Q_KEY",
        FAMILY,
        "a datagram with a wrong Q_Key is dropped",
        |run, rig| {
            let receiver = open(run, rig)?;
            let right = receiver.send(0, &channel::pattern(64));
            let own = receiver.cc.options.qkey;
            run.step("1", "The tester sends datagrams with wrong Q_Keys");
            for qkey in [own ^ OTHER, 0, own | 0x8000_0000, u32::MAX] {
                rig.transmit(&with_q_key(right.clone(), qkey))?;
            }
            run.step("2", "Nothing comes of them");
            receiver.verify_dropped(run, rig, A, 0)?;
            run.step("3", "One with the right Q_Key is delivered");
            receiver.verify_message(run, rig, A, 0, 0)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.6.1", "9.8.3"])
    .asserts([A])
    .mutant(Mutant::transport(
        "does-not-look",
        "the last bit of the Q_Key is not looked at",
        A,
        || {
            Faults::default().rx_edit(|packet| {
                if let Some(deth) = &mut packet.ext.deth {
                    deth.qkey &= !OTHER;
                }
            })
        },
    ))
}

pub(super) fn q_key_changed() -> Test {
    const A: &str = "s9.8.3:q-key-changed";
    const NEW: u32 = 0x0707_0707;

    Test::transport(
        "S09_8_3_Q_KEY_CHANGED",
        FAMILY,
        "a Q_Key that is changed in RTS counts from then on",
        |run, rig| {
            let receiver = open(run, rig)?;
            receiver.verify_message(run, rig, A, 0, 0)?;
            run.step("1", "The queue pair gets another Q_Key");
            let attributes = QpAttributes {
                qp_state: Some(qp_state::RTS),
                qkey: Some(NEW),
                ..QpAttributes::default()
            };
            receiver.cc.modify(rig, attributes)?;
            run.step("2", "A datagram with the old one is dropped");
            rig.transmit(&receiver.send(1, &channel::pattern(64)))?;
            receiver.verify_dropped(run, rig, A, 1)?;
            run.step("3", "One with the new one is delivered");
            let data = channel::pattern(48);
            rig.transmit(&with_q_key(receiver.send(2, &data), NEW))?;
            receiver.verify_delivered(run, rig, A, 1, &data)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.6.1", "9.8.3"])
    .asserts([A])
    .mutant(Mutant::transport(
        "once-and-for-all",
        "the Q_Key of RESET to INIT is the queue pair's for ever",
        A,
        || {
            let mut had = false;
            Faults::default().command(move |mut command| {
                if let Command::ModifyQp { attributes, .. } = &mut command
                    && attributes.qkey.is_some()
                {
                    if had {
                        attributes.qkey = None;
                    }
                    had = true;
                }
                command
            })
        },
    ))
}
