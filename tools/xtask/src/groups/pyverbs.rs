//! Group `pyverbs`: rdma-core's own test suite, unmodified, each of its tests a line of the report.
//!
//! Both ends of its tests are in one process, on one device, and each test sends to an address that it takes from the
//! GID table of that very device: no test can be run between two daemons. So the suite is run over one daemon,
//! over IPv6, and over two daemons at the same time; what it tests between two daemons is left to the group `verbs`.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::case::{Case, Ending, Endings, Stop};
use crate::host::Host;
use crate::huge::HugePages;
use crate::lab::{Lab, Place};
use crate::process::{self, Finished, Running};
use crate::skips::{Machine, Table};
use crate::suite::Suite;
use crate::unittest;

const LIMIT: Duration = Duration::from_secs(300);
const ADDRESS_LIMIT: Duration = Duration::from_secs(5);
const MTU: u32 = 9000;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::many("pyverbs/one-daemon", |lab| all(one_daemon(lab))),
        Case::many("pyverbs/ipv6", |lab| all(ipv6(lab))),
        Case::many("pyverbs/two daemons at once", |lab| all(at_once(lab))),
    ]
}

fn all(endings: Result<Vec<(String, Ending)>, Stop>) -> Endings {
    match endings {
        Ok(endings) => Endings::Many(endings),
        Err(stop) => Endings::One(Err(stop)),
    }
}

fn one_daemon(lab: &mut Lab) -> Result<Vec<(String, Ending)>, Stop> {
    let dir = lab.case_dir()?;
    let host = lab.site(Place::OneDaemon)?.client();
    let mut judge = Judge::new()?;
    let running = judge.start(host, &dir, &[])?;
    judge.end(running)
}

/// Between addresses of IPv6, which a port has beside those of IPv4: the suite takes the first that fits unless told.
fn ipv6(lab: &mut Lab) -> Result<Vec<(String, Ending)>, Stop> {
    let dir = lab.case_dir()?;
    let host = lab.site(Place::Veth(MTU))?.client();
    let index = ipv6_gid(host)?;
    let mut judge = Judge::new()?;
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

/// Two devices of one machine do not disturb each other.
fn at_once(lab: &mut Lab) -> Result<Vec<(String, Ending)>, Stop> {
    let dirs = [lab.case_dir()?, lab.case_dir()?];
    let site = lab.site(Place::TwoDaemons)?;
    let hosts = [site.server(), site.client()];
    let mut judges = [Judge::new()?, Judge::new()?];
    let mut running = Vec::new();
    for ((judge, host), dir) in judges.iter_mut().zip(hosts).zip(&dirs) {
        running.push(judge.start(host, dir, &[])?);
    }
    let mut endings = Vec::new();
    for ((judge, host), running) in judges.iter().zip(hosts).zip(running) {
        for (name, ending) in judge.end(running)? {
            endings.push((format!("{}/{name}", host.address), ending));
        }
    }
    Ok(endings)
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

    fn start(&mut self, host: &Host, dir: &Path, options: &[&str]) -> Result<Running, Stop> {
        // The system's Python, which has pyverbs, whatever other Python comes first in the path.
        let mut command = host.run("/usr/bin/python3");
        command
            .args(["run_tests.py", "--dev", "ferroce0", "-v"])
            .args(options)
            .current_dir(self.suite.tests());
        Ok(process::spawn(command, dir, "suite")?)
    }

    fn end(&self, running: Running) -> Result<Vec<(String, Ending)>, Stop> {
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

/// Exit code 1 says that tests failed, which the tests' own lines say better; anything else but 0 is a crash after them.
fn died(finished: &Finished) -> bool {
    !finished
        .status
        .is_some_and(|status| matches!(status.code(), Some(0 | 1)))
}
