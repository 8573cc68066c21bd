//! Keys, bounds and rights at a responder (section 9.7.4.1): what a request may not touch is
//! refused as a remote access error and left as it is.

use super::bench::Bench;
use super::case::{Breaks, test};
use super::mutants::{acknowledges_all, other_reason};
use super::words::{MEMORY, PMTU, atomic, reth};
use crate::Test;
use crate::channel::register;
use crate::protocol::{Region, access};
use crate::run::Outcome;
use crate::sim::Faults;
use ferroce_wire::{Ext, NakCode, opcode::*};

/// An operation that names memory.
#[derive(Clone, Copy)]
enum Op {
    Write,
    WriteImm,
    Read,
    FetchAdd,
    CompareSwap,
}

const OPS: [(Op, &str); 5] = [
    (Op::Write, "RDMA WRITE"),
    (Op::WriteImm, "RDMA WRITE with immediate"),
    (Op::Read, "RDMA READ"),
    (Op::FetchAdd, "FETCH & ADD"),
    (Op::CompareSwap, "COMPARE & SWAP"),
];

/// What is wrong.
#[derive(Clone, Copy)]
enum Wrong {
    Key,
    Before,
    Behind,
    Around,
    Right,
}

const WRONGS: [(Wrong, &str); 5] = [
    (Wrong::Key, "with a key that is none"),
    (Wrong::Before, "that begins before the region"),
    (Wrong::Behind, "that ends behind the region"),
    (Wrong::Around, "at the end of the address space"),
    (Wrong::Right, "in a region without the right"),
];

pub(super) fn tests() -> Vec<Test> {
    let both = OPS
        .iter()
        .flat_map(|op| WRONGS.iter().map(move |wrong| (*op, *wrong)));
    let mut tests: Vec<Test> = (40..)
        .zip(both)
        .map(|(n, ((op, what), (wrong, how)))| {
            let title = format!("an {what} {how} is a remote access error");
            let statements: &[_] = match wrong {
                Wrong::Right => &["C9-222.1.1", "C10-57"],
                _ => &["C9-222.1.1"],
            };

            test(
                "9.7.4.1",
                n,
                title
                    .replace("an FETCH", "a FETCH")
                    .replace("an COMP", "a COMP"),
                move |b| forbidden(b, op, wrong),
            )
            .covers(statements)
            .breaks("takes-it", "The request is acknowledged.", acknowledges_all)
            .breaks(
                "says-invalid",
                "It is refused as an invalid request.",
                || other_reason(NakCode::InvalidRequest),
            )
        })
        .collect();

    tests.push(
        test(
            "9.7.4.1",
            66,
            "a long RDMA WRITE that ends behind the region changes nothing in it",
            all_at_once,
        )
        .covers(&["C9-222.1.1"])
        .breaks(
            "checks-each-packet",
            "Only what a packet brings is checked.",
            || {
                Faults::default().rx_edit(|packet| {
                    if let Some(reth) = &mut packet.ext.reth {
                        reth.len -= 8;
                    }
                })
            },
        ),
    );

    tests.push(
        test(
            "9.7.4.1",
            67,
            "a key that was invalidated is none any more",
            invalidated,
        )
        .breaks(
            "keeps-keys",
            "A SEND with invalidate is a plain SEND.",
            || super::mutants::sees(RC_SEND_ONLY_INV, |packet| packet.bth.opcode = RC_SEND_ONLY),
        ),
    );

    tests
}

/// The extended headers of an operation at an address.
fn headers(op: Op, va: u64, rkey: u32) -> (u8, Ext, Vec<u8>) {
    match op {
        Op::Write => (RC_WRITE_ONLY, reth(va, rkey, 8), vec![0xff; 8]),
        Op::WriteImm => (
            RC_WRITE_ONLY_IMM,
            Ext {
                imm: Some([1; 4]),
                ..reth(va, rkey, 8)
            },
            vec![0xff; 8],
        ),
        Op::Read => (RC_READ_REQUEST, reth(va, rkey, 8), Vec::new()),
        Op::FetchAdd => (RC_FETCH_ADD, atomic(va, rkey, 1, 0), Vec::new()),
        Op::CompareSwap => (RC_COMPARE_SWAP, atomic(va, rkey, 1, 0), Vec::new()),
    }
}

/// All rights but the one that the operation needs.
fn all_but(op: Op) -> u32 {
    let needed = match op {
        Op::Write | Op::WriteImm => access::REMOTE_WRITE,
        Op::Read => access::REMOTE_READ,
        Op::FetchAdd | Op::CompareSwap => access::REMOTE_ATOMIC,
    };
    access::ALL & !needed
}

fn forbidden(b: &mut Bench<'_>, op: Op, wrong: Wrong) -> Outcome {
    if matches!(op, Op::FetchAdd | Op::CompareSwap) {
        b.needs_atomics()?;
    }

    b.post_empty_recv(1)?;
    let region = match wrong {
        Wrong::Right => register(b.rig, MEMORY, all_but(op))?,
        _ => b.region,
    };
    let Region { addr, rkey, .. } = region;
    let (va, rkey) = match wrong {
        // Keys of one region and the next differ in more than one bit; nothing has this one.
        Wrong::Key => (addr, rkey ^ 0x5a5a_5a00),
        Wrong::Before => (addr - 8, rkey),
        Wrong::Behind => (addr + u64::from(MEMORY), rkey),
        Wrong::Around => (u64::MAX - 7, rkey),
        Wrong::Right => (addr, rkey),
    };

    b.step("The request is refused with its PSN");
    let (opcode, ext, payload) = headers(op, va, rkey);
    let psn = b.send(opcode, ext, &payload)?;
    b.nak(NakCode::RemoteAccessError, psn)?;
    b.step("Nothing has changed, and the connection has ended");
    b.holds(0, &[0; 8])?;
    b.holds(MEMORY - 8, &[0; 8])?;
    b.ended()
}

fn all_at_once(b: &mut Bench<'_>) -> Outcome {
    b.step("The first packet is refused, for the whole range is checked with it");
    let ext = b.reth(MEMORY - 2 * PMTU, 2 * PMTU + 8);
    let psn = b.send(RC_WRITE_FIRST, ext, &vec![1; PMTU as usize])?;
    b.nak(NakCode::RemoteAccessError, psn)?;
    b.holds(MEMORY - 2 * PMTU, &vec![0; PMTU as usize])?;
    b.ended()
}

fn invalidated(b: &mut Bench<'_>) -> Outcome {
    use crate::channel::must;
    use crate::protocol::{Bind, Command, Opcode, Reply, SendRequest, Side, send_flags};

    b.step("A memory window of type 2 is bound; a WRITE through it is acknowledged");
    let region = register(b.rig, MEMORY, access::ALL | access::MW_BIND)?;
    let Reply::Window { window, rkey } = must(b.rig, Command::AllocateWindow { kind: 2 })? else {
        return Err(anyhow::anyhow!("no window").into());
    };

    let key = (rkey & !0xff) | (rkey.wrapping_add(1) & 0xff);
    b.post_request(SendRequest {
        wr_id: 1,
        opcode: Opcode::BindMw,
        flags: send_flags::SIGNALED,
        bind: Some(Bind {
            window,
            rkey: key,
            lkey: region.lkey,
            addr: region.addr,
            len: u64::from(MEMORY),
            access: access::REMOTE_WRITE,
        }),
        ..SendRequest::default()
    })?;

    b.completed(Side::Send, 1, super::words::status::SUCCESS)?;
    let ext = reth(region.addr, key, 4);
    let psn = b.send(RC_WRITE_ONLY, ext, &[1; 4])?;
    b.acked(psn, 1)?;
    b.step("A SEND invalidates the window's key");
    b.post_recv(2, 0, 8)?;
    let ieth = Ext {
        ieth: Some(key),
        ..Ext::default()
    };
    let psn = b.send(RC_SEND_ONLY_INV, ieth, &[])?;
    b.acked(psn, 2)?;
    let done = b.completed(Side::Recv, 2, super::words::status::SUCCESS)?;
    b.eq("the key in the completion", done.invalidated, Some(key))?;
    b.step("The same WRITE is refused");
    let psn = b.send(RC_WRITE_ONLY, ext, &[2; 4])?;
    b.nak(NakCode::RemoteAccessError, psn)?;
    Ok(())
}
