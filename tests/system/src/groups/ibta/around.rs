//! Group `ibta`, what is around the tests: devices that are named, agents elsewhere; and
//! what the suite does when something is wrong with one of these. Always a message, an exit code,
//! and an end within bounded time.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use rustix::process::Signal;

use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished, Running};
use crate::lab::Lab;
use crate::lab::host::Host;

/// The device's address and the tester's; another that nobody has; and one that is not this host's.
pub(super) const DEVICE: &str = "127.0.0.1";
pub(super) const TESTER: &str = "127.0.0.2";
const ABSENT: &str = "192.0.2.1";
/// A short test, and one that takes seconds.
pub(super) const QUICK: &str = "C09_060_09";
const LONG: &str = "C09_142_01";
/// The suite waits so long for an agent, and some for connections; nothing of what is here may take
/// longer.
pub(super) const BOUND: Duration = Duration::from_secs(30);
/// Exit code of bad input and of a tester that failed.
pub(super) const REFUSED: i32 = 2;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("ibta/around/a named device passes", named),
        Case::new("ibta/around/no such device, port or address", wrong_names),
        Case::new("ibta/around/the tester's address is in use", in_use),
        Case::new("ibta/around/an agent for several testers", several_testers),
        Case::new("ibta/around/what was tested is in every report", told),
        Case::new("ibta/around/an agent that never answers", never_answers),
        Case::new("ibta/around/an agent that dies in a test", dies),
        Case::new("ibta/around/nobody at the agent's address", nobody),
        Case::new("ibta/around/nonsense at an agent", nonsense),
    ]
}

/// A device that is up, and the programs.
pub(super) struct Ground {
    pub(super) host: Host,
    pub(super) suite: std::path::PathBuf,
    pub(super) dir: std::path::PathBuf,
    runs: std::cell::Cell<u32>,
}

impl Ground {
    pub(super) fn new(lab: &mut Lab) -> Result<Ground, Stop> {
        Ground::with(lab, &["--addr", DEVICE])
    }

    /// What the device is brought up with.
    pub(super) fn with(lab: &mut Lab, options: &[&str]) -> Result<Ground, Stop> {
        lab.vacate();
        let suite = lab.programs().join("ferroce-ibta");
        let mut host = Host::new(lab.programs(), DEVICE, None)?;
        host.up_with(options)?;
        Ok(Ground {
            host,
            suite,
            dir: lab.case_dir()?,
            runs: std::cell::Cell::new(0),
        })
    }

    pub(super) fn spawn(&self, mut command: Command, args: &[&str]) -> Result<Running, Stop> {
        self.runs.set(self.runs.get() + 1);
        // Captures of tests that must fail belong there.
        command.args(args).current_dir(&self.dir);
        let name = format!("run-{}", self.runs.get());
        Ok(process::spawn(command, &self.dir, &name)?)
    }

    /// The suite where programs see the device.
    pub(super) fn inside(&self, args: &[&str]) -> Result<Finished, Stop> {
        let running = self.spawn(self.host.run(&self.suite), args)?;
        Ok(running.finish(BOUND))
    }

    /// The suite where they see none.
    pub(super) fn outside(&self, args: &[&str]) -> Result<Finished, Stop> {
        Ok(self.start(args)?.finish(BOUND))
    }

    fn start(&self, args: &[&str]) -> Result<Running, Stop> {
        self.spawn(self.host.plain(&self.suite), args)
    }

    /// Packets that the device has sent.
    fn sent(&self) -> u64 {
        let status = self.host.status().unwrap_or_default();
        status["counters"]["sent_pkts"].as_u64().unwrap_or(0)
    }

    /// An agent that listens, and its address.
    fn agent(&self, lab: &Lab) -> Result<(Running, String), Stop> {
        let port = lab.port();
        let address = format!("{DEVICE}:{port}");
        let args = ["agent", "--device", "ferroce0", "--listen", &address];
        let mut agent = self.spawn(self.host.run(&self.suite), &args)?;
        if !agent.listens(port, BOUND) {
            return Err(Stop::with("the agent does not listen", &[&agent.kill()]));
        }
        Ok((agent, address))
    }
}

/// It was refused, with these words, in time.
pub(super) fn refused(finished: &Finished, words: &[&str]) -> Ending {
    let code = finished.code();
    let said = words.iter().all(|word| finished.err.contains(word));
    match code == Some(REFUSED) && said {
        true => Ok(()),
        false => {
            let what = format!("must end with {REFUSED} and a message that says {words:?}");
            Err(Stop::with(what, &[finished]))
        }
    }
}

pub(super) fn passed(finished: &Finished) -> Ending {
    match finished.success() {
        true => Ok(()),
        false => Err(Stop::with("must pass", &[finished])),
    }
}

/// A device that the suite did not start itself.
fn named(lab: &mut Lab) -> Ending {
    let ground = Ground::new(lab)?;
    passed(&ground.inside(&["run", QUICK, "--device", "ferroce0", "--tester", TESTER])?)
}

fn wrong_names(lab: &mut Lab) -> Ending {
    let ground = Ground::new(lab)?;
    let run = |device: &str, more: &[&str]| {
        let mut args = vec!["run", QUICK, "--device", device];
        args.extend(more);
        ground.inside(&args)
    };

    let (device, tester) = ("ferroce0", "--tester");
    refused(
        &run("nosuch0", &[tester, TESTER])?,
        &["nosuch0", "there are ferroce0"],
    )?;

    refused(&run(device, &[])?, &["--tester"])?;
    refused(
        &run(device, &[tester, TESTER, "--port", "2"])?,
        &["one port"],
    )?;

    refused(
        &run(device, &[tester, ABSENT])?,
        &[ABSENT, "no address of this host"],
    )?;

    refused(
        &run(device, &[tester, DEVICE])?,
        &["the address of ferroce0"],
    )?;

    refused(&run(device, &[tester, "::1"])?, &["no RoCE v2 GID"])?;
    refused(&run(device, &[tester, "here"])?, &["invalid value 'here'"])?;
    refused(&run(device, &["--infiniband"])?, &["no cable", "--cable"])?;
    refused(&run(device, &["--cable", "here=there"])?, &["--cable"])?;
    let third = ["run", QUICK, "--infiniband", "--port", "3"];
    refused(&ground.outside(&third)?, &["port 3", "--cable"])?;
    let outside = ["run", QUICK, "--device", "ferroce0", tester, TESTER];
    refused(&ground.outside(&outside)?, &["there is no device ferroce0"])
}

/// Another device is where the tester is to be.
fn in_use(lab: &mut Lab) -> Ending {
    let ground = Ground::new(lab)?;
    let mut other = Host::new(lab.programs(), TESTER, None)?;
    other.up()?;
    let finished = ground.inside(&["run", QUICK, "--device", "ferroce0", "--tester", TESTER])?;
    refused(&finished, &[TESTER, "4791", "in use"])?;
    other.down()?;
    passed(&ground.inside(&["run", QUICK, "--device", "ferroce0", "--tester", TESTER])?)
}

fn several_testers(lab: &mut Lab) -> Ending {
    let ground = Ground::new(lab)?;
    let (agent, address) = ground.agent(lab)?;
    for _ in 0..2 {
        let args = ["run", QUICK, "--agent", &address, "--tester", TESTER];
        passed(&ground.outside(&args)?)?;
    }

    // One that goes in the middle of a test leaves nothing behind.
    let args = ["run", LONG, "--agent", &address, "--tester", TESTER];
    let mut running = ground.start(&args)?;
    let before = ground.sent();
    if !running.wait_until(BOUND, |_| ground.sent() > before) {
        return Err(Stop::with("must begin", &[&running.kill()]));
    }

    running.kill();
    let args = ["run", QUICK, "--agent", &address, "--tester", TESTER];
    passed(&ground.outside(&args)?)?;
    let agent = agent.kill();
    expect(agent.err.matches("has come").count() == 4, || {
        format!("four testers have come, the agent says: {}", agent.err)
    })
}

/// Which device it was, its GUID and firmware, from where, and by which command; and that it is one
/// of the tester's own where none is named, whatever is at the far end of a cable.
fn told(lab: &mut Lab) -> Ending {
    let ground = Ground::new(lab)?;
    let (_agent, address) = ground.agent(lab)?;
    let to = ["run", QUICK, "--agent", &address, "--tester", TESTER];
    let reports = ["--json", "r.json", "--junit", "r.xml", "--html", "r.html"];
    let finished = ground.outside(&[&to[..], &reports].concat())?;
    passed(&finished)?;

    let device = &ground.host.status()?["device"];
    let firmware = device["fw_ver"].as_str().unwrap_or_default().to_owned();
    let bytes = device["node_guid"].as_array().into_iter().flatten();
    let guid: String = bytes
        .filter_map(serde_json::Value::as_u64)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let gid = format!("::ffff:{DEVICE}");
    let due = ["ferroce0", &guid, &firmware, &address, &gid, TESTER];
    let first = finished.out.lines().next().unwrap_or_default().to_owned();
    let read = |name: &str| std::fs::read_to_string(ground.dir.join(name)).context("a report");
    let (json, junit, html) = (read("r.json")?, read("r.xml")?, read("r.html")?);
    for (place, report) in [
        ("the first line", &first),
        ("JSON", &json),
        ("JUnit", &junit),
        ("HTML", &html),
    ] {
        let lacks = due
            .iter()
            .find(|due| due.is_empty() || !report.contains(**due));
        expect(lacks.is_none(), || {
            format!("{place} lacks {lacks:?} of {due:?}")
        })?;
        let dated = place == "the first line" || report.contains("--junit") && report.contains("T");
        expect(dated, || format!("{place} lacks the command or the date"))?;
    }

    // The same of results that were kept.
    passed(&ground.outside(&["report", "r.json", "--html", "again.html"])?)?;
    expect(read("again.html")?.contains(&guid), || {
        "a page of kept results lacks the device".to_owned()
    })?;

    let cable = format!("{DEVICE}:{}={DEVICE}:{}", lab.port(), lab.port());
    let finished = ground.outside(&["run", "C14_024_01", "--cable", &cable])?;
    passed(&finished)?;
    let first = finished.out.lines().next().unwrap_or_default();
    expect(
        first.contains("of the tester's own") && first.contains(&cable),
        || format!("it must be said that no other device was tested: {first}"),
    )
}

fn never_answers(lab: &mut Lab) -> Ending {
    let ground = Ground::new(lab)?;
    let (agent, address) = ground.agent(lab)?;
    agent.signal(Signal::STOP);
    // Many tests must not wait many times.
    let args = ["run", "--family", "C09-060", "--agent", &address];
    let finished = ground.outside(&[&args[..], &["--tester", TESTER]].concat());
    agent.signal(Signal::CONT);
    refused(&finished?, &["does not answer", &address])?;
    let args = ["run", QUICK, "--agent", &address, "--tester", TESTER];
    passed(&ground.outside(&args)?)
}

/// An agent that is killed while a test waits: not a hang, and not a pass. The next tests say that
/// nobody is there.
fn dies(lab: &mut Lab) -> Ending {
    let ground = Ground::new(lab)?;
    let (agent, address) = ground.agent(lab)?;
    let args = ["run", LONG, QUICK, "--agent", &address, "--tester", TESTER];
    let mut running = ground.start(&args)?;

    // The quick one comes first, by its name.
    if !running.wait_until(BOUND, |running| running.output().contains(QUICK)) {
        return Err(Stop::with("must begin", &[&running.kill()]));
    }

    agent.kill();
    let finished = running.finish(BOUND);
    let code = finished.code();
    let said = finished.out.contains("ERROR") || finished.out.contains("FAIL");
    match matches!(code, Some(1 | REFUSED)) && said {
        true => Ok(()),
        false => Err(Stop::with("must fail and say so", &[&finished])),
    }
}

fn nobody(lab: &mut Lab) -> Ending {
    let ground = Ground::new(lab)?;
    let address = format!("{DEVICE}:{}", lab.port());
    let args = ["run", QUICK, "--agent", &address, "--tester", TESTER];
    refused(&ground.outside(&args)?, &[&address, "cannot be reached"])?;
    let both = ["run", QUICK, "--agent", &address, "--device", "ferroce0"];
    refused(&ground.outside(&both)?, &["cannot be used with"])?;
    let taken = [
        "agent",
        "--device",
        "ferroce0",
        "--listen",
        "192.0.2.1:7000",
    ];
    refused(&ground.inside(&taken)?, &["192.0.2.1:7000"])
}

/// What is no command is answered with an error, and does not end the agent.
fn nonsense(lab: &mut Lab) -> Ending {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpStream;

    let ground = Ground::new(lab)?;
    let (_agent, address) = ground.agent(lab)?;
    let mut stream = TcpStream::connect(&address).map_err(anyhow::Error::from)?;
    stream
        .set_read_timeout(Some(BOUND))
        .map_err(anyhow::Error::from)?;
    let mut answers = BufReader::new(stream.try_clone().map_err(anyhow::Error::from)?).lines();
    let lines: [&[u8]; 5] = [
        b"hello",
        b"{\"command\":\"no\"}",
        b"{\"command\":\"destroy_qp\",\"qp\":1}",
        b"{\"command\":\"read_memory\",\"addr\":4096,\"len\":4}",
        b"\xff\x00",
    ];

    for line in lines {
        let sent = stream.write_all(&[line, b"\n"].concat());
        sent.map_err(anyhow::Error::from)?;
        let answer = answers.next().transpose().map_err(anyhow::Error::from)?;
        let answer = answer.unwrap_or_default();
        let code = serde_json::from_str::<serde_json::Value>(&answer);
        let code = code.ok().and_then(|answer| answer["code"].as_i64());
        expect(code == Some(22), || {
            format!("{line:?} was answered by {answer:?}, EINVAL is due")
        })?;
    }

    drop((stream, answers));
    let args = ["run", QUICK, "--agent", &address, "--tester", TESTER];
    passed(&ground.outside(&args)?)
}
