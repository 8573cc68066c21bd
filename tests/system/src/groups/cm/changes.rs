//! Group `cm`, continued: what happens to connections from outside. The device goes, its address
//! changes, nobody answers.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::attack::pcap::{self, Packet};
use crate::groups::cm::{LIMIT, TCP, wait_for_listener, words};
use crate::groups::verbs::watch::{ip, only_ipv4};
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::environment;
use crate::lab::environment::Capture;
use crate::lab::host::Host;
use crate::lab::netns::{self, Namespace, Pair};
use crate::lab::{Lab, Place};
use crate::programs::cprogram;

/// How often a request is repeated, and how long each is waited for: 4.096 µs · 2^20 for the peer's
/// answer, and twice 4.096 µs · 2^16 for the way there and back.
const REPEATED: u64 = 15;
const PATIENCE: f64 = 4.096e-6 * ((1 << 20) + 2 * (1 << 16)) as f64;

/// What begins early and ends late, beside everything else: at first, and at last.
pub(crate) fn unanswered() -> [Case; 2] {
    let asked = Rc::new(RefCell::new(None));
    let later = Rc::clone(&asked);
    [
        Case::new("cm/veth/nobody answers, begun", move |lab| {
            *asked.borrow_mut() = Some(Unanswered::ask(lab)?);
            Ok(())
        }),
        Case::new("cm/veth/nobody answers", move |lab| {
            let begun = later.borrow_mut().take();
            match begun {
                Some(begun) => begun.judge(),
                None => Unanswered::ask(lab)?.judge(),
            }
        }),
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("cm/veth-1500/type of service on the wire", service),
        Case::new("cm/veth/device_removal", |lab| {
            change(lab, "device_removal", |host| Ok(host.down()?))
        }),
        Case::new("cm/veth/device_lost", |lab| {
            change(lab, "device_lost", |host| Ok(host.kill_daemon()?))
        }),
        Case::new("cm/veth/device_replaced", |lab| {
            change(lab, "device_replaced", |host| {
                host.kill_daemon()?;
                Ok(host.up_with(&["--netdev", netns::INTERFACES[0]])?)
            })
        }),
        Case::new("cm/veth/events_end, the daemon stops", |lab| {
            change(lab, "events_end", |host| Ok(host.down()?))
        }),
        Case::new("cm/veth/events_end, the daemon dies", |lab| {
            change(lab, "events_end", |host| Ok(host.kill_daemon()?))
        }),
        Case::new("cm/veth/address_change, the address goes", |lab| {
            change(lab, "address_change", |host| {
                let address = format!("{}/24", netns::ADDRESSES[0]);
                ip(
                    host,
                    &["addr", "del", &address, "dev", netns::INTERFACES[0]],
                )?;
                // Another one that comes is nothing to who had the first.
                ip(
                    host,
                    &["addr", "add", "10.77.0.9/24", "dev", netns::INTERFACES[0]],
                )
            })
        }),
        Case::new("cm/veth/address_change, the hardware's", |lab| {
            change(lab, "address_change", |host| {
                let interface = netns::INTERFACES[0];
                ip(
                    host,
                    &["link", "set", interface, "address", "02:00:00:00:77:01"],
                )
            })
        }),
    ]
}

pub(crate) fn pair() -> Result<Pair, Stop> {
    Pair::new(1500).map_err(|error| {
        Stop::Skip(format!(
            "network namespaces are not allowed here: {error:#}"
        ))
    })
}

/// Programs that ask for a connection and for a datagram service, what each says when nobody
/// answers (ETIMEDOUT), and the message that it repeats.
const ASKING: [(&str, &str, &str, &str); 2] = [
    (
        "rping",
        "-c -a ADDR",
        "RDMA_CM_EVENT_UNREACHABLE, error -110",
        "req",
    ),
    (
        "udaddy",
        "-s ADDR",
        "RDMA_CM_EVENT_UNREACHABLE, error: -110",
        "sidr_req",
    ),
];

/// Requests to a host that is there and has nobody to answer.
struct Unanswered {
    // In this order: the host's daemon is stopped while the programs and the namespaces are there.
    /// Wait for the end of the clients, lest it be noticed only when the other cases have had their
    /// time.
    clients: Vec<JoinHandle<Finished>>,
    host: Host,
    _silent: Namespace,
}

impl Unanswered {
    fn ask(lab: &mut Lab) -> Result<Unanswered, Stop> {
        let dir = lab.case_dir()?;
        let pair = pair()?;
        let mut host = Host::new(lab.programs(), netns::ADDRESSES[0], Some(pair.a))?;
        host.up()?;
        let mut clients = Vec::new();
        for (program, line, _, _) in ASKING {
            let mut client = host.run(program);
            client.args(words(line, netns::ADDRESSES[1], 0));
            let client = process::spawn(client, &dir, program)?;
            clients.push(std::thread::spawn(move || client.finish(2 * patience())));
        }

        Ok(Unanswered {
            clients,
            host,
            _silent: pair.b,
        })
    }

    fn judge(self) -> Ending {
        let expected = patience();
        for (client, (program, _, says, _)) in self.clients.into_iter().zip(ASKING) {
            let finished = client.join();
            let finished = finished.map_err(|_| Stop::fail("waiting for the client panicked"))?;
            let said = format!("{}{}", finished.out, finished.err);
            if finished.success() || !said.contains(says) {
                return Err(Stop::with("not told that nobody answers", &[&finished]));
            }
            // Later than that only as far as the machine is busy.
            let took = finished.elapsed;
            expect(
                took >= expected && took < expected + Duration::from_secs(10),
                || format!("{program} told after {took:?}, not {expected:?}"),
            )?;
        }

        let status = self.host.status()?;
        let count =
            |name: &str, message| environment::counter(&status, &format!("{name}/{message}"));
        for (_, _, _, message) in ASKING {
            // The former counts the repetitions, too.
            let sent = (
                count("cm_tx_msgs", message),
                count("cm_tx_retries", message),
            );
            expect(sent == (REPEATED + 1, REPEATED), || {
                format!("{sent:?} messages {message} and repetitions were sent")
            })?;
        }

        Ok(())
    }
}

/// How long a request is repeated in all.
fn patience() -> Duration {
    Duration::from_secs_f64(PATIENCE * (REPEATED + 1) as f64)
}

/// Runs a test of `cm_changes.c` on a host of its own, and makes the change when it is ready.
fn change(lab: &mut Lab, test: &str, make: impl FnOnce(&mut Host) -> Ending) -> Ending {
    let program = cprogram::compile("cm_changes")?;
    let dir = lab.case_dir()?;
    let pair = pair()?;
    let mut host = Host::new(lab.programs(), netns::ADDRESSES[0], Some(pair.a))?;
    only_ipv4(&host, netns::INTERFACES[0])?;
    host.up_with(&["--netdev", netns::INTERFACES[0]])?;
    let mut command = host.run(program);
    command.arg(test);
    let endings = cprogram::run_through_change(command, &dir, LIMIT, || make(&mut host))?;
    for (_, ending) in endings {
        ending?;
    }
    Ok(())
}

/// A type of service that the connecting side asks for is in every packet of the connection, either
/// way, its set-up included. perftest has two connections: one without, over which it agrees on
/// things, and the one that is measured.
fn service(lab: &mut Lab) -> Ending {
    const SERVICE: u8 = 0x68;

    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(Place::Veth(1500))?;
    let capture = Capture::start(site.client(), site.client_interface(), 100_000, &dir)?;
    let line = |host: &Host| {
        let mut command = host.run("ib_send_bw");
        command.args(["-R", "-F", "-n", "200", "-T", &SERVICE.to_string()]);
        command.args(["-p", &port.to_string()]);
        command
    };
    let packets = exchange(site.server(), site.client(), line, port, capture, &dir)?;
    let (marked, plain): (Vec<_>, Vec<_>) = packets
        .iter()
        .partition(|packet| packet.type_of_service() == SERVICE);
    let other = plain.iter().find(|packet| packet.type_of_service() != 0);
    expect(other.is_none(), || {
        "a type of service that nobody asked for".to_owned()
    })?;

    // REQ, REP, RTU and at least one of DREQ and DREP of either connection.
    let messages = |packets: &[&Packet]| packets.iter().filter(|p| p.destination_qp() == 1).count();
    let (with, without) = (messages(&marked), messages(&plain));
    expect(with >= 4 && without >= 4, || {
        format!("{with} messages of the connection manager have it, {without} have not")
    })?;
    let queues = |packets: &[&Packet]| -> BTreeSet<u32> {
        let all = packets.iter().map(|packet| packet.destination_qp());
        all.filter(|qp| *qp != 1).collect()
    };
    let (with, without) = (queues(&marked), queues(&plain));
    expect(
        with.len() == 2 && without.len() == 2 && with.is_disjoint(&without),
        || format!("packets to queue pairs {with:x?} have it, to {without:x?} have not"),
    )
}

fn exchange(
    server: &Host,
    client: &Host,
    line: impl Fn(&Host) -> Command,
    port: u16,
    capture: Capture,
    dir: &Path,
) -> Result<Vec<Packet>, Stop> {
    let mut first = process::spawn(line(server), dir, "server")?;
    if !wait_for_listener(&mut first, server, TCP, port) {
        let first = first.finish(Duration::ZERO);
        return Err(Stop::with("the server does not come to listen", &[&first]));
    }
    let mut second = line(client);
    second.arg(&server.address);
    let second = process::run(second, dir, "client", LIMIT)?;
    let first = first.finish(LIMIT);
    if !second.success() || !first.success() {
        return Err(Stop::with(second.ending(), &[&second, &first]));
    }
    capture.settle();
    Ok(pcap::read(&capture.finish()?)?)
}
