//! One run of the tests: what may have company runs beside each other, the rest alone.

mod shard;
mod worker;
mod workers;

pub use shard::Shard;
pub use worker::work;

use std::iter;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Instant;

use anyhow::Result;

use crate::build;
use crate::groups::Group;
use crate::groups::choose;
use crate::harness::case::{Case, Company, Endings};
use crate::harness::report::Report;
use crate::interrupt;
use crate::lab::Lab;
use crate::packages::{self, Need};
use crate::programs::suite;
use crate::run::worker::Ended;
use crate::run::workers::{Work, Worker, Workers};

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
    for round in 1..=rounds {
        if rounds > 1 {
            report.round(round, rounds);
        }
        let plan = Plan::new(choose(&choice.filters)?, choice.shard);
        report.expect(plan.len());
        plan.run(choice.jobs(), &programs, &logs, &mut lab, &mut report);
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

/// Cases that follow each other.
struct Lot {
    /// What they have in common.
    name: String,
    /// They wait more than they compute.
    waits: bool,
    cases: Vec<Case>,
}

impl Lot {
    fn work(&self) -> Work {
        Work {
            waits: self.waits,
            names: self.cases.iter().map(|case| case.name.clone()).collect(),
        }
    }
}

/// The cases of one round in the order in which they run.
#[derive(Default)]
struct Plan {
    /// What cargo builds and checks: it says most in the least time.
    first: Vec<Case>,
    /// What may run beside each other.
    beside: Vec<Lot>,
    /// What looks at times.
    alone: Vec<Case>,
    /// What needs the machine's own network.
    at_home: Vec<Case>,
    /// What follows that.
    at_end: Vec<Case>,
    /// What runs beside both, on a machine of its own.
    apart: Vec<Case>,
}

impl Plan {
    fn new(chosen: Vec<(&'static Group, Vec<Case>)>, shard: Option<Shard>) -> Plan {
        let cases = chosen
            .into_iter()
            .flat_map(|(group, cases)| cases.into_iter().map(move |case| (group, case)));
        let mut plan = Plan::default();
        for (group, case) in cases {
            match case.company.unwrap_or(group.company) {
                Company::Alone if group.product => plan.alone.push(case),
                Company::Alone => plan.first.push(case),
                Company::AtHome => plan.at_home.push(case),
                Company::AtEnd => plan.at_end.push(case),
                Company::Apart => plan.apart.push(case),
                Company::ByPlace => {
                    plan.put_beside(place_of(&case.name).to_owned(), group.waits, case);
                }
                Company::AsOne => plan.put_beside(group.name.to_owned(), group.waits, case),
            }
        }

        // A group as one is long. Begun late, it would be all that there still is.
        plan.beside.sort_by_key(|lot| lot.name.contains('/'));
        match shard {
            Some(shard) => plan.share(shard),
            None => plan,
        }
    }

    /// All cases that do not come in lots.
    fn single(&self) -> [&Vec<Case>; 5] {
        [
            &self.first,
            &self.alone,
            &self.at_home,
            &self.at_end,
            &self.apart,
        ]
    }

    /// What a shard has of it.
    fn share(mut self, shard: Shard) -> Plan {
        let beside = self.beside.iter().map(|lot| lot.cases.len());
        let sizes: Vec<usize> = beside
            .chain(iter::repeat_n(1, self.count_single()))
            .collect();
        let mut ours = shard.lots(&sizes).into_iter();
        let mut ours = || ours.next().unwrap_or_default();
        self.beside.retain(|_| ours());
        for cases in [
            &mut self.first,
            &mut self.alone,
            &mut self.at_home,
            &mut self.at_end,
            &mut self.apart,
        ] {
            cases.retain(|_| ours());
        }
        self
    }

    fn put_beside(&mut self, lot: String, waits: bool, case: Case) {
        match self.beside.iter_mut().find(|known| known.name == lot) {
            Some(known) => known.cases.push(case),
            None => self.beside.push(Lot {
                name: lot,
                waits,
                cases: vec![case],
            }),
        }
    }

    fn len(&self) -> usize {
        let beside = self.beside.iter().map(|lot| lot.cases.len());
        self.count_single() + beside.sum::<usize>()
    }

    fn count_single(&self) -> usize {
        self.single().map(Vec::len).iter().sum()
    }

    fn run(
        self,
        jobs: NonZeroUsize,
        programs: &Path,
        logs: &Path,
        lab: &mut Lab,
        report: &mut Report,
    ) {
        for case in self.first {
            run_case(case, lab, report);
        }

        // Beside others there is no network. Where it cannot be had, the cases say so.
        if self.beside.iter().any(|lot| lot.name.starts_with(SUITES)) {
            let _ = suite::fetch();
        }

        let jobs = jobs.get();
        let workers = match jobs.min(self.beside.len()) {
            0 | 1 => None,
            // Two more for those that wait, which leave the processors to the others.
            _ => Workers::start(jobs + 2, programs, logs)
                .inspect_err(|error| println!("one case after the other: {error:#}"))
                .ok(),
        };

        match workers {
            Some(workers) => {
                let lots = self.beside.iter().map(Lot::work).collect();
                workers.run(lots, jobs, |name, ended| record(name, ended, report));
            }
            None => {
                for case in self.beside.into_iter().flat_map(|lot| lot.cases) {
                    run_case(case, lab, report);
                }
            }
        }

        for case in self.alone {
            run_case(case, lab, report);
        }

        let mut here = self.at_home;
        here.extend(self.at_end);
        let company = jobs > 1 && !here.is_empty() && !self.apart.is_empty();
        let apart = company.then(|| Worker::at_home(programs, &logs.join("worker-apart")));
        let told = match apart {
            Some(Ok(worker)) => {
                let names = self.apart.into_iter().map(|case| case.name).collect();
                Some(worker.run_meanwhile(names))
            }
            cannot => {
                if let Some(Err(error)) = cannot {
                    println!("one case after the other: {error:#}");
                }
                here.extend(self.apart);
                None
            }
        };

        for case in here {
            run_case(case, lab, report);
            let ended = told.iter().flat_map(Receiver::try_iter);
            ended.for_each(|(name, ended)| record(&name, ended, report));
        }
        let ended = told.iter().flat_map(Receiver::iter);
        ended.for_each(|(name, ended)| record(&name, ended, report));
    }
}

/// `group/place` of a case's name; the whole of a name that has no place.
fn place_of(name: &str) -> &str {
    name.match_indices('/')
        .nth(1)
        .map_or(name, |(second, _)| &name[..second])
}

fn run_case(case: Case, lab: &mut Lab, report: &mut Report) {
    if interrupt::has_come() {
        return;
    }
    let name = case.name.clone();
    let from = Instant::now();
    let endings = case.run(lab);
    let ended = Ended {
        endings,
        took: from.elapsed(),
        logs: lab.case_logs(),
    };
    record(&name, ended, report);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_run_once_and_those_of_a_place_together() {
        let all = || choose(&[]).unwrap();
        let names = |cases: &[Case]| cases.iter().map(|case| case.name.clone()).collect();
        let wanted: Vec<String> = all().iter().flat_map(|(_, cases)| names(cases)).collect();
        let plan = Plan::new(all(), None);
        assert_eq!(plan.len(), wanted.len());

        let mut planned: Vec<String> = Vec::new();
        for cases in plan.single() {
            planned.extend::<Vec<_>>(names(cases));
        }
        plan.beside
            .iter()
            .for_each(|lot| planned.extend::<Vec<_>>(names(&lot.cases)));
        planned.sort();
        let mut sorted = wanted;
        sorted.sort();
        assert_eq!(planned, sorted);

        let shards = ["1/2", "2/2"].map(|shard| Plan::new(all(), Some(shard.parse().unwrap())));
        assert_eq!(shards[0].len() + shards[1].len(), plan.len());
        let whole = |lot: &Lot| {
            let in_plan = plan.beside.iter().find(|other| other.name == lot.name);
            in_plan.is_some_and(|other| other.cases.len() == lot.cases.len())
        };
        for shard in &shards {
            assert!(shard.beside.iter().all(whole));
        }

        let lots: Vec<_> = plan.beside.iter().map(|lot| &lot.name).collect();
        assert!(lots.iter().any(|lot| *lot == "cm/one-daemon"), "{lots:?}");
        assert!(lots.iter().any(|lot| *lot == "exs"), "{lots:?}");
    }

    #[test]
    fn a_place_is_the_second_part_of_a_name() {
        assert_eq!(place_of("cm/one-daemon/rping"), "cm/one-daemon");
        assert_eq!(place_of("verbs/ipv6/a/b"), "verbs/ipv6");
        assert_eq!(place_of("memcheck/shared.c"), "memcheck/shared.c");
    }
}
