//! Group `sim`: the transport, and the communication manager, over a simulated bad network.

use std::time::Duration;

use crate::build;
use crate::case::Case;
use crate::groups::unit;
use crate::process;

/// Name, package, seeds.
const SIMULATORS: [(&str, &str, &str); 2] = [
    ("sim/transport", "ferroce-sim", "10000"),
    ("sim/connection manager", "ferroce-cmsim", "50000"),
];
const LIMIT: Duration = Duration::from_secs(900);

pub(super) fn cases() -> Vec<Case> {
    SIMULATORS
        .map(|(name, package, seeds)| {
            Case::many(format!("{name}, {seeds} seeds"), move |lab| {
                let mut command = build::cargo();
                command.args(["test", "--locked", "--profile", "unit", "--no-fail-fast"]);
                command.args(["--package", package]);
                command.env("FERROCE_SIM_SEEDS", seeds);
                let finished = process::run(command, &lab.case_dir()?, "sim", LIMIT)?;
                Ok(unit::endings(&finished))
            })
        })
        .into()
}
