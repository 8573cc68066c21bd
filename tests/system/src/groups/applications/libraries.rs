//! Libraries that Debian packages without a program that uses them: librpma and Gloo, by programs
//! of ours that compare what arrives.

use std::process::Command;

use super::mpi;
use super::running::{LIMIT, Listens, Meter, command, expect_success, name, serve_and_ask};
use crate::build;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process;
use crate::lab::{Lab, Place};

/// What the end of librpma that asks says of each step.
const STEPS: [&str; 4] = ["read", "flush", "atomic write", "read again"];
/// How many numbers Gloo's ranks add up.
const COUNTS: [u64; 3] = [1, 1000, 1_000_000];
/// How many ranks there are, half of them on each host.
const RANKS: usize = 4;

pub(crate) fn cases(place: Place) -> Vec<Case> {
    vec![
        Case::new(name(place, "librpma"), move |lab| rpma(lab, place)),
        Case::new(name(place, "Gloo over ibverbs"), move |lab| {
            gloo(lab, place)
        }),
    ]
}

/// Reads, writes, flushes and an atomic write.
fn rpma(lab: &mut Lab, place: Place) -> Ending {
    let program = compile("cc", "-std=gnu11", "rpma.c", &["-lrpma", "-libverbs"])?;
    let (dir, port) = (lab.case_dir()?, lab.port());
    let site = lab.site(place)?;
    let meter = Meter::start(site)?;
    let [client, server] = serve_and_ask(site, &[&program], (port, Listens::RdmaCm), &dir)?;
    let said = STEPS.map(|step| format!("ok {step}\n"));
    if !said.iter().all(|line| client.out.contains(line)) || !server.out.contains("ok was written")
    {
        return Err(Stop::with("not a word of each step", &[&client, &server]));
    }
    // A half each way, and all of it once more.
    meter.expect(4 << 20, &[&client, &server])
}

/// Sums of vectors over all ranks.
fn gloo(lab: &mut Lab, place: Place) -> Ending {
    let libraries = ["-lgloo", "-libverbs"];
    let program = compile("c++", "-std=c++17", "gloo_allreduce.cc", &libraries)?;
    let dir = lab.case_dir()?;

    // Where the ranks meet.
    let meeting = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let meeting = meeting.path().display().to_string();
    let site = lab.site(place)?;
    let meter = Meter::start(site)?;
    let mut ranks = Vec::new();
    for rank in 0..RANKS {
        let host = [site.server(), site.client()][rank % 2];
        let words = [&rank.to_string(), &RANKS.to_string(), &meeting];
        let running = command(host, &program, &words);
        ranks.push(process::spawn(running, &dir, &format!("rank{rank}"))?);
    }

    let ranks: Vec<_> = ranks.into_iter().map(|rank| rank.finish(LIMIT)).collect();
    let all: Vec<_> = ranks.iter().collect();
    expect_success(&all)?;
    let said = COUNTS.map(|count| format!("ok {count} numbers\n"));
    let silent = |rank: &process::Finished| !said.iter().all(|line| rank.out.contains(line));
    if ranks.iter().any(silent) {
        return Err(Stop::with("not a word of each vector", &all));
    }

    // A ring has each number go round to all but one.
    let bytes = COUNTS.iter().sum::<u64>() * 4 * (RANKS as u64 - 1);
    meter.expect(2 * bytes, &all)
}

/// Builds a program of `tests/applications`.
fn compile(
    compiler: &str,
    standard: &str,
    source: &str,
    libraries: &[&str],
) -> Result<String, Stop> {
    let name = source.split('.').next().unwrap_or(source);
    let program = build::scratch("applications")?.join(name);
    let mut command = Command::new(compiler);
    command
        .args([standard, "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(mpi::sources().join(source))
        .args(libraries);
    let output = command.output().map_err(anyhow::Error::from)?;
    match output.status.success() {
        true => Ok(program.display().to_string()),
        false => Err(Stop::fail(String::from_utf8_lossy(&output.stderr))),
    }
}
