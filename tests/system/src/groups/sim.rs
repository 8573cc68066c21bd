//! Group `sim`: the transport, and the communication manager, over a simulated bad network.

use crate::groups::cargo_tests::{self, Tests};
use crate::harness::case::Case;

/// Name, folder of the package, seeds.
const SIMULATORS: [(&str, &str, &str); 2] = [
    ("sim/transport", "tools/sim", "10000"),
    ("sim/connection manager", "tests/cmsim", "50000"),
];

pub(crate) fn cases() -> Vec<Case> {
    SIMULATORS
        .map(|(name, folder, seeds)| {
            Case::many(format!("{name}, {seeds} seeds"), move |lab| {
                cargo_tests::run(lab, &Tests::OfPackage(folder), seeds)
            })
        })
        .into()
}
