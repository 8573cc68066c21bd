//! Group `cm`: the stock programs of librdmacm, and those of perftest that connect through it.

mod changes;
pub(crate) mod single;
pub(crate) mod sockets;
mod wire;

use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::case::{Case, Company, Ending, Stop};
use crate::harness::process::{self, Finished, Running};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};
use crate::programs::cprogram;
use crate::programs::perftest::odd;

pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// How long a server may take until it listens.
pub(crate) const LISTEN_LIMIT: Duration = Duration::from_secs(20);
/// Port spaces as service IDs have them: `RDMA_PS_TCP`, `RDMA_PS_UDP`.
pub(crate) const TCP: u64 = 0x0106;
pub(crate) const UDP: u64 = 0x0111;
pub(super) const IB: u64 = 0x013f;
/// The port that these programs use unless told otherwise.
pub(crate) const USUAL_PORT: u16 = 7174;
/// The library that makes rsockets of a program's TCP sockets.
pub(crate) const RSOCKETS: &str = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so";
/// No port space: the server listens at the UDP port itself, as datagram rsockets do.
pub(super) const NONE: u64 = 0;

/// A stock program: its server's and its client's command line, where `ADDR` and `PORT` stand for the server's.
pub(crate) struct Stock {
    pub(crate) name: &'static str,
    pub(crate) server: &'static str,
    pub(crate) client: &'static str,
    /// The port space in which the server listens.
    pub(crate) space: u64,
    /// Whether the server stays until it is killed.
    pub(crate) stays: bool,
    /// What the client must say.
    pub(crate) says: &'static str,
}

pub(crate) const fn stock(
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

/// rping's clients say each round trip at once, so that what they have done is known even of one that must be killed.
pub(super) const STOCK: &[Stock] = &[
    stock(
        "rping",
        "rping -s -a ADDR -p PORT -v -V -C 20",
        "stdbuf -oL rping -c -a ADDR -p PORT -v -V -C 20",
        "rdma-ping-19",
    ),
    stock(
        "rping, listening everywhere, 60,000 bytes",
        "rping -s -p PORT -V -C 20 -S 60000",
        "stdbuf -oL rping -c -a ADDR -p PORT -v -V -C 20 -S 60000",
        "rdma-ping-19",
    ),
    Stock {
        stays: true,
        ..stock(
            "rping, a server for many",
            "rping -s -P -a ADDR -p PORT -V",
            "stdbuf -oL rping -c -a ADDR -p PORT -v -V -C 20",
            "rdma-ping-19",
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

/// cmtime as it is from rdma-core 59 on: which end is which is said by `-L`, and agreed upon over TCP.
pub(super) const CMTIME_59: Stock = Stock {
    space: NONE,
    ..stock(
        "cmtime, 1,000 connections",
        "cmtime -L -b ADDR -C ADDR -p PORT -c 1000",
        "cmtime -b ADDR -C ADDR -p PORT -c 1000",
        "disconnect",
    )
};

/// Ten times the backlog that a listener has by default. One place is enough: it takes about a second of the processor for each daemon.
const MANY: Stock = Stock {
    stays: true,
    ..stock(
        "cmtime, 10,000 connections",
        "cmtime -b ADDR -p PORT -c 10000",
        "cmtime -s ADDR -p PORT -c 10000",
        "disconnect",
    )
};

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

/// One of perftest's lines, connected by rdma_cm.
pub(crate) const fn perftest(line: &'static str) -> Stock {
    stock(line, line, line, "#bytes")
}

/// C programs about what rdma_cm documents.
pub(crate) const PROGRAMS: &[&str] = &[
    "cm_answers",
    "cm_channels",
    "cm_datagrams",
    "cm_errors",
    "cm_killed",
    "cm_options",
    "cm_refused",
];

pub(crate) fn cases() -> Vec<Case> {
    let [asked, unanswered] = changes::unanswered();
    let mut cases = vec![asked];
    for place in [
        Place::OneDaemon,
        Place::TwoDaemons,
        Place::Veth(1500),
        Place::Ipv6,
        Place::VethIpv6(1500),
    ] {
        let v6 = place.is_ipv6();
        // Datagram rsockets send from where the host's routes lead from, which for all of loopback is 127.0.0.1. A server that is
        // not told where takes any address, of IPv4.
        let here = |stock: &&Stock| match stock.space {
            NONE if place == Place::TwoDaemons => false,
            _ => !v6 || stock.server.contains("ADDR"),
        };
        for stock in STOCK.iter().filter(here) {
            let name = format!("cm/{}/{}", place.name(), stock.name);
            cases.push(Case::new(name, move |lab| run(lab, place, stock)));
        }
        if place == Place::TwoDaemons {
            let name = format!("cm/{}/{}", place.name(), MANY.name);
            cases.push(Case::new(name, move |lab| {
                let ending = run(lab, place, &MANY);
                // Daemons that have had so many ids give large numbers to new ones, and `cm_answers.c` looks among the small.
                lab.vacate();
                ending
            }));
        }
        // perftest knows addresses of IPv4 only.
        for line in PERFTEST.iter().filter(|_| !v6) {
            let name = format!("cm/{}/{line} -R", place.name());
            cases.push(Case::new(name, move |lab| run(lab, place, &perftest(line))));
        }
        cases.push(Case::new(
            format!("cm/{}/mckey", place.name()),
            move |lab| single::multicast(lab, place, "-m"),
        ));
        cases.push(Case::new(
            format!("cm/{}/connecting to nobody", place.name()),
            move |lab| single::nobody(lab, place),
        ));
        if v6 {
            cases.push(Case::new(
                format!("cm/{}/mckey, a group by its GID", place.name()),
                move |lab| single::multicast(lab, place, "-M"),
            ));
            // rcopy takes a colon for the end of the address, the programs over rsockets are told of IPv4.
            continue;
        }
        cases.push(Case::new(
            format!("cm/{}/rcopy", place.name()),
            move |lab| single::copy(lab, place),
        ));
        cases.extend(sockets::cases(place));
        for program in PROGRAMS {
            cases.push(Case::many(
                format!("cm/{}/{program}.c", place.name()),
                move |lab| cprogram::run(lab, place, program, Duration::from_secs(120)),
            ));
        }
    }
    cases.extend(wire::cases());
    let suite = Case::many("cm/one-daemon/pyverbs", single::suite);
    // Where Debian's documents are not installed, it has to be fetched.
    cases.push(suite.in_company(Company::Alone));
    cases.extend(changes::cases());
    cases.push(unanswered);
    cases
}

/// Runs a stock program's two ends at a place.
fn run(lab: &mut Lab, place: Place, stock: &Stock) -> Ending {
    let port = lab.port();
    let dir = lab.case_dir()?;
    let site = lab.site(place)?;
    exchange(site.server(), site.client(), stock, port, &dir)
}

/// Words of a command line for a server at `address`.
pub(crate) fn words(line: &str, address: &str, port: u16) -> Vec<String> {
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
pub(crate) fn listens(host: &Host, space: u64, port: u16) -> bool {
    let wanted = space << 16 | u64::from(port);
    let status = host.status().unwrap_or_default();
    let services = status["cm"]["services"].as_array();
    services.is_some_and(|all| all.iter().any(|id| id.as_u64() == Some(wanted)))
}

/// Whether somebody has a UDP or TCP port in a process's network namespace.
fn bound(process: u32, port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    let local = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    ["udp", "udp6", "tcp", "tcp6"].iter().any(|table| {
        let table = std::fs::read_to_string(format!("/proc/{process}/net/{table}"));
        let table = table.unwrap_or_default();
        let mut locals = table.lines().filter_map(local);
        locals.any(|local| local.ends_with(&wanted))
    })
}

pub(super) fn wait_for_listener(server: &mut Running, host: &Host, space: u64, port: u16) -> bool {
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
pub(crate) fn exchange(
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
        false => server.finish_after(&client, LIMIT),
    };
    judge(&client, &server, stock)
}

pub(crate) fn judge(client: &Finished, server: &Finished, stock: &Stock) -> Ending {
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
    let complaint = match stock.server.split(' ').next() {
        Some("cmtime") => cmtime_complaint(evidence),
        Some(tool) if tool.starts_with("ib_") => odd(&client.err),
        _ => None,
    };
    match complaint {
        Some(line) => Err(Stop::with(format!("it says: {line}"), &evidence)),
        None => Ok(()),
    }
}

/// What cmtime says of a connection that failed. It goes on without it, counts it as made and ended, and exits with 0.
pub(crate) fn cmtime_complaint<'a>(ends: [&'a Finished; 2]) -> Option<&'a str> {
    let failed = |line: &&str| line.contains("error: ") || line.starts_with("failing ");
    // Whatever stands on standard error is a call that failed.
    let complaint = |end: &'a Finished| end.out.lines().find(failed).or_else(|| odd(&end.err));
    ends.into_iter().find_map(complaint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(out: &str, err: &str) -> Finished {
        Finished {
            line: "cmtime".to_owned(),
            status: Some(std::process::ExitStatus::default()),
            out: out.to_owned(),
            err: err.to_owned(),
            elapsed: Duration::ZERO,
        }
    }

    #[test]
    fn cmtime_is_not_believed_when_a_connection_failed() {
        let table = "connecting\nconnect      :     226.17      11.98       6.00      22.62\ndisconnect   :       1.00       1.00       1.00       1.00\n";
        let rejected = format!("connecting\nevent: RDMA_CM_EVENT_REJECTED, error: 28\n{table}");
        let unreachable = format!("event: RDMA_CM_EVENT_UNREACHABLE, error: -110\n{table}");
        let route = format!("RDMA_CM_EVENT_ROUTE_ERROR, error: -110\n{table}");
        let call = "failure creating qp: Cannot allocate memory\n";
        for (client, server, good) in [
            ((table, ""), ("", ""), true),
            ((&rejected, ""), ("", ""), false),
            ((&unreachable, ""), ("", ""), false),
            ((&route, ""), ("", ""), false),
            ((table, call), ("", ""), false),
            ((table, ""), ("", call), false),
            ((table, ""), ("failing connection request\n", ""), false),
        ] {
            let client = finished(client.0, client.1);
            let server = finished(server.0, server.1);
            let stock = STOCK
                .iter()
                .find(|stock| stock.server.starts_with("cmtime"));
            let judged = judge(&client, &server, stock.unwrap());
            assert_eq!(judged.is_ok(), good, "{client:?} {server:?}");
        }
    }
}
