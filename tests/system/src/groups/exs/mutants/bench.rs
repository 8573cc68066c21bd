//! Programs of the conformance framework that are run with a mutant, some beside each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::groups::exs::{Mode, in_mode, programs};
use crate::harness::case::Stop;
use crate::harness::process::{self, Finished};
use crate::lab::host::Host;

/// Seconds for one test. They take fractions of one, but for those that a mutant holds up.
const SECONDS: &str = "5";
/// For all tests of a program, many of which may be held up.
const LIMIT: Duration = Duration::from_secs(300);
/// How many programs run at the same time: they wait more than they compute.
const BESIDE: usize = 3;
/// Ports from here on, so many for each program that runs, each with some of its own above it.
const FIRST_PORT: u16 = 21_000;
const PORTS: usize = 500;
const PORTS_EACH: u16 = 20;

/// A program that is run with a mutant, or without one.
struct Job {
    mutant: Option<String>,
    program: String,
    command: Command,
}

/// A job's tests that failed, those that ran out of time by themselves, and what was run.
pub(super) struct Done {
    pub(super) mutant: Option<String>,
    pub(super) program: String,
    pub(super) failed: Vec<String>,
    pub(super) late: Vec<String>,
    pub(super) finished: Finished,
}

/// What jobs are made of.
pub(super) struct Bench<'a> {
    host: &'a Host,
    programs: PathBuf,
    jobs: Vec<Job>,
}

impl Bench<'_> {
    pub(super) fn new(host: &Host) -> Result<Bench<'_>> {
        Ok(Bench {
            host,
            programs: programs()?,
            jobs: Vec::new(),
        })
    }

    /// Adds a program with these of its tests, or all.
    pub(super) fn add(&mut self, mutant: Option<&str>, program: &str, mode: Mode, tests: &[&str]) {
        let port = FIRST_PORT + (self.jobs.len() % PORTS) as u16 * PORTS_EACH;
        let path = self.programs.join(format!("test_{program}"));
        let mut command = in_mode(self.host.run(path), mode, &self.host.address, port);
        command.args(tests).env("EXS_TEST_SECONDS", SECONDS);
        if let Some(mutant) = mutant {
            command
                .env("LD_PRELOAD", self.programs.join("mutant.so"))
                .env("EXS_MUTANT", mutant);
        }
        self.jobs.push(Job {
            mutant: mutant.map(str::to_owned),
            program: program.to_owned(),
            command,
        });
    }

    /// Runs all, some beside each other, in the order in which they were added.
    pub(super) fn run(self, dir: &Path) -> Result<Vec<Done>, Stop> {
        let waiting = Mutex::new(self.jobs.into_iter().enumerate());
        let done = Mutex::new(BTreeMap::new());
        thread::scope(|scope| {
            for _ in 0..BESIDE {
                scope.spawn(|| {
                    loop {
                        let next = waiting.lock().map(|mut jobs| jobs.next());
                        let Ok(Some((index, job))) = next else { break };
                        let result = job.run(dir, index);
                        if let Ok(mut done) = done.lock() {
                            done.insert(index, result);
                        }
                    }
                });
            }
        });

        let done = done.into_inner().unwrap_or_default();
        done.into_values().collect()
    }
}

impl Job {
    fn run(self, dir: &Path, index: usize) -> Result<Done, Stop> {
        let log = dir.join(format!("job-{index}.log"));
        let mut command = self.command;
        command.env("EXS_TEST_LOG", &log);
        let finished = process::run(command, dir, &format!("job-{index}"), LIMIT)?;
        let Some((failed, late)) = failures(&finished) else {
            return Err(Stop::with("the program has no end", &[&finished]));
        };
        Ok(Done {
            mutant: self.mutant,
            program: self.program,
            failed,
            late,
            finished,
        })
    }
}

/// The numbers of the tests that failed, and of those that ran out of time, of a program that came
/// to its sum.
fn failures(finished: &Finished) -> Option<(Vec<String>, Vec<String>)> {
    finished.out.lines().find(|line| line.starts_with("# "))?;
    let mut by_reason = (Vec::new(), Vec::new());
    for line in finished.out.lines() {
        let fields: Vec<&str> = line.split(':').map(str::trim).collect();
        match fields[..] {
            [number, _, _, _, "FAIL", _, "Time Out"] => by_reason.1.push(number.to_owned()),
            [number, _, _, _, "FAIL", _, _] => by_reason.0.push(number.to_owned()),
            _ => {}
        }
    }
    Some(by_reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ran_out_of_time_is_told_apart() {
        let out = "1 : E : n : blocking : FAIL : -1 : Time Out\n\
                   2 : E : n : blocking : PASS : 0 : Success\n\
                   3 : E : n : blocking : FAIL : 7 : not what was expected\n";
        let finished = |out: String| Finished {
            line: String::new(),
            status: None,
            out,
            err: String::new(),
            elapsed: Duration::ZERO,
        };
        assert!(failures(&finished(out.to_owned())).is_none());
        let whole = format!("{out}# exs_send, blocking: 1 passed, 2 failed\n");
        let (failed, late) = failures(&finished(whole)).unwrap();
        assert_eq!((failed, late), (vec!["3".to_owned()], vec!["1".to_owned()]));
    }
}
