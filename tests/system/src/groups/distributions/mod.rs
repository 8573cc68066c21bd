//! Group `distributions`: the programs of other distributions, each with its own rdma-core, over
//! one set of binaries.
//!
//! Where nothing is named, perftest and the pingpongs of Debian 13 over the build at hand; named,
//! all of them, with rdma_cm's programs, `rdma` and the distribution's own pyverbs suite, over the
//! build of `cargo xtask portable`.

mod arm64;
mod system;

use std::path::PathBuf;
use std::time::Duration;

use crate::build;
use crate::distro::{self, Archive, DEBIAN_13, DISTRIBUTIONS, Distribution, PROGRAMS, Root};
use crate::groups::cm::{self, Stock};
use crate::groups::verbs::traffic::{judge_perftest, judge_pingpong, pair_of};
use crate::harness::case::{Case, Ending, Parts, Stop};
use crate::harness::process;
use crate::install;
use crate::lab::Lab;
use crate::lab::host::Host;
use crate::portable::{self, Target};

const SHORT: &str = "distributions/short";
const LIMIT: Duration = Duration::from_secs(60);
/// Debian's name for this machine's architecture: ferroce is built for it.
const ARCHITECTURE: &str = "amd64";
/// The path MTU over loopback.
const PATH_MTU: u32 = 4096;

/// Programs of perftest that every distribution has.
const PERFTEST: &[&str] = &[
    "ib_write_bw",
    "ib_write_lat",
    "ib_send_bw",
    "ib_send_lat",
    "ib_read_bw",
    "ib_read_lat",
    "ib_atomic_bw",
    "ib_atomic_lat",
];

/// Programs of libibverbs that every distribution has, each with two ends.
const PINGPONGS: &[&str] = &[
    "ibv_rc_pingpong",
    "ibv_uc_pingpong",
    "ibv_ud_pingpong",
    "ibv_srq_pingpong",
    "ibv_xsrq_pingpong",
];

/// Options of a pingpong that are tried where its version has them: events, timestamps, the newer
/// way of posting, device memory, memory paged on demand and all of it.
const PINGPONG_OPTIONS: &[&str] = &["-e", "-t", "-N", "-j", "-o", "-O"];

/// Lines of perftest over rdma_cm.
const CONNECTED: &[&str] = &[
    "ib_write_bw -n 200",
    "ib_write_lat -n 200",
    "ib_send_bw -n 200",
    "ib_send_lat -n 200",
    "ib_read_bw -n 200",
    "ib_read_lat -n 200",
    "ib_atomic_bw -n 200",
    "ib_atomic_lat -n 200",
];

type Part = fn(&mut Lab, Distribution, &Host) -> Parts;

/// What is tried in every distribution.
const PARTS: &[(&str, Part)] = &[
    ("perftest", |lab, distribution, host| {
        let lines = perftest_lines();
        lines
            .into_iter()
            .map(|line| perftest(lab, distribution, host, line))
            .collect()
    }),
    ("pingpong", pingpongs),
    ("rdma_cm", connections),
    ("rdma", rdma),
    ("pyverbs", |lab, distribution, host| {
        distro::pyverbs(distribution, host, &lab.case_dir()?)
    }),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![Case::many(SHORT, short)];
    for &distribution in DISTRIBUTIONS {
        for &(name, part) in PARTS {
            let name = format!("distributions/{}/{name}", distribution.name);
            cases.push(Case::many(name, move |lab| whole(lab, distribution, part)));
        }
        let name = format!("distributions/{}/system", distribution.name);
        cases.push(Case::many(name, move |lab| {
            system::parts(lab, distribution, portable::prefix(Target::X86_64)?)
        }));
    }
    cases.extend(arm64::cases());
    cases
}

/// Whether a case is run: the short form where no group is named, else the whole, unless the short
/// form is asked for.
pub(crate) fn belongs(filters: &[String], name: &str) -> bool {
    if !name.starts_with("distributions/") {
        return true;
    }
    let short = filters.is_empty() || filters.iter().any(|filter| filter == SHORT);
    short == (name == SHORT)
}

/// Debian 13: every program of perftest, the pingpongs with what their version has, and cmtime,
/// over the build at hand.
fn short(lab: &mut Lab) -> Parts {
    let prefix = build::scratch("installed")?;
    install::copy(lab.programs(), &prefix)?;
    let mut endings = system::parts(lab, DEBIAN_13, prefix.clone())?;
    let host = host(lab, DEBIAN_13, prefix)?;
    endings.extend(pingpongs(lab, DEBIAN_13, &host)?);
    for tool in PERFTEST {
        endings.push(perftest(lab, DEBIAN_13, &host, format!("{tool} -n 100"))?);
    }

    // From rdma-core 52 on it measures connections without queue pairs, too: of QP numbers that
    // both ends count from 1,000 on.
    for stock in cm::STOCK
        .iter()
        .filter(|stock| stock.client.starts_with("cmtime"))
    {
        endings.push(connection(lab, DEBIAN_13, &host, stock, stock.name)?);
    }

    Ok(endings)
}

fn whole(lab: &mut Lab, distribution: Distribution, part: Part) -> Parts {
    let host = host(lab, distribution, portable::prefix(Target::X86_64)?)?;
    part(lab, distribution, &host)
}

/// A root of a distribution with a daemon in it.
fn host(lab: &mut Lab, distribution: Distribution, product: PathBuf) -> Result<Host, Stop> {
    let archive = Archive::of(distribution, ARCHITECTURE, &PROGRAMS, &lab.case_dir()?)?;
    Root::unpack(&archive, &product)?.host()
}

fn perftest_lines() -> Vec<String> {
    let mut lines = Vec::new();
    for tool in PERFTEST {
        let mut options = vec!["-n 500", "-D 1", "-n 200 --use_old_post_send"];
        if !tool.contains("atomic") {
            options.extend(["-a -n 50", "-m 1024 -s 10000 -n 100"]);
        }

        // There are no events for WRITE.
        if !tool.contains("write") {
            options.push("-e -n 200");
        }
        if tool.ends_with("_bw") {
            options.extend(["-b -q 4 -n 200", "-t 1 -n 200"]);
        }
        if tool.contains("write") || tool.contains("send") {
            options.extend(["-I 64 -s 64 -n 500", "-c UC -n 500"]);
        }
        if tool.contains("send") {
            options.extend(["-c UD -s 1024 -n 500", "-r 8 -n 200"]);
        }
        if tool.contains("atomic") {
            options.push("-A CMP_AND_SWAP -n 200");
        }

        lines.extend(options.iter().map(|options| format!("{tool} {options}")));
    }

    lines
}

fn perftest(
    lab: &mut Lab,
    distribution: Distribution,
    host: &Host,
    line: String,
) -> Result<(String, Ending), Stop> {
    let dir = lab.case_dir()?;
    let ends = pair_of(&line, &["-F"], lab.port()).run(host, host, &dir);
    let ending = ends.and_then(|ends| judge_perftest(&ends, &line, PATH_MTU));
    let ending = distro::known(distribution, &line, ending);
    Ok((line, ending))
}

fn pingpongs(lab: &mut Lab, distribution: Distribution, host: &Host) -> Parts {
    let mut endings = Vec::new();
    for tool in PINGPONGS {
        let mut lines = vec![pingpong_line(tool, "")];
        let has = options(lab, host, tool)?;
        let options = PINGPONG_OPTIONS
            .iter()
            .filter(|option| has.contains(**option));
        lines.extend(options.map(|option| pingpong_line(tool, option)));
        for line in lines {
            let dir = lab.case_dir()?;
            let ends = pair_of(&line, &["-g", "0"], lab.port()).run(host, host, &dir);
            let ending = ends.and_then(|ends| judge_pingpong(&ends));
            let ending = distro::known(distribution, &line, ending);
            endings.push((line, ending));
        }
    }

    Ok(endings)
}

/// The received bytes are checked where the program can.
fn pingpong_line(tool: &str, option: &str) -> String {
    let check = if tool == "ibv_xsrq_pingpong" {
        ""
    } else {
        "-c -n 200"
    };
    let words: Vec<&str> = [tool, check, option]
        .into_iter()
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ")
}

/// What a program says of its options when it is asked for one that it does not have.
fn options(lab: &mut Lab, host: &Host, tool: &str) -> Result<String, Stop> {
    let mut command = host.plain(tool);
    command.arg("--help");
    let finished = process::run(command, &lab.case_dir()?, "options", LIMIT)?;
    let text = format!("{}{}", finished.out, finished.err);
    if !text.contains("--ib-dev") {
        return Err(Stop::with(
            format!("{tool} does not tell its options"),
            &[&finished],
        ));
    }
    Ok(text)
}

fn connections(lab: &mut Lab, distribution: Distribution, host: &Host) -> Parts {
    let mut endings = Vec::new();
    for stock in cm::STOCK {
        let newer = distribution.suite == "sid" && stock.client.starts_with("cmtime");
        let stock = if newer { &cm::CMTIME_59 } else { stock };
        endings.push(connection(lab, distribution, host, stock, stock.name)?);
    }

    for line in CONNECTED {
        let name = format!("{line} -R");
        endings.push(connection(
            lab,
            distribution,
            host,
            &cm::perftest(line),
            &name,
        )?);
    }

    Ok(endings)
}

fn connection(
    lab: &mut Lab,
    distribution: Distribution,
    host: &Host,
    stock: &Stock,
    name: &str,
) -> Result<(String, Ending), Stop> {
    let dir = lab.case_dir()?;
    let ending = cm::exchange(host, host, stock, lab.port(), &dir);
    Ok((name.to_owned(), distro::known(distribution, name, ending)))
}

/// `rdma` of iproute2, which asks over netlink.
fn rdma(lab: &mut Lab, distribution: Distribution, host: &Host) -> Parts {
    let mut endings = Vec::new();
    for (line, says) in [
        ("rdma dev", "ferroce0: node_type ca"),
        ("rdma link", "ferroce0/1 state ACTIVE"),
        ("rdma resource", "ferroce0:"),
    ] {
        let mut words = line.split(' ');
        let mut command = host.run(words.next().unwrap_or_default());
        command.args(words);
        let finished = process::run(command, &lab.case_dir()?, "rdma", LIMIT)?;
        let ending = match finished.success() && finished.out.contains(says) {
            true => Ok(()),
            false => Err(Stop::with(
                format!("it does not say {says:?}"),
                &[&finished],
            )),
        };
        endings.push((line.to_owned(), distro::known(distribution, line, ending)));
    }

    Ok(endings)
}
