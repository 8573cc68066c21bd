//! Sections 9.8.2 and 9.8.3, the device as sender: each packet goes out once, and a request
//! completes without an answer.

mod uc;
mod ud;

use super::arrival::{Receiver, SUCCESS, send_only, word};
use crate::catalog::{Mutant, Test};
use crate::channel::{self, Channel};
use crate::packet::RxPacket;
use crate::protocol::{
    Command, Destination, Reply, SendRequest, Service, Side, access, send_flags,
};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run};
use crate::sim::Faults;
use anyhow::{Result, bail};
use std::time::Duration;
use uc::{UC_OPERATIONS, uc_message};
use ud::{datagram, high_q_key, too_long, whole_mtu};

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
        Service::Rc | Service::Uc | Service::XrcTarget => None,
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

/// BTH:P_Key is that of the queue pair's entry in the table.
fn verify_pkey(run: &mut Run, of: &Channel, assertion: &str, packet: &RxPacket) -> Outcome {
    run.check_eq(assertion, "the P_Key", packet.bth.pkey, of.pkey)
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
