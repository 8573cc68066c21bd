//! Group `sim`: the transport over a simulated bad network.

use std::time::Duration;

use crate::build;
use crate::case::{Case, Endings, Stop};
use crate::groups::unit;
use crate::process::{self, Finished};

const SEEDS: &str = "10000";
const LIMIT: Duration = Duration::from_secs(900);

pub(super) fn cases() -> Vec<Case> {
    vec![Case::many(format!("sim/{SEEDS} seeds"), |lab| {
        let mut run = || -> Result<Finished, Stop> {
            let mut command = build::cargo();
            command.args([
                "test",
                "--profile",
                "unit",
                "--package",
                "ferroce-sim",
                "--no-fail-fast",
            ]);
            command.env("FERROCE_SIM_SEEDS", SEEDS);
            Ok(process::run(command, &lab.case_dir()?, "sim", LIMIT)?)
        };
        match run() {
            Ok(finished) => Endings::Many(unit::endings(&finished)),
            Err(stop) => Endings::One(Err(stop)),
        }
    })]
}
