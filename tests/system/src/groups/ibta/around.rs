//! Group `ibta`, what is around the tests: devices that are named, agents elsewhere, cables; and
//! what the suite does when something is wrong with one of these. Always a message, an exit code,
//! and an end within bounded time.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished, Running};
use crate::lab::Lab;
use crate::lab::host::Host;

/// The device's address and the tester's; another that nobody has; and one that is not this host's.
const DEVICE: &str = "127.0.0.1";
const TESTER: &str = "127.0.0.2";
const ABSENT: &str = "192.0.2.1";
/// A short test, and one that takes seconds.
const QUICK: &str = "C09_060_09";
const LONG: &str = "C09_142_01";
/// A test of the management agents that needs two ports.
const TWO_PORTS: &str = "C14_024_06_CA_04";
/// Families with several tests each, of the management agents and of the transport.
const MANAGEMENT: &str = "C14-015";
const TRANSPORT: &str = "9.7.7.1";
/// The suite waits so long for an agent, and some for connections; nothing of what is here may take
/// longer.
const BOUND: Duration = Duration::from_secs(30);
/// Exit code of bad input and of a tester that failed.
const REFUSED: i32 = 2;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("ibta/around/a named device passes", named),
        Case::new("ibta/around/no such device, port or address", wrong_names),
        Case::new("ibta/around/the tester's address is in use", in_use),
        Case::new("ibta/around/a device with one port", one_port),
        Case::new("ibta/around/an agent for several testers", several_testers),
        Case::new("ibta/around/an agent that never answers", never_answers),
        Case::new("ibta/around/an agent that dies in a test", dies),
        Case::new("ibta/around/nobody at the agent's address", nobody),
        Case::new("ibta/around/nonsense at an agent", nonsense),
        Case::new("ibta/around/nobody at the end of a cable", silent_cables),
    ]
}

/// A device that is up, and the programs.
struct Ground {
    host: Host,
    suite: std::path::PathBuf,
    dir: std::path::PathBuf,
    runs: std::cell::Cell<u32>,
}

impl Ground {
    fn new(lab: &mut Lab) -> Result<Ground, Stop> {
        lab.vacate();
        let suite = lab.programs().join("ferroce-ibta");
        let mut host = Host::new(lab.programs(), DEVICE, None)?;
        host.up()?;
        Ok(Ground {
            host,
            suite,
            dir: lab.case_dir()?,
            runs: std::cell::Cell::new(0),
        })
    }

    fn spawn(&self, mut command: Command, args: &[&str]) -> Result<Running, Stop> {
        self.runs.set(self.runs.get() + 1);
        // Captures of tests that must fail belong there.
        command.args(args).current_dir(&self.dir);
        let name = format!("run-{}", self.runs.get());
        Ok(process::spawn(command, &self.dir, &name)?)
    }

    /// The suite where programs see the device.
    fn inside(&self, args: &[&str]) -> Result<Finished, Stop> {
        let running = self.spawn(self.host.run(&self.suite), args)?;
        Ok(running.finish(BOUND))
    }

    /// The suite where they see none.
    fn outside(&self, args: &[&str]) -> Result<Finished, Stop> {
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
fn refused(finished: &Finished, words: &[&str]) -> Ending {
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

fn passed(finished: &Finished) -> Ending {
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

/// A test of two ports on a device that has one: it says so, and tests that need one port still
/// run.
fn one_port(lab: &mut Lab) -> Ending {
    let ground = Ground::new(lab)?;
    let args = [
        "run", TWO_PORTS, QUICK, "--device", "ferroce0", "--tester", TESTER,
    ];
    let finished = ground.inside(&args)?;
    let code = finished.code();
    let said = format!("{}{}", finished.out, finished.err);
    let says = said.contains(TWO_PORTS) && said.contains("port") && said.contains("cable");
    match code == Some(REFUSED) && says {
        true => Ok(()),
        false => Err(Stop::with(
            "must say what ports and cables the test needs",
            &[&finished],
        )),
    }
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

/// A cable that is silent, and one whose far end brings the link up and answers nothing: it is
/// another tester's, that waits for answers itself. However many tests there are, one wait is
/// enough; all four do so at once.
fn silent_cables(lab: &mut Lab) -> Ending {
    let ground = Ground::new(lab)?;
    let socket = || UdpSocket::bind((DEVICE, 0)).map_err(anyhow::Error::from);
    let end = |socket: &UdpSocket| socket.local_addr().map_err(anyhow::Error::from);
    let (silent, free) = (socket()?, [socket()?, socket()?, socket()?, socket()?]);
    let mut ends = Vec::new();
    for socket in &free {
        ends.push(end(socket)?);
    }
    drop(free);
    let nobody = end(&silent)?;
    let run = |family: &str, near: SocketAddr, far: SocketAddr| {
        let cable = format!("{near}={far}");
        let args = [
            "run", "--family", family, "--device", "ferroce0", "--cable", &cable,
        ];
        ground.spawn(ground.host.run(&ground.suite), &args)
    };
    let management = run(MANAGEMENT, ends[0], nobody)?;
    let transport = run(TRANSPORT, ends[1], nobody)?;
    let here = run(MANAGEMENT, ends[2], ends[3])?;
    let there = run(TRANSPORT, ends[3], ends[2])?;
    for (running, near) in [(management, ends[0]), (transport, ends[1])] {
        let cable = format!("{near}={nobody}");
        refused(
            &running.finish(BOUND),
            &["nobody answers at the other end of the cable", &cable],
        )?;
    }

    for running in [here, there] {
        refused(
            &running.finish(BOUND),
            &[
                "the device does not answer",
                "SubnGetResp(PortInfo) by port 1",
            ],
        )?;
    }

    Ok(())
}
