//! The whole suite on the simulated device: every test passes, every mutant is caught, and nothing
//! is vacuous.

use ferroce_ibta::execute::execute;
use ferroce_ibta::generic::{self, survivors::Survivors};
use ferroce_ibta::mutate;
use ferroce_ibta::run::{Entry, Verdict};
use ferroce_ibta::sim::{Faults, MadFaults, SimBackend};
use ferroce_ibta::suite;
use ferroce_wire::smp::{NodeInfo, NoticeHeader, attribute, method, node_type};
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

/// A device that is a limited member of the partition says so in every packet, and takes those of
/// full members only.
#[test]
fn a_limited_member_of_the_partition_passes() {
    let mut wrong = Vec::new();
    for test in suite::all() {
        let faults = Faults::default()
            .p_key(0x7fff)
            .tx_edit(|packet| packet.bth.pkey = 0x7fff);
        let mut backend = SimBackend {
            faults: Some(faults),
            ..SimBackend::default()
        };
        let (result, _) = execute(&test, &mut backend, Box::new(|_| {}));
        let due = match test.id.starts_with("S09_6_1_LIMITED_MEMBER") {
            true => Verdict::NotApplicable,
            false => Verdict::Pass,
        };
        if result.result != due {
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
    for recorded in result.entries {
        if let Entry::Step { number, .. } = recorded.entry
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

/// How C14_024_06_CA_04 ends on a device whose answers to SubnGet(NodeInfo) are changed.
fn both_keys_with(change: fn(&mut NodeInfo)) -> (Verdict, String) {
    let mut tests = suite::all().into_iter();
    let test = tests
        .find(|test| test.id == "C14_024_06_CA_04")
        .expect("it is there");
    let faults = MadFaults::default().tx_edit(move |_, mad| {
        if mad.answers(attribute::NODE_INFO) {
            let mut info = NodeInfo::parse(mad.data());
            change(&mut info);
            info.emit(mad.data_mut());
        }

        // Its traps say the same.
        if mad.asks(method::TRAP, attribute::NOTICE) {
            let mut info = NodeInfo {
                node_type: node_type::CHANNEL_ADAPTER,
                ..NodeInfo::default()
            };
            change(&mut info);
            let mut fields = NoticeHeader::FIELDS.iter();
            let producer = fields.find(|field| field.name == "producer_type");
            let producer = producer.expect("a notice has it");
            producer.store(mad.data_mut(), info.node_type.into());
        }
    });

    let mut backend = SimBackend {
        mad_faults: Some(faults),
        ..SimBackend::default()
    };
    let (result, _) = execute(&test, &mut backend, Box::new(|_| {}));
    (result.result, result.reason)
}

#[test]
fn keys_of_both_ports_are_for_every_port_of_adapters_and_routers() {
    // C14-24.1.1, the test's Notes 1, 4 and 6
    let (result, why) = both_keys_with(|info| info.num_ports = 3);
    assert_eq!(result, Verdict::Inconclusive);
    assert!(
        why.contains("NumPorts is 3") && why.contains("2 of the ports"),
        "{why}"
    );
    let (result, _) = both_keys_with(|info| info.num_ports = 1);
    assert_eq!(result, Verdict::NotApplicable);
    let (result, _) = both_keys_with(|info| info.node_type = node_type::ROUTER);
    assert_eq!(result, Verdict::Pass);
    let (result, why) = both_keys_with(|info| info.node_type = node_type::SWITCH);
    assert_eq!(result, Verdict::NotApplicable);
    assert!(why.contains("NodeType is 2"), "{why}");
}
#[test]
fn generic_mutants_are_caught_by_every_test_that_they_touch() {
    let (rows, known) = (generic::matrix(&suite::all()), Survivors::known());
    let mut wrong = known.compare(&rows).err().unwrap_or_default();

    // What no test catches is no fault.
    for row in rows.iter().filter(|row| row.caught.is_empty()) {
        let reasons = row.survived.iter();
        let mut names = reasons.map(|test| known.reason(&row.name, test).unwrap_or_default());
        let excused = names.all(|name| {
            let text = known.reasons.get(name);
            text.is_some_and(|text| text.starts_with("no fault"))
        });
        if !excused {
            wrong.push(format!("{} is caught by no test", row.name));
        }
    }

    report(&wrong);
}

#[test]
fn every_assertion_is_the_target_of_a_mutant() {
    let mut wrong = Vec::new();
    for test in suite::all() {
        let written = |id: &String| test.mutants.iter().any(|mutant| mutant.caught_by == *id);
        let open: Vec<_> = test.assertions.iter().filter(|id| !written(id)).collect();
        if open.is_empty() {
            continue;
        }
        let caught = generic::answers::caught(&test);
        let missed = open.into_iter().filter(|id| !caught.contains_key(*id));
        wrong.extend(missed.map(|id| format!("{}: no device fails {id}", test.id)));
    }
    report(&wrong);
}
