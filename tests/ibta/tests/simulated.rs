//! The whole suite on the simulated device: every test passes, every mutant is caught, and nothing is vacuous.

use ferroce_ibta::catalog::{self, Make};
use ferroce_ibta::execute::execute;
use ferroce_ibta::run::Verdict;
use ferroce_ibta::sim::SimBackend;
use std::collections::BTreeSet;

#[test]
fn every_test_passes() {
    for test in catalog::all() {
        let (result, _) = execute(&test, &mut SimBackend::default(), Box::new(|_| {}));
        assert_eq!(
            result.result,
            Verdict::Pass,
            "{}: {}",
            result.id,
            result.reason
        );
    }
}

#[test]
fn every_mutant_is_caught_by_the_assertion_that_it_names() {
    for test in catalog::all() {
        assert!(!test.mutants.is_empty(), "{} has no mutant", test.id);
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
            let caught = result
                .assertions
                .iter()
                .find(|assertion| assertion.result == Verdict::Fail);
            assert_eq!(
                (result.result, caught.map(|a| a.id.as_str())),
                (Verdict::Fail, Some(mutant.caught_by.as_str())),
                "{} on {}: {}",
                test.id,
                mutant.name,
                result.reason
            );
        }
    }
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
