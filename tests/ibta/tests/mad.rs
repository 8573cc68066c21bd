//! The tests of the management agents in virtual time: each passes on a sound device and catches each of its mutants.

use ferroce_ibta::catalog::{self, Body, Make};
use ferroce_ibta::execute::execute;
use ferroce_ibta::run::Verdict;
use ferroce_ibta::sim::SimBackend;

#[test]
fn sound_devices_pass_and_mutants_are_caught() {
    let mut failures = Vec::new();
    let mut count = 0;
    for test in catalog::all() {
        if !matches!(test.body, Body::Mad(_)) {
            continue;
        }
        let run = |mad_faults| {
            let mut backend = SimBackend {
                mad_faults,
                ..SimBackend::default()
            };
            execute(&test, &mut backend, Box::new(|_| {})).0
        };
        let sound = run(None);
        if sound.result != Verdict::Pass {
            failures.push(format!("{}: {:?} {}", test.id, sound.result, sound.reason));
            continue;
        }
        for mutant in &test.mutants {
            let Make::Mad(make) = &mutant.make else {
                panic!("{} has a mutant of another device", test.id);
            };
            count += 1;
            let result = run(Some(make()));
            let caught = result.result == Verdict::Fail
                && result.reason.starts_with(&format!("{}:", mutant.caught_by));
            if !caught {
                failures.push(format!(
                    "{} on {}: {:?} {}, must fail by {}",
                    test.id, mutant.name, result.result, result.reason, mutant.caught_by
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 0);
}
