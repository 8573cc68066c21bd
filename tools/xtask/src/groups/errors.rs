//! Group `errors`: C programs on every error status and on bad input.

use std::time::Duration;

use crate::case::Case;
use crate::cprogram;
use crate::lab::Place;

/// C programs, and the places that each runs at.
const PROGRAMS: &[(&str, &[Place])] = &[
    (
        "status",
        &[Place::OneDaemon, Place::TwoDaemons, Place::Veth(1500)],
    ),
    (
        "refusals",
        &[Place::OneDaemon, Place::TwoDaemons, Place::Veth(1500)],
    ),
    ("events", &[Place::OneDaemon, Place::TwoDaemons]),
    ("memory", &[Place::OneDaemon]),
    ("regions", &[Place::OneDaemon]),
    ("windows", &[Place::OneDaemon]),
    ("paging", &[Place::OneDaemon]),
    ("device_memory", &[Place::OneDaemon]),
    ("import", &[Place::OneDaemon]),
    ("transitions", &[Place::OneDaemon]),
    ("limits", &[Place::OneDaemon]),
    ("handles", &[Place::OneDaemon]),
    ("domains", &[Place::OneDaemon]),
    ("shared", &[Place::OneDaemon, Place::TwoDaemons]),
    ("offers", &[Place::OneDaemon]),
    (
        "datagrams",
        &[Place::OneDaemon, Place::TwoDaemons, Place::Veth(1500)],
    ),
    ("packets", &[Place::OneDaemon]),
    ("in_use", &[Place::OneDaemon]),
    ("groups", &[Place::OneDaemon]),
    ("exhaust", &[Place::OneDaemon]),
    ("errnos", &[Place::OneDaemon]),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (program, places) in PROGRAMS {
        for place in *places {
            cases.push(Case::many(
                format!("errors/{}/{program}.c", place.name()),
                move |lab| cprogram::run(lab, *place, program, Duration::from_secs(240)),
            ));
        }
    }
    cases
}
