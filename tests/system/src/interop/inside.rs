//! What happens inside the guest: the plan, run by run, each told as soon as it has ended.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use super::bad_network::Harm;
use super::exchange;
use super::failing::Unanswered;
use super::field::{Family, Field, Side};
use super::outcome::Outcome;
use super::programs::Program;
use super::setting::{MTUS, Setting};
use super::{Scope, wire};
use crate::build;
use crate::harness::case::{Ending, Stop};

/// The file below the shared directory that gets a line for each outcome.
pub(super) const OUTCOMES: &str = "outcomes";
/// Ports from here on are taken one after the other.
const FIRST_PORT: u16 = 18_600;

/// Of so many sends a bad network spares not all.
const SOME: u64 = 400;
/// As many packets the kernel takes as one send at most. netem counts packets, and loses and puts
/// back sends.
const MERGED: u64 = 64;

struct Runner {
    outcomes: File,
    field: Field,
}

/// A run of the plan, and its place there.
type Step = (usize, Program, Setting);

/// Runs the plan.
pub(super) fn run(share: &Path, scope: &Scope) -> Result<()> {
    let outcomes = File::create(share.join(OUTCOMES)).context("the file of outcomes")?;

    // In memory: through the shared directory each file would take milliseconds.
    let dir = tempfile::tempdir()?;
    let begun = Instant::now();
    println!("the guest runs");
    let field = Field::new(&build::release_dir()?, MTUS[0]).map_err(|stop| stop.into_error())?;
    println!(
        "both sides are up after {:.1} s",
        begun.elapsed().as_secs_f64()
    );

    let mut runner = Runner { outcomes, field };
    let mut bad = false;
    let steps: Vec<Step> = scope
        .plan()
        .steps()
        .into_iter()
        .enumerate()
        .map(|(index, (program, setting))| (index, program, setting))
        .filter(|(_, program, setting)| {
            scope.wants(&format!("{} ({})", program.name(), setting.name()))
        })
        .collect();

    for section in steps.chunk_by(|(_, _, a), (_, _, b)| (a.bad, a.mtu) == (b.bad, b.mtu)) {
        runner.section(section, &mut bad, dir.path())?;
    }
    if bad {
        runner.end_badness()?;
    }

    for (program, setting, ending, seconds) in wire::all(&mut runner.field, scope, dir.path()) {
        runner.tell(program, setting, ending, seconds)?;
    }
    println!("{:.0} s in all", begun.elapsed().as_secs_f64());
    Ok(())
}

impl Runner {
    /// All that is run over a link of one kind. What only waits does so beside the rest, to the end
    /// of it: ferroce's daemon starts anew with each kind.
    fn section(&mut self, steps: &[Step], bad: &mut bool, dir: &Path) -> Result<()> {
        let mut unanswered = Vec::new();
        let waits = |step: &&Step| matches!(step.1, Program::NobodyAnswers);
        for &(index, program, setting) in steps.iter().filter(waits) {
            let asked = self
                .prepare(&setting, bad)
                .and_then(|()| Unanswered::begin(&self.field, &setting, &place(dir, index)?));
            match asked {
                Ok(asked) => unanswered.push((program, setting, Instant::now(), asked)),
                Err(stop) => self.tell(program.name(), setting, Err(stop), 0.0)?,
            }
        }

        for &(index, program, setting) in steps.iter().filter(|step| !waits(step)) {
            let prepared = self.prepare(&setting, bad);
            self.one(index, program, setting, prepared, dir)?;
        }

        for (program, setting, from, asked) in unanswered {
            let ending = asked.end();
            let seconds = from.elapsed().as_secs_f64();
            self.tell(program.name(), setting, ending, seconds)?;
        }

        Ok(())
    }

    /// Makes the link what the setting says.
    fn prepare(&mut self, setting: &Setting, bad: &mut bool) -> Ending {
        self.field.set_mtu(setting.mtu)?;
        match (setting.bad, *bad) {
            (true, false) => self.field.worsen()?,
            (false, true) => self.field.mend()?,
            _ => {}
        }
        *bad = setting.bad;
        Ok(())
    }

    fn one(
        &mut self,
        index: usize,
        program: Program,
        setting: Setting,
        prepared: Ending,
        dir: &Path,
    ) -> Result<()> {
        let from = Instant::now();
        let dir = place(dir, index)?;
        let port = FIRST_PORT + index as u16;
        let endings = match prepared.and_then(|()| self.harm(&setting)) {
            Ok(before) => {
                let mut endings = exchange::run(&self.field, program, &setting, port, &dir);
                if let Err(stop) = self.was_harmed(&setting, before) {
                    endings.push((format!("{}: the network", program.name()), Err(stop)));
                }
                endings
            }
            Err(stop) => vec![(program.name(), Err(stop))],
        };

        let each = from.elapsed().as_secs_f64() / endings.len().max(1) as f64;
        for (name, ending) in endings {
            self.tell(name, setting, ending, each)?;
        }
        let _ = fs::remove_dir_all(&dir);
        Ok(())
    }

    /// What a bad network has done so far, by side.
    fn harm(&self, setting: &Setting) -> Result<Option<[Harm; 2]>, Stop> {
        match setting.bad {
            true => Ok(Some([
                self.field.harm(Side::Rxe)?,
                self.field.harm(Side::Ferroce)?,
            ])),
            false => Ok(None),
        }
    }

    /// That a bad network did something to what a program sent over it, where that was enough to
    /// say so.
    fn was_harmed(&self, setting: &Setting, before: Option<[Harm; 2]>) -> Ending {
        let (Some(before), Some(now)) = (before, self.harm(setting)?) else {
            return Ok(());
        };
        let seen = [now[0].since(before[0]), now[1].since(before[1])];
        let harmed: u64 = seen.iter().map(|harm| harm.lost + harm.reordered).sum();
        // Of the sends of either side; rdma_rxe's are one packet each.
        let chances = seen[0].passed + seen[1].passed / MERGED;
        if harmed == 0 && chances >= SOME {
            return Err(Stop::fail(format!("nothing befell any packet: {seen:?}")));
        }
        Ok(())
    }

    /// Shows that the network was bad, in either direction, and makes it good again.
    fn end_badness(&mut self) -> Result<()> {
        for server in [Side::Ferroce, Side::Rxe] {
            let from = Instant::now();
            let setting = Setting {
                server,
                family: Family::V4,
                mtu: self.field.mtu(),
                bad: true,
            };
            let ending = self.field.is_bad_from(server.other());
            let name = "the network loses, doubles and reorders".to_owned();
            self.tell(name, setting, ending, from.elapsed().as_secs_f64())?;
        }
        self.field.mend().map_err(Stop::into_error)
    }

    fn tell(
        &mut self,
        program: String,
        setting: Setting,
        ending: Ending,
        seconds: f64,
    ) -> Result<()> {
        let verdict = match &ending {
            Ok(()) => "ok",
            Err(Stop::Skip(_)) => "skipped",
            Err(_) => "FAILED",
        };
        println!("{verdict:8} {program} ({}) {seconds:.1} s", setting.name());
        let outcome = Outcome {
            program,
            setting,
            ending,
            seconds,
        };
        writeln!(self.outcomes, "{}", outcome.line()).context("the file of outcomes")
    }
}

/// A directory for a run.
fn place(dir: &Path, index: usize) -> Result<PathBuf> {
    let dir = dir.join(index.to_string());
    fs::create_dir_all(&dir)?;
    Ok(dir)
}
