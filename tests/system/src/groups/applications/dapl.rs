//! uDAPL, the Direct Access Programming Library, by its own tests: `dtest` with its data compared,
//! `dtestx` for immediate data and atomics, `dtestsrq`, and transactions of `dapltest`, every
//! message compared. Each of its three providers connects in another way.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::running::{LIMIT, Meter, command, expect_success, name};
use crate::groups::fabric::{activate, back_to_back};
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished, Running};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};

/// At which the servers of `dtest` and its like tell their clients the rest, by TCP.
const PORT: u16 = 15828;
/// How long a server may take to get there.
const READY: Duration = Duration::from_secs(30);
/// The name of the interface adapter in the registry.
const ADAPTER: &str = "adapter";

/// A provider, by how it connects.
#[derive(Clone, Copy, PartialEq)]
enum Provider {
    /// rdma_cm; it knows IPv4 only.
    Cma,
    /// TCP. It passes loopback devices over.
    Scm,
    /// Datagrams between LIDs.
    Ucm,
}

/// Programs of two ends, with what both are told beside the adapter.
const PAIRS: &[(&str, &[&str])] = &[
    ("dtest", &["-D", "-b", "65536"]),
    ("dtestx", &[]),
    (SHARED, &[]),
];
/// Its server tells nobody anything: clients of [`Provider::Ucm`] want its LID and QPN.
const SHARED: &str = "dtestsrq";

/// The server of `dtestx` tells its client where to connect before it listens there, and a client
/// that is faster is rejected. Then both are started again, so many times in all.
const TOO_EARLY: &str = "!conn established: 0x4003";
const ATTEMPTS: u32 = 5;

/// `dapltest`'s transactions: 400 of them, two threads with four endpoints each.
const TRANSACTIONS: &str = "-i 400 -t 2 -w 4 -V client SR 4096 2 server SR 70000 \
                            client RW 65536 server RR 65536 server RW 1000 client RR 1000";

pub(crate) fn cases(place: Place) -> Vec<Case> {
    let case = |what: &str, provider| {
        let what = format!("uDAPL over {what}");
        Case::new(name(place, &what), move |lab| at(lab, place, provider))
    };
    match place {
        place if place.is_ipv6() => Vec::new(),
        Place::Veth(_) => vec![case("rdma_cm", Provider::Cma), case("TCP", Provider::Scm)],
        _ => vec![case("rdma_cm", Provider::Cma)],
    }
}

/// In a fabric.
pub(crate) fn fabric_cases() -> Vec<Case> {
    vec![Case::new("applications/fabric/uDAPL over LIDs", in_fabric)]
}

fn at(lab: &mut Lab, place: Place, provider: Provider) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(place)?;
    let meter = Meter::start(site)?;
    let ends = all([site.server(), site.client()], provider, &dir)?;
    // What the transactions of 64 KiB alone come to.
    meter.expect(2 * 400 * 8 * 65536, &ends.iter().collect::<Vec<_>>())
}

fn in_fabric(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;
    let dir = lab.case_dir()?;
    let _manager = activate(&mut subnet)?;
    let [server, client] = [&subnet.hosts[0], &subnet.hosts[1]];
    all([server, client], Provider::Ucm, &dir).map(drop)
}

/// All programs, between two hosts; returns how each ended.
fn all(
    [server, client]: [&Host; 2],
    provider: Provider,
    dir: &Path,
) -> Result<Vec<Finished>, Stop> {
    let registries = [
        registry(server, provider, dir, "server")?,
        registry(client, provider, dir, "client")?,
    ];
    let run = |host: &Host, end: usize, program: &str, words: &[&str]| {
        let mut command = command(host, program, words);
        command.env("DAT_OVERRIDE", &registries[end]);
        command
    };

    let mut ends = Vec::new();
    for (program, words) in PAIRS {
        let words = [&["-P", ADAPTER], *words].concat();
        let pair = || {
            let server_end = run(server, 0, program, &words);
            let server_end = process::spawn(server_end, dir, &format!("{program}-server"))?;
            let (server_end, lid) = ready(server_end, program)?;

            let mut ask = run(client, 1, program, &words);
            ask.args(["-h", &address(server, provider)]);
            if (*program, provider) == (SHARED, Provider::Ucm) {
                ask.args(lid);
            }
            let client_end = process::run(ask, dir, &format!("{program}-client"), LIMIT)?;
            Ok::<_, Stop>((server_end, client_end))
        };
        let mut attempts = 1;
        let (server_end, client_end) = loop {
            let (server_end, client_end) = pair()?;
            if attempts == ATTEMPTS || !client_end.out.contains(TOO_EARLY) {
                break (server_end, client_end);
            }
            server_end.kill();
            attempts += 1;
        };
        ends.extend(both(server_end, client_end)?);
    }

    if provider == Provider::Ucm {
        // dapltest names a server by an IP address.
        return Ok(ends);
    }
    let serve = run(server, 0, "dapltest", &["-T", "S", "-D", ADAPTER]);
    let server_name = address(server, provider);
    let ask = |test: &'static str, rest: &[&str]| {
        let words = ["-T", test, "-D", ADAPTER, "-s", &server_name];
        run(client, 1, "dapltest", &[&words, rest].concat())
    };
    let transactions: Vec<&str> = TRANSACTIONS.split_whitespace().collect();
    let (transactions, quit) = (ask("T", &transactions), ask("Q", &[]));
    ends.extend(transact(serve, transactions, quit, dir)?);
    Ok(ends)
}

/// How a client names a server.
fn address(server: &Host, provider: Provider) -> String {
    match provider {
        // The hosts of a fabric share the loopback device, by which the server tells its LID.
        Provider::Ucm => "127.0.0.1".to_owned(),
        Provider::Cma | Provider::Scm => server.address.clone(),
    }
}

/// The file that says which provider an adapter has, and what it is told.
fn registry(host: &Host, provider: Provider, dir: &Path, end: &str) -> Result<PathBuf, Stop> {
    let (library, told) = match provider {
        Provider::Cma => ("libdaplofa", format!("{} 0", host.address)),
        Provider::Scm => ("libdaploscm", "ferroce0 1".to_owned()),
        Provider::Ucm => ("libdaploucm", "ferroce0 1".to_owned()),
    };
    let file = dir.join(format!("{end}.dat.conf"));
    let line =
        format!("{ADAPTER} u2.0 nonthreadsafe default {library}.so.2 dapl.2.0 \"{told}\" \"\"\n");
    fs::write(&file, line).map_err(anyhow::Error::from)?;
    Ok(file)
}

/// Waits until a server can be asked; returns it, and how [`SHARED`] is told its LID and QPN.
fn ready(mut server: Running, program: &str) -> Result<(Running, Vec<String>), Stop> {
    let is_ready = match program {
        SHARED => server.wait_until(READY, |server| server.output().contains("Accepting")),
        _ => server.listens(PORT, READY),
    };
    if !is_ready {
        return Err(not_ready(server));
    }

    let output = server.output();
    let after = |word: &str| {
        let (_, rest) = output.split_once(word)?;
        let digits = rest.split(|c: char| !c.is_ascii_hexdigit()).next()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let told = match (after("port(LID)=0x"), after("flowinfo(QPN)=0x")) {
        (Some(lid), Some(qpn)) => ["-l", &lid.to_string(), "-q", &qpn.to_string()]
            .map(str::to_owned)
            .to_vec(),
        _ => Vec::new(),
    };
    Ok((server, told))
}

/// How both ends ended; they must say that they passed.
fn both(server: Running, client: Finished) -> Result<[Finished; 2], Stop> {
    let server = server.finish_after(&client, READY);
    expect_success(&[&server, &client])?;
    // dtestsrq says "Complete".
    let well = |end: &Finished| end.out.contains("PASSED") || end.out.contains("Test Complete");
    match well(&server) && well(&client) {
        true => Ok([server, client]),
        false => Err(Stop::with("not both passed", &[&server, &client])),
    }
}

fn transact(
    serve: Command,
    transactions: Command,
    quit: Command,
    dir: &Path,
) -> Result<[Finished; 3], Stop> {
    let mut server = process::spawn(serve, dir, "dapltest-server")?;
    if !server.wait_until(READY, |server| server.output().contains("Ready")) {
        return Err(not_ready(server));
    }

    let client = process::run(transactions, dir, "dapltest-client", LIMIT)?;
    let quit = process::run(quit, dir, "dapltest-quit", LIMIT)?;
    let server = server.finish_after(&quit, READY);
    expect_success(&[&server, &client, &quit])?;
    // Its exit code is 0 whatever has become of them.
    let failed = |end: &Finished| {
        ["Failed", "Error"]
            .iter()
            .any(|word| end.out.contains(word))
    };
    match client.out.contains("End of Work") && !failed(&client) && !failed(&server) {
        true => Ok([server, client, quit]),
        false => Err(Stop::with("not all was done", &[&server, &client])),
    }
}

fn not_ready(server: Running) -> Stop {
    let server = server.kill();
    Stop::with("the server does not come to be ready", &[&server])
}
