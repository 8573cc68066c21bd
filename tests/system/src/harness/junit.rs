//! The account of a test run as JUnit's XML, which CI systems show.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::harness::case::{Ending, Stop};

/// What has been seen so far: a suite for each group.
#[derive(Default)]
pub(crate) struct Junit {
    suites: BTreeMap<String, Vec<TestCase>>,
}

impl Junit {
    /// Takes the ending of one case.
    pub(crate) fn record(&mut self, name: &str, ending: &Ending, elapsed: Duration) {
        let (group, part) = name.split_once('/').unwrap_or((name, name));
        let status = match ending {
            Ok(()) => TestCaseStatus::success(),
            Err(Stop::Skip(reason)) => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(reason.as_str());
                status
            }
            Err(Stop::Fail(failure)) => {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                let first = failure.what.lines().next().unwrap_or_default();
                status.set_message(first).set_description(failure.text());
                status
            }
        };

        let mut case = TestCase::new(part, status);
        case.set_classname(group).set_time(elapsed);
        self.suites.entry(group.to_owned()).or_default().push(case);
    }

    /// The document.
    pub(crate) fn text(&self) -> Result<String> {
        let mut report = Report::new("ferroce");
        for (group, cases) in &self.suites {
            let mut suite = TestSuite::new(group.as_str());
            suite.add_test_cases(cases.iter().cloned());
            report.add_test_suite(suite);
        }
        Ok(report.to_string()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ending_has_its_place() {
        let mut junit = Junit::default();
        junit.record("verbs/one", &Ok(()), Duration::from_millis(1500));
        let skipped = Err(Stop::Skip("no <mirror>".to_owned()));
        junit.record("verbs/two", &skipped, Duration::ZERO);
        junit.record("cm/three", &Err(Stop::fail("7 & 8\nmore")), Duration::ZERO);
        let text = junit.text().unwrap();
        let document = roxmltree::Document::parse(&text).unwrap();
        let find = |tag: &str| {
            let mut found = document.descendants().filter(|n| n.has_tag_name(tag));
            let one = found.next().unwrap();
            assert!(found.next().is_none(), "{tag}: {text}");
            one
        };
        assert_eq!(find("skipped").attribute("message"), Some("no <mirror>"));
        assert_eq!(find("failure").attribute("message"), Some("7 & 8"));
        let suites = document
            .descendants()
            .filter(|n| n.has_tag_name("testsuite"));
        let counted = suites.map(|n| {
            let of = |name| n.attribute(name).unwrap_or_default();
            (of("name"), of("tests"), of("failures"))
        });
        let counted: Vec<_> = counted.collect();
        assert_eq!(counted, [("cm", "1", "1"), ("verbs", "2", "0")]);
        let first = document
            .descendants()
            .find(|n| n.attribute("name") == Some("one"));
        assert_eq!(first.unwrap().attribute("time"), Some("1.500"));
    }
}
