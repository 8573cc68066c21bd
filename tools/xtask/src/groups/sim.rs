//! Group `sim`: the transport over a simulated bad network.

use std::time::Duration;

use crate::build;
use crate::case::{Case, Stop};
use crate::process;

const SEEDS: &str = "10000";
const LIMIT: Duration = Duration::from_secs(900);

pub(super) fn cases() -> Vec<Case> {
    vec![Case::new(format!("sim/{SEEDS} seeds"), |lab| {
        let mut command = build::cargo();
        command.args([
            "run",
            "--release",
            "--quiet",
            "--package",
            "ferroce-sim",
            "--",
            "--seeds",
            SEEDS,
        ]);
        let finished = process::run(command, &lab.case_dir()?, "sim", LIMIT)?;
        if finished.success() {
            Ok(())
        } else {
            Err(Stop::with(finished.ending(), &[&finished]))
        }
    })]
}
