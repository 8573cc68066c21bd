//! The transfers: how each is started, when it is under way, and what its ends must have said.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::plan::{End, Work};
use crate::build;
use crate::groups::cm;
use crate::harness::case::Stop;
use crate::harness::process::{self, Finished, Running};
use crate::lab::host::Host;
use crate::programs::exs;
use crate::programs::stream::{self, Streams};

/// How long a transfer may take until it is under way.
const START: Duration = Duration::from_secs(40);
/// How long after the last act a program may say nothing new: more than the eleven seconds that
/// connections of rdma_cm have patience, and a few messages of connection management.
const END: Duration = Duration::from_secs(60);
/// How long it may take though it does.
const LONGEST: Duration = Duration::from_secs(300);
/// What makes a transfer last some seconds: of the stream, of rping, of the echo.
const SECONDS: u32 = 5;
const PINGS: u32 = 20_000;
const LINES: u32 = 40_000;

/// A transfer that is under way.
pub(super) struct Transfer {
    work: Work,
    pub server: Running,
    pub client: Running,
}

/// The ends of a transfer that is over.
pub(super) struct Over {
    work: Work,
    pub server: Finished,
    pub client: Finished,
}

impl Transfer {
    /// Starts both ends, with their output below `dir`, and waits until data goes to and fro.
    pub(super) fn start(
        work: Work,
        hosts: [&Host; 2],
        port: u16,
        dir: &Path,
    ) -> Result<Transfer, Stop> {
        fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
        let (server, client) = match work {
            Work::Stream => {
                let Streams { server, client } =
                    Streams::start(hosts, port, Some(SECONDS), dir, START)?;
                return Ok(Transfer {
                    work,
                    server,
                    client,
                });
            }
            Work::Rping => rping(hosts, port, dir)?,
            Work::Echo => echo(hosts, port, dir)?,
        };

        let mut transfer = Transfer {
            work,
            server,
            client,
        };

        let said = |end: &Running| end.output().contains('\n');
        if !transfer.client.wait_until(START, said) {
            let ends = [transfer.client.kill(), transfer.server.kill()];
            let [client, server] = &ends;
            return Err(Stop::with("the transfer does not start", &[client, server]));
        }

        Ok(transfer)
    }

    pub(super) fn end(&self, end: End) -> &Running {
        match end {
            End::Server => &self.server,
            End::Client => &self.client,
        }
    }

    /// Waits for both ends, with a bound.
    pub(super) fn finish(self) -> Over {
        let client = finish(self.client);
        let server = match self.work {
            // It serves until it is ended.
            Work::Echo => self.server.kill(),
            _ => finish(self.server),
        };
        Over {
            work: self.work,
            server,
            client,
        }
    }
}

impl Over {
    /// Whether all data came over, as both say that were asked.
    pub(super) fn complete(&self) -> bool {
        match self.work {
            Work::Stream => [&self.server, &self.client]
                .into_iter()
                .all(stream::all_right),
            Work::Rping => {
                let last = format!("rdma-ping-{}", PINGS - 1);
                self.client.success() && self.client.out.contains(&last)
            }
            Work::Echo => self.client.success() && self.client.out == lines(),
        }
    }

    /// What no end may say or do, whatever is done to it, but be killed and have no memory,
    /// or wait for a host that has died.
    pub(super) fn outrage(
        &self,
        end: End,
        killed: bool,
        starved: bool,
        may_wait: bool,
    ) -> Option<String> {
        let (name, finished) = match end {
            End::Server => ("server", &self.server),
            End::Client => ("client", &self.client),
        };
        let words = format!("{}{}", finished.out, finished.err);
        let wrong = [
            ("streamed: byte", "wrong bytes"),
            ("data mismatch", "wrong bytes"),
            ("panicked at", "a panic"),
            ("internal error", "a panic"),
        ];
        let said = wrong.into_iter().find(|(mark, _)| words.contains(mark));
        let ends_itself = self.work == Work::Echo && end == End::Server;
        let signal = finished.status.and_then(|status| status.signal());
        let why = match (said, finished.status, signal) {
            (Some((_, what)), ..) => what.to_owned(),
            (None, None, _) if !killed && !may_wait => "hangs".to_owned(),
            (None, Some(_), Some(KILL)) if killed || ends_itself => return None,
            // Programs in C and in Rust alike end so where there is no memory.
            (None, Some(_), Some(ABORT)) if starved && words.contains("memory allocation of") => {
                return None;
            }
            (None, Some(_), Some(signal)) => format!("dies of signal {signal}"),
            _ if self.lines_differ() => "wrong bytes".to_owned(),
            _ => return None,
        };

        Some(format!("{:?}: its {name} {why}", self.work))
    }

    /// What has come back so far must be what was sent.
    fn lines_differ(&self) -> bool {
        self.work == Work::Echo && !lines().starts_with(&self.client.out)
    }
}

/// Waits as long as the program has something new to say: on a machine with much to do a transfer
/// may take minutes.
fn finish(mut program: Running) -> Finished {
    let latest = Instant::now() + LONGEST;
    let mut said = program.output().len();
    while !program.ended_within(END) {
        let now_said = program.output().len();
        if now_said == said || Instant::now() > latest {
            break;
        }
        said = now_said;
    }
    program.finish(Duration::ZERO)
}

const KILL: i32 = 9;
const ABORT: i32 = 6;

fn rping(hosts: [&Host; 2], port: u16, dir: &Path) -> Result<(Running, Running), Stop> {
    let [server_host, client_host] = hosts;
    let command = |host: &Host, role: &str| {
        let mut command = host.run("rping");
        let address = &server_host.address;
        command.args([role, "-a", address, "-p", &port.to_string(), "-v", "-V"]);
        command.args(["-S", "200", "-C", &PINGS.to_string()]);
        command
    };
    let mut server = process::spawn(command(server_host, "-s"), dir, "server")?;
    listening(&mut server, server_host, port)?;
    let client = process::spawn(command(client_host, "-c"), dir, "client")?;
    Ok((server, client))
}

fn echo(hosts: [&Host; 2], port: u16, dir: &Path) -> Result<(Running, Running), Stop> {
    let [server_host, client_host] = hosts;
    let program = echo_program()?;
    let number = port.to_string();
    let mut command = server_host.run(&program);
    command.args(["-p", &number, "-b", &server_host.address, "-l"]);
    let mut server = process::spawn(command, dir, "server")?;
    listening(&mut server, server_host, port)?;

    let input = dir.join("input");
    fs::write(&input, lines()).context("input")?;
    let mut command = client_host.run(&program);
    command.args(["-p", &number, &server_host.address]);
    let input = Stdio::from(File::open(&input).context("input")?);
    let client = process::spawn_with(command, input, dir, "client")?;
    Ok((server, client))
}

/// Built once: what cargo does takes its time even when there is nothing to do, and a transfer is
/// under way already.
pub(super) fn echo_program() -> Result<PathBuf> {
    static PROGRAM: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut program = PROGRAM.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = &*program {
        return Ok(program.clone());
    }
    let made = exs::example(&build::exs()?, "exs_echo")?;
    *program = Some(made.clone());
    Ok(made)
}

fn listening(server: &mut Running, host: &Host, port: u16) -> Result<(), Stop> {
    match server.wait_until(START, |_| cm::listens(host, cm::TCP, port)) {
        true => Ok(()),
        false => Err(Stop::fail("the server does not come to listen")),
    }
}

fn lines() -> String {
    (0..LINES)
        .map(|n| format!("line {n} of {LINES}\n"))
        .collect()
}
