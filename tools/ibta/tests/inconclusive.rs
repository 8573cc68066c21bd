//! Bounds in real time on a machine that stands still now and then: what is a late device's fault,
//! what may be the machine's, and what is nobody's business but the device's however still the
//! machine stood.

use anyhow::Result;
use ferroce_ibta::execute::{ATTEMPTS, execute};
use ferroce_ibta::packet::{RxPacket, TxPacket};
use ferroce_ibta::protocol::{AddressVector, Command, Reply};
use ferroce_ibta::report::text;
use ferroce_ibta::rig::Backend;
use ferroce_ibta::run::{Entry, Recorded, TestResult, Verdict};
use ferroce_ibta::sim::{Faults, SimTransport};
use ferroce_ibta::trace::Trace;
use ferroce_ibta::{MadRig, Stop, Test, TransportRig, suite};
use std::time::Duration;

/// T_tr of the tests that are run here.
const T: Duration = Duration::from_nanos(4096 << 14);

/// Simulated devices on a machine that stands still from one time of each run to another.
struct Machine<F> {
    still: (Duration, Duration),
    /// The device of each run, counted from 1.
    device: F,
    runs: u32,
}

impl<F: FnMut(u32) -> Faults> Backend for Machine<F> {
    fn transport(&mut self) -> Result<Box<dyn TransportRig + '_>> {
        self.runs += 1;
        Ok(Box::new(Rig {
            rig: SimTransport::new((self.device)(self.runs)),
            still: self.still,
        }))
    }

    fn mad(&mut self, _ports: u8, _lanes: u8) -> Result<Box<dyn MadRig + '_>, Stop> {
        Err(Stop::NotApplicable("no cables".to_owned()))
    }
}

struct Rig {
    rig: SimTransport,
    still: (Duration, Duration),
}

impl TransportRig for Rig {
    fn now(&self) -> Duration {
        self.rig.now()
    }

    fn path(&self) -> AddressVector {
        self.rig.path()
    }

    fn port(&self) -> u8 {
        self.rig.port()
    }

    fn mtu(&self) -> u32 {
        self.rig.mtu()
    }

    fn transmit(&mut self, packet: &TxPacket) -> Result<()> {
        self.rig.transmit(packet)
    }

    fn receive(&mut self, within: Duration) -> Result<Option<RxPacket>> {
        self.rig.receive(within)
    }

    fn command(&mut self, command: &Command) -> Result<Reply> {
        self.rig.command(command)
    }

    fn sleep(&mut self, time: Duration) -> Result<()> {
        self.rig.sleep(time)
    }

    fn trace(&self) -> &Trace {
        self.rig.trace()
    }

    fn stalled(&self, from: Duration, to: Duration) -> Duration {
        let (begin, end) = self.still;
        end.min(to).saturating_sub(begin.max(from))
    }
}

fn test(id: &str) -> Test {
    let test = suite::all().into_iter().find(|test| test.id == id);
    test.expect("a test of the catalogue")
}

/// Runs a test; how it ended, and in how many runs.
fn run_test(
    test: &Test,
    still: (Duration, Duration),
    device: impl FnMut(u32) -> Faults,
) -> (TestResult, u32) {
    let mut machine = Machine {
        still,
        device,
        runs: 0,
    };
    let (result, _) = execute(test, &mut machine, Box::new(|_| {}));
    (result, machine.runs)
}

fn run(
    id: &str,
    still: (Duration, Duration),
    device: impl FnMut(u32) -> Faults,
) -> (TestResult, u32) {
    run_test(&test(id), still, device)
}

const NEVER: (Duration, Duration) = (Duration::ZERO, Duration::ZERO);

/// Sends again after 4.2 T_tr at the earliest, and before 5 T_tr.
fn late() -> Faults {
    let mut sent = 0;
    Faults::default().tx(move |packet| {
        sent += 1;
        let delay = if sent > 1 {
            T * 22 / 10
        } else {
            Duration::ZERO
        };
        vec![(delay, packet)]
    })
}

fn seen(recorded: &Recorded) -> Option<&str> {
    match &recorded.entry {
        Entry::Inconclusive { seen, .. } => Some(seen),
        _ => None,
    }
}

fn inconclusive(result: &TestResult) -> Vec<&str> {
    result.entries.iter().filter_map(seen).collect()
}

#[test]
fn a_device_that_is_late_on_a_machine_that_ran_fails_at_once() {
    let (result, runs) = run("C09_142_SEND", NEVER, |_| late());
    assert_eq!(
        (result.result, runs),
        (Verdict::Fail, 1),
        "{}",
        result.reason
    );
    assert!(
        result.reason.contains("sent again after"),
        "{}",
        result.reason
    );
    assert!(inconclusive(&result).is_empty());
}

#[test]
fn a_machine_that_stood_still_at_another_time_or_for_less_is_no_excuse() {
    let second = Duration::from_secs(1);
    for still in [(5 * second, 6 * second), (T, T + Duration::from_millis(5))] {
        let (result, runs) = run("C09_142_SEND", still, |_| late());
        assert_eq!((result.result, runs), (Verdict::Fail, 1), "{still:?}");
    }
}

#[test]
fn a_device_that_is_late_whenever_the_machine_stands_still_is_neither_good_nor_bad() {
    let (result, runs) = run("C09_142_SEND", (T, 2 * T), |_| late());
    assert_eq!((result.result, runs), (Verdict::Error, ATTEMPTS));
    assert!(
        result.reason.starts_with("the machine stood still"),
        "{}",
        result.reason
    );

    let seen = inconclusive(&result);
    assert_eq!(seen.len(), ATTEMPTS as usize);
    assert!(
        seen[0].contains("sent again after") && seen[0].contains(&format!("{T:?}")),
        "{}",
        seen[0]
    );

    let assertion = &result.assertions[0];
    assert_eq!(assertion.result, Verdict::NotApplicable);
    assert!(
        assertion.reason.contains("stood still"),
        "{}",
        assertion.reason
    );
}

#[test]
fn a_test_that_was_inconclusive_is_run_again_from_the_start_and_says_so() {
    let (result, runs) = run("C09_142_SEND", (T, 2 * T), |run| match run {
        1 | 2 => late(),
        _ => Faults::default(),
    });

    assert_eq!(
        (result.result, runs),
        (Verdict::Pass, 3),
        "{}",
        result.reason
    );

    assert_eq!(inconclusive(&result).len(), 2);
    let steps = |wanted: &str| {
        let is = |recorded: &&Recorded| matches!(&recorded.entry, Entry::Step { number, .. } if number == wanted);
        result.entries.iter().filter(is).count()
    };

    assert_eq!(
        (steps("1"), steps("4")),
        (1, 1),
        "the last run is told, and it alone"
    );

    let (line, details) = (text::line(&result), text::details(&result));
    assert!(
        line.starts_with("PASS") && line.matches("inconclusive").count() == 2,
        "{line}"
    );

    assert!(
        details.contains("inconclusive: sent again after"),
        "{details}"
    );
}

#[test]
fn what_was_inconclusive_may_fail_when_it_is_run_again() {
    let (result, runs) = run("C09_142_SEND", (T, 2 * T), |run| match run {
        1 => late(),
        _ => Faults::default().clock(3.0),
    });
    assert_eq!(
        (result.result, runs),
        (Verdict::Fail, 2),
        "{}",
        result.reason
    );
    assert_eq!(inconclusive(&result).len(), 1);
}

#[test]
fn nothing_at_all_is_no_lateness() {
    let (result, runs) = run("C09_142_SEND", (T, 2 * T), |_| {
        let mut sent = false;
        Faults::default().tx_drop(move |_| std::mem::replace(&mut sent, true))
    });

    assert_eq!(
        (result.result, runs),
        (Verdict::Fail, 1),
        "{}",
        result.reason
    );

    assert!(
        result.reason.contains("nothing was sent again"),
        "{}",
        result.reason
    );
}

/// A tester that is slow makes a device send again what it would not have: only where a test must
/// hurry.
#[test]
fn a_tester_that_had_to_hurry_and_could_not_is_inconclusive() {
    // Each SEND may be sent again once; its answer is lost, as if the tester had been too slow with
    // it.
    let slow = || {
        let mut answered = false;
        Faults::default().rx_drop(move |_| !std::mem::replace(&mut answered, true))
    };

    let id = "C09_143_RESTORED";
    let (result, runs) = run(id, NEVER, |_| slow());
    assert_eq!(
        (result.result, runs),
        (Verdict::Fail, 1),
        "{}",
        result.reason
    );

    let (result, runs) = run(id, (T, T + T / 2), |_| slow());
    assert_eq!(
        (result.result, runs),
        (Verdict::Fail, 1),
        "less than it had"
    );

    let (result, runs) = run(id, (T, 2 * T), |_| slow());
    assert_eq!((result.result, runs), (Verdict::Error, ATTEMPTS));
    assert!(
        result
            .assertions
            .iter()
            .all(|assertion| assertion.result != Verdict::Fail)
    );

    let (result, runs) = run(id, (T, 2 * T), |run| match run {
        1 => slow(),
        _ => Faults::default(),
    });

    assert_eq!(
        (result.result, runs),
        (Verdict::Pass, 2),
        "{}",
        result.reason
    );
}

/// What time has nothing to do with fails at once, however still the machine stood; and a machine
/// that stood still changes nothing for a sound device.
#[test]
fn only_time_is_excused() {
    let always = (Duration::ZERO, Duration::from_secs(1000));
    let mut caught = 0;
    for test in suite::all() {
        if test.hurries.is_some() || !matches!(test.body, ferroce_ibta::Body::Transport(_)) {
            continue;
        }

        for mutant in &test.mutants {
            let ferroce_ibta::catalog::Make::Transport(make) = &mutant.make else {
                continue;
            };
            if mutant.name == "too-late" {
                continue;
            }

            let (result, runs) = run_test(&test, always, |_| make());
            assert_eq!(
                (result.result, runs),
                (Verdict::Fail, 1),
                "{} on {}: {}",
                test.id,
                mutant.name,
                result.reason
            );

            caught += 1;
        }

        let (result, runs) = run_test(&test, always, |_| Faults::default());
        assert_eq!((result.result, runs), (Verdict::Pass, 1), "{}", test.id);
    }

    assert!(caught > 300, "{caught}");
}
