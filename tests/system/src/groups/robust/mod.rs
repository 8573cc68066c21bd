//! Group `robust`: killed processes and hostile datagrams; unusual surroundings are in
//! `surroundings`, what strangers may try in `strangers` and, at counters, in `counters`, whose
//! directory it is in `owners`, other users in `trust`, limits in `limits`, stopped peers in
//! `pauses`, networks that lose packets in `losses`, and that mark them in `marks`; no room for
//! counters in `shared_memory`, starts amid other trouble in `starts`; commands that are
//! interrupted in `interrupted`.

mod builds;
mod counters;
mod interrupted;
mod limits;
mod losses;
mod marks;
mod owners;
mod pauses;
mod shared_memory;
mod starts;
mod strangers;
mod surroundings;
mod trust;

use std::time::{Duration, Instant};

use crate::attack::hostile::{self, Kind, Random};
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process;
use crate::lab::environment::{self, Capture};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};
use crate::programs::cprogram;
use crate::programs::perftest::{Pair, odd};

const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in [Place::OneDaemon, Place::Sockets, Place::TwoDaemons] {
        for victim in [End::Client, End::Server] {
            let name = format!("robust/{}/kill -9 of the {}", place.name(), victim.name());
            cases.push(Case::new(name, move |lab| killed(lab, place, victim)));
        }
    }

    // What is mutated and replayed are packets that were captured.
    for place in [Place::Sockets, Place::TwoDaemons] {
        for (name, wanted) in [
            ("noise", Wanted::Noise),
            ("mutated", Wanted::Mutated),
            ("replayed", Wanted::Replayed),
        ] {
            let name = format!("robust/{}/{name} datagrams at a busy device", place.name());
            cases.push(Case::new(name, move |lab| {
                hostile_datagrams(lab, place, wanted)
            }));
        }
    }

    cases.extend(surroundings::cases());
    cases.extend(strangers::cases());
    cases.extend(counters::cases());
    cases.extend(owners::cases());
    cases.extend(trust::cases());
    cases.extend(limits::cases());
    cases.extend(pauses::cases());
    cases.extend(starts::cases());
    cases.extend(shared_memory::cases());
    cases.extend(losses::cases());
    cases.extend(marks::cases());
    cases.extend(builds::cases());
    cases.extend(interrupted::cases());
    cases
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Client,
    Server,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Client => "client",
            End::Server => "server",
        }
    }
}

/// Kills one end of a running transfer: the other's requests end in RETRY_EXC (12) and flushes, the
/// slot becomes free and the next run works.
fn killed(lab: &mut Lab, place: Place, victim: End) -> Ending {
    let dir = lab.case_dir()?;
    let program = cprogram::compile("stream")?;
    let port = lab.port();
    let after = lab.port();
    let site = lab.site(place)?;
    let (server_host, client_host) = (site.server(), site.client());
    let mut command = server_host.run(&program);
    command.args(["server", &port.to_string()]);
    let mut server = process::spawn(command, &dir, "server")?;
    if !server.listens(port, LIMIT) {
        return Err(Stop::with(
            "the server does not come to listen",
            &[&server.finish(Duration::ZERO)],
        ));
    }

    let mut command = client_host.run(&program);
    command.args(["client", &port.to_string(), &server_host.address]);
    let mut client = process::spawn(command, &dir, "client")?;
    let streams = |running: &process::Running| running.output().contains("streaming");
    if !client.wait_until(LIMIT, streams) || !server.wait_until(LIMIT, streams) {
        let (client, server) = (client.finish(Duration::ZERO), server.finish(Duration::ZERO));
        return Err(Stop::with(
            "the transfer does not start",
            &[&client, &server],
        ));
    }

    let (dead, survivor) = match victim {
        End::Client => (client.kill(), server.finish(LIMIT)),
        End::Server => (server.kill(), client.finish(LIMIT)),
    };
    let evidence = [&survivor, &dead];
    if !survivor.success() || odd(&survivor.err).is_some() {
        return Err(Stop::with(
            format!("the survivor: {}", survivor.ending()),
            &evidence,
        ));
    }

    if !survivor.out.contains("retry exceeded, then flushed") {
        return Err(Stop::with(
            "the survivor did not see status 12 and then flushes",
            &evidence,
        ));
    }

    for host in [server_host, client_host] {
        no_clients(host)?;
    }
    let options = ["-F", "-n", "500"].map(str::to_owned).to_vec();
    let next = Pair {
        tool: "ib_write_bw".to_owned(),
        options,
        port: after,
        limit: LIMIT,
    };
    next.run(server_host, client_host, &dir)?.clean()
}

/// Waits, within bounds, until the daemon has noticed that its clients are gone.
fn no_clients(host: &Host) -> Ending {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let status = host.status()?;
        if environment::clients(&status) == 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Stop::fail(format!(
                "the slot of the dead process is still taken: {status}"
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[derive(Clone, Copy)]
enum Wanted {
    Noise,
    Mutated,
    Replayed,
}

/// A transfer with data check runs while datagrams rain on both ends; afterwards only counters have
/// changed.
fn hostile_datagrams(lab: &mut Lab, place: Place, wanted: Wanted) -> Ending {
    let dir = lab.case_dir()?;
    let program = cprogram::compile("stream")?;
    let port = lab.port();
    let site = lab.site(place)?;
    let (server_host, client_host) = (site.server(), site.client());
    let before = [server_host.status()?, client_host.status()?];

    // Noise can do without real packets where capturing is not allowed.
    let capture = match Capture::start(client_host, "lo", 4000, &dir) {
        Ok(capture) => Some(capture),
        Err(Stop::Skip(_)) if matches!(wanted, Wanted::Noise) => None,
        Err(stop) => return Err(stop),
    };

    let mut command = server_host.run(&program);
    command.args(["server", &port.to_string()]);
    let mut server = process::spawn(command, &dir, "server")?;
    if !server.listens(port, LIMIT) {
        return Err(Stop::with(
            "the server does not come to listen",
            &[&server.finish(Duration::ZERO)],
        ));
    }

    // The client streams in both directions for as long as it is told, checking every byte.
    let mut command = client_host.run(&program);
    command.args(["client", &port.to_string(), &server_host.address, "6"]);
    let mut client = process::spawn(command, &dir, "client")?;
    let streams = |running: &process::Running| running.output().contains("streaming");
    if !client.wait_until(LIMIT, streams) {
        let (client, server) = (client.finish(Duration::ZERO), server.finish(Duration::ZERO));
        return Err(Stop::with(
            "the transfer does not start",
            &[&client, &server],
        ));
    }

    std::thread::sleep(Duration::from_millis(300));
    let packets = match capture {
        Some(capture) => crate::attack::pcap::read(&capture.finish()?)?,
        None => Vec::new(),
    };
    if packets.is_empty() && !matches!(wanted, Wanted::Noise) {
        return Err(Stop::fail("nothing was captured"));
    }

    let kind = match wanted {
        Wanted::Noise => Kind::Noise(&packets),
        Wanted::Mutated => Kind::Mutated(&packets),
        Wanted::Replayed => Kind::Replayed(&packets),
    };

    let mut random = Random(0x0f0e_0d0c);
    let mut sent = 0;
    for (from, to) in [(client_host, server_host), (server_host, client_host)] {
        sent += hostile::send(
            kind,
            &from.address,
            &to.address,
            Duration::from_millis(1500),
            &mut random,
        )?;
    }

    let client = client.finish(LIMIT);
    let server = server.finish(LIMIT);
    let evidence = [&client, &server];
    for (end, finished) in [("client", &client), ("server", &server)] {
        if !finished.success() || odd(&finished.err).is_some() {
            return Err(Stop::with(
                format!("{sent} datagrams later, the {end}: {}", finished.ending()),
                &evidence,
            ));
        }
    }

    if !matches!(wanted, Wanted::Replayed) {
        let after = [server_host.status()?, client_host.status()?];
        let bad = |status: &serde_json::Value| {
            ["icrc", "parse", "unknown_qp"]
                .iter()
                .map(|name| environment::counter(status, name))
                .sum::<u64>()
        };
        let counted: u64 = after.iter().map(bad).sum::<u64>() - before.iter().map(bad).sum::<u64>();
        expect(counted > 0, || {
            format!(
                "{sent} bad datagrams, and no counter shows one: {}",
                after[0]
            )
        })?;
    }

    Ok(())
}
