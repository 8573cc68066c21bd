//! Programs over a ferroce that is installed somewhere, and what is there before and after.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::case::{Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::Lab;
use crate::lab::host::VARIABLES;
use crate::programs::perftest::{Pair, Runs};

pub(super) const LIMIT: Duration = Duration::from_secs(180);
/// From the package to the first table, on a machine that may do much else meanwhile. What it takes
/// on an idle one is in docs/packages.md.
const PROMISED: Duration = Duration::from_secs(60);

/// Programs of a user who has ferroce in one place.
pub(super) struct User<'a> {
    /// A command there, of that user, to which program and arguments are appended.
    pub command: &'a dyn Fn() -> Command,
    /// `ferroce`, as the user calls it.
    pub ferroce: &'a str,
}

impl User<'_> {
    /// A command, without what `ferroce run` sets.
    pub(super) fn plain(&self, program: &str) -> Command {
        let mut command = (self.command)();
        for name in VARIABLES {
            command.env_remove(name);
        }
        command.arg(program);
        command
    }

    /// ib_write_bw between two processes; the daemon is started by it, and ends.
    pub(super) fn table(&self, lab: &mut Lab, since: Instant) -> Ending {
        let pair = Pair {
            tool: "ib_write_bw".to_owned(),
            options: ["-F", "-n", "200"].map(str::to_owned).to_vec(),
            port: lab.port(),
            limit: LIMIT,
        };
        let dir = lab.case_dir()?;
        let ends = pair.run(self, self, &dir)?;
        if !ends.client.success() || !ends.server.success() {
            return Err(ends.fail("ib_write_bw fails".to_owned()));
        }
        ends.table(1)?;
        let took = since.elapsed();
        println!(
            "xtask: from the package to the table in {:.1} s",
            took.as_secs_f64()
        );
        if took > PROMISED {
            return Err(ends.fail(format!("that took {:.1} s", took.as_secs_f64())));
        }
        self.said(lab, self.ferroce, &["down"]).map(drop)
    }

    /// What a program prints that has to succeed.
    pub(super) fn said(
        &self,
        lab: &mut Lab,
        program: &str,
        words: &[&str],
    ) -> Result<String, Stop> {
        let mut command = self.plain(program);
        command.args(words);
        said(lab, command)
    }
}

impl Runs for User<'_> {
    fn program(&self, name: &str) -> Command {
        let mut command = self.plain(self.ferroce);
        command.args(["run", "--", name]);
        command
    }

    fn address(&self) -> &str {
        "127.0.0.1"
    }
}

/// What a command prints that has to succeed.
pub(super) fn said(lab: &mut Lab, command: Command) -> Result<String, Stop> {
    let finished = ended(lab, command)?;
    match finished.success() {
        true => Ok(finished.out),
        false => Err(Stop::with(finished.ending(), &[&finished])),
    }
}

/// How a command ends.
pub(super) fn ended(lab: &mut Lab, command: Command) -> Result<Finished, Stop> {
    let name = command.get_program().to_string_lossy();
    let name = Path::new(&*name)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    Ok(process::run(command, &lab.case_dir()?, &name, LIMIT)?)
}

/// Fails if there is another set of files after than before.
pub(super) fn same(before: &str, after: &str) -> Ending {
    let missing = |from: &str, of: &str| -> Vec<String> {
        let of: std::collections::HashSet<&str> = of.lines().collect();
        from.lines()
            .filter(|line| !of.contains(line))
            .map(str::to_owned)
            .collect()
    };
    let (gone, left) = (missing(before, after), missing(after, before));
    match before.is_empty() || !gone.is_empty() || !left.is_empty() {
        true => Err(Stop::fail(format!("left: {left:?}; gone: {gone:?}"))),
        false => Ok(()),
    }
}

/// Every file below a directory, as a shell lists them.
pub(super) const LIST: &str = "find . -mindepth 1 -printf '%y %P\\n' | LC_ALL=C sort";
