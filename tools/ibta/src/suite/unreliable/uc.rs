//! Section 9.8.2, messages of an unreliable connection: opcodes, PSNs, headers and data of their
//! packets.

use super::{
    IMM, R_KEY, UC, VA, same_psn, send_request, verify_completes, verify_pkey, waits_for_an_answer,
};
use crate::catalog::Test;
use crate::channel;
use crate::protocol::{Opcode, SendRequest, Service};
use crate::suite::arrival::Receiver;
use ferroce_wire::opcode;

pub(super) const UC_OPERATIONS: [Opcode; 4] = [
    Opcode::Send,
    Opcode::SendWithImm,
    Opcode::RdmaWrite,
    Opcode::RdmaWriteWithImm,
];

fn uc_word(operation: Opcode) -> &'static str {
    match operation {
        Opcode::Send => "SEND",
        Opcode::SendWithImm => "SEND_IMM",
        Opcode::RdmaWrite => "WRITE",
        _ => "WRITE_IMM",
    }
}

fn uc_opcode(operation: Opcode, n: u32, of: u32) -> u8 {
    let [first, middle, last, only] = match operation {
        Opcode::Send => [
            opcode::UC_SEND_FIRST,
            opcode::UC_SEND_MIDDLE,
            opcode::UC_SEND_LAST,
            opcode::UC_SEND_ONLY,
        ],
        Opcode::SendWithImm => [
            opcode::UC_SEND_FIRST,
            opcode::UC_SEND_MIDDLE,
            opcode::UC_SEND_LAST_IMM,
            opcode::UC_SEND_ONLY_IMM,
        ],
        Opcode::RdmaWrite => [
            opcode::UC_WRITE_FIRST,
            opcode::UC_WRITE_MIDDLE,
            opcode::UC_WRITE_LAST,
            opcode::UC_WRITE_ONLY,
        ],
        _ => [
            opcode::UC_WRITE_FIRST,
            opcode::UC_WRITE_MIDDLE,
            opcode::UC_WRITE_LAST_IMM,
            opcode::UC_WRITE_ONLY_IMM,
        ],
    };

    match (n == 0, n + 1 == of) {
        (true, true) => only,
        (true, false) => first,
        (false, true) => last,
        (false, false) => middle,
    }
}

/// The packets of a UC message: opcodes, PSNs, RETH, immediate data, payload; and then its
/// completion.
pub(super) fn uc_message(operation: Opcode, packets: u32) -> Test {
    let name = uc_word(operation);
    let assertion = format!("s9.8.2:sends-{name}-{packets}").to_lowercase();
    let a = assertion.clone();
    let title = format!(
        "a UC {} of {packets} packet(s) goes out as it must, and completes unanswered",
        name.replace('_', " with ")
    );

    let id = format!("S09_8_2_{name}_{packets}");
    let test = Test::transport(id, UC, title, move |run, rig| {
        run.step("init", "Open a UC channel");
        let receiver = Receiver::empty(rig, Service::Uc)?;
        let pmtu = receiver.cc.options.pmtu;
        let len = packets * pmtu - 5;
        run.step("1", format!("The device posts a message of {len} bytes"));
        let request = send_request(rig, &receiver, 31, len)?;
        let request = SendRequest {
            opcode: operation,
            ..request
        };
        receiver.cc.post(rig, request)?;
        run.step("2", "Its packets come, with the right headers and the data");
        let data = channel::pattern(len);
        for (n, part) in (0..packets).zip(data.chunks(pmtu as usize)) {
            let packet = receiver.cc.expect(run, rig, &a, "a packet")?;
            let due = uc_opcode(operation, n, packets);
            run.check_eq(&a, "the opcode", packet.bth.opcode, due)?;
            run.check_eq(&a, "the PSN", packet.bth.psn, receiver.cc.device_psn(n))?;
            verify_pkey(run, &receiver.cc, &a, &packet)?;
            if let Some(reth) = packet.ext.reth {
                let seen = (reth.va, reth.rkey, reth.len);
                run.check_eq(&a, "the RETH", seen, (VA, R_KEY, len))?;
            }

            if let Some(imm) = packet.ext.imm {
                run.check_eq(&a, "the immediate data", imm, IMM)?;
            }

            run.check(&a, packet.payload == part, || {
                format!(
                    "the payload of {} is not what was posted",
                    packet.describe()
                )
            })?;
        }

        run.step("3", "The request completes without an answer");
        verify_completes(run, rig, &receiver, &a, 31)?;
        receiver.cc.close(rig)?;
        Ok(())
    })
    .covers(&["9.8.2"])
    .asserts([&assertion])
    .mutant(waits_for_an_answer(&assertion));

    match packets {
        1 => test,
        _ => test.covers(&["C5-8"]).mutant(same_psn(&assertion)),
    }
}
