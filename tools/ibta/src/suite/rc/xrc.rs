//! The target of an extended reliable connection (annex A14): each request names a shared receive
//! queue, whose protection domain is that of the request's memory, as the target is in none itself.
//! Of devices that have XRC.

use super::bench::Bench;
use super::case::Breaks;
use super::mutants::{
    acknowledges_all, completes_with, other_reason, places_nothing, refuses_silently,
};
use super::words::{atomic, reth, status};
use crate::Test;
use crate::channel::{ChannelOptions, must, read_memory, write_memory};
use crate::packet::RxPacket;
use crate::protocol::{Command, Region, Reply, Service, Side};
use crate::rig::TransportRig;
use crate::run::{Outcome, Stop};
use crate::sim::Faults;
use crate::suite::domains::{Queue, elsewhere};
use ferroce_wire::{Ext, NakCode, Syndrome, opcode::*};

/// Bytes of each region.
const LEN: u32 = 64;
/// Code of the shortest wait in RNR NAKs: 0.64 ms.
const RNR_TIMER: u8 = 12;

pub(super) fn tests() -> Vec<Test> {
    let mut all = Vec::from(received());
    all.extend(reached());
    all.extend(named());
    all
}

/// SENDs: the memory of receive requests.
fn received() -> [Test; 2] {
    [
        test(
            1,
            "XRC: a shared receive queue takes memory of its own protection domain",
            |b, queue| {
                let region = queue.region(b.rig, true, LEN)?;
                queue.post(b.rig, 1, region)?;
                b.step("A SEND is placed in memory of the queue's domain");
                arrives(b, queue, 1, region, 1)?;
                b.goes_on(2)
            },
        )
        .covers(&["9.7.5.2"])
        .breaks(
            "looks-in-another-domain",
            "Memory of the queue's domain is refused.",
            || elsewhere(false),
        )
        .breaks("places-nothing", "It is not placed.", places_nothing),
        test(
            2,
            "XRC: a shared receive queue takes no memory of another protection domain",
            |b, queue| {
                let region = queue.region(b.rig, false, LEN)?;
                queue.post(b.rig, 1, region)?;
                b.step(
                    "A SEND for memory of another domain is refused: it is the responder that is at fault",
                );
                let psn = b.send(RC_SEND_ONLY, to(queue, Ext::default()), &[7; 8])?;
                b.nak(NakCode::RemoteOperationalError, psn)?;
                b.step("The receive request completes with a local protection error, and nothing is placed");
                b.completed(Side::Recv, 1, status::LOC_PROT_ERR)?;
                untouched(b, region)?;
                b.ended()
            },
        )
        .covers(&["9.7.5.2", "C9-220"])
        .breaks(
            "looks-in-another-domain",
            "Memory of another domain is taken.",
            || elsewhere(true),
        )
        .breaks("takes-it", "The packet is acknowledged.", acknowledges_all)
        .breaks(
            "completes-well",
            "The receive request completes with success.",
            || completes_with(Side::Recv, status::SUCCESS),
        ),
    ]
}

/// RDMA: what keys reach.
fn reached() -> [Test; 5] {
    [
        reaching(3, "WRITE", |b, queue, region| {
            let ext = to(queue, reth(region.addr, region.rkey, 8));
            let psn = b.send(RC_WRITE_ONLY, ext, &[7; 8])?;
            b.acked(psn, 1)?;
            holds(b, region, &[7; 8])
        })
        .breaks("places-nothing", "It is not placed.", places_nothing),
        reaching(4, "READ", |b, queue, region| {
            write_memory(b.rig, region.addr, &[7; 8])?;
            let ext = to(queue, reth(region.addr, region.rkey, 8));
            let psn = b.send(RC_READ_REQUEST, ext, &[])?;
            let answer = b.packet(RC_READ_RESPONSE_ONLY, psn)?;
            b.brings(&answer, &[7; 8])
        }),
        unreached(5, "WRITE", |b, queue, region| {
            let ext = to(queue, reth(region.addr, region.rkey, 8));
            b.send(RC_WRITE_ONLY, ext, &[7; 8])
        }),
        unreached(6, "READ", |b, queue, region| {
            let ext = to(queue, reth(region.addr, region.rkey, 8));
            b.send(RC_READ_REQUEST, ext, &[])
        }),
        unreached(7, "FETCH & ADD", |b, queue, region| {
            b.needs_atomics()?;
            let ext = to(queue, atomic(region.addr, region.rkey, 1, 0));
            b.send(RC_FETCH_ADD, ext, &[])
        }),
    ]
}

/// Which queue a request names.
fn named() -> [Test; 4] {
    [
        test(
            8,
            "XRC: a message is for the shared receive queue that it names, and for the protection domain of that",
            |b, first| {
                let second = Queue::new(b.rig, b.cc.options.xrcd)?;
                let mut regions = Vec::new();
                for (queue, wr_id) in [(first, 1), (second, 2)] {
                    let region = queue.region(b.rig, true, LEN)?;
                    queue.post(b.rig, wr_id, region)?;
                    regions.push(region);
                }

                b.step("A SEND for the second queue, then one for the first");
                arrives(b, second, 2, regions[1], 1)?;
                untouched(b, regions[0])?;
                arrives(b, first, 1, regions[0], 2)?;
                b.step("A WRITE for the first queue to memory of the second is a remote access error");
                let ext = to(first, reth(regions[1].addr, regions[1].rkey, 8));
                let psn = b.send(RC_WRITE_ONLY, ext, &[9; 8])?;
                b.nak(NakCode::RemoteAccessError, psn)?;
                holds(b, regions[1], &[7; 8])?;
                b.ended()
            },
        )
        .covers(&["9.7.4.1", "9.7.5.2"])
        .breaks(
            "keeps-to-the-first",
            "All messages are for the queue that was named first.",
            keeps_to_the_first_queue,
        )
        .breaks("takes-all", "The WRITE is acknowledged.", acknowledges_all),
        test(
            9,
            "XRC: a receive request of another shared receive queue is none for a message",
            |b, first| {
                let second = Queue::new(b.rig, b.cc.options.xrcd)?;
                let region = first.region(b.rig, true, LEN)?;
                first.post(b.rig, 1, region)?;
                arrives(b, first, 1, region, 1)?;
                first.post(b.rig, 2, region)?;
                b.step("A SEND for a queue without requests is refused with an RNR NAK");
                let psn = b.psn();
                b.send_at(psn, RC_SEND_ONLY, to(second, Ext::default()), &[8; 8])?;
                b.refused(Syndrome::RnrNak { timer: RNR_TIMER }, psn)?;
                b.not_completed(Side::Recv)?;
                b.step("With a request it is taken");
                let region = second.region(b.rig, true, LEN)?;
                second.post(b.rig, 3, region)?;
                arrives(b, second, 3, region, 2)
            },
        )
        .covers(&["9.7.5.2.8"])
        .breaks(
            "takes-anothers",
            "It is taken by the queue that has a request.",
            keeps_to_the_first_queue,
        )
        .breaks("says-nothing", "No RNR NAK comes.", refuses_silently),
        unknown(10, "that is no more", |b, _| {
            let gone = Queue::new(b.rig, b.cc.options.xrcd)?;
            must(b.rig, Command::DestroySrq { srq: gone.srq })?;
            Ok(gone)
        }),
        unknown(11, "of another XRC domain", |b, _| {
            let other = open(b.rig)?;
            let foreign = Queue::new(b.rig, Some(other))?;
            let region = foreign.region(b.rig, true, LEN)?;
            foreign.post(b.rig, 9, region)?;
            Ok(foreign)
        }),
    ]
}

/// A test with a target and a shared receive queue of its XRC domain, which has a protection domain
/// of its own.
fn test(
    n: u32,
    title: impl Into<String>,
    body: impl Fn(&mut Bench<'_>, Queue) -> Outcome + Send + Sync + 'static,
) -> Test {
    let assertion = format!("a14:xrc-{n:02}");
    let declared = assertion.clone();
    Test::transport(format!("A14_XRC_{n:02}"), "A14", title, move |run, rig| {
        needs_xrc(rig)?;
        let xrcd = open(rig)?;
        let queue = Queue::new(rig, Some(xrcd))?;
        let options = ChannelOptions {
            service: Service::XrcTarget,
            xrcd: Some(xrcd),
            xrc_srq: queue.number,
            min_rnr_timer: RNR_TIMER,
            ..ChannelOptions::default()
        };
        let mut bench = Bench::open(run, rig, options, assertion.clone())?;
        body(&mut bench, queue)?;
        bench.cc.close(bench.rig)?;
        Ok(())
    })
    .asserts([declared])
}

/// A request reaches memory of the queue's protection domain.
fn reaching(
    n: u32,
    what: &'static str,
    body: impl Fn(&mut Bench<'_>, Queue, Region) -> Outcome + Send + Sync + 'static,
) -> Test {
    let title =
        format!("XRC: a {what} reaches memory of the protection domain of the queue that it names");
    test(n, title, move |b, queue| {
        let region = queue.region(b.rig, true, LEN)?;
        b.step(format!(
            "A {what} with a key of the queue's domain is carried out"
        ));
        body(b, queue, region)?;
        b.goes_on(2)
    })
    .covers(&["9.7.4.1"])
    .breaks(
        "looks-in-another-domain",
        "Memory of the queue's domain is refused.",
        || elsewhere(false),
    )
}

/// A request with a key of another protection domain is refused; the body sends it.
fn unreached(
    n: u32,
    what: &'static str,
    body: impl Fn(&mut Bench<'_>, Queue, Region) -> Outcome<u32> + Send + Sync + 'static,
) -> Test {
    let title = format!(
        "XRC: a {what} to memory of another protection domain than the queue's is a remote access error"
    );
    test(n, title, move |b, queue| {
        let region = queue.region(b.rig, false, LEN)?;
        b.step(format!("A {what} with a key of another domain is refused"));
        let psn = body(b, queue, region)?;
        b.nak(NakCode::RemoteAccessError, psn)?;
        untouched(b, region)?;
        b.ended()
    })
    .covers(&["9.7.4.1"])
    .breaks(
        "looks-in-another-domain",
        "Memory of another domain is reached.",
        || elsewhere(true),
    )
    .breaks("takes-it", "It is acknowledged.", acknowledges_all)
    .breaks(
        "says-invalid",
        "It is refused as an invalid request.",
        || other_reason(NakCode::InvalidRequest),
    )
}

/// A message for a queue that is not of the target's domain is refused; `make` makes, or unmakes,
/// that queue.
fn unknown(
    n: u32,
    what: &'static str,
    make: impl Fn(&mut Bench<'_>, Queue) -> Outcome<Queue> + Send + Sync + 'static,
) -> Test {
    let title = format!("XRC: a message for a shared receive queue {what} is refused");
    test(n, title, move |b, queue| {
        let region = queue.region(b.rig, true, LEN)?;
        queue.post(b.rig, 1, region)?;
        arrives(b, queue, 1, region, 1)?;
        queue.post(b.rig, 2, region)?;
        let other = make(b, queue)?;
        b.step("The requester is at fault, and no receive request is used");
        let psn = b.send(RC_SEND_ONLY, to(other, Ext::default()), &[8; 8])?;
        let answer = b.packet(RC_ACKNOWLEDGE, psn)?;
        requesters_fault(b, &answer)?;
        b.not_completed(Side::Recv)?;
        holds(b, region, &[7; 8])?;
        b.ended()
    })
    .covers(&["9.7.5.2"])
    .breaks(
        "keeps-to-the-first",
        "It is for the queue that was named first.",
        keeps_to_the_first_queue,
    )
    .breaks("takes-it", "It is acknowledged.", acknowledges_all)
    .breaks(
        "blames-itself",
        "It is refused as a remote operational error.",
        || other_reason(NakCode::RemoteOperationalError),
    )
    .breaks("says-nothing", "It is dropped.", refuses_silently)
}

/// Either NAK says that the request was wrong, and not the responder.
fn requesters_fault(b: &mut Bench<'_>, answer: &RxPacket) -> Outcome {
    let held = matches!(
        answer.syndrome(),
        Some(Syndrome::Nak(
            NakCode::RemoteAccessError | NakCode::InvalidRequest
        ))
    );
    b.check(held, || {
        format!(
            "{} came, a NAK is due that says that the request is wrong",
            answer.describe()
        )
    })
}

fn needs_xrc(rig: &mut dyn TransportRig) -> Outcome {
    match must(rig, Command::Device)? {
        Reply::Device(device) if device.xrc => Ok(()),
        _ => Err(Stop::NotApplicable("the device has no XRC".to_owned())),
    }
}

/// A new XRC domain.
fn open(rig: &mut dyn TransportRig) -> Outcome<u32> {
    match must(rig, Command::OpenXrcd)? {
        Reply::Xrcd { xrcd } => Ok(xrcd),
        other => Err(Stop::Broken(anyhow::anyhow!("{other:?}"))),
    }
}

/// Extended headers of a request for a queue.
fn to(queue: Queue, ext: Ext) -> Ext {
    Ext {
        xrceth: Some(queue.number),
        ..ext
    }
}

/// A SEND for a queue is acknowledged with this MSN, and completes the queue's receive request for
/// a region.
fn arrives(b: &mut Bench<'_>, queue: Queue, wr_id: u64, region: Region, msn: u32) -> Outcome {
    let psn = b.send(RC_SEND_ONLY, to(queue, Ext::default()), &[7; 8])?;
    b.acked(psn, msn)?;
    let done = b.completed(Side::Recv, wr_id, status::SUCCESS)?;
    b.eq("the number of bytes", done.byte_len, 8)?;
    b.eq("the completion's queue pair", done.qp, b.cc.qp)?;
    holds(b, region, &[7; 8])
}

fn holds(b: &mut Bench<'_>, region: Region, due: &[u8]) -> Outcome {
    let seen = read_memory(b.rig, region.addr, due.len() as u32)?;
    b.eq("the memory", seen, due.to_vec())
}

fn untouched(b: &mut Bench<'_>, region: Region) -> Outcome {
    holds(b, region, &[0; LEN as usize])
}

/// Takes every request for one of the queue that the first of them named.
fn keeps_to_the_first_queue() -> Faults {
    let mut first = None;
    Faults::default().rx_edit(move |packet| {
        packet.ext.xrceth = Some(*first.get_or_insert(packet.ext.xrceth.unwrap_or_default()));
    })
}
