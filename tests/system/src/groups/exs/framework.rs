//! Group `exs`, continued: the conformance framework itself, by a program (`tests/exs/self_test.c`)
//! whose tests end in all the ways in which tests end, and by test files in the forms of the thesis
//! (`tests/exs/blocks`); and how its makefile is used.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::groups::exs::{self, Mode};
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::{Lab, Place};

const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("exs/framework/usage and lists", usage_and_lists),
        Case::new("exs/framework/numbers and ranges", numbers_and_ranges),
        Case::new("exs/framework/results", results),
        Case::new("exs/framework/blocks", blocks),
        Case::new("exs/framework/two processes", two_processes),
        Case::new("exs/framework/makefile", built_by_hand),
    ]
}

/// What one run of the program leaves.
struct Ran {
    finished: Finished,
    log: Vec<String>,
}

impl Ran {
    fn is(self, success: bool, what: &str) -> Result<Ran, Stop> {
        if self.finished.success() == success {
            return Ok(self);
        }
        let ending = self.finished.ending();
        Err(Stop::with(format!("{what}: {ending}"), &[&self.finished]))
    }

    /// The fields of each result in the log.
    fn results(&self) -> Vec<Vec<&str>> {
        let results = self.log.iter().filter(|line| !line.starts_with('#'));
        results
            .map(|line| line.split(':').map(str::trim).collect())
            .collect()
    }

    fn numbers(&self) -> Vec<&str> {
        self.results().iter().map(|fields| fields[0]).collect()
    }
}

fn run(dir: &Path, arguments: &[&str]) -> Result<Ran, Stop> {
    let log = dir.join("log");
    let _ = fs::remove_file(&log);
    let mut command = Command::new(exs::programs()?.join("self_test"));
    command.args(arguments).env("EXS_TEST_LOG", &log);
    let finished = process::run(command, dir, "self_test", LIMIT)?;
    let lines = fs::read_to_string(&log).unwrap_or_default();
    Ok(Ran {
        finished,
        log: lines.lines().map(str::to_owned).collect(),
    })
}

/// `-h`, `-l` and `-t` print and run nothing; capital letters do the same.
fn usage_and_lists(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    for option in ["-h", "-H"] {
        let ran = run(&dir, &[option])?.is(true, option)?;
        let said = ran.finished.out.starts_with("usage: test_self ");
        expect(said && ran.log.is_empty(), || {
            format!("{option} says {}", ran.finished.out)
        })?;
        for named in [
            "-h",
            "-l",
            "-t N",
            "-v",
            "-a ADDRESS",
            "-p PORT",
            "-n",
            "N-M",
        ] {
            expect(ran.finished.out.contains(named), || {
                format!("the usage does not name {named}")
            })?;
        }
    }
    for option in ["-l", "-L"] {
        let ran = run(&dir, &[option])?.is(true, option)?;
        let (first, last) = (
            "1 : EINVAL : the errno that is expected",
            "14 : EINVAL : a number is left out before this one",
        );
        let lines: Vec<&str> = ran.finished.out.lines().collect();
        let whole = lines.len() == 13 && lines[0] == first && lines[12] == last;
        expect(whole && ran.log.is_empty(), || {
            format!("{option} lists {lines:?}")
        })?;
    }
    for option in ["-t", "-T"] {
        let ran = run(&dir, &[option, "4"])?.is(true, option)?;
        let one = ran.finished.out == "4 : OK_ANSWER : another answer\n";
        expect(one && ran.log.is_empty(), || {
            format!("{option} 4 shows {}", ran.finished.out)
        })?;
    }
    for wrong in ["-t 13", "-t x", "-t", "-x", "-p 99999", "-p 0", "-p 1x"] {
        let wrong = &wrong.split(' ').collect::<Vec<_>>()[..];
        let ran = run(&dir, wrong)?.is(false, &format!("{wrong:?}"))?;
        expect(ran.log.is_empty(), || format!("{wrong:?} runs tests"))?;
    }
    Ok(())
}

/// Tests run in the order in which they are named, within a range those that there are; what names
/// none is refused whole.
fn numbers_and_ranges(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let cases: [(&[&str], &[&str]); 5] = [
        (&["3"], &["3"]),
        (&["3", "1"], &["3", "1"]),
        (&["1", "3", "1"], &["1", "3", "1"]),
        // 13 is none, and 12 is of the other mode.
        (&["12-14"], &["14"]),
        (&["-n", "12-14"], &["12", "14"]),
    ];
    for (arguments, numbers) in cases {
        let ran = run(&dir, arguments)?.is(true, &format!("{arguments:?}"))?;
        expect(ran.numbers() == numbers, || {
            format!("{arguments:?} runs {:?}", ran.numbers())
        })?;
        // Without -v good results are in the log only.
        expect(ran.finished.out.is_empty(), || {
            format!("{arguments:?} prints {}", ran.finished.out)
        })?;
        let aloud: Vec<&str> = std::iter::once("-v")
            .chain(arguments.iter().copied())
            .collect();
        let ran = run(&dir, &aloud)?.is(true, &format!("{aloud:?}"))?;
        let same = ran.finished.out.lines().eq(ran.log.iter());
        expect(same, || format!("{aloud:?} prints {}", ran.finished.out))?;
    }
    let wrong = [
        "0",
        "13",
        "15",
        "x",
        "1x",
        "1-",
        "-1-3",
        "3-1",
        "1-15",
        "1-3-5",
        "1,3",
        "",
        "99999999999",
    ];
    for number in wrong {
        let ran = run(&dir, &["--", "1", number])?.is(false, number)?;
        let refused = format!("test_self: Invalid Test Number: {number}\n");
        expect(ran.finished.err == refused && ran.log.is_empty(), || {
            format!("{number} is answered {}", ran.finished.err)
        })?;
    }
    Ok(())
}

/// Every ending has its line of seven fields, and the last line counts them.
fn results(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let ran = run(&dir, &[])?.is(false, "all tests")?;
    let wanted = [
        ("1", "PASS", "22", "Invalid argument"),
        ("2", "FAIL", "22", "Invalid argument"),
        ("3", "PASS", "7", "Success"),
        ("4", "FAIL", "7", "not what was expected"),
        ("5", "FAIL", "-1", "exs_send; a reason ; 1"),
        ("6", "FAIL", "-1", "failed after the call"),
        ("7", "FAIL", "-1", "the first word"),
        ("8", "FAIL", "-1", "SEGFAULT"),
        ("9", "FAIL", "-1", "Time Out"),
        ("10", "FAIL", "-1", "Killed"),
        ("11", "FAIL", "-1", "ended without a result"),
        ("14", "PASS", "22", "Invalid argument"),
    ];
    let results = ran.results();
    for (fields, (number, verdict, value, reason)) in results.iter().zip(wanted) {
        let right = matches!(fields[..], [n, _, _, "blocking", v, r, why]
            if (n, v, r, why) == (number, verdict, value, reason));
        expect(right, || {
            format!("{fields:?}, not {number} {verdict} {value} {reason}")
        })?;
    }
    expect(results.len() == wanted.len(), || {
        format!("{} results", results.len())
    })?;
    let sum = ran.log.last().map(String::as_str);
    expect(sum == Some("# self, blocking: 3 passed, 9 failed"), || {
        format!("the sum is {sum:?}")
    })
}

/// How the results of a program made of blocks begin and end: number, value, verdict, return value
/// and reason.
type Wanted = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// Runs a program of `tests/exs/blocks`.
fn run_blocks(lab: &mut Lab, name: &str, mode: Mode) -> Result<Finished, Stop> {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let host = lab.site(Place::OneDaemon)?.client();
    let program = host.run(exs::programs()?.join(name));
    let mut command = exs::in_mode(program, mode, &host.address, port);
    command.env("EXS_TEST_LOG", dir.join("log"));
    Ok(process::run(command, &dir, name, LIMIT)?)
}

/// Test files that are functions of blocks: numbers without a block, blocks of one mode,
/// prerequisites that fail, faults.
fn blocks(lab: &mut Lab) -> Ending {
    const CONNECT: &[Wanted] = &[
        ("1", "EPERM", "PASS", "1", "Operation not permitted"),
        ("3", "EINVAL", "PASS", "22", "Invalid argument"),
        ("4", "EBADF", "PASS", "9", "Bad file descriptor"),
        (
            "6",
            "OK_EXS_CONNECT",
            "FAIL",
            "-1",
            "ended without a result",
        ),
    ];
    const SEND: &[Wanted] = &[
        (
            "1",
            "ENOTCONN",
            "PASS",
            "107",
            "Transport endpoint is not connected",
        ),
        ("16", "OK_EXS_SEND", "PASS", "8192", "Success"),
    ];
    const NAMES: &[Wanted] = &[
        ("1", "EPERM", "PASS", "1", "Operation not permitted"),
        ("2", "OK_NAMES", "PASS", "0", "Success"),
        ("3", "OK_NAMES", "PASS", "0", "Success"),
        ("4", "unknown", "FAIL", "-1", "SEGFAULT"),
        ("5", "OK_NAMES", "PASS", "1", "Success"),
    ];
    for mode in Mode::ALL {
        for (name, wanted) in [
            ("blocks_connect", CONNECT),
            ("blocks_send", SEND),
            ("blocks_names", NAMES),
        ] {
            let ran = run_blocks(lab, name, mode)?;
            // The block of number 4 says itself that it is of blocking mode.
            let performed = |one: &&Wanted| {
                !(name == "blocks_connect" && mode == Mode::NonBlocking && one.0 == "4")
            };
            let wanted: Vec<&Wanted> = wanted.iter().filter(performed).collect();
            let results: Vec<Vec<&str>> = ran
                .out
                .lines()
                .map(|line| line.split(" : ").collect::<Vec<_>>())
                .filter(|fields| fields.len() == 7)
                .collect();
            let same = results.len() == wanted.len()
                && results.iter().zip(&wanted).all(|(fields, one)| {
                    (fields[0], fields[1], fields[4], fields[5], fields[6]) == **one
                        && fields[3] == mode.name()
                });
            if !same {
                return Err(Stop::with(
                    format!("{name}: not the results of its blocks"),
                    &[&ran],
                ));
            }
            let failed = wanted.iter().filter(|one| one.2 == "FAIL").count();
            let sum = format!("{} passed, {failed} failed", wanted.len() - failed);
            if !ran.out.contains(&sum) || ran.success() != (failed == 0) {
                return Err(Stop::with(format!("{name}: the sum is not {sum}"), &[&ran]));
            }
        }
    }
    let ran = run_blocks(lab, "blocks_connect", Mode::Blocking)?;
    let refused = ran.out.contains("\nInvalid Test Number: 2\n")
        && ran.out.contains("A correct call to ok_exs_socket failed.")
        && ran.out.contains("[no exs_init] [group 5.2.2] : blocking");
    match refused {
        true => Ok(()),
        false => Err(Stop::with(
            "a message or the test group is missing",
            &[&ran],
        )),
    }
}

/// A program of `ok_` functions alone, whose processes meet at the FIFOs; nothing of it stays.
fn two_processes(lab: &mut Lab) -> Ending {
    for mode in Mode::ALL {
        let ran = run_blocks(lab, "blocks_pingpong", mode)?;
        if !ran.success() {
            return Err(Stop::with(
                "the two processes do not come to their end",
                &[&ran],
            ));
        }
    }
    Ok(())
}

/// `make TESTS= check` builds and runs nothing, `make tests/NAME` builds one, `make check` runs all
/// and sums up.
fn built_by_hand(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let copy = dir.join("exs");
    let sources = exs::sources();
    let mut copying = Command::new("cp");
    copying.arg("-r").arg(&sources).arg(&copy);
    process::run(copying, &dir, "cp", LIMIT)?;
    // Two programs are enough to tell all from one.
    for part in ["tests", "blocks", "figures"] {
        let _ = fs::remove_dir_all(copy.join(part));
    }
    for entry in fs::read_dir(&copy).map_err(anyhow::Error::from)? {
        let path = entry.map_err(anyhow::Error::from)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("test_exs_")
            && !["test_exs_init.c", "test_exs_bind.c"].contains(&&*name)
        {
            fs::remove_file(&path).map_err(anyhow::Error::from)?;
        }
    }
    let make = |words: &[&str]| -> Result<Finished, Stop> {
        let mut command = exs::makefile(Path::new("tests"))?;
        command.arg("-C").arg(&copy).args(words);
        Ok(process::run(command, &dir, "make", LIMIT * 4)?)
    };
    let one = make(&["tests/test_exs_init"])?;
    let (init, bind) = (
        copy.join("tests/test_exs_init"),
        copy.join("tests/test_exs_bind"),
    );
    if !one.success() || !init.exists() || bind.exists() {
        return Err(Stop::with(
            "make tests/test_exs_init does not build that program alone",
            &[&one],
        ));
    }
    let built = make(&["-j2", "TESTS=", "check"])?;
    if !built.success()
        || !bind.exists()
        || copy.join("test-suite.log").exists()
        || built.out.contains("PASS")
    {
        return Err(Stop::with(
            "make TESTS= check does not build and run nothing",
            &[&built],
        ));
    }
    // A script in its place, of the same name: what is said is looked at, not run again.
    for (script, code, verdict) in [("exit 0", 0, "PASS"), ("echo one FAIL; exit 1", 2, "FAIL")] {
        fs::write(
            copy.join("test_all_check.sh"),
            format!("#!/bin/sh\necho $EXS_TEST_PROGRAMS\n{script}\n"),
        )
        .map_err(anyhow::Error::from)?;
        let ran = make(&["check"])?;
        let log = fs::read_to_string(copy.join("test-suite.log")).unwrap_or_default();
        let (passed, failed) = if code == 0 { (1, 0) } else { (0, 1) };
        let summary = format!(
            "# TOTAL: 1\n# PASS:  {passed}\n# SKIP:  0\n# XFAIL: 0\n# FAIL:  {failed}\n# XPASS: 0\n# ERROR: 0\n"
        );
        let said = ran.code() == Some(code)
            && ran
                .out
                .contains(&format!("{verdict}: tests/test_all_check.sh\n"))
            && ran.out.contains("Testsuite summary for ")
            && ran.out.contains(&summary)
            && log.starts_with("tests\n");
        if !said {
            return Err(Stop::with("make check does not sum up", &[&ran]));
        }
    }
    Ok(())
}
