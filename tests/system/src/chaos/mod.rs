//! `cargo xtask chaos`: transfers with checked data, while peers, daemons and helper threads are
//! killed, stopped, starved and flooded.
//!
//! A round has a place, two transfers and some acts, all of which follow from the seed and the
//! round's number (`plan`). Then every process's ending is judged: no wrong byte, no crash that was
//! not ordered, no hang; a transfer that nothing was done to comes to its end. And the device,
//! started again if its daemon was killed, serves another transfer.

mod acts;
mod plan;
mod work;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::build;
use crate::harness::case::Stop;
use crate::harness::process::Finished;
use crate::interrupt;
use crate::lab::Place;
use crate::lab::host::Host;
use crate::packages;
use crate::programs::stream::{Streams, all_right};
use acts::Daemons;
use plan::{End, PORT, Plan, Target, What, Work};
use work::{Over, Transfer};

/// How long the transfer afterwards may take; it streams for a second.
const AFTERWARDS: Duration = Duration::from_secs(40);
/// Within which the daemon must have noticed that processes are gone.
const NOTICED: Duration = Duration::from_secs(10);

/// What is to be done.
#[derive(clap::Args)]
pub struct Scope {
    /// How long: no round begins later
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1440))]
    minutes: u32,
    /// What everything that is done follows from
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Only this round of such a run
    #[arg(long, value_name = "ROUND")]
    round: Option<u32>,
}

/// Runs rounds until the time is over; true if nothing was found.
pub fn run(scope: &Scope) -> Result<bool> {
    packages::ensure(packages::CHAOS)?;
    let programs = build::product()?;
    work::echo_program()?;
    let logs = build::scratch("chaos")?;
    let mut tally = Tally::default();
    let end = Instant::now() + Duration::from_secs(60 * u64::from(scope.minutes));
    let rounds = match scope.round {
        Some(round) => round..round.saturating_add(1),
        None => 0..u32::MAX,
    };

    for round in rounds {
        if Instant::now() >= end {
            break;
        }

        let plan = Plan::new(scope.seed, round);
        println!("round {round}: {:?}, {:?}", plan.place, plan.works);
        plan.acts.iter().for_each(|act| println!("  {act}"));
        let dir = logs.join(format!("{round:05}"));
        let findings = play(&plan, scope.seed, &programs, &dir, &mut tally);
        interrupt::none_yet()?;
        findings
            .iter()
            .for_each(|found| println!("  FOUND {found}"));
        if findings.is_empty() {
            let _ = fs::remove_dir_all(&dir);
        }

        tally.findings.extend(
            findings
                .into_iter()
                .map(|found| format!("round {round}: {found}")),
        );
    }

    print!("\nseed {}: {tally}", scope.seed);
    if !tally.findings.is_empty() {
        println!("what the programs said is below {}", logs.display());
    }

    Ok(tally.findings.is_empty())
}

/// So many rounds of a run with that seed, for the tests.
pub fn short(seed: u64, rounds: u32, programs: &Path, dir: &Path) -> Result<(), Stop> {
    work::echo_program()?;
    let mut tally = Tally::default();
    for round in 0..rounds {
        let plan = Plan::new(seed, round);
        let dir = dir.join(round.to_string());
        let findings = play(&plan, seed, programs, &dir, &mut tally);
        if let Some(found) = findings.first() {
            return Err(Stop::fail(format!(
                "round {round} of seed {seed}: {found}\n{plan:#?}"
            )));
        }
    }
    Ok(())
}

/// A round; what was found.
fn play(plan: &Plan, seed: u64, programs: &Path, dir: &Path, tally: &mut Tally) -> Vec<String> {
    tally.rounds += 1;
    let _ = fs::remove_dir_all(dir);
    match try_to_play(plan, seed, programs, dir, tally) {
        Ok(findings) => findings,
        Err(stop) => vec![in_short(&stop)],
    }
}

fn try_to_play(
    plan: &Plan,
    seed: u64,
    programs: &Path,
    dir: &Path,
    tally: &mut Tally,
) -> Result<Vec<String>, Stop> {
    fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
    let mut hosts = hosts(plan.place, programs)?;
    let daemons = Daemons::of(ends(&hosts))?;
    let mut transfers = Vec::new();
    for (number, work) in plan.works.into_iter().enumerate() {
        let port = PORT + number as u16;
        let dir = dir.join(number.to_string());
        transfers.push(Transfer::start(work, ends(&hosts), port, &dir)?);
    }

    let met = acts::perform(&plan.acts, &transfers, &daemons, seed);
    for (act, met) in plan.acts.iter().zip(&met) {
        tally.act(&act.what, *met);
    }

    let mut findings = Vec::new();
    for (number, transfer) in transfers.into_iter().enumerate() {
        let over = transfer.finish();
        findings.extend(judge(plan, number, &over));
        tally.ending(plan.works[number], &over);
    }

    if let Err(stop) = usable(&mut hosts, dir) {
        findings.push(format!("the device afterwards: {}", in_short(&stop)));
    }

    Ok(findings)
}

/// What the programs printed is in their files.
fn in_short(stop: &Stop) -> String {
    match stop {
        Stop::Skip(why) => why.clone(),
        Stop::Fail(failure) => {
            let line = |end: &Finished| format!("\n    {}: {}", end.line, end.ending());
            let lines: String = failure.commands.iter().map(line).collect();
            format!("{}{lines}", failure.what)
        }
    }
}

/// The host of the servers and that of the clients.
fn ends(hosts: &[Host]) -> [&Host; 2] {
    [&hosts[0], &hosts[hosts.len() - 1]]
}

/// Fresh daemons: what was done in one round is not the next one's surprise.
fn hosts(place: Place, programs: &Path) -> Result<Vec<Host>, Stop> {
    let mut hosts = match place {
        Place::TwoDaemons => vec![
            Host::new(programs, "127.0.0.1", None)?,
            Host::new(programs, "127.0.0.2", None)?,
        ],
        Place::Sockets => vec![Host::new(programs, "127.0.0.1", None)?.without_loopback()],
        _ => vec![Host::new(programs, "127.0.0.1", None)?],
    };
    hosts.iter_mut().try_for_each(Host::up)?;
    Ok(hosts)
}

/// What must not be, of a transfer's ends.
fn judge(plan: &Plan, number: usize, over: &Over) -> Vec<String> {
    let mut findings = Vec::new();
    for end in [End::Server, End::Client] {
        let itself = |target: Target| target == Target::Program(number, end);
        let killed = |what: What| matches!(what, What::Kill(target) if itself(target));
        let starved = |what: What| matches!(what, What::Memory(target, _) if itself(target));
        let any = |was: &dyn Fn(What) -> bool| plan.acts.iter().any(|act| was(act.what));
        let may_wait = plan.may_wait(number, end);
        findings.extend(over.outrage(end, any(&killed), any(&starved), may_wait));
    }

    if findings.is_empty() && plan.spares(number) && !over.complete() {
        findings.push(format!(
            "{:?} was left alone and did not come to its end: server {}, client {}",
            plan.works[number],
            over.server.ending(),
            over.client.ending()
        ));
    }

    findings
}

/// Daemons that were killed are started again; then nobody holds a slot, and a transfer works.
fn usable(hosts: &mut [Host], dir: &Path) -> Result<(), Stop> {
    for host in hosts.iter_mut() {
        match host.status() {
            Ok(_) => nobody_left(host)?,
            Err(_) => host.up()?,
        }
    }
    let port = PORT + plan::WORKS as u16;
    let streams = Streams::start(ends(hosts), port, Some(1), dir, AFTERWARDS)?;
    let [server, client] = streams.finish(AFTERWARDS);
    match all_right(&server) && all_right(&client) {
        true => Ok(()),
        false => Err(Stop::with("a transfer does not work", &[&client, &server])),
    }
}

fn nobody_left(host: &Host) -> Result<(), Stop> {
    let deadline = Instant::now() + NOTICED;
    loop {
        let status = host.status()?;
        if status["slots"]["claimed"] == 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Stop::fail(format!(
                "processes that are gone hold slots: {status}"
            )));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What was done and seen.
#[derive(Default)]
struct Tally {
    rounds: u32,
    /// By kind, how often it met somebody, and how often nobody was there any more.
    acts: BTreeMap<&'static str, [u32; 2]>,
    /// How transfers ended.
    endings: BTreeMap<(Work, &'static str), u32>,
    findings: Vec<String>,
}

impl Tally {
    fn act(&mut self, what: &What, met: bool) {
        self.acts.entry(what.kind()).or_default()[usize::from(!met)] += 1;
    }

    fn ending(&mut self, work: Work, over: &Over) {
        let how = match over.complete() {
            true => "complete, every byte right",
            false => "broken off, every byte until then right",
        };
        *self.endings.entry((work, how)).or_default() += 1;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} rounds", self.rounds)?;
        for (kind, [met, missed]) in &self.acts {
            writeln!(f, "  {met:5} x {kind} ({missed} when it had ended already)")?;
        }
        for ((work, how), times) in &self.endings {
            writeln!(f, "  {times:5} x {work:?}: {how}")?;
        }
        writeln!(f, "  {:5} findings", self.findings.len())?;
        self.findings
            .iter()
            .try_for_each(|found| writeln!(f, "        {found}"))
    }
}
