//! libfabric: its verbs provider, connected (`msg`), unconnected over that (`rdm`) and datagrams.

use std::time::Duration;

use super::running::{LIMIT, Meter, command, expect_success, name};
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::{Lab, Place};

/// Provider and kind of endpoint.
const ENDPOINTS: &[(&str, &str)] = &[
    ("verbs", "msg"),
    ("verbs", "dgram"),
    ("verbs;ofi_rxm", "rdm"),
    ("verbs;ofi_rxd", "rdm"),
];

pub(crate) fn cases(place: Place) -> Vec<Case> {
    let mut cases = vec![Case::new(name(place, "fi_info"), move |lab| {
        info(lab, place)
    })];
    for (provider, kind) in ENDPOINTS {
        let what = format!("fi_pingpong -p {provider} -e {kind}");
        cases.push(Case::new(name(place, &what), move |lab| {
            pingpong(lab, place, provider, kind)
        }));
    }
    cases
}

/// Which endpoints there are.
fn info(lab: &mut Lab, place: Place) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(place)?;
    let words = ["-p", "verbs"];
    let ran = process::run(
        command(site.client(), "fi_info", &words),
        &dir,
        "fi_info",
        LIMIT,
    )?;
    expect_success(&[&ran])?;
    for kind in ["FI_EP_MSG", "FI_EP_DGRAM", "FI_EP_RDM"] {
        if !ran.out.contains(&format!("type: {kind}")) {
            return Err(Stop::with(format!("no endpoint {kind}"), &[&ran]));
        }
    }

    Ok(())
}

/// Sizes up to 1 MiB, each received byte compared (`-c`).
fn pingpong(lab: &mut Lab, place: Place, provider: &str, kind: &str) -> Ending {
    let (dir, port) = (lab.case_dir()?, lab.port());
    let site = lab.site(place)?;
    let port = port.to_string();
    let mut words = vec!["-p", provider, "-e", kind, "-c"];
    if place.is_ipv6() {
        words.push("-6");
    }

    let meter = Meter::start(site)?;
    let mut server = command(site.server(), "fi_pingpong", &words);
    server.args(["-B", &port]);
    let mut server = process::spawn(server, &dir, "server")?;
    let number = port.parse().unwrap_or_default();
    if !server.listens(number, Duration::from_secs(30)) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }

    let mut client = command(site.client(), "fi_pingpong", &words);
    client.args(["-P", &port, &site.server().address]);
    let client = process::run(client, &dir, "client", LIMIT)?;
    let server = server.finish_after(&client, LIMIT);

    let race = provider == "verbs;ofi_rxm";
    for end in [&client, &server] {
        if !(race && is_closed_too_soon(end)) {
            expect_success(&[end])?;
        }
    }

    // A datagram is a packet.
    let largest = match kind {
        "dgram" => u64::from(place.path_mtu()),
        _ => 1 << 20,
    };

    let shown = |end: &Finished| end.out.lines().filter_map(size).collect::<Vec<_>>();
    let sizes = shown(&client);
    let last = sizes.last().copied().unwrap_or_default();
    let whole = last * 4 > largest && last <= largest;
    if !whole || shown(&server) != sizes {
        let what = format!("sizes {sizes:?}, to end with {largest} or near it at both ends");
        return Err(Stop::with(what, &[&client, &server]));
    }

    // Ten of each, there and back.
    meter.expect(20 * sizes.iter().sum::<u64>(), &[&client, &server])
}

/// Whether all that is wrong is what libfabric does to itself on a busy machine: hearing that the
/// peer has gone, its thread destroys the queue pair before it polls, takes what was not polled by
/// then for flushed, and tells the program so in place of the last request's completion.
fn is_closed_too_soon(end: &Finished) -> bool {
    let mut errors = end.err.lines().filter(|line| line.contains("[error]"));
    let flushed = |line: &str| line.ends_with("cq_readerr: Work Request Flushed Error");
    let code = end.status.and_then(|status| status.code());
    code == Some(125) && errors.next().is_some_and(flushed) && errors.next().is_none()
}

/// The size of a row of the table, in bytes.
fn size(line: &str) -> Option<u64> {
    let word = line.split_whitespace().next()?;
    let (digits, unit) = match word.as_bytes().last()? {
        b'k' => (word.trim_end_matches('k'), 1 << 10),
        b'm' => (word.trim_end_matches('m'), 1 << 20),
        _ => (word, 1),
    };
    Some(digits.parse::<u64>().ok()? * unit)
}
