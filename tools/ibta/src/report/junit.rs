//! Results as JUnit XML: a suite for each family, a case for each test. What was tested is in the
//! properties of each suite.

use super::about::About;
use super::text;
use crate::run::{TestResult, Verdict};
use anyhow::{Context, Result};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// Writes the results to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, about: &About, tests: &[TestResult]) -> Result<()> {
    let mut report = Report::new(format!("ferroce-ibta, device {}", about.device()));
    if let Some(began) = about.time() {
        report.set_timestamp(began);
    }

    let mut families: BTreeMap<&str, TestSuite> = BTreeMap::new();
    for test in tests {
        families
            .entry(&test.family)
            .or_insert_with(|| suite(&test.family, about))
            .add_test_case(case(test));
    }
    report.add_test_suites(families.into_values());
    let context = || format!("{}", path.display());
    report
        .serialize(File::create(path).with_context(context)?)
        .with_context(context)
}

fn suite(family: &str, about: &About) -> TestSuite {
    let mut suite = TestSuite::new(family);
    for (name, value) in about.properties() {
        suite.add_property((name, value.as_str()));
    }
    suite
}

fn case(test: &TestResult) -> TestCase {
    let status = match test.result {
        Verdict::Pass => TestCaseStatus::success(),
        Verdict::NotApplicable => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(test.reason.clone());
            status
        }
        Verdict::Fail => non_success(NonSuccessKind::Failure, test),
        Verdict::Inconclusive | Verdict::Error => non_success(NonSuccessKind::Error, test),
    };

    let mut case = TestCase::new(test.id.clone(), status);
    case.set_classname(test.family.clone())
        .set_time(test.time)
        .set_system_out(text::details(test));
    case
}

fn non_success(kind: NonSuccessKind, test: &TestResult) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(test.reason.clone());
    status
}
