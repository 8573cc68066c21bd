//! Group `pyverbs`: rdma-core's own test suite, unmodified, each of its tests a line of the report.
//!
//! Both ends of its tests are in one process, on one device, and each test sends to an address that
//! it takes from the GID table of that very device. So the suite is run over one daemon and over
//! IPv6; and between two daemons by way of `tests/pyverbs/between.py`, which opens every second end
//! elsewhere.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::build;
use crate::harness::case::{Case, Parts, Stop};
use crate::harness::process::{self, Finished, Running};
use crate::harness::skips::{Machine, Table};
use crate::harness::unittest;
use crate::lab::environment;
use crate::lab::host::Host;
use crate::lab::huge::HugePages;
use crate::lab::{Lab, Place};
use crate::programs::suite::Suite;

const LIMIT: Duration = Duration::from_secs(300);
const ADDRESS_LIMIT: Duration = Duration::from_secs(5);
const MTU: u32 = 9000;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::many("pyverbs/one-daemon", one_daemon),
        Case::many("pyverbs/ipv6", ipv6),
        Case::many("pyverbs/two-daemons", between),
    ]
}

fn one_daemon(lab: &mut Lab) -> Parts {
    let dir = lab.case_dir()?;
    let host = lab.site(Place::OneDaemon)?.client();
    let judge = Judge::new()?;
    let running = judge.start(host, &dir, &[])?;
    judge.end(running)
}

/// Between addresses of IPv6, which a port has beside those of IPv4: the suite takes the first that
/// fits unless told.
fn ipv6(lab: &mut Lab) -> Parts {
    let dir = lab.case_dir()?;
    let host = lab.site(Place::Veth(MTU))?.client();
    let index = ipv6_gid(host)?;
    let judge = Judge::new()?;
    let running = judge.start(host, &dir, &["--gid", &index.to_string()])?;
    judge.end(running)
}

/// The index of a GID of IPv6. The kernel gives an interface its address some time after it is up.
fn ipv6_gid(host: &Host) -> Result<u64, Stop> {
    let deadline = Instant::now() + ADDRESS_LIMIT;
    loop {
        let status = host.status()?;
        let gids = status["gids"].as_array().into_iter().flatten();
        let index = gids
            .filter(|gid| gid["addr"].as_str().is_some_and(|addr| addr.contains(':')))
            .find_map(|gid| gid["index"].as_u64());
        if let Some(index) = index {
            return Ok(index);
        }
        if Instant::now() > deadline {
            return Err(Stop::Skip("no address of IPv6 here".to_owned()));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// One end of each test on either host. What is reported are the tests that had two ends, and
/// whatever failed.
fn between(lab: &mut Lab) -> Parts {
    let dir = lab.case_dir()?;
    let site = lab.site(Place::TwoDaemons)?;
    let (near, far) = (site.server(), site.client());
    let ends = dir.join("ends");
    std::fs::write(&ends, "").map_err(anyhow::Error::from)?;
    let judge = Judge::new()?;
    let mut command = judge.python(near, &build::workspace().join("tests/pyverbs/between.py"));
    command
        .env("FAR_RUNTIME_DIR", far.runtime_dir())
        .env("NEAR_GID", mapped_gid(&near.address)?)
        .env("FAR_GID", mapped_gid(&far.address)?)
        .env("ENDS_FILE", &ends);

    let running = process::spawn(command, &dir, "suite")?;
    let endings = judge.end(running)?;
    let with_ends = std::fs::read_to_string(&ends).map_err(anyhow::Error::from)?;
    let had_ends = |name: &str| {
        with_ends
            .lines()
            .any(|line| line.strip_prefix("tests.") == Some(name))
    };

    for host in [near, far] {
        let received = environment::counter(&host.status()?, "rcvd_pkts");
        if received == 0 || with_ends.is_empty() {
            return Err(Stop::fail(format!("{} has received nothing", host.address)));
        }
    }

    Ok(endings
        .into_iter()
        .filter(|(name, ending)| had_ends(name) || matches!(ending, Err(Stop::Fail(_))))
        .collect())
}

/// `::ffff:a.b.c.d`, spelled out as pyverbs wants it.
fn mapped_gid(address: &str) -> Result<String, Stop> {
    let address: Ipv4Addr = address
        .parse()
        .map_err(|error| Stop::fail(format!("{address}: {error}")))?;
    let groups = address.to_ipv6_mapped().segments();
    Ok(groups.map(|group| format!("{group:04x}")).join(":"))
}

/// The suite, ready to run, and what its outcome is held against.
struct Judge {
    suite: Suite,
    table: Table,
    huge: HugePages,
}

impl Judge {
    fn new() -> Result<Judge, Stop> {
        Ok(Judge {
            suite: Suite::unpack()?,
            table: Table::read()?,
            huge: HugePages::lend(),
        })
    }

    fn start(&self, host: &Host, dir: &Path, options: &[&str]) -> Result<Running, Stop> {
        let mut command = self.python(host, Path::new("run_tests.py"));
        command.args(options);
        Ok(process::spawn(command, dir, "suite")?)
    }

    /// The suite or something that runs it.
    fn python(&self, host: &Host, script: &Path) -> Command {
        // The system's Python, which has pyverbs, whatever other Python comes first in the path.
        let mut command = host.run("/usr/bin/python3");
        command
            .arg(script)
            .args(["--dev", "ferroce0", "-v"])
            .current_dir(self.suite.tests());
        command
    }

    fn end(&self, running: Running) -> Parts {
        let machine = Machine {
            huge_pages: self.huge.any(),
        };
        let finished = running.finish(LIMIT);
        let outcomes = unittest::read(&finished.err)
            .map_err(|what| Stop::with(format!("{}; {what}", finished.ending()), &[&finished]))?;
        if died(&finished) {
            return Err(Stop::with(finished.ending(), &[&finished]));
        }
        Ok(self.table.judge(&outcomes, machine))
    }
}

/// Exit code 1 says that tests failed, which the tests' own lines say better; anything else but 0
/// is a crash after them.
fn died(finished: &Finished) -> bool {
    !finished
        .status
        .is_some_and(|status| matches!(status.code(), Some(0 | 1)))
}
