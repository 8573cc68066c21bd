//! Group `robust`: killed processes, hostile datagrams, unusual environments.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::environment::{self, Capture};
use super::expect;
use crate::case::{Case, Ending, Stop};
use crate::cprogram;
use crate::host::Host;
use crate::hostile::{self, Kind, Random};
use crate::lab::{Lab, Place};
use crate::perftest::{Pair, odd};
use crate::process;

const LIMIT: Duration = Duration::from_secs(60);

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in [Place::OneDaemon, Place::TwoDaemons] {
        for victim in [End::Client, End::Server] {
            let name = format!("robust/{}/kill -9 of the {}", place.name(), victim.name());
            cases.push(Case::new(name, move |lab| killed(lab, place, victim)));
        }
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
    cases.push(Case::new(
        "robust/second daemon on the same directory",
        second_daemon,
    ));
    cases.push(Case::new("robust/port 4791 taken", port_taken));
    cases.push(Case::new("robust/no io_uring, by switch", |lab| {
        without_io_uring(lab, false)
    }));
    cases.push(Case::new("robust/no io_uring, by seccomp", |lab| {
        without_io_uring(lab, true)
    }));
    cases.push(Case::new(
        "robust/daemon killed and started again",
        daemon_killed,
    ));
    cases.push(Case::new(
        "robust/ferroce run starts the daemon",
        run_starts_daemon,
    ));
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

/// Kills one end of a running transfer: the other's requests end in RETRY_EXC (12) and flushes, the slot becomes
/// free and the next run works.
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

/// A transfer with data check runs while datagrams rain on both ends; afterwards only counters have changed.
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
        Some(capture) => crate::pcap::read(&capture.finish()?)?,
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

/// A second daemon on a directory in use is refused with a clear message and leaves the first alone.
fn second_daemon(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    let mut command = host.plain(host.programs().join("ferroced"));
    command.arg("--runtime-dir").arg(host.runtime_dir()).args([
        "--addr",
        "127.0.0.2",
        "--foreground",
    ]);
    let finished = process::run(command, &dir, "second", Duration::from_secs(10))?;
    let refused = finished
        .status
        .is_some_and(|status| status.code().is_some_and(|code| code != 0));
    if !refused || finished.err.trim().is_empty() {
        return Err(Stop::with(
            "a second daemon on the same directory is not refused with a message",
            &[&finished],
        ));
    }
    host.status().map(|_| ()).map_err(|error| {
        Stop::with(
            format!("the first daemon suffered: {error:#}"),
            &[&finished],
        )
    })
}

/// Where another program has the port, the daemon says so.
fn port_taken(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let _taken =
        UdpSocket::bind(("127.0.0.3", crate::pcap::ROCE_V2)).map_err(anyhow::Error::from)?;
    let host = Host::new(lab.programs(), "127.0.0.3", None)?;
    let mut command = host.ferroce();
    command.args(["up", "--addr", "127.0.0.3"]);
    let finished = process::run(command, &dir, "up", Duration::from_secs(20))?;
    let clear = finished.err.contains("4791") && finished.err.contains("127.0.0.3");
    if finished.success() || finished.status.is_none() || !clear {
        return Err(Stop::with(
            "no clear message that port 4791 of 127.0.0.3 is taken",
            &[&finished],
        ));
    }
    Ok(())
}

/// Without io_uring everything works over plain system calls, and each process says so once.
fn without_io_uring(lab: &mut Lab, seccomp: bool) -> Ending {
    let dir = lab.case_dir()?;
    let wrapper = if seccomp {
        Some(cprogram::compile_plain("no_io_uring", &[] as &[&str])?)
    } else {
        None
    };
    let ports = [lab.port(), lab.port()];
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    for (tool, port) in ["ib_write_bw", "ib_send_lat"].into_iter().zip(ports) {
        let command = || {
            let mut command = match &wrapper {
                Some(wrapper) => {
                    let mut command = host.run(wrapper);
                    command.arg(tool);
                    command
                }
                None => {
                    let mut command = host.run(tool);
                    command.env("FERROCE_IO_URING", "off");
                    command
                }
            };
            command.args(["-F", "-n", "500", "-p", &port.to_string()]);
            command
        };
        let mut server = process::spawn(command(), &dir, "server")?;
        if !server.listens(port, LIMIT) {
            return Err(Stop::with(
                "the server does not come to listen",
                &[&server.finish(Duration::ZERO)],
            ));
        }
        let mut client = command();
        client.arg(&host.address);
        let client = process::run(client, &dir, "client", LIMIT)?;
        let server = server.finish(if client.success() {
            LIMIT
        } else {
            Duration::from_secs(5)
        });
        let evidence = [&client, &server];
        for finished in [&client, &server] {
            let said = finished
                .err
                .lines()
                .filter(|line| line.contains("io_uring"))
                .count();
            let other = finished
                .err
                .lines()
                .find(|line| !line.contains("io_uring") && odd(line).is_some());
            if !finished.success() {
                return Err(Stop::with(finished.ending(), &evidence));
            }
            if said != 1 || other.is_some() {
                return Err(Stop::with(
                    format!("says {said} times that io_uring is missing, not once"),
                    &evidence,
                ));
            }
        }
    }
    Ok(())
}

/// A daemon that dies leaves nothing behind that keeps the next one from starting.
fn daemon_killed(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let port = lab.port();
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    let start = || -> Result<process::Running, Stop> {
        let mut command = host.plain(host.programs().join("ferroced"));
        command.arg("--runtime-dir").arg(host.runtime_dir()).args([
            "--addr",
            "127.0.0.1",
            "--foreground",
        ]);
        let mut daemon = process::spawn(command, &dir, "ferroced")?;
        if !daemon.wait_until(Duration::from_secs(10), |_| host.status().is_ok()) {
            return Err(Stop::with(
                "ferroced does not come up",
                &[&daemon.finish(Duration::ZERO)],
            ));
        }
        Ok(daemon)
    };
    start()?.kill();
    let second = start()?;
    let options = ["-F", "-n", "500"].map(str::to_owned).to_vec();
    let pair = Pair {
        tool: "ib_send_bw".to_owned(),
        options,
        port,
        limit: LIMIT,
    };
    let ending = pair.run(&host, &host, &dir)?.clean();
    host.down()?;
    let second = second.finish(Duration::from_secs(10));
    ending?;
    if second.success() {
        Ok(())
    } else {
        Err(Stop::with(
            "ferroce down does not end the daemon well",
            &[&second],
        ))
    }
}

/// With no daemon there, `ferroce run` starts one; `ferroce down` ends it.
fn run_starts_daemon(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    let mut command = host.run("ibv_devinfo");
    command.args(["-d", "ferroce0"]);
    let finished = process::run(command, &dir, "run", LIMIT)?;
    if !finished.success() || !finished.out.contains("PORT_ACTIVE") || odd(&finished.err).is_some()
    {
        return Err(Stop::with(
            "ibv_devinfo does not find an active ferroce0",
            &[&finished],
        ));
    }
    host.down()?;
    expect(host.status().is_err(), || {
        "the daemon still answers after ferroce down".to_owned()
    })
}
