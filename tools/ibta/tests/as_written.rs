//! The documents' tests as they are written, on the simulated device: how each ends there, that
//! each catches its mutants, that every step of its document is in it; and that they are nobody's
//! but those who ask for them.

use ferroce_ibta::execute::execute;
use ferroce_ibta::mutate;
use ferroce_ibta::run::{Entry, TestResult, Verdict};
use ferroce_ibta::sim::{MadFaults, SimBackend};
use ferroce_ibta::suite::{self, as_written};
use std::collections::BTreeSet;

/// How each ends on a device that follows the published specification.
const PUBLISHED: &[(&str, Verdict)] = &[
    ("C09_060_09", Verdict::Pass),
    ("C09_142_01", Verdict::Pass),
    ("C14_024_06_CA_04", Verdict::Pass),
    ("O11_006_1_2", Verdict::NotApplicable),
    ("O14_013_01", Verdict::NotApplicable),
    ("O14_013_02", Verdict::Fail),
    ("O14_013_03", Verdict::Pass),
];

fn on(id: &str, mad_faults: Option<MadFaults>) -> TestResult {
    let mut tests = as_written::all().into_iter();
    let test = tests
        .find(|test| test.id == id)
        .expect("a test of a document");
    let mut backend = SimBackend {
        mad_faults,
        ..SimBackend::default()
    };
    execute(&test, &mut backend, Box::new(|_| {})).0
}

#[test]
fn each_ends_as_its_document_has_it() {
    let ids: Vec<String> = as_written::all().into_iter().map(|test| test.id).collect();
    let known: Vec<&str> = PUBLISHED.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, known);
    for (id, due) in PUBLISHED {
        let result = on(id, None);
        assert_eq!(result.result, *due, "{id}: {}", result.reason);
    }
}

#[test]
fn client_reregistration_at_bit_25_fails_by_one_assertion_alone() {
    // o14-13
    let result = on("O14_013_02", None);
    let failed: Vec<&str> = result
        .assertions
        .iter()
        .filter(|assertion| assertion.result == Verdict::Fail)
        .map(|assertion| assertion.id.as_str())
        .collect();
    assert_eq!(failed, ["o14-13.2.yy"]);
    for said in ["ClientReregister is 1", "bit 4"] {
        assert!(result.reason.contains(said), "{}", result.reason);
    }
    for id in ["O14_013_01", "O11_006_1_2"] {
        let why = on(id, None).reason;
        assert!(why.contains("bit 4") && why.contains("is 0"), "{id}: {why}");
    }
}

#[test]
fn a_device_that_announces_client_reregistration_at_bit_4_passes() {
    // o14-13, o11-6.1.2
    for (id, _) in PUBLISHED {
        let result = on(id, Some(as_written::announced_at_bit_4()));
        assert_eq!(result.result, Verdict::Pass, "{id}: {}", result.reason);
    }
}

#[test]
fn every_mutant_is_caught_by_the_assertion_that_it_names() {
    let mut wrong = Vec::new();
    for test in as_written::all() {
        for mutant in &test.mutants {
            if let Err(why) = mutate::caught(mutant, &mutate::run(&test, mutant)) {
                wrong.push(format!("{} on {}: {why}", test.id, mutant.name));
            }
        }

        let caught: BTreeSet<_> = test
            .mutants
            .iter()
            .map(|mutant| &mutant.caught_by)
            .collect();

        let declared: BTreeSet<_> = test.assertions.iter().collect();
        if caught != declared {
            wrong.push(format!(
                "{}: mutants are caught by {caught:?}, it asserts {declared:?}",
                test.id
            ));
        }

        let names: BTreeSet<_> = test.mutants.iter().map(|mutant| mutant.name).collect();
        assert_eq!(names.len(), test.mutants.len(), "mutants of {}", test.id);
    }

    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The numbers of the steps in the order in which they are first taken.
fn steps(id: &str) -> Vec<String> {
    let mut numbers = Vec::new();
    for recorded in on(id, None).entries {
        if let Entry::Step { number, .. } = recorded.entry
            && !numbers.contains(&number)
        {
            numbers.push(number);
        }
    }
    numbers
}

#[test]
fn every_step_of_a_document_is_taken_in_its_order() {
    let numbers = |to: u32| (1..=to).map(|n| n.to_string());
    let init = |to: u32| (1..=to).map(|n| format!("init.{n}"));
    let due: Vec<_> = init(2).chain(numbers(13)).collect();
    assert_eq!(steps("C09_060_09"), due);

    let mut due: Vec<_> = init(3).chain(numbers(13)).collect();
    let six = due.iter().position(|number| number == "6").expect("step 6");
    due.splice(six + 1..six + 1, (1..=7).map(|n| format!("6.{n}")));
    assert_eq!(steps("C09_142_01"), due);

    let due: Vec<_> = ["init".to_owned()].into_iter().chain(numbers(24)).collect();
    assert_eq!(steps("C14_024_06_CA_04"), due);
}

#[test]
fn keys_of_both_ports_are_tried_in_each_direction() {
    // C14-24.1.1: steps 7 and 16 once for each of two pairs of ports
    let entries = on("C14_024_06_CA_04", None).entries;
    let requests: Vec<&str> = entries
        .iter()
        .filter_map(|recorded| match &recorded.entry {
            Entry::Step { number, text } if number == "7" || number == "16" => Some(text.as_str()),
            _ => None,
        })
        .collect();

    let due = [
        ("SubnSet", "port 1, AttributeModifier 2"),
        ("SubnGet", "port 1, AttributeModifier 2"),
        ("SubnSet", "port 2, AttributeModifier 1"),
        ("SubnGet", "port 2, AttributeModifier 1"),
    ];
    assert_eq!(requests.len(), due.len());
    for (text, (method, ports)) in requests.iter().zip(due) {
        assert!(text.contains(method) && text.contains(ports), "{text}");
    }
}

#[test]
fn each_has_its_counterpart_that_reads_the_document_by_the_specification() {
    let suite = suite::all();
    for test in as_written::all() {
        let other = suite.iter().find(|other| other.id == test.id);
        let other = other.unwrap_or_else(|| panic!("no {} in the suite", test.id));
        assert!(test.title.starts_with("as written"), "{}", test.title);
        assert!(!other.title.starts_with("as written"), "{}", other.title);
        assert_eq!(test.family, other.family, "{}", test.id);
    }
    assert!(
        suite
            .iter()
            .all(|test| !test.title.starts_with("as written"))
    );
}
