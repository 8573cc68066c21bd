//! Group `robust`, continued: transfers on a network that loses packets, by selective
//! acknowledgements and without, and between an end that understands them and one that does not.

use std::time::Duration;

use crate::harness::case::{Case, Ending, Stop, expect};
use crate::lab::losses::{self, Came};
use crate::lab::{Lab, Place, Site};
use crate::programs::perftest::Pair;
use crate::programs::stream::{Streams, all_right};

const LIMIT: Duration = Duration::from_secs(60);
/// Of the packets that come to each end.
const SHARE: f64 = 0.02;
const SECONDS: u32 = 3;
/// The link's MTU, so that packets have 4096 bytes.
const LINK_MTU: u32 = 9000;

/// Stock programs with each kind of request.
const PROGRAMS: [&str; 8] = [
    "ib_write_bw -F -n 300",
    "ib_send_bw -F -n 300",
    "ib_read_bw -F -n 300",
    "ib_atomic_bw -F -n 100",
    "ib_write_bw -F -b -q 8 -n 100",
    "ib_send_bw -F -s 100 -n 1000",
    "ib_send_lat -F -n 100",
    "ib_write_bw -F -c UC -n 300",
];

/// How the server's programs recover, and the client's.
const WAYS: [[&str; 2]; 6] = [
    ["automatic", "automatic"],
    ["go-back-n", "automatic"],
    ["selective", "selective"],
    ["go-back-n", "selective"],
    ["selective", "go-back-n"],
    ["go-back-n", "go-back-n"],
];

pub(crate) fn cases() -> Vec<Case> {
    let case = |ways: [&'static str; 2]| {
        let [server, client] = ways;
        let name = format!("robust/lost packets, {server} and {client}");
        Case::new(name, move |lab| lossy(lab, ways))
    };
    WAYS.map(case).into()
}

/// Every byte of a transfer in both directions is right, stock programs end as they should, and
/// selective acknowledgements are spoken between two who understand them alone.
fn lossy(lab: &mut Lab, ways: [&'static str; 2]) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut site = Site::new(Place::Veth(LINK_MTU), lab.programs())?;
    site.segment_in_software()?;
    site.recovers_by(ways);
    let hosts = [site.server(), site.client()];
    for host in hosts {
        losses::lose(host, SHARE)?;
    }

    let streams = Streams::start(hosts, lab.port(), Some(SECONDS), &dir, LIMIT)?;
    let [server, client] = streams.finish(LIMIT);
    if !all_right(&server) || !all_right(&client) {
        return Err(Stop::with("losses end the transfer", &[&client, &server]));
    }

    for (host, recovers) in hosts.into_iter().zip(ways) {
        let came = losses::came(host)?;
        expect(is_as_agreed(ways, recovers, came), || {
            format!("to {} came {came:?}", host.address)
        })?;
    }

    for line in PROGRAMS {
        let pair = Pair::of(line, lab.port(), LIMIT);
        pair.run(hosts[0], hosts[1], &dir)?.clean()?;
    }

    Ok(())
}

/// Whether what came to an end, which recovers in this way, is what its packets may and must be.
fn is_as_agreed(ways: [&str; 2], recovers: &str, came: Came) -> bool {
    // Only who is known by a greeting is sent filled packets.
    if (came.filled > 0) != (ways == ["automatic", "automatic"]) {
        return false;
    }
    let few = came.shown < came.packets / 10;
    match ways {
        ["selective", "selective"] => came.acknowledged > 0 && came.shown > came.packets / 10 * 9,
        // What is sent before a daemon has an answer does not show it.
        ["automatic", "automatic"] => came.acknowledged > 0 && came.shown > came.packets / 4,
        ["go-back-n", "go-back-n"] => came.acknowledged == 0 && came.shown == 0,
        // A daemon answers for its host whatever a program wants, so the program is shown it for as
        // long as it does not answer in kind. It shows nothing itself.
        ["go-back-n", "automatic"] => {
            came.acknowledged == 0 && (recovers == "go-back-n" || came.shown == 0)
        }
        // Nobody answers in kind, so what was shown before the first answer is all.
        _ => came.acknowledged == 0 && few,
    }
}
