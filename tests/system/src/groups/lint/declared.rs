//! Group `lint`, continued: the Rust version that `Cargo.toml` declares is the truth.

use std::process::Command;

use super::gate::{LIMIT, missing, succeeds};
use crate::build;
use crate::harness::case::{Case, Company, Ending};
use crate::harness::process;
use crate::lab::Lab;

/// `rust-version` of the workspace.
const DECLARED: &str = env!("CARGO_PKG_RUST_VERSION");

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("lint/declared Rust version", declared).in_company(Company::AtEnd)]
}

/// Libraries and programs build with it. The tests need not: who only builds has no use for them.
fn declared(lab: &mut Lab) -> Ending {
    let mut install = Command::new("rustup");
    install.args(["toolchain", "install", DECLARED, "--profile", "minimal"]);
    let installed = process::run(install, &lab.case_dir()?, "rustup", LIMIT);
    if !installed.is_ok_and(|finished| finished.success()) {
        return Err(missing(format!(
            "Rust {DECLARED} cannot be had: is rustup here, and the network?"
        )));
    }

    let mut check = Command::new("rustup");
    check.args(["run", DECLARED, "cargo", "check", "--quiet"]);
    check.args(["--locked", "--workspace", "--keep-going"]);

    // Beside the results of the other version, not in their place.
    check.arg("--target-dir").arg(build::scratch("declared")?);

    // The cargo that runs this program is not the one that is asked for.
    check.current_dir(build::workspace()).env_remove("CARGO");
    succeeds(lab, check)
}
