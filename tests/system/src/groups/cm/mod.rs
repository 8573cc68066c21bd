//! Group `cm`: the stock programs of librdmacm, and those of perftest that connect through it.

mod addresses;
pub(crate) mod changes;
pub(crate) mod single;
pub(crate) mod sockets;
mod stock;
mod wire;

pub(super) use stock::{CMTIME_59, NONE, STOCK};
pub(crate) use stock::{Stock, UDP, perftest, stock};

pub(crate) use crate::lab::host::TCP;

use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::case::{Case, Company, Ending, Stop};
use crate::harness::process::{self, Finished, Running};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};
use crate::programs::cprogram;
use crate::programs::perftest::odd;
use stock::{MANY, PERFTEST};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// How long a server may take until it listens.
pub(crate) const LISTEN_LIMIT: Duration = Duration::from_secs(20);
/// The port that these programs use unless told otherwise.
pub(crate) const USUAL_PORT: u16 = 7174;
/// The library that makes rsockets of a program's TCP sockets.
pub(crate) const RSOCKETS: &str = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so";

/// C programs about what rdma_cm documents.
pub(crate) const PROGRAMS: &[&str] = &[
    "cm_answers",
    "cm_channels",
    "cm_datagrams",
    "cm_errors",
    "cm_killed",
    "cm_options",
    "cm_refused",
    "cm_unreliable",
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

        // Datagram rsockets send from where the host's routes lead from, which for all of loopback
        // is 127.0.0.1. A server that is not told where takes any address, of IPv4.
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
                // Daemons that have had so many ids give large numbers to new ones, and
                // `cm_answers.c` looks among the small.
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
            // rcopy takes a colon for the end of the address, the programs over rsockets are told
            // of IPv4.
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
    cases.extend(addresses::cases());
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
    host.listens(space, port).unwrap_or(false)
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
    let names_port = perftest || stock.server.contains("PORT");
    let port = if names_port { port } else { USUAL_PORT };
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

/// What cmtime says of a connection that failed. It goes on without it, counts it as made and
/// ended, and exits with 0.
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
