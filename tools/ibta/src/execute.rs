//! Runs a test on a backend and says how it ended.

use crate::audit::{Audited, COMPLETIONS, MADS, PACKETS};
use crate::catalog::{Body, Test};
use crate::mad;
use crate::rig::{Backend, MadRig, TransportRig};
use crate::run::{
    AssertionResult, Entry, Listener, Outcome, Recorded, Run, Stop, TestResult, Verdict,
};
use crate::trace::Trace;
use crate::watch::Watched;
use std::time::Duration;

/// How often a test is run at most while the machine stands still in each.
pub const ATTEMPTS: u32 = 5;

/// Runs a test on a fresh rig, and on another if that was inconclusive. The packets of the last run
/// are given too.
pub fn execute(test: &Test, backend: &mut dyn Backend, listener: Listener) -> (TestResult, Trace) {
    let mut run = Run::new(listener);
    let mut time = Duration::ZERO;
    let mut attempt = 1;
    loop {
        let (outcome, took, trace) = carry_out(test, backend, &mut run);
        time += took;
        if !matches!(outcome, Err(Stop::Inconclusive(_))) || attempt == ATTEMPTS {
            let mut entries = run.into_entries();
            let trace = trace.in_order(entries.iter_mut().map(|entry| &mut entry.after_packets));
            return (conclude(test, outcome, entries, time), trace);
        }
        attempt += 1;
        run.begin_anew();
    }
}

fn carry_out(test: &Test, backend: &mut dyn Backend, run: &mut Run) -> (Outcome, Duration, Trace) {
    let nothing = |error| (Err(Stop::Broken(error)), Duration::ZERO, Trace::default());
    match &test.body {
        Body::Transport(body) => match backend.transport() {
            Ok(rig) => {
                let mut rig = Audited::new(rig, run.progress());
                let outcome = body(run, &mut rig);
                let outcome = outcome.and_then(|()| rig.conclude(run));
                let time = rig.now();
                let outcome = excused(test, run, outcome, rig.stalled(Duration::ZERO, time));
                (outcome, time, rig.trace().clone())
            }
            Err(error) => nothing(error),
        },
        Body::Mad(body) => match backend.mad(test.ports.max(test.tried_on), test.lanes) {
            Ok(rig) => {
                let mut rig = Watched::new(rig, run.progress());
                let outcome = mad::reach(&mut rig, test.ports).and_then(|()| body(run, &mut rig));
                let outcome = rig.conclude(run, outcome);
                let time = rig.now();
                let outcome = excused(test, run, outcome, rig.stalled(Duration::ZERO, time));
                (outcome, time, rig.trace().clone())
            }
            Err(stop) => (Err(stop), Duration::ZERO, Trace::default()),
        },
    }
}

/// A test in which the tester must not dawdle has failed for no fault of the device's, maybe, if
/// the machine made it dawdle.
fn excused(test: &Test, run: &mut Run, outcome: Outcome, stalled: Duration) -> Outcome {
    match (outcome, test.hurries) {
        (Err(Stop::Failed), Some(slack)) if stalled >= slack => Err(run.withdraw(stalled)),
        (outcome, _) => outcome,
    }
}

/// Draws the conclusions. A test that passes must have decided each assertion that it declares, and
/// no other.
fn conclude(test: &Test, outcome: Outcome, entries: Vec<Recorded>, time: Duration) -> TestResult {
    let stood_still = matches!(outcome, Err(Stop::Inconclusive(_)));
    let (mut result, mut reason) = match outcome {
        Ok(()) => (Verdict::Pass, String::new()),
        Err(Stop::Failed) => (Verdict::Fail, String::new()),
        Err(Stop::NotApplicable(reason)) => (Verdict::NotApplicable, reason),
        Err(Stop::Incomplete(reason)) => (Verdict::Inconclusive, reason),
        Err(Stop::Inconclusive(why)) => {
            let reason = format!("the machine stood still in each of {ATTEMPTS} runs: {why}");
            (Verdict::Error, reason)
        }
        Err(Stop::Broken(error)) => (Verdict::Error, format!("{error:#}")),
    };

    let (mut assertions, undeclared) = decided(test, &entries, stood_still);
    if let Some(id) = undeclared {
        result = Verdict::Error;
        reason = format!("{id} is decided, but not declared");
    }

    match result {
        Verdict::Fail => {
            if let Some(failed) = assertions.iter().find(|a| a.result == Verdict::Fail) {
                reason = format!("{}: {}", failed.id, failed.reason);
            }
        }
        // A check that was made and not passed on would go unheard.
        Verdict::Pass | Verdict::Inconclusive
            if assertions.iter().any(|a| a.result == Verdict::Fail) =>
        {
            result = Verdict::Error;
            reason = "an assertion failed and the test went on".to_owned();
        }
        Verdict::Pass => {
            let open = assertions
                .iter()
                .find(|a| a.result == Verdict::NotApplicable && a.reason.is_empty());
            if let Some(open) = open {
                result = Verdict::Error;
                reason = format!("{} was never decided", open.id);
            }
        }
        Verdict::NotApplicable | Verdict::Inconclusive | Verdict::Error => {}
    }

    for open in &mut assertions {
        if open.result == Verdict::NotApplicable && open.reason.is_empty() {
            open.reason = match result {
                Verdict::NotApplicable | Verdict::Inconclusive => reason.clone(),
                _ => "not reached".to_owned(),
            };
        }
    }

    TestResult {
        id: test.id.clone(),
        family: test.family.to_owned(),
        title: test.title.clone(),
        statements: test.statements.clone(),
        result,
        reason,
        assertions,
        entries,
        time,
        packets: None,
    }
}

/// What the entries of a run decide of each assertion that the test declares, and the last that
/// they decide and it does not declare. Of runs of a machine that `stood_still` nothing is
/// concluded.
fn decided(
    test: &Test,
    entries: &[Recorded],
    stood_still: bool,
) -> (Vec<AssertionResult>, Option<String>) {
    let mut undeclared = None;
    let mut assertions: Vec<AssertionResult> = test
        .assertions
        .iter()
        .map(|id| AssertionResult {
            id: id.clone(),
            result: Verdict::NotApplicable,
            reason: String::new(),
        })
        .collect();

    for recorded in entries {
        let (id, verdict, why) = match &recorded.entry {
            Entry::Check {
                assertion,
                held: true,
                ..
            } => (assertion, Verdict::Pass, ""),
            Entry::Check {
                assertion, seen, ..
            } => (assertion, Verdict::Fail, seen.as_str()),
            Entry::NotApplicable { assertion, reason } => {
                (assertion, Verdict::NotApplicable, reason.as_str())
            }
            // Of runs before the last one nothing is concluded.
            Entry::Inconclusive { assertion, seen } if stood_still => {
                (assertion, Verdict::NotApplicable, seen.as_str())
            }
            _ => continue,
        };

        match assertions.iter_mut().find(|known| known.id == *id) {
            Some(known) if known.result != Verdict::Fail => {
                known.result = verdict;
                known.reason = why.to_owned();
            }
            Some(_) => {}
            // Whatever the test is about.
            None if [COMPLETIONS, PACKETS, MADS].contains(&id.as_str()) => {
                assertions.push(AssertionResult {
                    id: id.clone(),
                    result: verdict,
                    reason: why.to_owned(),
                })
            }
            None => {
                undeclared = Some(id.clone());
            }
        }
    }

    (assertions, undeclared)
}
