//! What may be wrong: rules that tell from the numbers why a program hangs, or is slow.

use std::time::Duration;

use ferroce_control::Counter;
use ferroce_control::objects::{QpMoment, QpNumbers, QueuePair};
use serde::Serialize;

use super::names::{ack_timeout, span, status};
use super::report::{Around, Rates, is_acknowledged, last};
use super::sample::CompletionQueue;

/// How long something that comes again and again may have been away: longer than any wait that an
/// RNR NAK asks for (655 ms).
const LATELY: Duration = Duration::from_secs(2);
/// How long a program may take to wake up for an event, or a peer to answer who is never timed out.
const PATIENCE: Duration = Duration::from_secs(1);

const SQE: u8 = 5;
const ERR: u8 = 6;

/// What may be wrong with a queue pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Hint {
    /// One word, always the same for the same thing.
    pub name: &'static str,
    /// In words.
    pub text: String,
}

/// Of a queue pair: what is worst comes first.
pub(super) fn of_queue_pair(
    qp: &QueuePair,
    numbers: &QpNumbers,
    rates: Option<&Rates>,
    around: &Around<'_>,
) -> Vec<Hint> {
    let mut hints = Vec::new();
    let mut hint = |name, text| hints.push(Hint { name, text });
    let lately = |what| last(numbers, what, around).is_some_and(|ago| ago < LATELY);

    if matches!(qp.state, SQE | ERR) {
        let text = match &numbers.last_error {
            None => "in error; no request of its own has failed".to_owned(),
            Some(error) => {
                let queue = if error.receive { "receive" } else { "send" };
                let ago = span(around.ago(error.at).unwrap_or_default());
                format!(
                    "in error: a {queue} failed with {} {ago} ago",
                    status(error.status)
                )
            }
        };
        hint("error", text);
        return hints;
    }

    if let Some(silence) = silence(qp, numbers, around) {
        let text = format!("the peer does not answer, for {} now", span(silence));
        hint("silent", text);
    }
    if lately(QpMoment::RnrSent) {
        let text = "the peer sends, and no receive request is posted".to_owned();
        hint("no-receive", text);
    }
    if numbers.progress.waits_for_receiver || lately(QpMoment::RnrReceived) {
        let text = "the peer has no receive request posted (RNR)".to_owned();
        hint("rnr", text);
    } else if lately(QpMoment::SentAgain) {
        let text = match rates {
            Some(rates) => format!(
                "sends again, {:.0} packets a second",
                rates.roce_retransmits
            ),
            None => "sends again".to_owned(),
        };
        hint("retransmits", text);
    }
    if numbers.counter(Counter::RxNoReceive) != 0 && numbers.progress.receives == 0 {
        let dropped = numbers.counter(Counter::RxNoReceive);
        let text = format!("{dropped} messages dropped: no receive request is posted");
        hint("dropped", text);
    }

    hints
}

/// For how long a peer has not answered although it has to: something is on its way to it, and a
/// timeout has passed since the last packet of it, or a while where there are no timeouts.
fn silence(qp: &QueuePair, numbers: &QpNumbers, around: &Around<'_>) -> Option<Duration> {
    let at = &numbers.progress;
    let awaits = at.unacknowledged_psn != at.highest_psn && at.sends != 0;
    if !is_acknowledged(qp) || !awaits || at.waits_for_receiver {
        return None;
    }

    let since_sent = around.ago(numbers.last_sent)?;
    let since_received = around.ago(numbers.last_received);
    let timed_out = match ack_timeout(numbers.attributes.timeout, around.stretch) {
        Some(_) => numbers.moment(QpMoment::TimedOut) > numbers.last_received,
        None => numbers.last_sent > numbers.last_received && since_sent > PATIENCE,
    };

    timed_out.then(|| since_received.unwrap_or(since_sent))
}

/// Of a completion queue.
pub(super) fn of_completion_queue(cq: &CompletionQueue, event: Option<Duration>) -> Vec<String> {
    let mut hints = Vec::new();
    let numbers = &cq.numbers;
    if numbers.overrun {
        hints.push("overrun".to_owned());
    } else if numbers.held >= cq.capacity {
        hints.push("full".to_owned());
    }
    if numbers.unpolled && numbers.held != 0 && event.is_some_and(|ago| ago > PATIENCE) {
        hints.push("event-not-taken".to_owned());
    }
    hints
}

/// Of a port.
pub(super) fn of_port(state: &str) -> Vec<String> {
    match state {
        "ACTIVE" => Vec::new(),
        _ => vec!["not-active".to_owned()],
    }
}
