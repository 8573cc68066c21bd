//! Group `lint`: what can be said of the sources without running the product. They are formatted,
//! neither clippy nor rustdoc has a warning, the declared Rust version builds them, they compile
//! for the other targets, the fuzz targets are programs, the documents' links lead somewhere and
//! their pages are short, commits say why, files import each other in no large circle and are not
//! long, the Python package has types that fit, and every dependency comes from where it may, under
//! a licence that is allowed.

mod circles;
mod commits;
mod declared;
mod features;
mod gate;
mod links;
mod pages;
mod python;
mod shape;
mod targets;

use self::gate::{LIMIT, missing, succeeds};
use crate::build;
use crate::cargo_tool;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process;
use crate::lab::Lab;
use crate::packages;

const CLIPPY: &[&str] = &["clippy", "--quiet", "--locked", "--workspace"];
/// Of the whole workspace, as features of what crates have in common follow from what is built at
/// once: nothing but the targets is checked that clippy has not checked before.
const FUZZ: &[&str] = &["--features=ferroce-fuzz/programs"];
/// With libFuzzer, but without what the compiler adds for it. Of the whole workspace, likewise: its
/// crates are those that `unit` tests. The programs are built for the sake of a test of theirs.
const LINKED: &str = "test --quiet --locked --profile unit --workspace \
                      --features ferroce-fuzz/libfuzzer --test made --no-run";
const DENY_WARNINGS: &[&str] = &["--", "-D", "warnings"];

pub(crate) fn cases() -> Vec<Case> {
    let clippy = [CLIPPY, &["--all-targets"], DENY_WARNINGS].concat();
    let fuzz = [CLIPPY, &["--all-targets"], FUZZ, DENY_WARNINGS].concat();
    let rustdoc = "doc --quiet --locked --workspace --no-deps --document-private-items";

    // Without who depends on whom, which would hide what is wrong.
    let deny = "deny --locked check --hide-inclusion-graph bans licenses sources";
    let mut cases = vec![
        cargo("lint/rustfmt", words("fmt --all --check")),
        cargo("lint/clippy", clippy),
        cargo("lint/rustdoc", words(rustdoc)),
        cargo("lint/fuzz targets", fuzz),
        Case::new("lint/fuzz targets linked", linked),
        cargo("lint/deny", words(deny)),
        Case::new("lint/advisories", advisories),
    ];

    cases.extend(features::cases());
    cases.extend(declared::cases());
    cases.extend(targets::cases());
    cases.extend(links::cases());
    cases.extend(pages::cases());
    cases.extend(commits::cases());
    cases.extend(circles::cases());
    cases.extend(shape::cases());
    cases.extend(python::cases());
    cases
}

fn words(line: &'static str) -> Vec<&'static str> {
    line.split(' ').collect()
}

fn cargo(name: &'static str, arguments: Vec<&'static str>) -> Case {
    Case::new(name, move |lab| {
        is_here(lab, arguments[0])?;
        let mut command = build::cargo();
        command.args(&arguments).env("RUSTDOCFLAGS", "-D warnings");
        succeeds(lab, command)
    })
}

fn linked(lab: &mut Lab) -> Ending {
    packages::ensure(packages::FUZZ)?;
    let mut command = build::cargo();
    command.args(words(LINKED));
    succeeds(lab, command)
}

/// Skips the case where cargo does not have a command of this name and cannot come by it.
fn is_here(lab: &mut Lab, name: &str) -> Ending {
    let remedy = match name {
        "fmt" => "rustup component add rustfmt",
        "clippy" => "rustup component add clippy",
        "deny" => return cargo_tool::ensure(name).map_err(|error| missing(error.to_string())),
        // rustdoc comes with rustc.
        _ => return Ok(()),
    };
    let mut probe = build::cargo();
    probe.args([name, "--version"]);
    match process::run(probe, &lab.case_dir()?, "probe", LIMIT)?.success() {
        true => Ok(()),
        false => Err(missing(format!("cargo {name} is not here: {remedy}"))),
    }
}

/// No dependency has a known weakness. The database of those is fetched first.
fn advisories(lab: &mut Lab) -> Ending {
    is_here(lab, "deny")?;
    let mut fetch = build::cargo();
    fetch.args(["deny", "fetch", "db"]);
    if !process::run(fetch, &lab.case_dir()?, "fetch", LIMIT)?.success() {
        let why = "the database of advisories cannot be fetched: is github.com within reach?";
        return Err(Stop::Skip(why.to_owned()));
    }
    let mut check = build::cargo();
    check.args(words(
        "deny --locked --offline check --hide-inclusion-graph advisories",
    ));
    succeeds(lab, check)
}
