//! Group `cm`: the stock programs of librdmacm, and those of perftest that connect through it.

use std::process::Command;
use std::time::{Duration, Instant};

use super::expect;
use crate::case::{Case, Ending, Endings, Stop};
use crate::cprogram;
use crate::host::Host;
use crate::lab::{Lab, Place};
use crate::perftest::odd;
use crate::process::{self, Finished, Running};
use crate::suite::Suite;
use crate::unittest::{self, Verdict};

const LIMIT: Duration = Duration::from_secs(60);
/// How long a server may take until it listens.
const LISTEN_LIMIT: Duration = Duration::from_secs(20);
/// Port spaces as service IDs have them: `RDMA_PS_TCP`, `RDMA_PS_UDP`.
const TCP: u64 = 0x0106;
const UDP: u64 = 0x0111;
const IB: u64 = 0x013f;
/// The port that these programs use unless told otherwise.
const USUAL_PORT: u16 = 7174;
/// No port space: the server listens at the UDP port itself, as datagram rsockets do.
const NONE: u64 = 0;

/// A stock program: its server's and its client's command line, where `ADDR` and `PORT` stand for the server's.
struct Stock {
    name: &'static str,
    server: &'static str,
    client: &'static str,
    /// The port space in which the server listens.
    space: u64,
    /// Whether the server stays until it is killed.
    stays: bool,
    /// What the client must say.
    says: &'static str,
}

const fn stock(
    name: &'static str,
    server: &'static str,
    client: &'static str,
    says: &'static str,
) -> Stock {
    Stock {
        name,
        server,
        client,
        space: TCP,
        stays: false,
        says,
    }
}

const STOCK: &[Stock] = &[
    stock(
        "rping",
        "rping -s -a ADDR -p PORT -v -V -C 20",
        "rping -c -a ADDR -p PORT -v -V -C 20",
        "rdma-ping-19",
    ),
    stock(
        "rping, listening everywhere, 60,000 bytes",
        "rping -s -p PORT -V -C 20 -S 60000",
        "rping -c -a ADDR -p PORT -V -C 20 -S 60000",
        "",
    ),
    Stock {
        stays: true,
        ..stock(
            "rping, a server for many",
            "rping -s -P -a ADDR -p PORT -V",
            "rping -c -a ADDR -p PORT -V -C 20",
            "",
        )
    },
    stock(
        "ucmatose, 200 connections",
        "ucmatose -b ADDR -p PORT -c 200",
        "ucmatose -s ADDR -p PORT -c 200",
        "return status 0",
    ),
    stock(
        "ucmatose, migrating ids between channels",
        "ucmatose -b ADDR -p PORT -c 20 -m",
        "ucmatose -s ADDR -p PORT -c 20 -m",
        "return status 0",
    ),
    stock(
        "rdma_client",
        "rdma_server -s ADDR -p PORT",
        "rdma_client -s ADDR -p PORT",
        "rdma_client: end 0",
    ),
    stock(
        "rdma_xclient, RC",
        "rdma_xserver -c r -p PORT",
        "rdma_xclient -c r -s ADDR -p PORT",
        "rdma_xclient: end 0",
    ),
    Stock {
        space: IB,
        ..stock(
            "rdma_xclient, XRC",
            "rdma_xserver -c x -p PORT",
            "rdma_xclient -c x -s ADDR -p PORT",
            "rdma_xclient: end 0",
        )
    },
    stock(
        "rstream",
        "rstream -b ADDR -p PORT -S 4096 -I 20 -C 50",
        "rstream -s ADDR -p PORT -S 4096 -I 20 -C 50",
        "custom",
    ),
    stock(
        "riostream",
        "riostream -b ADDR -p PORT -S 4096 -I 10 -C 10",
        "riostream -s ADDR -p PORT -S 4096 -I 10 -C 10",
        "custom",
    ),
    Stock {
        space: UDP,
        ..stock(
            "udaddy",
            "udaddy -b ADDR -c 4",
            "udaddy -s ADDR -c 4",
            "return status 0",
        )
    },
    Stock {
        space: NONE,
        stays: true,
        ..stock(
            "udpong",
            "udpong -b ADDR -p PORT",
            "udpong -s ADDR -p PORT -C 100 -S 64",
            "custom",
        )
    },
    Stock {
        stays: true,
        ..stock(
            "cmtime, 1,000 connections",
            "cmtime -b ADDR -p PORT -c 1000",
            "cmtime -s ADDR -p PORT -c 1000",
            "disconnect",
        )
    },
];

const PERFTEST: &[&str] = &[
    "ib_send_bw -n 500",
    "ib_send_lat -n 200",
    "ib_write_bw -n 500",
    "ib_write_lat -n 200",
    "ib_read_bw -n 500",
    "ib_read_lat -n 200",
    "ib_atomic_bw -n 500",
    "ib_atomic_lat -n 200",
    "ib_write_bw -n 200 -q 8",
    "ib_send_bw -n 200 -b",
];

/// C programs about what rdma_cm documents.
const PROGRAMS: &[&str] = &["cm_errors"];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in [Place::OneDaemon, Place::TwoDaemons, Place::Veth(1500)] {
        // Datagram rsockets send from where the host's routes lead from, which for all of loopback is 127.0.0.1.
        let here = |stock: &&Stock| stock.space != NONE || place != Place::TwoDaemons;
        for stock in STOCK.iter().filter(here) {
            let name = format!("cm/{}/{}", place.name(), stock.name);
            cases.push(Case::new(name, move |lab| {
                let port = lab.port();
                let dir = lab.case_dir()?;
                let site = lab.site(place)?;
                exchange(site.server(), site.client(), stock, port, &dir)
            }));
        }
        for line in PERFTEST {
            let name = format!("cm/{}/{line} -R", place.name());
            cases.push(Case::new(name, move |lab| {
                let stock = Stock {
                    name: "",
                    server: line,
                    client: line,
                    space: TCP,
                    stays: false,
                    says: "#bytes",
                };
                let port = lab.port();
                let dir = lab.case_dir()?;
                let site = lab.site(place)?;
                exchange(site.server(), site.client(), &stock, port, &dir)
            }));
        }
        cases.push(Case::new(
            format!("cm/{}/mckey", place.name()),
            move |lab| multicast(lab, place),
        ));
        cases.push(Case::new(
            format!("cm/{}/connecting to nobody", place.name()),
            move |lab| nobody(lab, place),
        ));
        cases.push(Case::new(
            format!("cm/{}/rcopy", place.name()),
            move |lab| copy(lab, place),
        ));
        cases.push(Case::new(
            format!("cm/{}/a TCP program over rsockets", place.name()),
            move |lab| preloaded(lab, place),
        ));
        for program in PROGRAMS {
            cases.push(Case::many(
                format!("cm/{}/{program}.c", place.name()),
                move |lab| cprogram::run(lab, place, program, Duration::from_secs(120)),
            ));
        }
    }
    cases.extend(super::cm_wire::cases());
    cases.push(Case::many("cm/one-daemon/pyverbs", |lab| {
        match suite(lab) {
            Ok(endings) => Endings::Many(endings),
            Err(stop) => Endings::One(Err(stop)),
        }
    }));
    cases.push(Case::new("cm/ipv6/rping", |lab| ipv6(lab, "rping")));
    cases.push(Case::new("cm/ipv6/rstream", |lab| ipv6(lab, "rstream")));
    cases
}

/// Words of a command line for a server at `address`.
fn words(line: &str, address: &str, port: u16) -> Vec<String> {
    line.split_whitespace()
        .map(|word| match word {
            "ADDR" => address.to_owned(),
            "PORT" => port.to_string(),
            word => word.to_owned(),
        })
        .collect()
}

fn command(host: &Host, words: &[String]) -> Command {
    let mut command = host.run(&words[0]);
    command.args(&words[1..]);
    command
}

/// Whether a host's daemon has a listener on a port.
fn listens(host: &Host, space: u64, port: u16) -> bool {
    let wanted = space << 16 | u64::from(port);
    let status = host.status().unwrap_or_default();
    let services = status["cm"]["services"].as_array();
    services.is_some_and(|all| all.iter().any(|id| id.as_u64() == Some(wanted)))
}

/// Whether somebody has a UDP port in a process's network namespace.
fn bound(process: u32, port: u16) -> bool {
    let table = std::fs::read_to_string(format!("/proc/{process}/net/udp")).unwrap_or_default();
    let wanted = format!(":{port:04X}");
    let local = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    table
        .lines()
        .filter_map(local)
        .any(|local| local.ends_with(&wanted))
}

fn wait_for_listener(server: &mut Running, host: &Host, space: u64, port: u16) -> bool {
    let deadline = Instant::now() + LISTEN_LIMIT;
    while Instant::now() < deadline {
        let ready = match space {
            NONE => bound(server.id(), port),
            _ => listens(host, space, port),
        };
        if ready {
            return true;
        }
        if server.ended_within(Duration::from_millis(20)) {
            return false;
        }
    }
    false
}

/// Runs server and client to their ends and judges both.
fn exchange(
    server_host: &Host,
    client_host: &Host,
    stock: &Stock,
    port: u16,
    dir: &std::path::Path,
) -> Ending {
    let perftest = stock.server.starts_with("ib_");
    // udaddy cannot be told.
    let told = perftest || stock.server.contains("PORT");
    let port = if told { port } else { USUAL_PORT };
    let line = |line: &str| {
        let mut words = words(line, &server_host.address, port);
        if perftest {
            words.extend(["-R", "-F", "-p"].map(str::to_owned));
            words.push(port.to_string());
        }
        words
    };
    let mut server = process::spawn(command(server_host, &line(stock.server)), dir, "server")?;
    if !wait_for_listener(&mut server, server_host, stock.space, port) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }
    let mut client = line(stock.client);
    if perftest {
        client.push(server_host.address.clone());
    }
    let client = process::run(command(client_host, &client), dir, "client", LIMIT)?;
    let server = match stock.stays {
        true => server.kill(),
        false => server.finish(if client.success() {
            LIMIT
        } else {
            Duration::from_secs(5)
        }),
    };
    judge(&client, &server, stock)
}

fn judge(client: &Finished, server: &Finished, stock: &Stock) -> Ending {
    let evidence = [client, server];
    if !client.success() {
        return Err(Stop::with(
            format!("client: {}", client.ending()),
            &evidence,
        ));
    }
    if !stock.stays && !server.success() {
        return Err(Stop::with(
            format!("server: {}", server.ending()),
            &evidence,
        ));
    }
    if !client.out.contains(stock.says) {
        let what = format!("the client does not say {:?}", stock.says);
        return Err(Stop::with(what, &evidence));
    }
    // These programs tell of their progress on standard error; perftest does not.
    match odd(&client.err).filter(|_| stock.server.starts_with("ib_")) {
        Some(line) => Err(Stop::with(format!("says on stderr: {line}"), &evidence)),
        None => Ok(()),
    }
}

/// Datagrams to a multicast group, from one member to another.
fn multicast(lab: &mut Lab, place: Place) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(place)?;
    let (receiver, sender) = (site.server(), site.client());
    let group = std::net::Ipv4Addr::new(239, 77, 1, 1);
    let mut command = receiver.run("mckey");
    command.args([
        "-m",
        &group.to_string(),
        "-b",
        &receiver.address,
        "-C",
        "20",
    ]);
    let mut server = process::spawn(command, &dir, "receiver")?;
    // Only a member gets anything.
    if !server.wait_until(LISTEN_LIMIT, |running| joined(running.id(), group)) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the receiver does not join", &[&server]));
    }
    let mut command = sender.run("mckey");
    command.args([
        "-m",
        &group.to_string(),
        "-b",
        &sender.address,
        "-C",
        "20",
        "-s",
    ]);
    let client = process::run(command, &dir, "sender", LIMIT)?;
    let server = server.finish(if client.success() {
        LIMIT
    } else {
        Duration::ZERO
    });
    judge(
        &client,
        &server,
        &stock("mckey", "mckey", "mckey", "return status 0"),
    )
}

/// Whether a process's network namespace is a member of an IPv4 group.
fn joined(process: u32, group: std::net::Ipv4Addr) -> bool {
    let table = std::fs::read_to_string(format!("/proc/{process}/net/igmp")).unwrap_or_default();
    let wanted = format!("{:08X}", u32::from_le_bytes(group.octets()));
    table.contains(&wanted)
}

/// A file to the other side.
fn copy(lab: &mut Lab, place: Place) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(place)?;
    let (from, to) = (dir.join("from"), dir.join("to"));
    let content: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 % 251) as u8).collect();
    std::fs::write(&from, &content).map_err(anyhow::Error::from)?;
    let mut command = site.server().run("rcopy");
    command.args(["-p", &port.to_string()]);
    let mut server = process::spawn(command, &dir, "server")?;
    if !wait_for_listener(&mut server, site.server(), TCP, port) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }
    let mut command = site.client().run("rcopy");
    let target = format!("{}:{}", site.server().address, to.display());
    command
        .arg(&from)
        .arg(target)
        .args(["-p", &port.to_string()]);
    let client = process::run(command, &dir, "client", LIMIT)?;
    let server = server.kill();
    if !client.success() {
        return Err(Stop::with(client.ending(), &[&client, &server]));
    }
    let arrived = std::fs::read(&to).unwrap_or_default();
    expect(arrived == content, || {
        "what arrived is not what was sent".to_owned()
    })
}

/// A program that knows nothing of RDMA, carried by librspreload.
fn preloaded(lab: &mut Lab, place: Place) -> Ending {
    const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so";
    if !std::path::Path::new(LIBRARY).exists() {
        return Err(Stop::Skip(format!("there is no {LIBRARY}")));
    }
    let program = cprogram::compile_plain("plain_tcp", &[] as &[&str])?;
    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(place)?;
    let address = site.server().address.clone();
    let command = |host: &Host, word: &str| {
        let mut command = host.run(&program);
        command.args([word, &address, &port.to_string()]);
        command.env("LD_PRELOAD", LIBRARY);
        command
    };
    let mut server = process::spawn(command(site.server(), "serve"), &dir, "server")?;
    if !wait_for_listener(&mut server, site.server(), TCP, port) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }
    let client = process::run(command(site.client(), "call"), &dir, "client", LIMIT)?;
    let server = server.finish(if client.success() {
        LIMIT
    } else {
        Duration::ZERO
    });
    let stock = stock("", "plain_tcp", "plain_tcp", "2000000 bytes");
    judge(&client, &server, &stock)
}

/// rdma-core's own tests of the connection manager, none of which may be skipped.
fn suite(lab: &mut Lab) -> Result<Vec<(String, Ending)>, Stop> {
    let suite = Suite::unpack_connections()?;
    let dir = lab.case_dir()?;
    let host = lab.site(Place::OneDaemon)?.client();
    let mut command = host.run("/usr/bin/python3");
    command
        .args(["run_tests.py", "--dev", "ferroce0", "-v"])
        .current_dir(suite.tests());
    let finished = process::run(command, &dir, "suite", Duration::from_secs(300))?;
    let outcomes = unittest::read(&finished.err)
        .map_err(|what| Stop::with(format!("{}; {what}", finished.ending()), &[&finished]))?;
    let judge = |verdict| match verdict {
        Verdict::Passed => Ok(()),
        Verdict::Skipped(why) => Err(Stop::fail(format!("skipped: {why}"))),
        Verdict::Failed(why) => Err(Stop::fail(why)),
    };
    let endings = outcomes
        .into_iter()
        .map(|outcome| (outcome.name, judge(outcome.verdict)));
    Ok(endings.collect())
}

/// Where nobody listens the answer is at once that one, and where nobody is it is that none came.
fn nobody(lab: &mut Lab, place: Place) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(place)?;
    let mut command = site.client().run("rping");
    command.args(["-c", "-a", &site.server().address, "-p", &port.to_string()]);
    let finished = process::run(command, &dir, "rping", LIMIT)?;
    let text = format!("{}{}", finished.out, finished.err);
    // IBTA's reason 8: there is no such service.
    if finished.success() || !text.contains("RDMA_CM_EVENT_REJECTED, error 8") {
        return Err(Stop::with(
            "not rejected for want of a listener",
            &[&finished],
        ));
    }
    expect(finished.elapsed < Duration::from_secs(10), || {
        format!("it took {:?} to be told", finished.elapsed)
    })
}

/// A stock program over IPv6.
fn ipv6(lab: &mut Lab, name: &str) -> Ending {
    lab.vacate();
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        return Err(Stop::Skip("this host has no IPv6".to_owned()));
    }
    let (dir, port) = (lab.case_dir()?, lab.port());
    let mut host = Host::new(lab.programs(), "::1", None)?;
    host.up()?;
    let stock = STOCK.iter().find(|stock| stock.name == name);
    let stock = stock.ok_or_else(|| Stop::fail("no such program"))?;
    exchange(&host, &host, stock, port, &dir)
}
