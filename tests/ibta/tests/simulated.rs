//! The whole suite on the simulated device: every test passes, every mutant is caught, and nothing is vacuous.

use ferroce_ibta::catalog::{self, Make};
use ferroce_ibta::execute::execute;
use ferroce_ibta::run::Verdict;
use ferroce_ibta::sim::SimBackend;
use std::collections::BTreeSet;

/// Everything that is wrong, at once.
fn report(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_test_passes() {
    let mut wrong = Vec::new();
    for test in catalog::all() {
        let (result, _) = execute(&test, &mut SimBackend::default(), Box::new(|_| {}));
        if result.result != Verdict::Pass {
            wrong.push(format!(
                "{}: {:?} {}",
                result.id, result.result, result.reason
            ));
        }
    }
    report(&wrong);
}

#[test]
fn every_mutant_is_caught_by_the_assertion_that_it_names() {
    let mut wrong = Vec::new();
    for test in catalog::all() {
        if test.mutants.is_empty() {
            wrong.push(format!("{} has no mutant", test.id));
        }
        for mutant in &test.mutants {
            let mut backend = match &mutant.make {
                Make::Transport(make) => SimBackend {
                    faults: Some(make()),
                    ..SimBackend::default()
                },
                Make::Mad(make) => SimBackend {
                    mad_faults: Some(make()),
                    ..SimBackend::default()
                },
            };
            let (result, _) = execute(&test, &mut backend, Box::new(|_| {}));
            let failed = result
                .assertions
                .iter()
                .find(|assertion| assertion.result == Verdict::Fail);
            let caught = result.result == Verdict::Fail
                && failed.is_some_and(|assertion| assertion.id == mutant.caught_by);
            if !caught {
                wrong.push(format!(
                    "{} on {}: {:?} {}, must fail by {}",
                    test.id, mutant.name, result.result, result.reason, mutant.caught_by
                ));
            }
        }
    }
    report(&wrong);
}

#[test]
fn names_are_unique_and_everything_is_said() {
    let mut ids = BTreeSet::new();
    for test in catalog::all() {
        assert!(ids.insert(test.id.clone()), "{} twice", test.id);
        assert!(!test.statements.is_empty(), "{} covers nothing", test.id);
        assert!(!test.assertions.is_empty(), "{} asserts nothing", test.id);
        let names: BTreeSet<_> = test.mutants.iter().map(|mutant| mutant.name).collect();
        assert_eq!(names.len(), test.mutants.len(), "mutants of {}", test.id);
        for mutant in &test.mutants {
            assert!(
                test.assertions.contains(&mutant.caught_by),
                "{}: {} is caught by an assertion of another test",
                test.id,
                mutant.name
            );
        }
    }
}
