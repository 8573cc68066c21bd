//! The whole suite on the simulated device: every test passes, every mutant is caught, and nothing is vacuous.

use ferroce_ibta::execute::execute;
use ferroce_ibta::mutate;
use ferroce_ibta::run::{Entry, Verdict};
use ferroce_ibta::sim::SimBackend;
use ferroce_ibta::suite;
use std::collections::BTreeSet;

/// Everything that is wrong, at once.
fn report(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_test_passes() {
    let mut wrong = Vec::new();
    for test in suite::all() {
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
    for test in suite::all() {
        if test.mutants.is_empty() {
            wrong.push(format!("{} has no mutant", test.id));
        }
        for mutant in &test.mutants {
            if let Err(why) = mutate::caught(mutant, &mutate::run(&test, mutant)) {
                wrong.push(format!("{} on {}: {why}", test.id, mutant.name));
            }
        }
    }
    report(&wrong);
}

#[test]
fn names_are_unique_and_everything_is_said() {
    let mut ids = BTreeSet::new();
    for test in suite::all() {
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

/// The numbers of the steps that a run of a test shows, each once, in order.
fn steps(id: &str) -> Vec<String> {
    let test = suite::all().into_iter().find(|test| test.id == id);
    let test = test.expect("a test of the catalogue");
    let (result, _) = execute(&test, &mut SimBackend::default(), Box::new(|_| {}));
    let mut numbers = Vec::new();
    for entry in result.entries {
        if let Entry::Step { number, .. } = entry
            && !numbers.contains(&number)
        {
            numbers.push(number);
        }
    }
    numbers
}

#[test]
fn the_tests_that_were_given_show_every_step_of_their_description() {
    let main = (1..=13).map(|n| n.to_string());
    let mut due = vec!["init.1".to_owned(), "init.2".to_owned()];
    due.extend(main);
    assert_eq!(steps("C09_060_09"), due);
    due.insert(2, "init.3".to_owned());
    let six = due.iter().position(|number| number == "6").expect("step 6");
    due.splice(six + 1..six + 1, (1..=7).map(|n| format!("6.{n}")));
    assert_eq!(steps("C09_142_01"), due);
}
