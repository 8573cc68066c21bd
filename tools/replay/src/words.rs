//! Packets, requests and the like in words.

use std::fmt::Write;

use ferroce_transport::{SendFlags, SendOp, WcStatus};
use ferroce_wire::{Bth, Ext, Packet, Syndrome, opcode};

use crate::journal::{Completed, Fault, PostVerb, Settings};
use crate::machine::{Made, Request};
use crate::names::{SERVICES, name_of_verb};
use crate::names::{STATES, STATUSES, name_of};

pub(crate) fn packet(packet: &Packet<'_>) -> String {
    described(&packet.bth, &packet.ext, packet.payload.len())
}

pub(crate) fn made(made: &Made) -> String {
    described(&made.bth, &made.ext, made.payload)
}

fn described(bth: &Bth, ext: &Ext, payload: usize) -> String {
    let mut text = match opcode::info(bth.opcode) {
        Some(info) => info.name.to_owned(),
        None => format!("opcode {:#04x}", bth.opcode),
    };
    let _ = write!(text, ", PSN {}", bth.psn);
    if let Some(aeth) = ext.aeth {
        let _ = match aeth.kind() {
            Syndrome::Ack(credits) => match credits.count() {
                Some(count) => write!(text, ", ACK of message {}, {count} credits", aeth.msn),
                None => write!(text, ", ACK of message {}", aeth.msn),
            },
            Syndrome::RnrNak { timer } => write!(text, ", RNR NAK, timer {timer}"),
            Syndrome::Nak(code) => write!(text, ", NAK {code:?}"),
            Syndrome::Reserved(value) => write!(text, ", syndrome {value:#x}"),
        };
    }
    if let Some(reth) = ext.reth {
        let _ = write!(
            text,
            ", {} bytes at {:#x} key {:#x}",
            reth.len, reth.va, reth.rkey
        );
    }
    if let Some(atomic) = ext.atomic {
        let _ = write!(text, ", at {:#x} key {:#x}", atomic.va, atomic.rkey);
    }
    if payload > 0 {
        let _ = write!(text, ", payload {payload}");
    }
    for (is, word) in [(bth.ack_req, "ack requested"), (bth.solicited, "solicited")] {
        if is {
            let _ = write!(text, ", {word}");
        }
    }
    text
}

pub(crate) fn request(request: &Request) -> String {
    let verb = match request.op {
        SendOp::Send => PostVerb::Send,
        SendOp::SendWithImm(_) => PostVerb::SendImm,
        SendOp::SendWithInv(_) => PostVerb::SendInv,
        SendOp::Write { .. } => PostVerb::Write,
        SendOp::WriteWithImm { .. } => PostVerb::WriteImm,
        SendOp::Read { .. } => PostVerb::Read,
        SendOp::CompareSwap { .. } => PostVerb::CompareSwap,
        SendOp::FetchAdd { .. } => PostVerb::FetchAdd,
        SendOp::AtomicWrite { .. } => PostVerb::AtomicWrite,
        SendOp::Flush(_) => PostVerb::Flush,
        SendOp::LocalInv(_) => PostVerb::LocalInv,
        SendOp::BindMw(_) => PostVerb::Bind,
    };
    let (name, wr_id, len) = (name_of_verb(verb), request.wr_id, request.len);
    let mut text = format!("{name}, wr_id {wr_id:#x}, {len} bytes");
    if request.flags.contains(SendFlags::FENCE) {
        text += ", fence";
    }
    text
}

pub(crate) fn completed(completed: &Completed) -> String {
    let what = if completed.receive { "receive" } else { "send" };
    let status = status(completed.status);
    format!(
        "{what}, wr_id {:#x}, {status}, {} bytes",
        completed.wr_id, completed.bytes
    )
}

pub(crate) fn status(status: WcStatus) -> &'static str {
    name_of(&STATUSES, status)
}

pub(crate) fn settings(of: &Settings) -> String {
    let (service, state) = (name_of(&SERVICES, of.service), name_of(&STATES, of.state));
    format!(
        "{service} {state}, peer {:#x}, path MTU {}, PSNs {} and {}, timeout {}, retries {}, RNR retries {}",
        of.dest_qp_num, of.path_mtu, of.sq_psn, of.rq_psn, of.timeout, of.retry_cnt, of.rnr_retry
    )
}

pub(crate) fn fault(fault: &Fault) -> String {
    let name = opcode::info(fault.opcode).map_or("a packet", |info| info.name);
    format!("{name}, PSN {}: {:?} as it leaves", fault.psn, fault.fate)
}
