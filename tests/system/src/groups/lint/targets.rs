//! Group `lint`, continued: the product compiles for the other architecture and the other C library
//! that it is for.

use super::gate::{missing, succeeds};
use crate::build;
use crate::harness::case::{Case, Company};
use crate::portable::Target;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        elsewhere("lint/aarch64", Target::Aarch64),
        elsewhere("lint/musl", Target::X86_64Musl),
    ]
}

/// What differs between architectures and C libraries are types above all, which the compiler sees
/// without linking.
fn elsewhere(name: &'static str, target: Target) -> Case {
    let case = Case::new(name, move |lab| {
        target.ensure().map_err(|error| {
            let target = target.name();
            missing(format!("no Rust library for {target}: {error:#}"))
        })?;
        let mut command = build::cargo();
        command.args(["check", "--quiet", "--locked", "--target", target.name()]);
        for package in build::PRODUCT {
            command.args(["--package", package]);
        }
        command.env("RUSTFLAGS", format!("-D warnings {}", target.flags()));
        succeeds(lab, command)
    });
    case.in_company(Company::AtEnd)
}
