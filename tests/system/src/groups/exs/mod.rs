//! Group `exs`: the conformance framework of the Extended Sockets library, as its scripts run it:
//! every test program in both modes over one daemon, two daemons and IPv6.
//!
//! The programs of `tests/exs` are built with their own makefile against the built header and
//! library. Each of their lines is a result here. What one place answers, word for word, the others
//! must answer too.

pub(crate) mod document;
mod framework;
pub(crate) mod mutants;
mod programs;
pub(crate) mod table;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::build;
use crate::harness::case::{Case, Ending, Parts, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::environment;
use crate::lab::host::Host;
use crate::lab::{Lab, Place};

/// For all programs in one mode.
const LIMIT: Duration = Duration::from_secs(240);

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in [Place::OneDaemon, Place::TwoDaemons] {
        for mode in Mode::ALL {
            cases.push(Case::many(
                format!("exs/{}/{}", place.name(), mode.name()),
                move |lab| run_all(lab, place, mode),
            ));
        }
        cases.push(Case::new(
            format!("exs/{}/nothing is left in the daemons", place.name()),
            move |lab| nothing_left(lab, place),
        ));
    }

    for mode in Mode::ALL {
        cases.push(Case::many(
            format!("exs/ipv6/{}", mode.name()),
            move |lab| run_all(lab, Place::Ipv6, mode),
        ));
        cases.push(Case::new(
            format!("exs/two runs have equal logs, {}", mode.name()),
            move |lab| equal_logs(lab, mode),
        ));
    }

    cases.push(Case::new("exs/programs.toml counts the tests", documented));
    cases.extend(framework::cases());
    cases.extend(programs::cases());
    cases.extend(mutants::cases());
    cases.extend(document::cases());
    cases
}

/// How the programs call the library: with `EXS_BLOCK`, or with events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Blocking,
    NonBlocking,
}

impl Mode {
    pub(crate) const ALL: [Mode; 2] = [Mode::Blocking, Mode::NonBlocking];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Blocking => "blocking",
            Mode::NonBlocking => "non-blocking",
        }
    }

    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            Mode::Blocking => &["-v"],
            Mode::NonBlocking => &["-v", "-n"],
        }
    }
}

fn sources() -> PathBuf {
    build::workspace().join("tests/exs")
}

/// What the moments of a run come from: $EXS_TEST_SEED, else every run has others. A failure shows
/// it, in the command's line.
fn seed() -> String {
    std::env::var("EXS_TEST_SEED").unwrap_or_else(|_| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |now| now.as_micros()).to_string()
    })
}

/// What a compiler has to be told to find the built header and library.
struct Flags {
    compile: Vec<String>,
    link: Vec<String>,
}

fn library_flags() -> Result<Flags> {
    let include = build::workspace().join("exs/include");
    let library = build::exs()?;
    let library = library.display();
    Ok(Flags {
        compile: vec![format!("-I{}", include.display())],
        link: vec![
            format!("-L{library}"),
            "-lexs".to_owned(),
            format!("-Wl,-rpath,{library}"),
        ],
    })
}

/// The programs' makefile, with the built library; the programs go to `out`.
fn makefile(out: &Path) -> Result<Command> {
    let flags = library_flags()?;
    let mut make = Command::new("make");
    make.arg("-C")
        .arg(sources())
        .arg(format!("OUT={}", out.display()))
        .arg(format!("EXS_CFLAGS={}", flags.compile.join(" ")))
        .arg(format!("EXS_LIBS={}", flags.link.join(" ")));
    Ok(make)
}

/// Builds library and programs, once, and answers the directory of the programs.
pub(crate) fn programs() -> Result<PathBuf> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();

    if let Some(built) = BUILT.get() {
        return Ok(built.clone());
    }

    let out = build::scratch("exs")?;
    let mut make = makefile(&out)?;
    make.args(["--silent", "-j2"]);
    let output = make.output().context("make")?;
    if !output.status.success() {
        bail!(
            "{}\n{}",
            process::line_of(&make),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    Ok(BUILT.get_or_init(|| out).clone())
}

/// A program of the framework in a mode, its sockets at an address from a port on.
pub(crate) fn in_mode(mut program: Command, mode: Mode, address: &str, port: u16) -> Command {
    program
        .args(mode.options())
        .args(["-a", address, "-p", &port.to_string()]);
    program
}

/// Has the other process of each test run elsewhere: by these words, at that address.
pub(crate) fn with_peer(tests: &mut Command, prefix: &[OsString], address: &str) {
    tests
        .env("PEER_COMMAND", prefix.join(OsStr::new("\n")))
        .env("EXS_TEST_PEER_ADDR", address);
}

/// Where the log of a place and a mode is kept.
fn log_of(place: &str, mode: Mode) -> Result<PathBuf> {
    Ok(build::scratch("exs-logs")?.join(format!("{place}-{}.log", mode.name())))
}

/// Runs all programs with the server's side on one host and the tests' on the other, which may be
/// the same.
fn run_all(lab: &mut Lab, place: Place, mode: Mode) -> Parts {
    let dir = lab.case_dir()?;
    let site = lab.site(place)?;
    run_on(site.client(), site.other(), &dir, &place.name(), mode)
}

fn run_on(host: &Host, other: Option<&Host>, dir: &Path, place: &str, mode: Mode) -> Parts {
    let programs = programs()?;
    let log = log_of(place, mode)?;
    let _ = fs::remove_file(&log);
    let mut command = host.run(sources().join("test_all_check.sh"));
    command
        .args(mode.options())
        .args(["-a", &host.address])
        .env("EXS_TEST_PROGRAMS", &programs)
        .env("EXS_TEST_LOG", &log)
        .env("EXS_TEST_SEED", seed());
    if let Some(other) = other {
        with_peer(&mut command, &other.prefix(), &other.address);
    }
    results(&process::run(command, dir, "test_all_check", LIMIT)?)
}

/// The results of programs that have ended: at least one, and as the exit status says.
pub(crate) fn results(finished: &Finished) -> Parts {
    let endings = endings(finished);
    let failed = endings.iter().any(|(_, ending)| ending.is_err());
    if endings.is_empty() || finished.success() == failed {
        let what = format!("{} results, and {}", endings.len(), finished.ending());
        return Err(Stop::with(what, &[finished]));
    }
    Ok(endings)
}

/// Reads the lines of results; those of a program come before the line that sums it up.
fn endings(finished: &Finished) -> Vec<(String, Ending)> {
    let mut endings = Vec::new();
    let mut program = Vec::new();
    for line in finished.out.lines() {
        if let Some(sum) = line.strip_prefix("# ") {
            let name = sum.split(',').next().unwrap_or_default();
            endings.extend(
                program
                    .drain(..)
                    .map(|(test, ending)| (format!("{name} {test}"), ending)),
            );
            continue;
        }
        if let Some((test, ending)) = ending(line, finished) {
            program.push((test, ending));
        }
    }

    // A program that did not come to its sum.
    endings.extend(program.into_iter().map(|(test, _)| {
        let what = "its program did not come to an end";
        (test, Err(Stop::with(what, &[finished])))
    }));

    endings
}

/// The result that a line is, if it begins with a number as results do.
fn ending(line: &str, finished: &Finished) -> Option<(String, Ending)> {
    let fields: Vec<&str> = line.split(':').map(str::trim).collect();
    fields[0].parse::<u32>().ok()?;
    let test = fields.iter().take(2).copied().collect::<Vec<_>>().join(" ");
    let ending = match fields[..] {
        [_, _, _, _, "PASS", _, _] => Ok(()),
        [_, _, name, _, "FAIL", _, reason] => {
            Err(Stop::with(format!("{name}: {reason}"), &[finished]))
        }
        _ => Err(Stop::with(
            format!("not a line of seven fields: {line}"),
            &[finished],
        )),
    };
    Some((test, ending))
}

/// No process, and so no slot, is left behind by all of this.
fn nothing_left(lab: &mut Lab, place: Place) -> Ending {
    let site = lab.site(place)?;
    for host in [site.server(), site.client()] {
        let status = host.status()?;
        if environment::clients(&status) != 0 {
            return Err(Stop::fail(format!("slots are still taken: {status}")));
        }
    }
    Ok(())
}

/// Two runs differ in nothing: what one daemon answers, two answer, in the same words.
fn equal_logs(_: &mut Lab, mode: Mode) -> Ending {
    let logs = [Place::OneDaemon, Place::TwoDaemons]
        .map(|place| log_of(&place.name(), mode).and_then(|path| Ok(fs::read_to_string(path)?)));
    let [Ok(one), Ok(two)] = logs else {
        return Err(Stop::Skip("the places were not both run".to_owned()));
    };

    let (one, two): (Vec<_>, Vec<_>) = (one.lines().collect(), two.lines().collect());
    match one.iter().zip(&two).find(|(one, two)| one != two) {
        Some((one, two)) => Err(Stop::fail(format!("{one}\nis, with two daemons,\n{two}"))),
        None if one.len() != two.len() => Err(Stop::fail(format!(
            "{} lines, and {} with two daemons",
            one.len(),
            two.len()
        ))),
        None => Ok(()),
    }
}

/// `programs.toml` has every program, with as many tests as it has.
fn documented(_: &mut Lab) -> Ending {
    let programs = programs()?;
    let rows = table::read()?;
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(sources()).map_err(anyhow::Error::from)? {
        let name = entry.map_err(anyhow::Error::from)?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("test_exs_") && name.ends_with(".c") {
            names.insert(name.trim_end_matches(".c").to_owned());
        }
    }

    for name in &names {
        let output = Command::new(programs.join(name))
            .arg("-l")
            .output()
            .map_err(anyhow::Error::from)?;
        let count = String::from_utf8_lossy(&output.stdout).lines().count();
        let row = rows.iter().find(|row| row.file() == *name);
        let documented = row.map_or("nothing".to_owned(), |row| row.tests.to_string());
        if documented != count.to_string() {
            return Err(Stop::fail(format!(
                "{name} has {count} tests; programs.toml says {documented}"
            )));
        }
    }

    if rows.len() != names.len() {
        return Err(Stop::fail("programs.toml has programs that are not there"));
    }

    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(out: &str) -> Finished {
        Finished {
            line: String::new(),
            status: None,
            out: out.to_owned(),
            err: String::new(),
            elapsed: Duration::ZERO,
        }
    }

    #[test]
    fn results_belong_to_the_program_that_sums_them_up() {
        let endings = endings(&finished(
            "1 : EPERM : exs_send(fd) [no exs_init] : blocking : PASS : 1 : Operation not permitted\n\
             2 : OK_EXS_SEND : exs_send(fd) : blocking : FAIL : -1 : Time Out\n\
             3 : EINVAL : exs_send(fd) : blocking : PASS : 1 : Invalid : argument\n\
             # exs_send, blocking: 1 passed, 1 failed\n\
             1 : EPERM : exs_recv(fd) : blocking : PASS : 1 : Operation not permitted\n",
        ));
        let names: Vec<_> = endings.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "exs_send 1 EPERM",
                "exs_send 2 OK_EXS_SEND",
                "exs_send 3 EINVAL",
                "1 EPERM"
            ]
        );

        assert!(endings[0].1.is_ok());

        // A time-out, a field too many, and a program without an end.
        assert!(endings[1..].iter().all(|(_, ending)| ending.is_err()));
    }
}
