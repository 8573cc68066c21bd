//! Section 9.8.2, unreliable connections, the device as receiver: messages that came whole and in
//! order, nothing of the others, and never an answer.

mod delivered;
mod lost;
mod mutants;
mod refused;

use super::arrival::Receiver;
use crate::catalog::Test;
use crate::channel::{self, Channel};
use crate::packet::TxPacket;
use crate::protocol::{Region, Service, Side, access};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run};
use anyhow::Result;
use delivered::{send, send_imm, write, write_imm};
use ferroce_wire::{Ext, Reth, opcode};
use lost::{begins_anew, lost, lost_write, no_receive};
use refused::{beyond_the_region, no_right, wrong_key};
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

fn open(run: &mut Run, rig: &mut dyn TransportRig) -> Result<Receiver> {
    run.step("init", "Open a UC channel and post receive requests");
    Receiver::open(rig, Service::Uc)
}

/// A channel with receive requests, and memory for a message of three packets that the tester may
/// write.
fn open_target(run: &mut Run, rig: &mut dyn TransportRig) -> Result<(Receiver, Region)> {
    run.step(
        "init",
        "Open a UC channel; memory that the tester may write",
    );
    let receiver = Receiver::open(rig, Service::Uc)?;
    let len = data(&receiver.cc).len() as u32;
    let target = channel::register(rig, len, access::ALL)?;
    Ok((receiver, target))
}

/// The packets of a message of three, the tester's `n`th and those after it; every one asks to be
/// acknowledged, in vain.
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
