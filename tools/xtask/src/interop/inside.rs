//! What happens inside the guest: the plan, run by run, each told as soon as it has ended.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use super::exchange::{self, Unanswered};
use super::field::Field;
use super::outcome::Outcome;
use super::programs::{self, Program, Setting};
use super::{Scope, wire};
use crate::build;
use crate::case::Ending;

/// The file below the shared directory that gets a line for each outcome.
pub const OUTCOMES: &str = "outcomes";
/// Ports from here on are taken one after the other.
const FIRST_PORT: u16 = 18_600;

struct Runner {
    outcomes: File,
    field: Field,
}

/// Runs the plan.
pub fn run(share: &Path, scope: &Scope) -> Result<()> {
    let outcomes = File::create(share.join(OUTCOMES)).context("the file of outcomes")?;
    // In memory: through the shared directory each file would take milliseconds.
    let dir = tempfile::tempdir()?;
    let begun = Instant::now();
    let field =
        Field::new(&build::release_dir()?, programs::MTUS[0]).map_err(|stop| stop.into_error())?;
    println!(
        "both sides are up after {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    let mut runner = Runner { outcomes, field };
    let mut bad = false;
    for (index, (program, setting)) in programs::plan(scope.short).into_iter().enumerate() {
        if !scope.wants(&format!("{} ({})", program.name(), setting.name())) {
            continue;
        }
        let prepared = runner.prepare(&setting, &mut bad);
        runner.one(index, program, setting, prepared, dir.path())?;
    }
    if bad {
        runner.field.mend().map_err(|stop| stop.into_error())?;
    }
    for (program, setting, ending, seconds) in wire::all(&mut runner.field, scope, dir.path()) {
        runner.tell(program, setting, ending, seconds)?;
    }
    const NOBODY: &str = "rping to an address of nobody";
    if !scope.short && scope.wants(NOBODY) {
        // Both at once, as each takes more than a minute; not beside the others, for ferroce's daemon starts anew with each MTU.
        let mtu = programs::MTUS[1];
        runner
            .field
            .set_mtu(mtu)
            .map_err(|stop| stop.into_error())?;
        let from = Instant::now();
        let begun =
            Unanswered::begin(&runner.field, mtu, dir.path()).map_err(|stop| stop.into_error())?;
        for (setting, ending) in begun.end() {
            let seconds = from.elapsed().as_secs_f64();
            runner.tell(NOBODY.to_owned(), setting, ending, seconds)?;
        }
    }
    println!("{:.0} s in all", begun.elapsed().as_secs_f64());
    Ok(())
}

impl Runner {
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
        let dir = dir.join(index.to_string());
        fs::create_dir_all(&dir)?;
        let port = FIRST_PORT + index as u16;
        let endings = match prepared {
            Ok(()) => exchange::run(&self.field, program, &setting, port, &dir),
            Err(stop) => vec![(program.name(), Err(stop))],
        };
        let each = from.elapsed().as_secs_f64() / endings.len().max(1) as f64;
        for (name, ending) in endings {
            self.tell(name, setting, ending, each)?;
        }
        let _ = fs::remove_dir_all(&dir);
        Ok(())
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
            Err(crate::case::Stop::Skip(_)) => "skipped",
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
