//! RDMA FLUSH at a responder (annex A19): the answer, what it says, and whom it refuses. Of devices
//! that have it.
//!
//! Whether data is visible or persistent cannot be seen from the wire; that it was placed before
//! the answer can.

use super::bench::Bench;
use super::case::Breaks;
use super::mutants::{
    acknowledges_all, drops_duplicates, executes_duplicates, miscounts_messages, other_reason,
    places_nothing, sees, sends,
};
use super::words::{MEMORY, reth};
use crate::Test;
use crate::channel::{ChannelOptions, register};
use crate::protocol::{Command, Region, Reply, access};
use crate::rig::TransportRig;
use crate::run::{Outcome, Stop};
use ferroce_wire::{Ext, Feth, NakCode, opcode::*};

/// Rights of memory and queue pair.
const RIGHTS: u32 = access::ALL | access::FLUSH_GLOBAL;
/// Levels of selectivity.
const RANGE: u8 = 0;
const REGION: u8 = 1;

pub(super) fn tests() -> Vec<Test> {
    let mut tests = carried_out();
    tests.extend(refusals());
    tests
}

/// What a FLUSH is answered with, and what has happened by then.
fn carried_out() -> Vec<Test> {
    vec![
        test(
            1,
            "a FLUSH of a range is answered by a READ response of nothing",
            RIGHTS,
            |b, r| answered(b, flush(RANGE, r.addr + 8, r.rkey, 5000)),
        )
        .covers(&["9.7.5.1", "C9-148"])
        .breaks("acknowledges", "It is answered by an ACK.", || {
            sends(RC_READ_RESPONSE_ONLY, |packet| {
                packet.bth.opcode = RC_ACKNOWLEDGE
            })
        })
        .breaks("reads", "The answer brings bytes.", || {
            sends(RC_READ_RESPONSE_ONLY, |packet| packet.payload = vec![0; 8])
        })
        .breaks(
            "counts-no-message",
            "The message number is another.",
            miscounts_messages,
        ),
        test(
            2,
            "a FLUSH of a region looks at neither address nor length",
            RIGHTS,
            |b, r| answered(b, flush(REGION, 3, r.rkey, 1 << 30)),
        )
        .covers(&["9.7.5.1"])
        .breaks(
            "looks-at-the-range",
            "The range of the RETH is looked at.",
            || {
                sees(RC_FLUSH, |packet| {
                    if let Some(feth) = &mut packet.ext.feth {
                        feth.selectivity = RANGE;
                    }
                })
            },
        ),
        test(
            3,
            "what was written before a FLUSH is placed when it is answered",
            RIGHTS,
            written,
        )
        .covers(&["9.5", "oA19-1"])
        .breaks("places-nothing", "It is not placed.", places_nothing),
        test(
            4,
            "a duplicate FLUSH is answered as before",
            RIGHTS,
            repeated,
        )
        .covers(&["oA19-14"])
        .breaks("drops-it", "A duplicate is not answered.", drops_duplicates)
        .breaks(
            "takes-it-for-new",
            "A duplicate is carried out as a new request.",
            executes_duplicates,
        ),
    ]
}

/// Whom a FLUSH is refused, and as what.
fn refusals() -> Vec<Test> {
    vec![
        refusal(
            5,
            "a FLUSH of a region that may not be flushed is a remote access error",
            RIGHTS,
            |b, _| {
                let closed = register(b.rig, MEMORY, access::ALL)?;
                refused(
                    b,
                    flush(RANGE, closed.addr, closed.rkey, 8),
                    NakCode::RemoteAccessError,
                )
            },
        )
        .covers(&["oA19-13"]),
        refusal(
            6,
            "a FLUSH with a key that is none is a remote access error",
            RIGHTS,
            |b, r| {
                refused(
                    b,
                    flush(REGION, 0, r.rkey ^ 0x5a5a_5a00, 0),
                    NakCode::RemoteAccessError,
                )
            },
        ),
        refusal(
            7,
            "a FLUSH of a range that ends behind the region is a remote access error",
            RIGHTS,
            |b, r| {
                refused(
                    b,
                    flush(RANGE, r.addr + 8, r.rkey, MEMORY),
                    NakCode::RemoteAccessError,
                )
            },
        ),
        test(
            8,
            "a FLUSH at a queue pair that does not allow it is an invalid request",
            access::ALL,
            |b, r| refused(b, flush(RANGE, r.addr, r.rkey, 8), NakCode::InvalidRequest),
        )
        .covers(&["9.7.5.2", "C9-222.1.1"])
        .breaks("takes-it", "It is acknowledged.", acknowledges_all)
        .breaks("says-access", "It is refused as an access error.", || {
            other_reason(NakCode::RemoteAccessError)
        }),
    ]
}

/// A test with a region that may be flushed, at a queue pair with these rights. A device that
/// registers no such region has no FLUSH.
fn test(
    n: u32,
    title: &str,
    rights: u32,
    body: impl Fn(&mut Bench<'_>, Region) -> Outcome + Send + Sync + 'static,
) -> Test {
    let assertion = format!("a19:flush-{n:02}");
    let declared = assertion.clone();
    let options = ChannelOptions {
        access: rights,
        ..ChannelOptions::default()
    };

    Test::transport(
        format!("A19_FLUSH_{n:02}"),
        "A19",
        title,
        move |run, rig| {
            let region = flushable(rig)?;
            let mut bench = Bench::open(run, rig, options, assertion.clone())?;
            body(&mut bench, region)?;
            bench.cc.close(bench.rig)?;
            Ok(())
        },
    )
    .asserts([declared])
}

/// The same, of a remote access error.
fn refusal(
    n: u32,
    title: &str,
    rights: u32,
    body: impl Fn(&mut Bench<'_>, Region) -> Outcome + Send + Sync + 'static,
) -> Test {
    test(n, title, rights, body)
        .covers(&["9.7.4.1", "C9-222.1.1"])
        .breaks("takes-it", "It is acknowledged.", acknowledges_all)
        .breaks(
            "says-invalid",
            "It is refused as an invalid request.",
            || other_reason(NakCode::InvalidRequest),
        )
}

fn flushable(rig: &mut dyn TransportRig) -> Outcome<Region> {
    let (len, access) = (MEMORY, RIGHTS);
    match rig.command(&Command::Register {
        len,
        access,
        srq: None,
    })? {
        Reply::Region(region) => Ok(region),
        _ => Err(Stop::NotApplicable("the device has no FLUSH".to_owned())),
    }
}

/// Headers of a FLUSH to global visibility.
fn flush(selectivity: u8, va: u64, rkey: u32, len: u32) -> Ext {
    let feth = Feth {
        placement: 1,
        selectivity,
    };
    Ext {
        feth: Some(feth),
        ..reth(va, rkey, len)
    }
}

/// The next packet answers a FLUSH.
fn answer(b: &mut Bench<'_>, psn: u32, msn: u32) -> Outcome {
    let answer = b.packet(RC_READ_RESPONSE_ONLY, psn)?;
    b.eq("the answer's bytes", answer.payload.len(), 0)?;
    b.eq("the MSN", answer.ext.aeth.map(|aeth| aeth.msn), Some(msn))
}

fn answered(b: &mut Bench<'_>, ext: Ext) -> Outcome {
    b.step("The FLUSH is answered");
    let psn = b.send(RC_FLUSH, ext, &[])?;
    answer(b, psn, 1)?;
    b.step("The connection goes on");
    b.goes_on(2)
}

fn written(b: &mut Bench<'_>, _: Region) -> Outcome {
    b.step("A WRITE that asks for no answer, and a FLUSH of another region behind it");
    let other = flushable(b.rig)?;
    let ext = b.reth(16, 8);
    b.send_quietly(RC_WRITE_ONLY, ext, &[0x5a; 8])?;
    let psn = b.send(RC_FLUSH, flush(REGION, 0, other.rkey, 0), &[])?;
    b.step("The answer is for both, and the bytes are there");
    answer(b, psn, 2)?;
    b.holds(16, &[0x5a; 8])?;
    b.goes_on(3)
}

fn repeated(b: &mut Bench<'_>, region: Region) -> Outcome {
    b.step("The FLUSH is answered");
    let ext = flush(RANGE, region.addr, region.rkey, 64);
    let psn = b.send(RC_FLUSH, ext, &[])?;
    answer(b, psn, 1)?;
    b.step("It comes twice more, and is answered as before");
    for _ in 0..2 {
        b.send_at(psn, RC_FLUSH, ext, &[])?;
        answer(b, psn, 1)?;
    }
    b.goes_on(2)
}

fn refused(b: &mut Bench<'_>, ext: Ext, code: NakCode) -> Outcome {
    b.step("The request is refused with its PSN, and the connection has ended");
    let psn = b.send(RC_FLUSH, ext, &[])?;
    b.nak(code, psn)?;
    b.ended()
}
