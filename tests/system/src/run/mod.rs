//! One run of the tests: what may have company runs beside each other, the rest alone.

mod plan;
mod shard;
mod worker;
mod workers;

pub use shard::Shard;
pub use worker::work;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Instant;

use anyhow::Result;

use crate::build;
use crate::groups::choose;
use crate::harness::case::{Case, Endings};
use crate::harness::report::Report;
use crate::interrupt;
use crate::lab::Lab;
use crate::packages::{self, Need};
use crate::programs::suite;
use crate::run::plan::{Lot, Plan};
use crate::run::worker::Ended;
use crate::run::workers::{Network, Worker, Workers};

/// Cases that run rdma-core's suite beside others.
const SUITES: &str = "memcheck/pyverbs";

/// What is to be run, and how.
#[derive(Default)]
pub struct Choice {
    /// Groups or parts of them; none means all.
    pub filters: Vec<String>,
    /// How often; 0 counts as 1.
    pub rounds: u32,
    /// Which share of the cases.
    pub shard: Option<Shard>,
    /// Where JUnit's XML goes.
    pub junit: Option<PathBuf>,
    /// How many cases may run beside each other; as many as there are processors if none.
    pub jobs: Option<NonZeroUsize>,
}

impl Choice {
    /// Some groups, once.
    pub fn of(groups: &[&str]) -> Choice {
        Choice {
            filters: groups.iter().map(|&group| group.to_owned()).collect(),
            ..Choice::default()
        }
    }

    /// How many cases may run beside each other.
    fn jobs(&self) -> NonZeroUsize {
        let processors = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.jobs.unwrap_or_else(processors)
    }
}

/// Runs the chosen cases; true if none failed in any round.
///
/// # Errors
///
/// A filter that names no group, packages that cannot be installed, a product that does not build.
pub fn run(choice: &Choice) -> Result<bool> {
    let chosen = choose(&choice.filters)?;
    let mut needs: Vec<Need> = Vec::new();
    chosen
        .iter()
        .for_each(|(group, _)| needs.extend(group.needs));
    packages::ensure(&needs)?;
    let programs = if chosen.iter().any(|(group, _)| group.product) {
        build::product()?
    } else {
        build::release_dir()?
    };

    let started = Instant::now();
    let logs = build::scratch("logs")?;
    let mut lab = Lab::new(programs.clone(), logs.clone());
    let mut report = Report::default();
    let rounds = choice.rounds.max(1);
    for number in 1..=rounds {
        if rounds > 1 {
            report.round(number, rounds);
        }
        let plan = Plan::new(choose(&choice.filters)?, choice.shard);
        report.expect(plan.len());
        let round = Round {
            programs: &programs,
            logs: &logs,
            lab: &mut lab,
            report: &mut report,
        };
        round.run(plan, choice.jobs().get());
        interrupt::none_yet()?;
        // Each round starts from nothing, as a run does.
        lab.vacate();
    }

    report.done();
    println!("\n{:.0} s", started.elapsed().as_secs_f64());
    if let Some(file) = &choice.junit {
        report.write_junit(file)?;
    }

    Ok(report.conclude())
}

/// One round.
struct Round<'a> {
    programs: &'a Path,
    logs: &'a Path,
    lab: &'a mut Lab,
    report: &'a mut Report,
}

impl Round<'_> {
    /// With so many cases beside each other, where they may be.
    fn run(mut self, plan: Plan, jobs: usize) {
        self.each(plan.first);

        // Beside others there is no network. Where it cannot be had, the cases say so.
        if plan.beside.iter().any(|lot| lot.name.starts_with(SUITES)) {
            let _ = suite::fetch();
        }
        // Two more for those that wait, which leave the processors to the others.
        self.beside(plan.beside, jobs, 2, Network::Own);

        self.each(plan.alone);
        let pairs = plan.in_pairs.into_iter().map(Lot::of_one).collect();
        self.beside(pairs, jobs.min(2), 0, Network::Own);

        self.at_home(plan.at_home, plan.apart, jobs);
        let end = plan.at_end.into_iter().map(Lot::of_one).collect();
        self.beside(end, jobs.min(2), 0, Network::Machines);
    }

    /// One after the other.
    fn each(&mut self, cases: Vec<Case>) {
        for case in cases {
            self.case(case);
        }
    }

    /// So many lots at once, and so many more of those that wait.
    fn beside(&mut self, lots: Vec<Lot>, computing: usize, waiting: usize, network: Network) {
        let workers = match computing.min(lots.len()) {
            0 | 1 => None,
            _ => Workers::start(computing, waiting, network, self.programs, self.logs)
                .inspect_err(|error| println!("one case after the other: {error:#}"))
                .ok(),
        };

        match workers {
            Some(workers) => {
                let work = lots.iter().map(Lot::work).collect();
                workers.run(work, |name, ended| record(name, ended, self.report));
            }
            None => self.each(lots.into_iter().flat_map(|lot| lot.cases).collect()),
        }
    }

    /// What needs the machine's own network, and beside it what has a machine of its own.
    fn at_home(&mut self, mut here: Vec<Case>, apart: Vec<Case>, jobs: usize) {
        let company = jobs > 1 && !here.is_empty() && !apart.is_empty();
        let worker = company
            .then(|| Worker::at_home(self.programs, self.logs))
            .and_then(|started| {
                started
                    .inspect_err(|error| println!("one case after the other: {error:#}"))
                    .ok()
            });
        let told = match worker {
            Some(worker) => {
                let names = apart.into_iter().map(|case| case.name).collect();
                Some(worker.run_meanwhile(names))
            }
            None => {
                here.extend(apart);
                None
            }
        };

        for case in here {
            self.case(case);
            let ended = told.iter().flat_map(Receiver::try_iter);
            ended.for_each(|(name, ended)| record(&name, ended, self.report));
        }
        let ended = told.iter().flat_map(Receiver::iter);
        ended.for_each(|(name, ended)| record(&name, ended, self.report));
    }

    fn case(&mut self, case: Case) {
        if interrupt::has_come() {
            return;
        }
        let name = case.name.clone();
        let from = Instant::now();
        let endings = case.run(self.lab);
        let ended = Ended {
            endings,
            took: from.elapsed(),
            logs: self.lab.case_logs(),
        };
        record(&name, ended, self.report);
    }
}

fn record(name: &str, ended: Ended, report: &mut Report) {
    // What an interruption has ended has not failed.
    if interrupt::has_come() {
        return;
    }
    report.ended(name, ended.took, &ended.logs);
    match ended.endings {
        Endings::One(ending) => report.record(name, ending, ended.took),
        Endings::Many(endings) => {
            let each = ended.took / endings.len().max(1) as u32;
            for (part, ending) in endings {
                report.record(&format!("{name}/{part}"), ending, each);
            }
        }
    }
    report.step();
}
