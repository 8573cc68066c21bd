//! Group `robust`, continued: `cargo xtask` interrupted leaves nothing behind.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::case::{Case, Ending, Stop, expect};
use crate::harness::process;
use crate::lab::Lab;

/// For a build that finds everything built, and for a daemon.
const LIMIT: Duration = Duration::from_secs(120);
/// For the end of a daemon and of those that it serves.
const SOON: Duration = Duration::from_secs(20);

pub(crate) fn cases() -> Vec<Case> {
    let signals = [("Ctrl-C", Signal::INT), ("SIGTERM", Signal::TERM)];
    let case = |(name, signal)| {
        let name = format!("robust/the demo interrupted by {name}");
        Case::new(name, move |lab| interrupted(lab, signal))
    };
    signals.map(case).into()
}

/// It ends by the signal, without its daemon, the programs over it and its directories.
fn interrupted(lab: &mut Lab, signal: Signal) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let place = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let mut command = Command::new(std::env::current_exe().map_err(anyhow::Error::from)?);
    command.arg("demo").env("TMPDIR", place.path());
    let mut demo = process::spawn(command, &dir, "demo")?;
    let up = demo.wait_until(LIMIT, |demo| demo.output().contains("ferroced is up at"));
    let began = !of(place.path()).is_empty();
    // Twice, as timeout(1) does.
    demo.signal(signal);
    demo.signal(signal);
    let demo = demo.finish(SOON);
    if !up || !began {
        return Err(Stop::with("there is no daemon to end", &[&demo]));
    }

    let by = demo.status.and_then(|status| status.signal());
    if by != Some(signal.as_raw()) {
        return Err(Stop::with(format!("ended by {by:?}"), &[&demo]));
    }
    let deadline = Instant::now() + SOON;
    while !of(place.path()).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let left = of(place.path());
    expect(left.is_empty(), || format!("{left:?} go on"))?;
    let files = fs::read_dir(place.path()).map_err(anyhow::Error::from)?;
    expect(files.count() == 0, || {
        format!("something is left in {}", place.path().display())
    })
}

/// The command lines of daemons and programs whose environment or arguments name a directory.
fn of(place: &Path) -> Vec<String> {
    let place = place.to_string_lossy();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = |path: &Path| {
        let words = fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&words).replace('\0', " ")
    };
    processes
        .map(|entry| entry.path())
        .filter(|path| {
            let program = names(&path.join("comm"));
            program.starts_with("ferroce") || program.starts_with("ib_")
        })
        .filter(|path| {
            let said = names(&path.join("cmdline")) + &names(&path.join("environ"));
            said.contains(&*place)
        })
        .map(|path| names(&path.join("cmdline")))
        .collect()
}
