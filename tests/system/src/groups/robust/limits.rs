//! Group `robust`, continued: limits. A daemon's log has one, and programs work within those of
//! their shell or are told which they lack. So it is with signals that who starts them ignores.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::groups::robust::trust::{SOON, refused, well};
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process;
use crate::lab::Lab;
use crate::lab::host::Host;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("robust/the log of a daemon is bounded", long_log),
        Case::new("robust/limit of the size of files", file_size),
        Case::new("robust/limit of open files", open_files),
        Case::new("robust/SIGCHLD ignored", children_ignored),
    ]
}

/// A shell that sets limits and then is the `ferroce` command for a host.
fn limited(host: &Host, limits: &str, words: &[&str]) -> Command {
    let ferroce = host.ferroce();
    let mut command = host.plain("bash");
    command
        .args(["-c", &format!("{limits}; exec \"$@\""), "bash"])
        .arg(ferroce.get_program())
        .args(ferroce.get_args())
        .args(words);
    command
}

/// A log that has become long is put aside, in the place of the one before it, and the daemon's
/// standard error goes to the new one.
fn long_log(lab: &mut Lab) -> Ending {
    const LONGEST: usize = 4 << 20;

    lab.vacate();
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    let log = host.runtime_dir().join("ferroced.log");
    let old = host.runtime_dir().join("ferroced.log.1");
    for round in ["first\n", "second\n"] {
        host.up()?;
        host.kill_daemon()?;
        let mut file = OpenOptions::new().append(true).open(&log);
        let file = file.as_mut().map_err(|e| Stop::fail(&*e))?;
        file.write_all(round.repeat(LONGEST / round.len()).as_bytes())
            .map_err(anyhow::Error::from)?;

        // It is as long as it may be: what this one says belongs in another.
        host.up()?;
        let text = |path: &Path| fs::read_to_string(path).map_err(anyhow::Error::from);
        let (long, short) = (text(&old)?, text(&log)?);
        expect(long.ends_with(round) && long.len() < LONGEST + 4096, || {
            format!("{} bytes are put aside", long.len())
        })?;
        expect(short.len() < 4096 && short.contains("serving at"), || {
            format!("{} bytes begin the new log", short.len())
        })?;
        let stderr = format!("/proc/{}/fd/2", host.status()?["pid"]);
        let stderr = fs::read_link(stderr).map_err(anyhow::Error::from)?;
        expect(stderr == log, || {
            format!("standard error is {}", stderr.display())
        })?;
        host.kill_daemon()?;
    }

    host.up()?;
    host.down()?;
    expect(!log.exists() && !old.exists(), || {
        "a log is left behind".to_owned()
    })
}

/// A limit of the size of files, below which no program can be served, is named; one that can be
/// raised is raised.
fn file_size(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    let up = ["up", "--addr", "127.0.0.1"];
    let short = limited(&host, "ulimit -f 1000", &up);
    refused(&process::run(short, &dir, "hard", SOON)?, &["ulimit -f"])?;
    let soft = limited(&host, "ulimit -S -f 1000", &up);
    well(&process::run(soft, &dir, "soft", SOON)?)?;
    let shown = process::run(host.run("ibv_devinfo"), &dir, "devinfo", SOON)?;
    host.down()?;
    well(&shown)
}

/// With few descriptors a program works, and who cannot have any learns of the limit.
fn open_files(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    let up = limited(&host, "ulimit -n 100", &["up", "--addr", "127.0.0.1"]);
    well(&process::run(up, &dir, "up", SOON)?)?;
    let one = limited(&host, "ulimit -n 100", &["run", "--", "ibv_devinfo"]);
    let shown = process::run(one, &dir, "devinfo", SOON)?;
    host.down()?;
    well(&shown)?;
    let up = limited(&host, "ulimit -n 16", &["up", "--addr", "127.0.0.1"]);
    let few = process::run(up, &dir, "few", SOON)?;
    refused(&few, &["ulimit -n"])
}

/// Where nobody is told of children that have ended, the daemon starts and says what keeps it from
/// that; a program inherits what it would without.
fn children_ignored(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    let ignoring = |words: &[&str]| {
        let ferroce = host.ferroce();
        let mut command = host.plain("env");
        command
            .arg("--ignore-signal=CHLD")
            .arg(ferroce.get_program())
            .args(ferroce.get_args())
            .args(words);
        command
    };
    let elsewhere = ignoring(&["up", "--addr", "192.0.2.1"]);
    refused(&process::run(elsewhere, &dir, "no", SOON)?, &["192.0.2.1"])?;
    well(&process::run(
        ignoring(&["up", "--addr", "127.0.0.1"]),
        &dir,
        "up",
        SOON,
    )?)?;

    let ignored = ["run", "--", "grep", "SigIgn", "/proc/self/status"];
    let mut told = host.ferroce();
    told.args(ignored);
    let told = process::run(told, &dir, "told", SOON)?;
    let untold = process::run(ignoring(&ignored), &dir, "untold", SOON)?;
    host.down()?;
    // Of the set the bit of SIGCHLD, 17.
    for (finished, bit) in [(told, 0), (untold, 1)] {
        let set = finished.out.trim_start_matches("SigIgn:").trim();
        let set = u64::from_str_radix(set, 16).unwrap_or_default();
        if !finished.success() || set >> 16 & 1 != bit {
            return Err(Stop::with("SIGCHLD is not as inherited", &[&finished]));
        }
    }
    Ok(())
}
