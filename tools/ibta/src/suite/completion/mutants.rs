//! Devices that complete too early, too much, never or with another status.

use super::SECOND;
use crate::catalog::Mutant;
use crate::protocol::Completion;
use crate::sim::Faults;

/// A device that completes a request as soon as it is posted.
pub(in crate::suite) fn completes_when_posted(assertion: &str) -> Mutant {
    Mutant::transport(
        "completes-when-posted",
        "the second request completes when it is posted, before anything of it is acknowledged",
        assertion,
        || {
            Faults::default().post(|qp, request| match request.wr_id {
                SECOND => vec![Completion {
                    wr_id: SECOND,
                    qp,
                    ..Completion::default()
                }],
                _ => Vec::new(),
            })
        },
    )
}

/// A device that takes an answer for more than it says.
pub(in crate::suite) fn covers_too_much(assertion: &str, psns: u32) -> Mutant {
    Mutant::transport(
        "covers-too-much",
        "an acknowledgement of a packet counts for the rest of its message, too",
        assertion,
        move || {
            Faults::default().rx_edit(move |packet| {
                packet.bth.psn = (packet.bth.psn + psns - 1) & 0xff_ffff;
            })
        },
    )
}

/// A device that never completes.
pub(in crate::suite) fn never_completes(assertion: &str) -> Mutant {
    Mutant::transport(
        "never-completes",
        "requests that were acknowledged do not complete",
        assertion,
        || Faults::default().completion(|_, _| Vec::new()),
    )
}

/// A device that completes with another status.
pub(in crate::suite) fn wrong_status(assertion: &str) -> Mutant {
    Mutant::transport(
        "wrong-status",
        "a request that succeeded completes with an error",
        assertion,
        || {
            Faults::default().completion(|_, completion| {
                vec![Completion {
                    status: 11,
                    ..completion
                }]
            })
        },
    )
}

/// A device that completes a READ when its first response comes.
pub(in crate::suite) fn completes_at_first_answer(assertion: &str) -> Mutant {
    Mutant::transport(
        "completes-at-first-answer",
        "a READ completes before its last response has come",
        assertion,
        || {
            Faults::default().post(|qp, request| {
                vec![Completion {
                    wr_id: request.wr_id,
                    qp,
                    ..Completion::default()
                }]
            })
        },
    )
}
