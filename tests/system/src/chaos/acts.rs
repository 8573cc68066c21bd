//! Carrying out what a plan says. Only processes that this command started are touched, each by a
//! descriptor or its id.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, pidfd_open, pidfd_send_signal, prlimit,
};

use super::plan::{Act, End, Target, What};
use super::work::Transfer;
use crate::attack::hostile::{self, Kind, Random, Requests};
use crate::lab::host::Host;

/// Where nobody listens: a server that takes one connection, such as rping, is rightly confused by
/// a second request.
const NOBODYS: u16 = 9;
/// What a process without memory may still have.
const SOME: u64 = 64 << 10;

/// The daemons of a round's hosts, that of the servers and that of the clients, which may be one.
pub(super) struct Daemons([Daemon; 2]);

struct Daemon {
    id: u32,
    address: String,
    process: OwnedFd,
}

impl Daemons {
    pub(super) fn of(hosts: [&Host; 2]) -> Result<Daemons> {
        let [server, client] = hosts.map(Daemon::of);
        Ok(Daemons([server?, client?]))
    }

    fn at(&self, end: End) -> &Daemon {
        match end {
            End::Server => &self.0[0],
            End::Client => &self.0[1],
        }
    }

    fn address(&self, end: End) -> &str {
        &self.at(end).address
    }
}

impl Daemon {
    fn of(host: &Host) -> Result<Daemon> {
        let id = host.status()?["pid"]
            .as_u64()
            .context("the daemon's process")? as u32;
        Ok(Daemon {
            id,
            address: host.address.clone(),
            process: opened(id)?,
        })
    }
}

/// Does all acts, each at its time, and ends what goes on. Answers for each whether it met
/// somebody.
pub(super) fn perform(
    acts: &[Act],
    transfers: &[Transfer],
    daemons: &Daemons,
    seed: u64,
) -> Vec<bool> {
    let mut steps: Vec<(Duration, usize, bool)> = Vec::new();
    for (number, act) in acts.iter().enumerate() {
        steps.push((act.at, number, true));
        steps.push((act.at + act.what.length(), number, false));
    }

    steps.sort_by_key(|(at, ..)| *at);

    let began = Instant::now();
    let mut going: Vec<Option<Going>> = acts.iter().map(|_| None).collect();
    let mut met = vec![false; acts.len()];
    for (at, number, begins) in steps {
        std::thread::sleep(at.saturating_sub(began.elapsed()));
        match begins {
            true => {
                let seed = seed.wrapping_add(number as u64);
                // What has ended meanwhile cannot be met.
                going[number] = begin(&acts[number].what, transfers, daemons, seed).ok();
                met[number] = going[number].is_some();
            }
            false => drop(going[number].take()),
        }
    }

    met
}

/// Something that ends when it is dropped.
enum Going {
    Done,
    Paused(OwnedFd),
    Limited(OwnedFd, Pid, Resource, Rlimit),
    Idle(u32),
    Spinning(Vec<Child>),
    Flood(Vec<JoinHandle<()>>),
    Requests(#[expect(dead_code, reason = "it ends when it is dropped")] Requests),
}

impl Drop for Going {
    fn drop(&mut self) {
        match self {
            Going::Done | Going::Requests(_) => {}
            Going::Paused(process) => {
                let _ = pidfd_send_signal(process, Signal::CONT);
            }
            Going::Limited(process, id, resource, before) if lives(process) => {
                let _ = prlimit(Some(*id), *resource, *before);
            }
            Going::Limited(..) => {}
            Going::Idle(thread) => {
                let _ = schedule(*thread, "--other");
            }
            Going::Spinning(children) => children.iter_mut().for_each(end),
            Going::Flood(threads) => threads.drain(..).for_each(|thread| drop(thread.join())),
        }
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn begin(what: &What, transfers: &[Transfer], daemons: &Daemons, seed: u64) -> Result<Going> {
    match *what {
        What::Kill(target) => {
            pidfd_send_signal(process_of(target, transfers, daemons)?, Signal::KILL)?;
            Ok(Going::Done)
        }
        What::Pause(target, _) => {
            let process = process_of(target, transfers, daemons)?;
            pidfd_send_signal(&process, Signal::STOP)?;
            Ok(Going::Paused(process))
        }
        What::Descriptors(target, _) => {
            let process = process_of(target, transfers, daemons)?;
            let id = id_of(target, transfers, daemons);
            let open = fs::read_dir(format!("/proc/{id}/fd"))?.count() as u64;
            limit(process, id, Resource::Nofile, open)
        }
        What::Memory(target, _) => {
            let process = process_of(target, transfers, daemons)?;
            let id = id_of(target, transfers, daemons);
            limit(process, id, Resource::As, mapped(id)? + SOME)
        }
        What::Helper(number, end, _) => {
            let thread = helper_of(transfers[number].end(end).id())?;
            schedule(thread, "--idle")?;
            Ok(Going::Idle(thread))
        }
        What::Spin(_) => spin(),
        What::Noise(length) => Ok(noise(daemons, length, seed)),
        What::Requests(_) => {
            let requests = Requests::start(daemons.address(End::Server), &[NOBODYS])?;
            Ok(Going::Requests(requests))
        }
    }
}

fn id_of(target: Target, transfers: &[Transfer], daemons: &Daemons) -> u32 {
    match target {
        Target::Program(number, end) => transfers[number].end(end).id(),
        Target::Daemon(end) => daemons.at(end).id,
    }
}

/// Of a program, which is a child of ours and not waited for yet, so that its id is its own; of a
/// daemon, what was opened when it lived.
fn process_of(target: Target, transfers: &[Transfer], daemons: &Daemons) -> Result<OwnedFd> {
    let process = match target {
        Target::Program(number, end) => opened(transfers[number].end(end).id())?,
        Target::Daemon(end) => daemons.at(end).process.try_clone()?,
    };
    ensure!(lives(&process), "it has ended");
    Ok(process)
}

fn lives(process: &OwnedFd) -> bool {
    let mut ended = [PollFd::new(process, PollFlags::IN)];
    poll(&mut ended, Some(&Timespec::default())).is_ok_and(|count| count == 0)
}

fn opened(id: u32) -> Result<OwnedFd> {
    Ok(pidfd_open(pid(id)?, PidfdFlags::empty())?)
}

fn pid(id: u32) -> Result<Pid> {
    Pid::from_raw(id as i32).context("a process's id")
}

fn limit(process: OwnedFd, id: u32, resource: Resource, most: u64) -> Result<Going> {
    let limit = Rlimit {
        current: Some(most),
        maximum: hard_limit(id, resource)?,
    };
    let id = pid(id)?;
    let before = prlimit(Some(id), resource, limit)?;
    Ok(Going::Limited(process, id, resource, before))
}

/// The limit up to which the other may be raised again, which stays.
fn hard_limit(id: u32, resource: Resource) -> Result<Option<u64>> {
    let name = match resource {
        Resource::As => "Max address space",
        _ => "Max open files",
    };
    let text = fs::read_to_string(format!("/proc/{id}/limits"))?;
    let line = text.lines().find(|line| line.starts_with(name));
    let mut words = line.context("/proc/PID/limits")?[name.len()..].split_whitespace();
    let hard = words.nth(1).context("/proc/PID/limits")?;
    Ok(hard.parse().ok())
}

/// Bytes of address space.
fn mapped(id: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kibibytes = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
    let kibibytes: u64 = kibibytes.context("VmSize in /proc/PID/status")?.parse()?;
    Ok(kibibytes << 10)
}

/// The thread of the engine's, by its name.
fn helper_of(id: u32) -> Result<u32> {
    for task in fs::read_dir(format!("/proc/{id}/task"))? {
        let path = task?.path();
        if fs::read_to_string(path.join("comm"))?.trim() == "ferroce" {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            return Ok(name.parse()?);
        }
    }
    anyhow::bail!("process {id} has no helper thread")
}

fn schedule(thread: u32, class: &str) -> Result<()> {
    let mut chrt = Command::new("chrt");
    chrt.args([class, "--pid", "0", &thread.to_string()]);
    let status = chrt.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    ensure!(status.success(), "chrt {class}: {status}");
    Ok(())
}

fn spin() -> Result<Going> {
    let processors = std::thread::available_parallelism()?.get();
    let one = || {
        Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
    };
    let mut children = Vec::new();
    for _ in 0..2 * processors {
        children.push(one()?);
    }
    Ok(Going::Spinning(children))
}

fn noise(daemons: &Daemons, length: Duration, seed: u64) -> Going {
    let ways = [(End::Client, End::Server), (End::Server, End::Client)];
    let threads = ways.map(|(from, to)| {
        let (from, to) = (
            daemons.address(from).to_owned(),
            daemons.address(to).to_owned(),
        );
        let mut random = Random(seed);
        std::thread::spawn(move || {
            let _ = hostile::send(Kind::Noise(&[]), &from, &to, length, &mut random);
        })
    });
    Going::Flood(threads.into())
}
