//! Reads what Python's unittest prints with `-v` on standard error, and checks it against
//! unittest's own sums.
//!
//! A test's line is begun before the test runs and ended with the verdict after it, so that
//! whatever else is written to standard error meanwhile (by the test, by processes that it forks)
//! stands between the two. What the tests print to standard output is not here at all: the two
//! streams are kept apart. Should noise hide a verdict all the same, the sums differ and the whole
//! output is refused, rather than a result lost.

use std::collections::BTreeMap;

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It passed.
    Passed,
    /// It was skipped, with these words.
    Skipped(String),
    /// It failed, or ended in an error: what unittest says about it.
    Failed(String),
}

/// One test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// `module.Class.test`.
    pub name: String,
    /// How it ended.
    pub verdict: Verdict,
}

/// A test's line has been begun, and no verdict followed.
struct Open {
    name: String,
    /// Whether unittest counts it as a test.
    counted: bool,
}

/// All tests in the order in which they ran.
///
/// # Errors
///
/// What is wrong with the output, where it is not whole or its parts do not agree.
pub(crate) fn read(text: &str) -> Result<Vec<Outcome>, String> {
    let mut outcomes = Vec::new();
    let mut details = details(text);
    let mut open: Option<Open> = None;
    let mut counted = 0;
    for line in text.lines().take_while(|line| !is_rule(line)) {
        let rest = match begun(line) {
            Some((name, own, rest)) => {
                if let Some(previous) = open {
                    return Err(format!("no verdict on {}", previous.name));
                }
                open = Some(Open { name, counted: own });
                rest
            }
            None => line,
        };

        let Some(test) = &open else { continue };
        let word = rest.rsplit_once(" ... ").map_or(rest, |(_, word)| word);
        let Some(verdict) = verdict(word.trim()) else {
            continue;
        };

        counted += usize::from(test.counted);
        let verdict = match verdict {
            Verdict::Failed(word) => {
                let said = details.remove(&test.name);
                Verdict::Failed(said.unwrap_or(word))
            }
            other => other,
        };

        outcomes.push(Outcome {
            name: test.name.clone(),
            verdict,
        });

        open = None;
    }

    if let Some(test) = open {
        return Err(format!("{} did not end", test.name));
    }

    agree(text, &outcomes, counted)?;
    Ok(outcomes)
}

/// Compares with the sums at the end.
fn agree(text: &str, outcomes: &[Outcome], counted: usize) -> Result<(), String> {
    let ran: Option<usize> = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok());

    match ran {
        Some(ran) if ran == counted => {}
        Some(ran) => return Err(format!("unittest ran {ran} tests, {counted} were seen")),
        None => return Err("unittest does not say how many tests it ran".to_owned()),
    }

    let last = text
        .lines()
        .rev()
        .find(|line| line.starts_with("OK") || line.starts_with("FAILED"))
        .ok_or("unittest does not say how the run ended")?;

    let sum = |word: &str| -> usize {
        last.split(['(', ')', ','])
            .filter_map(|part| part.trim().split_once('='))
            .filter(|(name, _)| *name == word)
            .filter_map(|(_, number)| number.parse::<usize>().ok())
            .sum()
    };

    let seen = |wanted: fn(&Verdict) -> bool| {
        outcomes
            .iter()
            .filter(|outcome| wanted(&outcome.verdict))
            .count()
    };

    let failed = sum("failures") + sum("errors") + sum("unexpected successes");
    let skipped = sum("skipped");
    let seen_failed = seen(|verdict| matches!(verdict, Verdict::Failed(_)));
    let seen_skipped = seen(|verdict| matches!(verdict, Verdict::Skipped(_)));

    // One test can have more than one failure, as when its tear-down fails too.
    if (failed == 0) != (seen_failed == 0) || seen_failed > failed || skipped != seen_skipped {
        return Err(format!(
            "{last:?}, but {seen_failed} failed and {seen_skipped} skipped tests were seen"
        ));
    }

    Ok(())
}

/// The rule above the account of a failure or above the sums: no results follow.
fn is_rule(line: &str) -> bool {
    line.len() == 70 && (line.bytes().all(|b| b == b'=') || line.bytes().all(|b| b == b'-'))
}

/// `test_x (tests.module.Class.test_x)`, or without the last part as before Python 3.11: the name,
/// whether it is a test (and not a class being set up), what follows.
fn begun(line: &str) -> Option<(String, bool, &str)> {
    let (method, rest) = line.split_once(" (")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if method.is_empty() || !method.chars().all(is_name) {
        return None;
    }

    let (path, rest) = rest.split_once(')')?;
    let path = path.strip_prefix("tests.")?;
    if !path.chars().all(|c| is_name(c) || c == '.') {
        return None;
    }

    let name = if path.rsplit('.').next() == Some(method) {
        path.to_owned()
    } else {
        format!("{path}.{method}")
    };
    Some((name, method.starts_with("test"), rest))
}

fn verdict(word: &str) -> Option<Verdict> {
    match word {
        "ok" | "expected failure" => Some(Verdict::Passed),
        "FAIL" | "ERROR" | "unexpected success" => Some(Verdict::Failed(word.to_owned())),
        _ => {
            let words = word.strip_prefix("skipped ")?;
            let quote = words.chars().next()?;
            let inner = words.strip_prefix(quote)?.strip_suffix(quote)?;
            // Python's repr of a string.
            matches!(quote, '\'' | '"').then(|| Verdict::Skipped(inner.replace("\\'", "'")))
        }
    }
}

/// The accounts of the failures, by the tests' names.
fn details(text: &str) -> BTreeMap<String, String> {
    let mut details: BTreeMap<String, String> = BTreeMap::new();
    let mut name: Option<String> = None;
    for line in text.lines().skip_while(|line| !is_rule(line)) {
        let heading = line
            .strip_prefix("ERROR: ")
            .or_else(|| line.strip_prefix("FAIL: "))
            .and_then(begun);

        if let Some((test, ..)) = heading {
            details.entry(test.clone()).or_default();
            name = Some(test);
        } else if line.starts_with("Ran ") {
            name = None;
        } else if let Some(text) = name.as_ref().and_then(|name| details.get_mut(name))
            && !is_rule(line)
        {
            text.push_str(line);
            text.push('\n');
        }
    }

    // The reason, which Python says last, comes first in a report of one line.
    for text in details.values_mut() {
        let reason = text
            .trim_end()
            .lines()
            .last()
            .unwrap_or_default()
            .to_owned();
        *text = format!("{reason}\n{}", text.trim_end());
    }

    details
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "======================================================================";
    const THIN: &str = "----------------------------------------------------------------------";

    fn output(body: &str, sums: &str) -> String {
        format!("{body}\n{THIN}\n{sums}\n")
    }

    #[test]
    fn results_with_and_without_descriptions_and_noise() {
        let text = output(
            "test_a (tests.test_x.T.test_a) ... ok\n\
             test_b (tests.test_x.T.test_b)\nWhat b is about. ... skipped 'not here'\n\
             test_c (tests.test_x.T) ... Player active got: nothing\nok at all\nok\n\
             Traceback of a child\n\
             test_d (tests.test_x.T.test_d) ... skipped \"it's not\"\n",
            "Ran 4 tests in 0.1s\n\nOK (skipped=2)",
        );

        let outcomes = read(&text).unwrap();
        let names: Vec<&str> = outcomes
            .iter()
            .map(|outcome| outcome.name.as_str())
            .collect();

        assert_eq!(
            names,
            [
                "test_x.T.test_a",
                "test_x.T.test_b",
                "test_x.T.test_c",
                "test_x.T.test_d"
            ]
        );

        assert_eq!(outcomes[1].verdict, Verdict::Skipped("not here".to_owned()));
        assert_eq!(outcomes[2].verdict, Verdict::Passed);
        assert_eq!(outcomes[3].verdict, Verdict::Skipped("it's not".to_owned()));
    }

    #[test]
    fn failures_come_with_their_reason() {
        let text = format!(
            "test_a (tests.test_x.T.test_a) ... ERROR\ntest_b (tests.test_x.T.test_b) ... ok\n\n\
             {RULE}\nERROR: test_a (tests.test_x.T.test_a)\n{THIN}\nTraceback:\n  line\nException: why\n\n\
             {THIN}\nRan 2 tests in 1s\n\nFAILED (errors=1)\n"
        );
        let outcomes = read(&text).unwrap();
        assert_eq!(
            outcomes[0].verdict,
            Verdict::Failed("Exception: why\nTraceback:\n  line\nException: why".to_owned())
        );
        assert_eq!(outcomes[1].verdict, Verdict::Passed);
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        let one = "test_a (tests.test_x.T.test_a) ... ok\n";
        let open = "test_b (tests.test_x.T.test_b) ... ";
        assert!(read("").is_err());
        assert!(
            read(&format!("{one}{open}"))
                .unwrap_err()
                .contains("test_b")
        );
        assert!(read(&output(one, "Ran 2 tests in 1s\n\nOK")).is_err());
        assert!(read(&output(one, "Ran 1 test in 1s\n\nOK (skipped=1)")).is_err());
        assert!(read(&output(one, "Ran 1 test in 1s\n\nFAILED (errors=1)")).is_err());
        assert!(read(&output(one, "Ran 1 test in 1s\n\nOK")).is_ok());
        let lost = format!("{open}o{one}k\n");
        assert!(read(&output(&lost, "Ran 2 tests in 1s\n\nOK")).is_err());
    }
}
