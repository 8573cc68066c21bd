//! What is shown of a sample: each thing with its rates since the sample before, and with hints of
//! what may be wrong. `--json` prints it as it is here.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::{Duration, UNIX_EPOCH};

use ferroce_control::objects::{QpMoment, QpNumbers, QueuePair as Attributes};
use ferroce_control::{Counter, GidEntry};
use serde::Serialize;

use super::hints;
use super::names;
use super::queue_pair::{self, QueuePair};
use super::sample::{CompletionQueue, Program as Sampled, Sample};
use crate::ports::Port as Told;

/// All that is shown.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// Seconds since 1970.
    pub time: f64,
    /// Seconds since the sample before; none of the first.
    pub interval: Option<f64>,
    pub device: String,
    pub programs: Vec<Program>,
    pub queue_pairs: Vec<QueuePair>,
    pub completion_queues: Vec<Cq>,
    pub memory_regions: Vec<Region>,
    pub ports: Vec<Port>,
}

/// Whose something is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Owner {
    pub slot: u8,
    pub pid: u32,
    pub program: String,
}

/// A program that has the device open.
#[derive(Debug, Serialize)]
pub(super) struct Program {
    #[serde(flatten)]
    pub owner: Owner,
    /// Since when, in seconds.
    pub seconds: u64,
    pub queue_pairs: usize,
    pub completion_queues: usize,
    pub memory_regions: usize,
    pub registered_bytes: u64,
    /// The sums of its queue pairs'.
    pub rates: Option<Rates>,
    /// Of its queue pairs and completion queues, each once.
    pub hints: Vec<String>,
}

/// A completion queue.
#[derive(Debug, Serialize)]
pub(super) struct Cq {
    #[serde(flatten)]
    pub owner: Owner,
    pub number: u32,
    pub capacity: u32,
    pub held: u32,
    /// How many queues complete into it.
    pub users: u32,
    /// `no`, `any` or `solicited`.
    pub armed: &'static str,
    pub events: u32,
    pub last_event_seconds_ago: Option<f64>,
    /// Since the last event the program has not polled.
    pub unpolled: bool,
    pub overrun: bool,
    pub hints: Vec<String>,
}

/// A memory region.
#[derive(Debug, Serialize)]
pub(super) struct Region {
    #[serde(flatten)]
    pub owner: Owner,
    pub number: u32,
    pub domain: u32,
    pub bytes: u64,
}

/// A port of the device.
#[derive(Debug, Serialize)]
pub(super) struct Port {
    pub device: String,
    pub port: u32,
    pub state: String,
    pub link_layer: String,
    pub rate: String,
    pub netdevs: Vec<String>,
    pub lid: u32,
    /// As sysfs has them, a second old at most.
    pub counters: BTreeMap<String, u64>,
    pub rates: Option<Rates>,
    pub hints: Vec<String>,
}

/// A second's worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Rates {
    pub sent_bytes: f64,
    pub rcvd_bytes: f64,
    pub sent_pkts: f64,
    pub rcvd_pkts: f64,
    pub roce_retransmits: f64,
}

impl std::iter::Sum for Rates {
    fn sum<I: Iterator<Item = Rates>>(all: I) -> Rates {
        all.fold(Rates::default(), |sum, more| Rates {
            sent_bytes: sum.sent_bytes + more.sent_bytes,
            rcvd_bytes: sum.rcvd_bytes + more.rcvd_bytes,
            sent_pkts: sum.sent_pkts + more.sent_pkts,
            rcvd_pkts: sum.rcvd_pkts + more.rcvd_pkts,
            roce_retransmits: sum.roce_retransmits + more.roce_retransmits,
        })
    }
}

/// A queue pair's place among all that were: its program's process and slot, and its number.
pub(super) type Key = (u32, u8, u32);

/// What is kept of a sample for the next.
#[derive(Debug, Default)]
pub(super) struct Before {
    now: u64,
    queue_pairs: HashMap<Key, QpNumbers>,
    ports: HashMap<u32, BTreeMap<String, u64>>,
}

/// The device, as far as single queue pairs have to do with it.
pub(super) struct Around<'a> {
    pub now: u64,
    pub stretch: u32,
    pub infiniband: bool,
    gids: &'a [GidEntry],
    programs: &'a [Sampled],
}

impl Around<'_> {
    /// How long ago something was; none: never.
    pub(super) fn ago(&self, at: u64) -> Option<Duration> {
        (at != 0).then(|| Duration::from_nanos(self.now.saturating_sub(at)))
    }

    /// The program that has a queue pair at an address, if it is one of this device's.
    pub(super) fn program_of(&self, address: Option<IpAddr>, qp: u32) -> Option<Owner> {
        let here = self.gids.iter().any(|gid| Some(gid.addr) == address);
        let slot = (qp >> 16) as u8;
        let found = self.programs.iter().find(|program| program.slot == slot);
        found.filter(|_| here).map(owner)
    }
}

/// Whether a slot is one more that a program has, for a completion vector: what the program has is
/// listed at its first.
fn is_further_lane(program: &Sampled, all: &[Sampled]) -> bool {
    let lists = |program: &Sampled| {
        !program.queue_pairs.is_empty()
            || !program.completion_queues.is_empty()
            || !program.regions.is_empty()
    };
    let pid = program.client.pid;
    // 0: of another namespace, and anybody's.
    let first = |other: &Sampled| other.client.pid == pid && lists(other);
    pid != 0 && !lists(program) && all.iter().any(first)
}

fn owner(program: &Sampled) -> Owner {
    Owner {
        slot: program.slot,
        pid: program.client.pid,
        program: program.client.name.clone(),
    }
}

/// Makes the report, and what is kept for the next.
pub(super) fn report(sample: &Sample, before: Option<&Before>) -> (Report, Before) {
    let device = &sample.status.device;
    let around = Around {
        now: sample.now,
        stretch: device.stretch_timeouts,
        infiniband: device.ib_ports != 0,
        gids: &sample.status.gids,
        programs: &sample.programs,
    };

    let elapsed = before.map(|before| sample.now.saturating_sub(before.now) as f64 / 1e9);
    let mut next = Before {
        now: sample.now,
        ..Before::default()
    };
    let time = sample.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut all = Report {
        time: time.as_secs_f64(),
        interval: elapsed,
        device: device.name.clone(),
        ..Report::default()
    };

    for program in &sample.programs {
        let known = |key| before.and_then(|before| before.queue_pairs.get(&key));
        let mut queue_pairs = Vec::new();
        for (qp, numbers) in &program.queue_pairs {
            let key = (program.client.pid, program.slot, qp.number);
            let rates = rates_of(numbers, known(key), elapsed);
            let owner = owner(program);
            queue_pairs.push(queue_pair::shown(owner, qp, numbers, rates, &around));
            next.queue_pairs.insert(key, *numbers);
        }

        let queues = program.completion_queues.iter();
        let queues: Vec<Cq> = queues.map(|cq| queue(program, cq, &around)).collect();
        if !is_further_lane(program, &sample.programs) {
            all.programs.push(summed_up(program, &queue_pairs, &queues));
        }
        all.queue_pairs.extend(queue_pairs);
        all.completion_queues.extend(queues);
        all.memory_regions
            .extend(program.regions.iter().map(|region| Region {
                owner: owner(program),
                number: region.number,
                domain: region.domain,
                bytes: region.len,
            }));
    }

    for (port, counters) in &sample.ports {
        let counters: BTreeMap<_, _> = counters.iter().cloned().collect();
        let known = before.and_then(|before| before.ports.get(&port.number));
        all.ports.push(of_port(port, &counters, known, elapsed));
        next.ports.insert(port.number, counters);
    }

    (all, next)
}

/// The growth of a number in a second. One that has become less began anew: the queue pair, or
/// whoever counts, is another.
fn rate(now: u64, before: u64, elapsed: f64) -> f64 {
    now.checked_sub(before).unwrap_or(now) as f64 / elapsed.max(1e-3)
}

/// What a queue pair did since the sample before. One that was not there then did all of it since.
fn rates_of(now: &QpNumbers, before: Option<&QpNumbers>, elapsed: Option<f64>) -> Option<Rates> {
    let elapsed = elapsed?;
    let of = |counter| {
        let then = before.map_or(0, |before| before.counter(counter));
        rate(now.counter(counter), then, elapsed)
    };
    Some(Rates {
        sent_bytes: of(Counter::TxBytes),
        rcvd_bytes: of(Counter::RxBytes),
        sent_pkts: of(Counter::TxPackets),
        rcvd_pkts: of(Counter::RxPackets),
        roce_retransmits: of(Counter::RetransmittedPackets),
    })
}

fn queue(program: &Sampled, cq: &CompletionQueue, around: &Around<'_>) -> Cq {
    let numbers = &cq.numbers;
    let last_event = around.ago(numbers.last_event);
    Cq {
        owner: owner(program),
        number: cq.number,
        capacity: cq.capacity,
        held: numbers.held,
        users: cq.users,
        armed: match (numbers.armed, numbers.solicited_only) {
            (false, _) => "no",
            (true, false) => "any",
            (true, true) => "solicited",
        },
        events: numbers.events,
        last_event_seconds_ago: last_event.map(|ago| ago.as_secs_f64()),
        unpolled: numbers.unpolled,
        overrun: numbers.overrun,
        hints: hints::of_completion_queue(cq, last_event),
    }
}

fn summed_up(program: &Sampled, queue_pairs: &[QueuePair], queues: &[Cq]) -> Program {
    let mut hints: Vec<String> = queue_pairs
        .iter()
        .flat_map(|qp| &qp.hints)
        .map(|hint| hint.name.to_owned())
        .chain(queues.iter().flat_map(|cq| cq.hints.iter().cloned()))
        .collect();
    hints.sort();
    hints.dedup();

    Program {
        owner: owner(program),
        seconds: program.client.seconds,
        queue_pairs: queue_pairs.len(),
        completion_queues: queues.len(),
        memory_regions: program.regions.len(),
        registered_bytes: program.regions.iter().map(|region| region.len).sum(),
        rates: queue_pairs.iter().map(|qp| qp.rates).sum(),
        hints,
    }
}

fn of_port(
    port: &Told,
    counters: &BTreeMap<String, u64>,
    before: Option<&BTreeMap<String, u64>>,
    elapsed: Option<f64>,
) -> Port {
    let rates = before.zip(elapsed).map(|(before, elapsed)| {
        let of = |name: &str| {
            let value = |counters: &BTreeMap<String, u64>| counters.get(name).copied();
            let (now, then) = (value(counters), value(before));
            now.zip(then)
                .map_or(0.0, |(now, then)| rate(now, then, elapsed))
        };

        // Data are counted in words of four bytes.
        Rates {
            sent_bytes: 4.0 * of("port_xmit_data"),
            rcvd_bytes: 4.0 * of("port_rcv_data"),
            sent_pkts: of("port_xmit_packets"),
            rcvd_pkts: of("port_rcv_packets"),
            roce_retransmits: 0.0,
        }
    });

    Port {
        device: port.device.clone(),
        port: port.number,
        state: port.state.clone(),
        link_layer: port.link_layer.clone(),
        rate: port.rate.clone(),
        netdevs: port.netdevs.clone(),
        lid: port.lid,
        counters: counters.clone(),
        rates,
        hints: hints::of_port(&port.state),
    }
}

/// Where a queue pair's packets go, in words: an address or a LID.
pub(super) fn place(numbers: &QpNumbers, infiniband: bool) -> Option<String> {
    let attributes = &numbers.attributes;
    match infiniband {
        true => (attributes.dlid != 0).then(|| format!("LID {}", attributes.dlid)),
        false => names::address(attributes.dgid).map(|address| address.to_string()),
    }
}

/// When something last happened to a queue pair.
pub(super) fn last(numbers: &QpNumbers, what: QpMoment, around: &Around<'_>) -> Option<Duration> {
    around.ago(numbers.moment(what))
}

/// Whether a service has one peer, which acknowledges.
pub(super) fn is_acknowledged(qp: &Attributes) -> bool {
    matches!(qp.qp_type, 2 | 9)
}
