//! Group `sim`: the transport, and the communication manager, over a simulated bad network.

use crate::groups::cargo_tests;
use crate::harness::case::Case;

/// Name, package, seeds.
const SIMULATORS: [(&str, &str, &str); 2] = [
    ("sim/transport", "ferroce-sim", "10000"),
    ("sim/connection manager", "ferroce-cmsim", "50000"),
];

pub(crate) fn cases() -> Vec<Case> {
    SIMULATORS
        .map(|(name, package, seeds)| {
            Case::many(format!("{name}, {seeds} seeds"), move |lab| {
                cargo_tests::run(lab, &["--package", package], seeds)
            })
        })
        .into()
}
