//! The program of the yardsticks (`tests/bench`).

use std::path::Path;
use std::process::Command;

/// Its name.
pub(super) const UDP_BASELINE: &str = "udp-baseline";

/// It, of those that were built into `programs`.
pub(super) fn udp_baseline(programs: &Path) -> Command {
    Command::new(programs.join(UDP_BASELINE))
}
