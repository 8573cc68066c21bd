//! Group `exs`, continued: the conformance framework itself, by a program (`tests/exs/self_test.c`) whose tests end in all
//! the ways in which tests end. No daemon, and nothing of the library.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::groups::exs;
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::Lab;

const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("exs/framework/usage and lists", usage_and_lists),
        Case::new("exs/framework/numbers and ranges", numbers_and_ranges),
        Case::new("exs/framework/results", results),
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
    for wrong in [&["-t", "13"][..], &["-t", "x"], &["-t"], &["-x"]] {
        let ran = run(&dir, wrong)?.is(false, &format!("{wrong:?}"))?;
        expect(ran.log.is_empty(), || format!("{wrong:?} runs tests"))?;
    }
    Ok(())
}

/// Tests run in the order in which they are named, within a range those that there are; what names none is refused whole.
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
        let told = format!("test_self: Invalid Test Number: {number}\n");
        expect(ran.finished.err == told && ran.log.is_empty(), || {
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
        ("3", "PASS", "0", "Success"),
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
