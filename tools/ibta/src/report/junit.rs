//! Results as JUnit XML: a suite for each family, a case for each test.

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
pub fn write(path: &Path, device: &str, tests: &[TestResult]) -> Result<()> {
    let mut report = Report::new(format!("ferroce-ibta, device {device}"));
    let mut families: BTreeMap<&str, TestSuite> = BTreeMap::new();
    for test in tests {
        families
            .entry(&test.family)
            .or_insert_with(|| TestSuite::new(test.family.clone()))
            .add_test_case(case(test));
    }
    report.add_test_suites(families.into_values());
    let context = || format!("{}", path.display());
    report
        .serialize(File::create(path).with_context(context)?)
        .with_context(context)
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
