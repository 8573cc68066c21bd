//! Group `verbs`: what the stock programs see and do, and the C programs on data path behaviour.

mod addresses;
mod changes;
mod interfaces;
mod mtu;
mod multicast;
mod services;
pub(crate) mod traffic;
pub(crate) mod watch;

use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::Context;

use crate::harness::case::expect;
use crate::harness::case::{Case, Company, Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::environment::counter;
use crate::lab::{Lab, Place};
use crate::programs::cprogram;
use crate::programs::hasty::Hasty;
use crate::programs::perftest::{Ends, Pair, odd};

const LIMIT: Duration = Duration::from_secs(60);
/// C programs about the data path, and how long each may take.
pub(crate) const PROGRAMS: &[&str] = &[
    "data",
    "lengths",
    "ordering",
    "atomics",
    "words",
    "queues",
    "drain",
    "fork",
    "builder",
    "extended",
    "unreliable",
    "in_a_row",
    "tags",
    "vectors",
    "awake",
    "cancelled",
];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("verbs/one-daemon/ibv_devices", devices),
        Case::new("verbs/one-daemon/ibv_devinfo -v", devinfo),
        Case::new("verbs/one-daemon/ibv_devinfo -l", |lab| {
            let finished = tool(lab, &["ibv_devinfo", "-l"])?;
            contains(&finished, "ferroce0")
        }),
        Case::new("verbs/ibv_asyncwatch", watch::asyncwatch),
    ];
    cases.extend(changes::cases());

    for place in [
        Place::OneDaemon,
        Place::Sockets,
        Place::TwoDaemons,
        Place::Veth(1500),
        Place::Veth(9000),
    ] {
        // What they compare are bytes and not times.
        let beside = |case: Case| case.in_company(Company::ByPlace);
        cases.extend(traffic::cases(place).into_iter().map(beside));
        cases.extend(services::cases(place).into_iter().map(beside));
        for program in PROGRAMS {
            let case = Case::many(format!("verbs/{}/{program}.c", place.name()), move |lab| {
                cprogram::run(lab, place, program, Duration::from_secs(120))
            });
            cases.push(beside(case));
        }

        cases.push(several_pairs(place));
        if place == Place::OneDaemon {
            cases.push(Case::new(
                "verbs/one-daemon/20 processes on one device",
                twenty_processes,
            ));

            cases.push(Case::many("verbs/one-daemon/many.c", |lab| {
                cprogram::run(lab, Place::OneDaemon, "many", Duration::from_secs(180))
            }));
            cases.push(Case::new(
                "verbs/one-daemon/packets within a device need no socket",
                within_a_device,
            ));

            cases.push(Case::new(
                "verbs/one-daemon/several libibverbs in a program",
                several_libraries,
            ));

            cases.push(Case::new(
                "verbs/one-daemon/tshark decodes the traffic",
                crate::lab::environment::capture,
            ));
        }
    }

    cases
}

/// What processes of one device send to each other goes through memory, all of it, unless that is
/// switched off.
fn within_a_device(lab: &mut Lab) -> Ending {
    for place in [Place::OneDaemon, Place::Sockets] {
        let count = |lab: &mut Lab| -> Result<[u64; 2], Stop> {
            let status = lab.site(place)?.server().status()?;
            Ok(["sent_pkts", "sent_loopback_pkts"].map(|name| counter(&status, name)))
        };
        let before = count(lab)?;
        traffic::hasty_pair(lab, place, "ib_send_bw -n 100")?.clean()?;
        let after = count(lab)?;
        let [all, within] = [0, 1].map(|n| after[n] - before[n]);
        let wanted = if place == Place::OneDaemon { all } else { 0 };
        expect(all > 1600 && within == wanted, || {
            format!("{}: {within} of {all} packets", place.name())
        })?;
    }

    Ok(())
}

/// Packages bring a libibverbs of their own along, under a name of their own: a program that uses
/// several of them has several, of which each sees the device, whichever was there first.
fn several_libraries(lab: &mut Lab) -> Ending {
    const STOCK: &str = "libibverbs.so.1";
    let program = cprogram::compile_plain("several_libibverbs", &[] as &[&str])?;
    let asked = Command::new("cc")
        .arg(format!("-print-file-name={STOCK}"))
        .output()
        .context("cc")?;
    let stock = String::from_utf8_lossy(&asked.stdout).trim_end().to_owned();
    let dir = lab.case_dir()?;
    let copy = |mark: &str| {
        let path = dir.join(format!("libibverbs-{mark}.so.1.14"));
        std::fs::copy(&stock, &path).with_context(|| stock.clone())?;
        Ok::<_, Stop>(path.display().to_string())
    };
    let (first, second) = (copy("1de1263b")?, copy("79ef1d27")?);

    for libraries in [
        [STOCK, first.as_str(), second.as_str()],
        [first.as_str(), STOCK, second.as_str()],
    ] {
        let words = [&[program.to_str().unwrap_or_default()], &libraries[..]].concat();
        let finished = tool(lab, &words)?;
        for library in libraries {
            contains(&finished, &format!("{library}: written"))?;
        }
    }
    Ok(())
}

/// Runs a program that needs no partner.
fn tool(lab: &mut Lab, words: &[&str]) -> Result<Finished, Stop> {
    let dir = lab.case_dir()?;
    let mut command = lab.site(Place::OneDaemon)?.client().run(words[0]);
    command.args(&words[1..]);
    let finished = process::run(command, &dir, words[0], LIMIT)?;
    if !finished.success() {
        return Err(Stop::with(finished.ending(), &[&finished]));
    }
    if let Some(line) = odd(&finished.err) {
        return Err(Stop::with(format!("says on stderr: {line}"), &[&finished]));
    }
    Ok(finished)
}

fn contains(finished: &Finished, wanted: &str) -> Ending {
    if finished.out.contains(wanted) {
        Ok(())
    } else {
        Err(Stop::with(
            format!("{wanted:?} is not in the output"),
            &[finished],
        ))
    }
}

fn devices(lab: &mut Lab) -> Ending {
    let finished = tool(lab, &["ibv_devices"])?;
    let row = finished.out.lines().find(|line| line.contains("ferroce0"));
    let guid = row
        .and_then(|row| row.split_whitespace().nth(1))
        .unwrap_or_default();
    if guid.len() == 16
        && guid.chars().all(|c| c.is_ascii_hexdigit())
        && guid.chars().any(|c| c != '0')
    {
        Ok(())
    } else {
        Err(Stop::with(
            "ferroce0 with a node GUID is not in the output",
            &[&finished],
        ))
    }
}

fn devinfo(lab: &mut Lab) -> Ending {
    let finished = tool(lab, &["ibv_devinfo", "-v"])?;
    let value = |name: &str| {
        finished.out.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };

    for (name, wanted) in [
        ("hca_id", "ferroce0"),
        ("transport", "InfiniBand (0)"),
        ("phys_port_cnt", "1"),
        ("state", "PORT_ACTIVE (4)"),
        ("link_layer", "Ethernet"),
        ("active_mtu", "4096 (5)"),
        ("atomic_cap", "ATOMIC_HCA (1)"),
    ] {
        let found = value(name);
        let same = found.as_deref() == Some(wanted)
            || (name == "atomic_cap"
                && found
                    .as_deref()
                    .is_some_and(|cap| cap.starts_with("ATOMIC_")));
        if !same {
            return Err(Stop::with(
                format!("{name} is {found:?}, not {wanted:?}"),
                &[&finished],
            ));
        }
    }

    contains(&finished, "RoCE v2")?;
    contains(&finished, "::ffff:127.0.0.1")?;

    // Honest limits: each must be there, not zero and not a maximum of its type.
    for name in [
        "max_qp",
        "max_qp_wr",
        "max_sge",
        "max_cq",
        "max_cqe",
        "max_mr",
        "max_pd",
        "max_qp_rd_atom",
        "max_srq",
    ] {
        let number = value(name)
            .and_then(|text| text.parse::<i64>().ok())
            .unwrap_or(0);
        if number <= 0 || number >= i64::from(i32::MAX) {
            return Err(Stop::with(format!("{name} is {number}"), &[&finished]));
        }
    }

    // Not there: what the device does not do must not be announced.
    for name in ["max_ee", "max_rdd", "max_raw_ethy_qp"] {
        let number = value(name)
            .and_then(|text| text.parse::<i64>().ok())
            .unwrap_or(0);
        if number != 0 {
            return Err(Stop::with(format!("{name} is {number}"), &[&finished]));
        }
    }

    Ok(())
}

/// Several pairs of different programs at once on the place's devices.
fn several_pairs(place: Place) -> Case {
    const LINES: &[&str] = &[
        "ib_write_bw -n 2000",
        "ib_send_bw -n 2000 -b",
        "ib_read_bw -n 2000",
        "ib_send_lat -n 500",
        "ib_atomic_bw -n 500",
        "ib_write_bw -q 8 -n 300 -b",
    ];

    Case::new(
        format!("verbs/{}/several pairs at once", place.name()),
        move |lab| {
            let lines: Vec<String> = LINES.iter().map(|line| (*line).to_owned()).collect();
            for ends in at_once(lab, place, &lines)? {
                ends.clean()?;
                ends.table(1)?;
            }
            Ok(())
        },
    )
}

fn twenty_processes(lab: &mut Lab) -> Ending {
    let lines: Vec<String> = (0..10)
        .map(|index| format!("ib_send_bw -n {} -s 8192", 500 + index))
        .collect();
    for ends in at_once(lab, Place::OneDaemon, &lines)? {
        ends.clean()?;
        ends.table(1)?;
    }
    let status = lab.site(Place::OneDaemon)?.server().status()?;
    expect(crate::lab::environment::clients(&status) == 0, || {
        format!("slots are still taken: {status}")
    })
}

/// Runs one pair per line, all at the same time.
fn at_once(lab: &mut Lab, place: Place, lines: &[String]) -> Result<Vec<Ends>, Stop> {
    let dir = lab.case_dir()?;
    let ports: Vec<u16> = lines.iter().map(|_| lab.port()).collect();
    let site = lab.site(place)?;
    let (server, client) = (Hasty::on(site.server())?, Hasty::on(site.client())?);
    let (server, client) = (&server, &client);
    thread::scope(|scope| {
        let running: Vec<_> = lines
            .iter()
            .zip(ports)
            .map(|(line, port)| {
                let mut words = line.split_whitespace().map(str::to_owned);
                let tool = words.next().unwrap_or_default();
                let options = words.chain(["-F".to_owned()]).collect();
                let dir = &dir;
                scope.spawn(move || {
                    let pair = Pair {
                        tool,
                        options,
                        port,
                        limit: Duration::from_secs(120),
                    };
                    pair.run(server, client, dir)
                })
            })
            .collect();

        running
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Stop::fail("a thread of the test panicked")))
            })
            .collect()
    })
}
