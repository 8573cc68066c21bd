//! Sections 9.8.2 and 9.8.3, the device as sender: each packet goes out once, and a request completes without an answer.

use super::arrival::{Receiver, SUCCESS, send_only, word};
use crate::catalog::{Mutant, Test};
use crate::channel::{self, DEFAULT_PKEY};
use crate::packet::RxPacket;
use crate::protocol::{
    Command, Destination, Opcode, Reply, SendRequest, Service, Side, access, send_flags,
};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run};
use crate::sim::Faults;
use anyhow::{Result, bail};
use ferroce_wire::{Deth, opcode};
use std::time::Duration;

const UC: &str = "9.8.2";
const UD: &str = "9.8.3";
/// Remote key and address that WRITEs name; the tester does not look them up.
const R_KEY: u32 = 0x12345;
const VA: u64 = 0x99_9000;
const IMM: [u8; 4] = [0xa1, 0xb2, 0xc3, 0xd4];
/// The tester's Q_Key.
const Q_KEY: u32 = 0x0b0b_1234;

/// The tests.
pub fn tests() -> Vec<Test> {
    let mut tests = vec![
        once(Service::Uc),
        once(Service::Ud),
        high_q_key(),
        too_long(),
        whole_mtu(),
    ];
    for operation in UC_OPERATIONS {
        for packets in [1, 3] {
            tests.push(uc_message(operation, packets));
        }
    }
    for with_imm in [false, true] {
        tests.push(datagram(with_imm));
    }
    tests
}

/// A signaled SEND of so many bytes; a datagram goes to the tester's queue pair.
///
/// # Errors
/// The rig failed, or the device refused.
pub fn send_request(
    rig: &mut dyn TransportRig,
    receiver: &Receiver,
    wr_id: u64,
    len: u32,
) -> Result<SendRequest> {
    let region = channel::register(rig, len.max(1), access::LOCAL_WRITE)?;
    channel::write_memory(rig, region.addr, &channel::pattern(len))?;
    let to = match receiver.cc.options.service {
        Service::Ud => Some(to_tester(rig, receiver, Q_KEY)?),
        Service::Rc | Service::Uc => None,
    };
    Ok(SendRequest {
        wr_id,
        sges: vec![region.part(0, len)],
        flags: send_flags::SIGNALED,
        imm: IMM,
        remote_addr: VA,
        rkey: R_KEY,
        to,
        ..SendRequest::default()
    })
}

/// The tester's queue pair as a destination.
fn to_tester(rig: &mut dyn TransportRig, receiver: &Receiver, qkey: u32) -> Result<Destination> {
    let av = rig.path();
    match channel::must(rig, Command::CreateAh { av })? {
        Reply::AddressHandle { ah } => Ok(Destination {
            ah,
            qp: receiver.cc.options.tester_qp,
            qkey,
        }),
        other => bail!("the device side answered something else: {other:?}"),
    }
}

/// One completion comes, with success.
fn verify_completes(
    run: &mut Run,
    rig: &mut dyn TransportRig,
    receiver: &Receiver,
    assertion: &str,
    wr_id: u64,
) -> Outcome {
    let done = receiver.cc.poll_one(run, rig, assertion, Side::Send)?;
    let seen = (done.wr_id, done.status);
    run.check_eq(assertion, "wr_id and status", seen, (wr_id, SUCCESS))
}

/// A device that never completes.
fn waits_for_an_answer(assertion: &str) -> Mutant {
    Mutant::transport(
        "waits-for-an-answer",
        "a request does not complete, as nobody acknowledges it",
        assertion,
        || Faults::default().completion(|_, _| Vec::new()),
    )
}

/// A device whose PSNs stand still.
fn same_psn(assertion: &str) -> Mutant {
    Mutant::transport(
        "same-psn",
        "all packets have the first one's PSN",
        assertion,
        || {
            let mut first = None;
            Faults::default()
                .tx_edit(move |packet| packet.bth.psn = *first.get_or_insert(packet.bth.psn))
        },
    )
}

const UC_OPERATIONS: [Opcode; 4] = [
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

/// The packets of a UC message: opcodes, PSNs, RETH, immediate data, payload; and then its completion.
fn uc_message(operation: Opcode, packets: u32) -> Test {
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
            verify_pkey(run, &a, &packet)?;
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
        _ => test.mutant(same_psn(&assertion)),
    }
}

/// BTH:P_Key is that of the queue pair's entry in the table.
fn verify_pkey(run: &mut Run, assertion: &str, packet: &RxPacket) -> Outcome {
    run.check_eq(assertion, "the P_Key", packet.bth.pkey, DEFAULT_PKEY)
}

/// What was sent is never sent again.
fn once(service: Service) -> Test {
    let (section, chapter) = match service {
        Service::Ud => ("S09_8_3", UD),
        _ => ("S09_8_2", UC),
    };
    let assertion = format!("s{chapter}:once");
    let a = assertion.clone();
    Test::transport(
        format!("{section}_ONCE"),
        chapter,
        format!(
            "{}: what nobody acknowledges is not sent again",
            word(service)
        ),
        move |run, rig| {
            run.step("init", "Open a channel");
            let receiver = Receiver::empty(rig, service)?;
            run.step("1", "The device posts a SEND, which comes");
            let request = send_request(rig, &receiver, 41, 64)?;
            receiver.cc.post(rig, request)?;
            let packet = receiver.cc.expect(run, rig, &a, "a SEND")?;
            let due = send_only(service);
            run.check_eq(&a, "the opcode", packet.bth.opcode, due)?;
            run.step("2", "For half a second nothing more comes");
            rig.sleep(Duration::from_millis(500))?;
            receiver.cc.expect_none(run, rig, &a)?;
            verify_completes(run, rig, &receiver, &a, 41)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&[chapter])
    .asserts([&assertion])
    .takes(Duration::from_millis(800))
    .mutant(Mutant::transport(
        "sends-again",
        "what nobody acknowledges is sent again after a quarter of a second",
        &assertion,
        || {
            Faults::default().tx(|packet| {
                vec![
                    (Duration::ZERO, packet.clone()),
                    (Duration::from_millis(250), packet),
                ]
            })
        },
    ))
}

/// Datagrams: opcode, PSN, destination, DETH, data.
fn datagram(with_imm: bool) -> Test {
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
                verify_pkey(run, &a, &packet)?;
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
fn high_q_key() -> Test {
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
    .covers(&["9.8.3"])
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
fn too_long() -> Test {
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
fn whole_mtu() -> Test {
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
