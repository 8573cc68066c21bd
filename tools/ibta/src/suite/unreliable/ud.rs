//! Section 9.8.3, datagrams: whom they are for and from, and how long they may be.

use super::{
    IMM, Q_KEY, UD, same_psn, send_request, verify_completes, verify_pkey, waits_for_an_answer,
};
use crate::catalog::{Mutant, Test};
use crate::channel;
use crate::protocol::{Command, Opcode, SendRequest, Service};
use crate::sim::Faults;
use crate::suite::arrival::Receiver;
use ferroce_wire::{Deth, opcode};

/// Datagrams: opcode, PSN, destination, DETH, data.
pub(super) fn datagram(with_imm: bool) -> Test {
    let (name, opcode, due) = match with_imm {
        false => ("SEND", Opcode::Send, opcode::UD_SEND_ONLY),
        true => ("SEND_IMM", Opcode::SendWithImm, opcode::UD_SEND_ONLY_IMM),
    };
    let assertion = format!("s9.8.3:sends-{name}").to_lowercase();
    let a = assertion.clone();
    Test::transport(
        format!("S09_8_3_{name}"),
        UD,
        format!(
            "a UD {} says whom it is for and from, and completes unanswered",
            name.replace('_', " with ")
        ),
        move |run, rig| {
            run.step("init", "Open a UD channel");
            let receiver = Receiver::empty(rig, Service::Ud)?;
            for n in 0..2 {
                run.step(
                    n + 1,
                    "The device posts a datagram: it comes, and completes",
                );

                let wr_id = 51 + u64::from(n);
                let request = send_request(rig, &receiver, wr_id, 301)?;
                let request = SendRequest { opcode, ..request };
                receiver.cc.post(rig, request)?;
                let packet = receiver.cc.expect(run, rig, &a, "a datagram")?;
                run.check_eq(&a, "the opcode", packet.bth.opcode, due)?;
                run.check_eq(&a, "the PSN", packet.bth.psn, receiver.cc.device_psn(n))?;
                verify_pkey(run, &receiver.cc, &a, &packet)?;
                let deth = Deth {
                    qkey: Q_KEY,
                    src_qp: receiver.cc.qp,
                };
                run.check_eq(&a, "the DETH", packet.ext.deth, Some(deth))?;
                run.check_eq(
                    &a,
                    "the immediate data",
                    packet.ext.imm,
                    with_imm.then_some(IMM),
                )?;

                run.check(&a, packet.payload == channel::pattern(301), || {
                    "the payload is not what was posted".to_owned()
                })?;
                verify_completes(run, rig, &receiver, &a, wr_id)?;
            }

            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.3"])
    .asserts([&assertion])
    .mutant(waits_for_an_answer(&assertion))
    .mutant(same_psn(&assertion))
    .mutant(Mutant::transport(
        "anonymous",
        "datagrams do not say which queue pair they are from",
        &assertion,
        || {
            Faults::default().tx_edit(|packet| {
                if let Some(deth) = &mut packet.ext.deth {
                    deth.src_qp = 0;
                }
            })
        },
    ))
}

/// A request's Q_Key with its highest bit set stands for the queue pair's own.
pub(super) fn high_q_key() -> Test {
    const A: &str = "s9.8.3:high-q-key";

    Test::transport(
        "S09_8_3_HIGH_Q_KEY",
        UD,
        "a Q_Key with its highest bit set stands for the queue pair's own",
        |run, rig| {
            run.step("init", "Open a UD channel");
            let receiver = Receiver::empty(rig, Service::Ud)?;
            run.step("1", "The device posts a datagram with Q_Key 0x80000055");
            let mut request = send_request(rig, &receiver, 61, 32)?;
            if let Some(to) = &mut request.to {
                to.qkey = 0x8000_0055;
            }

            receiver.cc.post(rig, request)?;
            run.step("2", "It comes with the Q_Key of the device's queue pair");
            let packet = receiver.cc.expect(run, rig, A, "a datagram")?;
            let seen = packet.ext.deth.map(|deth| deth.qkey);
            run.check_eq(A, "the Q_Key", seen, Some(receiver.cc.options.qkey))?;
            verify_completes(run, rig, &receiver, A, 61)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.3", "C10-15"])
    .asserts([A])
    .mutant(Mutant::transport(
        "as-it-was-given",
        "the request's Q_Key is sent as it is, highest bit and all",
        A,
        || {
            Faults::default().tx_edit(|packet| {
                if let Some(deth) = &mut packet.ext.deth {
                    deth.qkey = 0x8000_0055;
                }
            })
        },
    ))
}

/// A datagram longer than the MTU is not sent.
pub(super) fn too_long() -> Test {
    const A: &str = "s9.8.3:too-long";

    Test::transport(
        "S09_8_3_TOO_LONG",
        UD,
        "a datagram longer than the port's MTU is not sent",
        |run, rig| {
            run.step("init", "Open a UD channel");
            let receiver = Receiver::empty(rig, Service::Ud)?;
            let len = rig.mtu() + 1;
            run.step("1", format!("The device posts a datagram of {len} bytes"));
            let request = send_request(rig, &receiver, 71, len)?;
            let qp = receiver.cc.qp;
            let posted = rig.command(&Command::PostSend { qp, request })?;
            run.note(format!("the device answers {posted:?}"));
            run.step("2", "Nothing of it comes");
            receiver.cc.expect_none(run, rig, A)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["C10-93.1.1", "9.8.3"])
    .asserts([A])
    .mutant(Mutant::transport(
        "cuts-it-off",
        "of a datagram that is too long as much is sent as fits",
        A,
        || {
            Faults::default().command(|mut command| {
                if let Command::PostSend { request, .. } = &mut command
                    && let Some(sge) = request.sges.first_mut()
                {
                    sge.len -= 1;
                }
                command
            })
        },
    ))
}

/// A datagram of just the MTU is sent whole.
pub(super) fn whole_mtu() -> Test {
    const A: &str = "s9.8.3:whole-mtu";

    Test::transport(
        "S09_8_3_WHOLE_MTU",
        UD,
        "a datagram of the port's MTU is sent whole",
        |run, rig| {
            run.step("init", "Open a UD channel");
            let receiver = Receiver::empty(rig, Service::Ud)?;
            let len = rig.mtu();
            run.step("1", format!("The device posts a datagram of {len} bytes"));
            let request = send_request(rig, &receiver, 81, len)?;
            receiver.cc.post(rig, request)?;
            run.step("2", "It comes as one packet");
            let packet = receiver.cc.expect(run, rig, A, "a datagram")?;
            run.check(A, packet.payload == channel::pattern(len), || {
                format!("{} is not what was posted", packet.describe())
            })?;
            verify_completes(run, rig, &receiver, A, 81)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.3"])
    .asserts([A])
    .mutant(Mutant::transport(
        "smaller-mtu",
        "datagrams longer than 2048 bytes are cut off",
        A,
        || Faults::default().tx_edit(|packet| packet.payload.truncate(2048)),
    ))
}
