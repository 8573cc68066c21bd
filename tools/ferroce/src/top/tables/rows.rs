//! The columns of each table, and the rows that belong below them.

use super::{Cell, Column, Of, Row, number, text};
use crate::top::names::span;
use crate::top::queue_pair::QueuePair;
use crate::top::report::{Cq, Owner, Port, Program, Region};
use std::time::Duration;

pub(super) const PROGRAMS: &[Column] = &[
    text("PROGRAM", 0),
    number("PID", 0),
    number("SLOT", 4),
    text("SINCE", 5),
    number("QPS", 1),
    number("CQS", 3),
    number("MRS", 3),
    number("MEMORY", 2),
    number("TX/S", 1),
    number("RX/S", 1),
    number("RETX/S", 2),
    text("HINTS", 0),
];

pub(super) fn program(program: &Program) -> Row {
    let rates = program.rates.as_ref();
    let [name, pid, slot] = owner(&program.owner);
    Row {
        of: Of::Program(program.owner.pid),
        cells: vec![
            name,
            pid,
            slot,
            Cell {
                text: span(Duration::from_secs(program.seconds)),
                by: Some(program.seconds as f64),
            },
            Cell::number(program.queue_pairs as f64),
            Cell::number(program.completion_queues as f64),
            Cell::number(program.memory_regions as f64),
            Cell::amount(program.registered_bytes as f64),
            Cell::rate(rates, |rates| rates.sent_bytes),
            Cell::rate(rates, |rates| rates.rcvd_bytes),
            Cell::rate(rates, |rates| rates.roce_retransmits),
            Cell::text(program.hints.join(" ")),
        ],
        marked: !program.hints.is_empty(),
    }
}

pub(super) const QUEUE_PAIRS: &[Column] = &[
    text("PROGRAM", 3),
    number("PID", 4),
    text("QP", 0),
    text("TYPE", 2),
    text("STATE", 0),
    text("PEER", 1),
    text("PEER QP", 5),
    number("TX/S", 0),
    number("RX/S", 0),
    number("PKT/S", 7),
    number("RETX", 2),
    number("RNR", 2),
    number("SENDS", 1),
    number("RECVS", 6),
    number("ERRORS", 8),
    text("HINTS", 0),
];

pub(super) fn queue_pair(qp: &QueuePair) -> Row {
    let rates = qp.rates.as_ref();
    let counted = |names: &[&str]| {
        let values = names.iter().map(|name| qp.counters.get(name).copied());
        let sum: u64 = values.map(Option::unwrap_or_default).sum();
        Cell::number(sum as f64)
    };

    let [name, pid, _] = owner(&qp.owner);
    let hints: Vec<&str> = qp.hints.iter().map(|hint| hint.name).collect();
    Row {
        of: Of::QueuePair(qp.key()),
        cells: vec![
            name,
            pid,
            Cell::hexadecimal(qp.number),
            Cell::text(qp.service),
            Cell::text(qp.state),
            Cell::text(qp.peer.address.clone().unwrap_or_default()),
            match qp.peer.number {
                0 => Cell::text(""),
                number => Cell::hexadecimal(number),
            },
            Cell::rate(rates, |rates| rates.sent_bytes),
            Cell::rate(rates, |rates| rates.rcvd_bytes),
            Cell::rate(rates, |rates| rates.sent_pkts + rates.rcvd_pkts),
            counted(&["roce_retransmits"]),
            counted(&["out_of_buffer", "rnr_nak_retry_err"]),
            Cell::number(qp.sends.outstanding),
            Cell::number(qp.receives.outstanding),
            counted(&["req_cqe_error", "resp_cqe_error"]),
            Cell::text(hints.join(" ")),
        ],
        marked: !hints.is_empty(),
    }
}

pub(super) const COMPLETION_QUEUES: &[Column] = &[
    text("PROGRAM", 1),
    number("PID", 1),
    number("CQ", 0),
    number("CAPACITY", 1),
    number("HELD", 0),
    number("USERS", 2),
    text("ARMED", 0),
    number("EVENTS", 0),
    text("LAST EVENT", 1),
    text("HINTS", 0),
];

pub(super) fn completion_queue(cq: &Cq) -> Row {
    let [name, pid, _] = owner(&cq.owner);
    Row {
        of: Of::Other(format!("{} {}", cq.owner.slot, cq.number)),
        cells: vec![
            name,
            pid,
            Cell::number(cq.number),
            Cell::number(cq.capacity),
            Cell::number(cq.held),
            Cell::number(cq.users),
            Cell::text(cq.armed),
            Cell::number(cq.events),
            ago(cq.last_event_seconds_ago),
            Cell::text(cq.hints.join(" ")),
        ],
        marked: !cq.hints.is_empty(),
    }
}

pub(super) const REGIONS: &[Column] = &[
    text("PROGRAM", 0),
    number("PID", 0),
    number("MR", 0),
    number("PD", 0),
    number("BYTES", 0),
];

pub(super) fn region(region: &Region) -> Row {
    let [name, pid, _] = owner(&region.owner);
    Row {
        of: Of::Other(format!("{} {}", region.owner.slot, region.number)),
        cells: vec![
            name,
            pid,
            Cell::number(region.number),
            Cell::number(region.domain),
            Cell::number(region.bytes as f64),
        ],
        marked: false,
    }
}

pub(super) const PORTS: &[Column] = &[
    text("DEVICE", 1),
    number("PORT", 0),
    text("STATE", 0),
    text("LINK LAYER", 2),
    text("RATE", 3),
    text("NETDEV", 3),
    number("TX/S", 0),
    number("RX/S", 0),
    number("TX PKT/S", 1),
    number("RX PKT/S", 1),
    text("HINTS", 0),
];

pub(super) fn port(port: &Port) -> Row {
    let rates = port.rates.as_ref();
    Row {
        of: Of::Other(format!("{} {}", port.device, port.port)),
        cells: vec![
            Cell::text(port.device.clone()),
            Cell::number(port.port),
            Cell::text(port.state.clone()),
            Cell::text(port.link_layer.clone()),
            Cell::text(port.rate.clone()),
            Cell::text(port.netdevs.join(" ")),
            Cell::rate(rates, |rates| rates.sent_bytes),
            Cell::rate(rates, |rates| rates.rcvd_bytes),
            Cell::rate(rates, |rates| rates.sent_pkts),
            Cell::rate(rates, |rates| rates.rcvd_pkts),
            Cell::text(port.hints.join(" ")),
        ],
        marked: !port.hints.is_empty(),
    }
}

fn owner(owner: &Owner) -> [Cell; 3] {
    [
        Cell::text(owner.program.clone()),
        Cell::number(owner.pid),
        Cell::number(owner.slot),
    ]
}

/// How long ago something was; what never was comes last of all.
fn ago(seconds: Option<f64>) -> Cell {
    let known = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Cell {
        text: known.map_or_else(|| "never".to_owned(), |ago| format!("{} ago", span(ago))),
        by: Some(seconds.unwrap_or(f64::INFINITY)),
    }
}
