//! Group `unit`: `cargo test` of the whole workspace, with all checks, each test counted.

use crate::groups::cargo_tests::{self, Tests};
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::Finished;

pub(crate) fn cases() -> Vec<Case> {
    // The simulators' long runs are a group of their own.
    vec![Case::many("unit", |lab| {
        cargo_tests::run(lab, &Tests::All, "200")
    })]
}

/// Reads what the test harness of each crate prints.
pub(crate) fn endings(finished: &Finished) -> Vec<(String, Ending)> {
    let mut endings: Vec<(String, Ending)> = Vec::new();
    for line in finished.out.lines() {
        let Some((name, verdict)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.rsplit_once(" ... "))
        else {
            continue;
        };
        let ending = match verdict.split(',').next().unwrap_or_default().trim() {
            "ok" => Ok(()),
            "ignored" => Err(Stop::Skip(format!("marked as ignored: {verdict}"))),
            _ => Err(Stop::fail(details(&finished.out, name))),
        };
        endings.push((name.to_owned(), ending));
    }

    let failure_told = endings
        .iter()
        .any(|(_, ending)| matches!(ending, Err(Stop::Fail(_))));
    if !finished.success() && !failure_told {
        endings.push((
            finished.line.clone(),
            Err(Stop::with(finished.ending(), &[finished])),
        ));
    }

    endings
}

/// What a failed test printed: the beginning, or of a property the end, where its seed and the
/// smallest input that breaks it stand after all inputs that were tried on the way.
fn details(out: &str, name: &str) -> String {
    let heading = format!("---- {name} stdout ----");
    let text: Vec<&str> = out
        .lines()
        .skip_while(|line| **line != *heading)
        .skip(1)
        .take_while(|line| !line.starts_with("---- ") && !line.starts_with("failures:"))
        .filter(|line| !line.is_empty())
        .collect();
    let last = |start| text.iter().rposition(|line| line.starts_with(start));
    let shown = match last("minimal failing input:") {
        Some(input) => {
            let from = last("proptest: Saving").or(last("Test failed:"));
            let length = text[input..]
                .iter()
                .take_while(|line| !line.starts_with("stack backtrace:"))
                .count();
            &text[from.unwrap_or(input)..input + length.min(100)]
        }
        None => &text[..text.len().min(30)],
    };

    if shown.is_empty() {
        "failed".to_owned()
    } else {
        shown.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn printed(out: &str) -> Finished {
        Finished {
            line: String::new(),
            status: None,
            out: out.to_owned(),
            err: String::new(),
            elapsed: Duration::ZERO,
        }
    }

    #[test]
    fn results_of_the_test_harness() {
        let finished = printed(
            "test a::b ... ok\ntest slow ... ignored, needs a week\ntest c ... FAILED\n\n---- c stdout ----\n\nthread panicked\n\nfailures:\n",
        );
        let endings = endings(&finished);
        assert_eq!(endings.len(), 3);
        assert!(endings[0].0 == "a::b" && endings[0].1.is_ok());
        assert!(matches!(&endings[1].1, Err(Stop::Skip(why)) if why.contains("a week")));
        assert!(
            matches!(&endings[2].1, Err(Stop::Fail(failure)) if failure.what == "thread panicked")
        );
    }

    #[test]
    fn a_property_that_fails_says_how_to_repeat_it() {
        let tried = "thread 'p' panicked at p.rs:1:1:\nstack backtrace:\n  0: p\n".repeat(50);
        let end = "proptest: Saving this and future failures in p.regressions\ncc 1234\nthread 'p' panicked at p.rs:2:2:\n\
            Test failed: no.\nminimal failing input: n = 7\n\tsuccesses: 5";
        let finished = printed(&format!(
            "test p ... FAILED\n\n---- p stdout ----\n{tried}\n{end}\n\nstack backtrace:\n  0: p\n\nfailures:\n"
        ));
        assert!(
            matches!(&endings(&finished)[0].1, Err(Stop::Fail(failure)) if failure.what == end)
        );
    }
}
