//! UCX: which transports it finds, and every test of `ucx_perftest`.

use std::fs;
use std::time::Duration;

use super::running::{LIMIT, Meter, command, expect_success, name};
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::{Lab, Place, Site};

/// `UCX_TLS` of the runs: `rc_verbs` with `ud_verbs` to connect by, `ud_verbs` alone, the best of
/// both, all but shared memory.
const TRANSPORTS: [&str; 4] = ["rc_v", "ud_v", "ib", "^posix,sysv,cma"];
/// Nothing set: between processes of one machine most of it goes through shared memory, and TCP is
/// there as well.
const DEFAULT: &str = "its default";
/// Nothing left out but other devices: tests of a transport name theirs.
const ALL: &str = "all";
const SIZES: [u64; 4] = [8, 4 << 10, 64 << 10, 1 << 20];
const TESTS: &[&str] = &[
    "tag_lat",
    "tag_bw",
    "tag_sync_lat",
    "tag_sync_bw",
    "stream_lat",
    "stream_bw",
    "ucp_am_lat",
    "ucp_am_bw",
    "ucp_put_lat",
    "ucp_put_bw",
    "ucp_get",
];
/// These are of eight bytes.
const ATOMICS: &[&str] = &["ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap"];
/// Tests of the transport itself, and how the data is laid out. UD has messages only, each with its
/// headers within the path MTU.
const RC: &[&str] = &[
    "am_lat short 8",
    "am_lat bcopy 8",
    "am_lat zcopy 8",
    "am_bw bcopy 4096",
    "am_bw zcopy 4096",
    "put_lat short 8",
    "put_lat bcopy 8",
    "put_lat zcopy 8",
    "put_bw bcopy 4096",
    "put_bw zcopy 4096",
    "put_bw zcopy 65536",
    "put_bw zcopy 1048576",
    "get bcopy 8",
    "get bcopy 4096",
    "get zcopy 4096",
    "get zcopy 65536",
    "get zcopy 1048576",
];
const UD: &[&str] = &[
    "am_lat short 8",
    "am_lat bcopy 8",
    "am_lat zcopy 8",
    "am_bw bcopy 512",
    "am_bw zcopy 512",
];
/// What a transport has not, and UCX's words for it. It takes a device's atomics only if they are
/// `IBV_ATOMIC_HCA`.
const NOT_RC: &[(&str, &str)] = &[
    ("add_lat short 8", NO_ATOMIC),
    ("add_mr short 8", NO_ATOMIC),
    ("fadd short 8", NO_ATOMIC),
    ("swap short 8", NO_ATOMIC),
    ("cswap short 8", NO_ATOMIC),
    ("get short 8", NO_OPERATION),
    ("get zcopy 8", "is smaller than min supported"),
    ("am_bw bcopy 65536", TOO_LONG),
    ("put_bw bcopy 65536", TOO_LONG),
    ("get bcopy 65536", TOO_LONG),
];
const NOT_UD: &[(&str, &str)] = &[
    ("add_lat short 8", NO_ATOMIC),
    ("add_mr short 8", NO_ATOMIC),
    ("fadd short 8", NO_ATOMIC),
    ("swap short 8", NO_ATOMIC),
    ("cswap short 8", NO_ATOMIC),
    ("put_lat short 8", NO_OPERATION),
    ("get bcopy 8", NO_OPERATION),
    ("am_bw bcopy 65536", TOO_LONG),
];
const NO_ATOMIC: &str = "does not support required 64-bit atomic";
const NO_OPERATION: &str = "does not support operation";
const TOO_LONG: &str = "is larger than max supported";

pub(crate) fn cases(place: Place) -> Vec<Case> {
    let mut cases = vec![Case::new(name(place, "ucx_info"), move |lab| {
        info(lab, place)
    })];
    for transport in TRANSPORTS.into_iter().chain([DEFAULT]) {
        for size in SIZES {
            let what = format!("ucx_perftest over {transport}, {size} bytes");
            cases.push(Case::new(name(place, &what), move |lab| {
                protocols(lab, place, transport, size)
            }));
        }
    }

    for (transport, tests) in [("rc_verbs", RC), ("ud_verbs", UD)] {
        for test in tests {
            let what = format!("ucx_perftest of {transport}, {test}");
            cases.push(Case::new(name(place, &what), move |lab| {
                single(lab, place, transport, test)
            }));
        }
    }

    for (transport, tests) in [("rc_verbs", NOT_RC), ("ud_verbs", NOT_UD)] {
        let what = format!("ucx_perftest of what {transport} has not");
        cases.push(Case::new(name(place, &what), move |lab| {
            refused(lab, place, transport, tests)
        }));
    }

    cases
}

fn info(lab: &mut Lab, place: Place) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(place)?;
    let ran = process::run(
        command(site.client(), "ucx_info", &["-d"]),
        &dir,
        "ucx_info",
        LIMIT,
    )?;
    expect_success(&[&ran])?;

    for transport in ["rc_verbs", "ud_verbs"] {
        let has = |line: &str| line.ends_with(&format!("Transport: {transport}"));
        let mut lines = ran.out.lines().skip_while(|line| !has(line));
        let device = lines.nth(1).unwrap_or_default();
        if !device.ends_with("Device: ferroce0:1") {
            let what = format!("{transport} has no device ferroce0:1");
            return Err(Stop::with(what, &[&ran]));
        }
    }

    Ok(())
}

/// Both ends of `ucx_perftest`; the server's control connection is TCP's.
fn perftest(
    site: &Site,
    dir: &std::path::Path,
    number: u16,
    transports: &str,
    [of_server, of_client]: [&[String]; 2],
) -> Result<[Finished; 2], Stop> {
    let port = number.to_string();
    let options = ["-p", &port];
    let with_transports = |mut command: std::process::Command| {
        if transports != DEFAULT {
            command.env("UCX_TLS", transports);
            command.env("UCX_NET_DEVICES", "ferroce0:1");
        }
        command
    };

    let control = match (site.place.is_ipv6(), site.other()) {
        // The control connection may be another's.
        (true, None) => "127.0.0.1",
        (true, Some(_)) => crate::lab::netns::ADDRESSES[0],
        (false, _) => &site.server().address,
    };

    let mut server = with_transports(command(site.server(), "ucx_perftest", &options));
    server.args(of_server);
    let mut server = process::spawn(server, dir, "server")?;
    if !server.listens(number, Duration::from_secs(30)) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }

    let mut ran = with_transports(command(site.client(), "ucx_perftest", &options));
    ran.arg(control).args(of_client);
    let client = process::run(ran, dir, "client", LIMIT)?;
    let server = server.finish_after(&client, LIMIT);
    Ok([client, server])
}

/// The tests of the protocols of UCP, in one run, and the bytes that must have gone through the
/// device.
fn protocols(lab: &mut Lab, place: Place, transport: &str, size: u64) -> Ending {
    const COUNT: u64 = 30;

    let atomics = if size == 8 { ATOMICS } else { &[] };
    let tests: Vec<_> = TESTS.iter().chain(atomics).collect();
    let dir = lab.case_dir()?;
    let batch = dir.join("batch");
    let lines: String = tests
        .iter()
        .map(|test| format!("{test} -t {test}\n"))
        .collect();
    fs::write(&batch, lines).map_err(anyhow::Error::from)?;

    let port = lab.port();
    let site = lab.site(place)?;
    let meter = Meter::start(site)?;

    // The server reads how many tests there are, and is told the rest.
    let batch = ["-b".to_owned(), batch.display().to_string()];
    let mut options = batch.to_vec();
    options.extend(["-f", "-v"].map(str::to_owned));
    for (option, value) in [("-s", size), ("-n", COUNT), ("-w", 2)] {
        options.extend([option.to_owned(), value.to_string()]);
    }
    let [client, server] = perftest(site, &dir, port, transport, [&batch, &options])?;

    expect_success(&[&client, &server])?;
    let rows: Vec<_> = client.out.lines().filter_map(row).collect();
    let sound = |(row, test): (&(String, f64), &&&str)| row.0 == ***test && row.1 > 0.0;
    if rows.len() != tests.len() || !rows.iter().zip(&tests).all(sound) {
        let what = format!("not a figure for each of {} tests: {rows:?}", tests.len());
        return Err(Stop::with(what, &[&client, &server]));
    }

    let through = if transport == DEFAULT {
        0
    } else {
        COUNT * size * tests.len() as u64
    };
    meter.expect(through, &[&client, &server])
}

/// A row of a table with `-v`: the test, and the messages per second over all.
fn row(line: &str) -> Option<(String, f64)> {
    let mut fields = line.split(',');
    let test = fields.next()?.trim().to_owned();
    let rate = fields.next_back()?.trim().parse().ok()?;
    Some((test, rate))
}

fn words(transport: &str, test: &str) -> Vec<String> {
    let mut words = test.split(' ');
    let mut options = Vec::new();
    for option in ["-t", "-D", "-s"] {
        options.extend([option, words.next().unwrap_or_default()].map(str::to_owned));
    }
    let rest = ["-x", transport, "-d", "ferroce0:1", "-n", "100", "-w", "5"];
    options.extend(rest.map(str::to_owned));
    options.extend(["-f", "-v"].map(str::to_owned));
    options
}

fn single(lab: &mut Lab, place: Place, transport: &str, test: &str) -> Ending {
    let (dir, port) = (lab.case_dir()?, lab.port());
    let site = lab.site(place)?;
    let size: u64 = test
        .rsplit(' ')
        .next()
        .and_then(|size| size.parse().ok())
        .unwrap_or(0);

    let meter = Meter::start(site)?;
    let [client, server] = perftest(site, &dir, port, ALL, [&[], &words(transport, test)])?;
    expect_success(&[&client, &server])?;
    let row = client.out.lines().rev().find_map(row);
    if row.is_none_or(|(_, rate)| rate <= 0.0) {
        return Err(Stop::with("no figure", &[&client, &server]));
    }

    meter.expect(100 * size, &[&client, &server])
}

/// What a transport has not is refused, with words, and neither end hangs.
fn refused(lab: &mut Lab, place: Place, transport: &str, tests: &[(&str, &str)]) -> Ending {
    for (test, wanted) in tests {
        let (dir, port) = (lab.case_dir()?, lab.port());
        let site = lab.site(place)?;
        let words = words(transport, test);
        let [client, server] = perftest(site, &dir, port, ALL, [&[], &words])?;
        let told = client.err.contains(wanted) || client.out.contains(wanted);
        let failed = client.code().is_some_and(|code| code != 0);
        if !(failed && told && server.status.is_some()) {
            let what = format!("{test} is not refused: {wanted}");
            return Err(Stop::with(what, &[&client, &server]));
        }
    }
    Ok(())
}
