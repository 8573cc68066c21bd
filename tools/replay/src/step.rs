//! What a replay shows: a step for each thing that happened, and a sum for each queue pair.

use ferroce_transport::{QpState, Standing};
use serde::Serialize;

use crate::machine::View;
use crate::names::{STATES, name_of};

/// Something that happened, what it changed, and whether the transport did the same.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Its number, from 1.
    pub number: u64,
    /// Nanoseconds since 1970.
    pub time: u64,
    /// The queue pair.
    pub qp: u32,
    /// What it is.
    pub kind: Kind,
    /// In words.
    pub text: String,
    /// The state afterwards.
    pub state: &'static str,
    /// What of the queue pair is another than before.
    pub changes: Vec<Change>,
    /// Whether the transport does what the capture shows.
    pub verdict: Verdict,
    /// What it would do instead, or what else is to be said.
    pub note: Option<String>,
}

/// Kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The queue pair is set to something.
    Set,
    /// A request is posted.
    Posted,
    /// A packet comes.
    Came,
    /// A packet is sent.
    Sent,
    /// A request is completed.
    Completed,
    /// The state is another.
    State,
    /// A timer lapses.
    Timer,
    /// A fault on command.
    Fault,
}

/// Does the transport do what the capture shows?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is given to the queue pair: there is nothing to compare.
    Given,
    /// It does the same.
    Agrees,
    /// It does not.
    Differs,
    /// That cannot be told, as records are missing.
    Unknown,
}

/// Something of a queue pair that has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What.
    pub name: &'static str,
    /// Before.
    pub from: String,
    /// Now.
    pub to: String,
}

/// What the replay of a queue pair came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The queue pair.
    pub qp: u32,
    /// Its peer.
    pub peer: u32,
    /// RC, UC, UD, XRC_SEND or XRC_RECV.
    pub service: &'static str,
    /// Steps.
    pub steps: u64,
    /// Those in which the transport does what the capture shows.
    pub agreed: u64,
    /// Those in which it does not.
    pub differed: u64,
    /// Those of which that cannot be told.
    pub unknown: u64,
    /// The state in which it ends.
    pub state: &'static str,
    /// What was made up, as the capture does not have it.
    pub assumed: Vec<&'static str>,
}

/// What has changed from one view to another.
pub(crate) fn changes(before: &View, after: &View) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut compare = |name, from: String, to: String| {
        if from != to {
            changes.push(Change { name, from, to });
        }
    };
    let state = |state: QpState| name_of(&STATES, state).to_owned();
    compare("state", state(before.state), state(after.state));

    type Part = (&'static str, fn(&Standing) -> u64);
    let parts: [Part; 10] = [
        ("sends", |of| of.sends.into()),
        ("receives", |of| of.receives.into()),
        ("next PSN", |of| of.next_psn.into()),
        ("unacknowledged PSN", |of| of.unacknowledged_psn.into()),
        ("highest PSN", |of| of.highest_psn.into()),
        ("expected PSN", |of| of.expected_psn.into()),
        ("retries left", |of| of.retries.into()),
        ("RNR retries left", |of| of.rnr_retries.into()),
        ("waits for the receiver", |of| of.waits_for_receiver.into()),
        ("bytes in flight", |of| of.in_flight.into()),
    ];
    for (name, part) in parts {
        let (from, to) = (part(&before.standing), part(&after.standing));
        compare(name, from.to_string(), to.to_string());
    }
    changes
}
