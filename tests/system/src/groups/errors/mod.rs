//! Group `errors`: C programs on every error status and on bad input, and stock programs that ask
//! for what is not offered.

mod logging;

use std::time::Duration;

use crate::groups::verbs::traffic::pair_of;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::{Lab, Place};
use crate::programs::cprogram;

/// C programs, and the places that each runs at.
pub(crate) const PROGRAMS: &[(&str, &[Place])] = &[
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
    ("descriptors", &[Place::OneDaemon]),
    ("places", &[Place::OneDaemon, Place::Sockets]),
    ("handles", &[Place::OneDaemon]),
    ("domains", &[Place::OneDaemon]),
    (
        "shared",
        &[
            Place::OneDaemon,
            Place::Sockets,
            Place::TwoDaemons,
            Place::Veth(1500),
        ],
    ),
    ("offers", &[Place::OneDaemon]),
    (
        "datagrams",
        &[
            Place::OneDaemon,
            Place::Sockets,
            Place::TwoDaemons,
            Place::Veth(1500),
            Place::Ipv6,
            Place::VethIpv6(1500),
        ],
    ),
    ("packets", &[Place::OneDaemon]),
    ("in_use", &[Place::OneDaemon]),
    ("groups", &[Place::OneDaemon]),
    ("exhaust", &[Place::OneDaemon]),
    ("errnos", &[Place::OneDaemon]),
    ("garbled", &[Place::OneDaemon]),
    ("arguments", &[Place::OneDaemon]),
    ("cm_errnos", &[Place::OneDaemon]),
    ("vendors", &[Place::OneDaemon]),
];

/// perftest's programs for frames, each with the end that needs nobody else, and its lines for DC,
/// SRD and a rate limit, with both; and what they say of a device that does not have that.
const UNOFFERED: &[(&str, &str)] = &[
    (
        "raw_ethernet_bw --server -B 02:00:00:00:00:01 -E 02:00:00:00:00:02",
        NO_QP,
    ),
    (
        "raw_ethernet_lat --client -B 02:00:00:00:00:01 -E 02:00:00:00:00:02",
        NO_QP,
    ),
    (
        "raw_ethernet_fs_rate --server -B 02:00:00:00:00:01 -E 02:00:00:00:00:02",
        NO_QP,
    ),
    ("ib_send_bw -c DC", NO_QP),
    ("ib_send_bw -c SRD", NO_QP),
    (
        "ib_send_bw --rate_limit=5 --rate_limit_type=HW",
        "The QP failed to accept HW rate limit",
    ),
];
const NO_QP: &str = "Unable to create QP.";

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (program, places) in PROGRAMS {
        for place in *places {
            cases.push(Case::many(
                format!("errors/{}/{program}.c", place.name()),
                move |lab| cprogram::run(lab, *place, program, Duration::from_secs(240)),
            ));
        }
    }

    for (line, says) in UNOFFERED {
        cases.push(Case::new(format!("errors/one-daemon/{line}"), move |lab| {
            unoffered(lab, line, says)
        }));
    }

    cases.extend(logging::cases());
    cases
}

/// A program ends by itself, with an error and in words.
fn unoffered(lab: &mut Lab, line: &str, says: &str) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(Place::OneDaemon)?;
    if line.starts_with("raw_ethernet") {
        let mut words = line.split(' ');
        let mut command = site.client().run(words.next().unwrap_or_default());
        command.args(words);
        let ended = process::run(command, &dir, "program", Duration::from_secs(20))?;
        return refused(&[&ended], &ended, says);
    }
    let ends = pair_of(line, &[], port).run(site.server(), site.client(), &dir)?;
    refused(&[&ends.client, &ends.server], &ends.client, says)
}

/// Each end has an exit code other than 0, and the one that asked first says why.
fn refused(ends: &[&Finished], first: &Finished, says: &str) -> Ending {
    let code = |end: &Finished| end.status.and_then(|status| status.code());
    if let Some(end) = ends.iter().find(|end| matches!(code(end), None | Some(0))) {
        return Err(Stop::with(end.ending(), ends));
    }
    if !first.err.contains(says) {
        return Err(Stop::with(format!("does not say {says:?}"), ends));
    }
    Ok(())
}
