//! `distributions/arm64`: Debian 12 for arm64 under qemu-user, whose programs run over a build for
//! aarch64 and reach the machine's own daemon; and the tests of crates that do no input or output,
//! there.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::build;
use crate::distro::{Archive, DEBIAN_12, PROGRAMS, Root, emulator};
use crate::groups::verbs::traffic::{judge_perftest, judge_pingpong, pair_of};
use crate::harness::case::{Case, Parts, Stop};
use crate::harness::process;
use crate::install;
use crate::lab::Lab;
use crate::lab::host::Host;
use crate::portable::{self, Target};
use crate::programs::perftest::Ends;

/// Emulated tests are some ten times as slow as others.
const LIMIT: Duration = Duration::from_secs(900);
/// The path MTU over loopback.
const PATH_MTU: u32 = 4096;

const PINGPONGS: &[&str] = &[
    "ibv_rc_pingpong -c -n 100",
    "ibv_rc_pingpong -c -n 100 -e -N",
    "ibv_ud_pingpong -c -n 100",
    "ibv_srq_pingpong -c -n 100",
];

const PERFTEST: &[&str] = &[
    "ib_write_bw -n 100",
    "ib_send_lat -n 100",
    "ib_read_bw -n 100",
    "ib_atomic_lat -n 100",
];

/// Headers, rings and state machines: what byte order, alignment and atomics could break.
const CRATES: &[&str] = &["ferroce-wire", "ferroce-transport", "ferroce-fabric"];
/// Where their programs are below the product's prefix.
const TESTS: &str = "tests";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::many("distributions/arm64/programs", programs),
        Case::many("distributions/arm64/unit tests", unit_tests),
    ]
}

/// The root, with its own build and this machine's.
fn host(lab: &mut Lab, product: &Path) -> Result<Host, Stop> {
    let archive = Archive::of(
        DEBIAN_12,
        emulator::ARCHITECTURE,
        &PROGRAMS,
        &lab.case_dir()?,
    )?;
    let native = build::scratch("installed")?;
    install::copy(lab.programs(), &native)?;
    Root::unpack_foreign(&archive, product, &native)?.foreign_host()
}

fn programs(lab: &mut Lab) -> Parts {
    emulator::ready()?;
    let product = portable::prefix(Target::Aarch64)?;
    let host = host(lab, &product)?;
    let mut endings = Vec::new();
    for line in PINGPONGS {
        let ends = exchange(lab, &host, line, &["-g", "0"]);
        let ending = ends.and_then(|ends| judge_pingpong(&ends));
        endings.push(((*line).to_owned(), ending));
    }

    for line in PERFTEST {
        let ends = exchange(lab, &host, line, &["-F"]);
        let ending = ends.and_then(|ends| judge_perftest(&ends, line, PATH_MTU));
        endings.push(((*line).to_owned(), ending));
    }

    Ok(endings)
}

/// Runs both ends.
fn exchange(lab: &mut Lab, host: &Host, line: &str, options: &[&str]) -> Result<Ends, Stop> {
    let dir = lab.case_dir()?;
    pair_of(line, options, lab.port()).run(host, host, &dir)
}

fn unit_tests(lab: &mut Lab) -> Parts {
    emulator::ready()?;
    let product = portable::prefix(Target::Aarch64)?;
    let tests = product.join(TESTS);
    fs::create_dir_all(&tests).map_err(anyhow::Error::from)?;
    let host = host(lab, &product)?;
    let mut endings = Vec::new();
    for program in portable::tests(Target::Aarch64, CRATES)? {
        let name = program.file_name().unwrap_or_default();
        fs::copy(&program, tests.join(name)).map_err(anyhow::Error::from)?;
        let inside = host.programs().with_file_name(TESTS).join(name);
        let mut command = host.plain(inside);
        command.env("PROPTEST_CASES", "16");
        let finished = process::run(command, &lab.case_dir()?, "tests", LIMIT)?;
        // `ferroce_wire-0123456789abcdef`
        let name = name.to_string_lossy();
        let name = name.rsplit_once('-').map_or(&*name, |(name, _)| name);
        let ending = match finished.success() && finished.out.contains("test result: ok.") {
            true => Ok(()),
            false => Err(Stop::with("tests fail", &[&finished])),
        };
        endings.push((name.to_owned(), ending));
    }

    Ok(endings)
}
