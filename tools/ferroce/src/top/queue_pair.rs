//! What is shown of a queue pair.

use std::collections::BTreeMap;
use std::time::Duration;

use ferroce_control::objects::{Pace, QpMoment, QpNumbers, QueuePair as Told};
use serde::Serialize;

use super::hints::{self, Hint};
use super::names;
use super::report::{Around, Key, Owner, Rates, last, place};

/// A queue pair.
#[derive(Clone, Debug, Serialize)]
pub(super) struct QueuePair {
    #[serde(flatten)]
    pub owner: Owner,
    pub number: u32,
    #[serde(rename = "type")]
    pub service: &'static str,
    pub state: &'static str,
    pub port: u8,
    pub peer: Peer,
    pub domain: Option<u32>,
    pub shared_receive_queue: Option<u32>,
    pub send_cq: Option<u32>,
    pub recv_cq: Option<u32>,
    pub sends: Queue,
    pub receives: Queue,
    pub psn: Psns,
    /// Payload bytes, not acknowledged and allowed to be.
    pub in_flight_bytes: u32,
    pub window_bytes: u32,
    /// What marks of congestion have its path held to, and their estimate, 0 to 1; `None`: nothing.
    pub rate_bytes_per_second: Option<u64>,
    pub congestion_estimate: Option<f64>,
    pub retries_left: u8,
    pub rnr_retries_left: u8,
    /// It sends again when the time is over that an RNR NAK has said.
    pub waits_for_receiver: bool,
    /// By the names that they have in `hw_counters`.
    pub counters: BTreeMap<&'static str, u64>,
    pub rates: Option<Rates>,
    pub seconds_ago: Ago,
    pub last_error: Option<LastError>,
    pub attributes: Attributes,
    pub hints: Vec<Hint>,
}

/// The other end of a connection.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Peer {
    pub number: u32,
    /// An IP address, or `LID n`.
    pub address: Option<String>,
    /// If it is a program of this device.
    pub program: Option<Owner>,
}

/// One of the two queues.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Queue {
    pub posted: u64,
    pub completed: u64,
    pub outstanding: u32,
    /// How many it holds.
    pub capacity: u32,
}

impl Queue {
    fn new(completed: u64, outstanding: u32, capacity: u32) -> Queue {
        Queue {
            posted: completed + u64::from(outstanding),
            completed,
            outstanding,
            capacity,
        }
    }
}

/// PSNs of 24 bits.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Psns {
    pub next: u32,
    pub unacknowledged: u32,
    /// After the highest that went out.
    pub highest: u32,
    pub expected: u32,
}

/// How long ago something last happened.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Ago {
    pub sent: Option<f64>,
    pub received: Option<f64>,
    pub sent_again: Option<f64>,
    pub timed_out: Option<f64>,
    pub rnr_nak_sent: Option<f64>,
    pub rnr_nak_received: Option<f64>,
}

/// The last request that failed, other than by being flushed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LastError {
    pub status: &'static str,
    /// `send` or `receive`.
    pub queue: &'static str,
    pub seconds_ago: f64,
}

/// As `ibv_query_qp(3)` has them.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Attributes {
    pub path_mtu: u16,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub access: Vec<&'static str>,
    pub pkey_index: u16,
    pub qkey: u32,
    pub sq_psn: u32,
    pub rq_psn: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub flow_label: u32,
    pub sl: u8,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u16,
    pub max_recv_sge: u16,
    pub max_inline_data: u32,
    pub sq_sig_all: bool,
}

impl QueuePair {
    pub(super) fn key(&self) -> Key {
        (self.owner.pid, self.owner.slot, self.number)
    }
}

/// What is shown of one.
pub(super) fn shown(
    owner: Owner,
    qp: &Told,
    numbers: &QpNumbers,
    rates: Option<Rates>,
    around: &Around<'_>,
) -> QueuePair {
    let at = &numbers.progress;
    let told = &numbers.attributes;
    let ago = |moment| last(numbers, moment, around).map(|ago: Duration| ago.as_secs_f64());
    let since = |at| around.ago(at).map(|ago| ago.as_secs_f64());
    let address = names::address(told.dgid).filter(|_| !around.infiniband);
    let counters = numbers.counters();

    QueuePair {
        owner,
        number: qp.number,
        service: names::service(qp.qp_type),
        state: names::state(qp.state),
        port: qp.port,
        peer: Peer {
            number: qp.remote,
            address: place(numbers, around.infiniband),
            program: around.program_of(address, qp.remote),
        },
        domain: qp.pd,
        shared_receive_queue: qp.srq,
        send_cq: numbers.send_cq,
        recv_cq: numbers.recv_cq,
        sends: Queue::new(at.sends_completed, at.sends, told.max_send_wr),
        receives: Queue::new(numbers.receives_completed, at.receives, told.max_recv_wr),
        psn: Psns {
            next: at.next_psn,
            unacknowledged: at.unacknowledged_psn,
            highest: at.highest_psn,
            expected: at.expected_psn,
        },
        in_flight_bytes: at.in_flight,
        window_bytes: at.window,
        rate_bytes_per_second: numbers.pace.map(|pace| pace.rate),
        congestion_estimate: numbers
            .pace
            .map(|pace| f64::from(pace.alpha) / f64::from(Pace::ONE)),
        retries_left: at.retries,
        rnr_retries_left: at.rnr_retries,
        waits_for_receiver: at.waits_for_receiver,
        counters: counters.map(|(counter, n)| (counter.name(), n)).collect(),
        rates,
        seconds_ago: Ago {
            sent: since(numbers.last_sent),
            received: since(numbers.last_received),
            sent_again: ago(QpMoment::SentAgain),
            timed_out: ago(QpMoment::TimedOut),
            rnr_nak_sent: ago(QpMoment::RnrSent),
            rnr_nak_received: ago(QpMoment::RnrReceived),
        },
        last_error: numbers.last_error.map(|error| LastError {
            status: names::status(error.status),
            queue: if error.receive { "receive" } else { "send" },
            seconds_ago: since(error.at).unwrap_or(0.0),
        }),
        attributes: Attributes {
            path_mtu: told.path_mtu,
            timeout: told.timeout,
            retry_cnt: told.retry_cnt,
            rnr_retry: told.rnr_retry,
            min_rnr_timer: told.min_rnr_timer,
            max_rd_atomic: told.max_rd_atomic,
            max_dest_rd_atomic: told.max_dest_rd_atomic,
            access: names::rights(told.access),
            pkey_index: told.pkey_index,
            qkey: told.qkey,
            sq_psn: qp.sq_psn,
            rq_psn: qp.rq_psn,
            sgid_index: told.sgid_index,
            hop_limit: told.hop_limit,
            traffic_class: told.traffic_class,
            flow_label: told.flow_label,
            sl: told.sl,
            max_send_wr: told.max_send_wr,
            max_recv_wr: told.max_recv_wr,
            max_send_sge: told.max_send_sge,
            max_recv_sge: told.max_recv_sge,
            max_inline_data: told.max_inline_data,
            sq_sig_all: told.sq_sig_all,
        },
        hints: hints::of_queue_pair(qp, numbers, rates.as_ref(), around),
    }
}
