//! A run of one test as the test sees it: steps, checks, and the ways to stop.
//!
//! What is recorded here becomes the report. Nothing is printed here.

use serde::{Deserialize, Deserializer, Serialize};
use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Why a test ended before its last step.
#[derive(Debug)]
pub enum Stop {
    /// An assertion failed; it is recorded.
    Failed,
    /// The test is not for this device, and why.
    NotApplicable(String),
    /// A bound in real time was missed while the machine stood still; it is recorded. The test is
    /// to be run again.
    Inconclusive(String),
    /// What could be reached was right, but not all that the test is about could be, and why.
    Incomplete(String),
    /// The tester or the way to the device failed: neither good nor bad is known of the device.
    Broken(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Stop {
        Stop::Broken(error)
    }
}

/// How a body ends.
pub type Outcome<T = ()> = Result<T, Stop>;

/// What is known of a test or an assertion at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Everything was as it must be.
    #[serde(rename = "PASS")]
    Pass,
    /// Something was not.
    #[serde(rename = "FAIL")]
    Fail,
    /// It is not for this device, or was not reached.
    #[serde(rename = "N/A")]
    NotApplicable,
    /// Nothing was wrong, but not everything that the test is about could be reached.
    #[serde(rename = "INCONCLUSIVE")]
    Inconclusive,
    /// The tester failed, or the machine stood still each time: nothing is known of the device.
    #[serde(rename = "ERROR")]
    Error,
}

impl Verdict {
    /// As reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "PASS",
            Verdict::Fail => "FAIL",
            Verdict::NotApplicable => "N/A",
            Verdict::Inconclusive => "INCONCLUSIVE",
            Verdict::Error => "ERROR",
        }
    }
}

/// What happened, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Entry {
    /// A step of the test's description began.
    Step {
        /// Its number there, `6.2`.
        number: String,
        /// What it says.
        text: String,
    },
    /// Something worth knowing that decides nothing.
    Note {
        /// What.
        text: String,
    },
    /// An assertion was checked.
    Check {
        /// Its name.
        assertion: String,
        /// Whether it held.
        held: bool,
        /// What was seen against what was due; of checks that held, empty.
        seen: String,
    },
    /// An assertion is not for this device.
    NotApplicable {
        /// Its name.
        assertion: String,
        /// Why.
        reason: String,
    },
    /// An assertion could not be decided, since the machine stood still: not in this run of the
    /// test, or, where it stands before the first step, not in an earlier one.
    Inconclusive {
        /// Its name.
        assertion: String,
        /// What was seen, and for how long the machine stood still.
        seen: String,
    },
}

/// An entry and when it was made, as far as the rig knows: entries that are made between two of its
/// steps have the time of the former.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// On the rig's clock.
    #[serde(serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub at: Duration,
    /// How many packets of the trace were sent or seen before.
    pub after_packets: usize,
    /// What.
    #[serde(flatten)]
    pub entry: Entry,
}

/// How far a rig has come: its clock, and how many packets its trace has. Rig and run share it, so
/// that entries know it.
#[derive(Clone, Debug, Default)]
pub struct Progress(Rc<Cell<(Duration, usize)>>);

impl Progress {
    /// The rig has done something.
    pub fn set(&self, now: Duration, packets: usize) {
        self.0.set((now, packets));
    }
}

/// Hears of entries as they are made: a progress line, say.
pub type Listener = Box<dyn FnMut(&Entry)>;

/// A run of a test.
pub struct Run {
    entries: Vec<Recorded>,
    listener: Listener,
    progress: Progress,
}

impl Run {
    /// A run that `listener` hears of.
    pub fn new(listener: Listener) -> Run {
        Run {
            entries: Vec::new(),
            listener,
            progress: Progress::default(),
        }
    }

    /// Where its rig says how far it has come.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// A step begins. `number` is that of the test's description, where there is one.
    pub fn step(&mut self, number: impl ToString, text: impl ToString) {
        self.record(Entry::Step {
            number: number.to_string(),
            text: text.to_string(),
        });
    }

    /// Something worth knowing.
    pub fn note(&mut self, text: impl ToString) {
        self.record(Entry::Note {
            text: text.to_string(),
        });
    }

    /// Decides an assertion, once or many times; `seen` says what was seen against what was due,
    /// and is asked for only when `held` is not true.
    ///
    /// # Errors
    /// [`Stop::Failed`] if it did not hold: pass it on with `?`.
    pub fn check(
        &mut self,
        assertion: impl ToString,
        held: bool,
        seen: impl FnOnce() -> String,
    ) -> Outcome {
        self.record(Entry::Check {
            assertion: assertion.to_string(),
            held,
            seen: if held { String::new() } else { seen() },
        });
        if held { Ok(()) } else { Err(Stop::Failed) }
    }

    /// Decides that two values are the same.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_eq<T: PartialEq + std::fmt::Debug>(
        &mut self,
        assertion: impl ToString,
        what: &str,
        seen: T,
        due: T,
    ) -> Outcome {
        self.check(assertion, seen == due, || {
            format!("{what} is {seen:x?}, must be {due:x?}")
        })
    }

    /// Decides a bound in real time, which was missed by so much (0: it was kept), while the
    /// machine stood still for `stalled`. If that is as much it may be the machine's doing, and
    /// nothing is known.
    ///
    /// # Errors
    /// [`Stop::Failed`] or [`Stop::Inconclusive`] if it was missed: pass it on with `?`.
    pub fn check_bound(
        &mut self,
        assertion: impl ToString,
        missed_by: Duration,
        stalled: Duration,
        seen: impl FnOnce() -> String,
    ) -> Outcome {
        if missed_by.is_zero() || stalled < missed_by {
            return self.check(assertion, missed_by.is_zero(), seen);
        }
        let seen = format!("{}; {}", seen(), stood_still(stalled));
        Err(self.inconclusive(assertion.to_string(), seen))
    }

    /// Takes back that the last assertion failed: the machine stood still for longer than the
    /// tester may.
    pub(crate) fn withdraw(&mut self, stalled: Duration) -> Stop {
        match self.entries.pop() {
            Some(Recorded {
                entry:
                    Entry::Check {
                        assertion,
                        held: false,
                        seen,
                    },
                ..
            }) => self.inconclusive(assertion, format!("{seen}; {}", stood_still(stalled))),
            entry => {
                self.entries.extend(entry);
                Stop::Failed
            }
        }
    }

    /// Forgets everything but what was inconclusive: the test begins anew.
    pub(crate) fn begin_anew(&mut self) {
        self.entries
            .retain(|recorded| matches!(recorded.entry, Entry::Inconclusive { .. }));
        for recorded in &mut self.entries {
            (recorded.at, recorded.after_packets) = (Duration::ZERO, 0);
        }
        self.progress.set(Duration::ZERO, 0);
    }

    /// Nothing is known of an assertion in this run, for what the machine did.
    pub(crate) fn inconclusive(&mut self, assertion: String, seen: String) -> Stop {
        let why = format!("{assertion}: {seen}");
        self.record(Entry::Inconclusive { assertion, seen });
        Stop::Inconclusive(why)
    }

    /// An assertion is not for this device.
    pub fn not_applicable(&mut self, assertion: impl ToString, reason: impl ToString) {
        self.record(Entry::NotApplicable {
            assertion: assertion.to_string(),
            reason: reason.to_string(),
        });
    }

    /// Everything recorded.
    pub fn into_entries(self) -> Vec<Recorded> {
        self.entries
    }

    fn record(&mut self, entry: Entry) {
        (self.listener)(&entry);
        let (at, after_packets) = self.progress.0.get();
        self.entries.push(Recorded {
            at,
            after_packets,
            entry,
        });
    }
}

fn stood_still(stalled: Duration) -> String {
    format!("meanwhile the machine stood still for {stalled:?}")
}

/// The end of an assertion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssertionResult {
    /// Its name.
    pub id: String,
    /// PASS, FAIL or N/A.
    pub result: Verdict,
    /// Why, if not PASS.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The end of a test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TestResult {
    /// Its name.
    pub id: String,
    /// Its family.
    pub family: String,
    /// Its title.
    pub title: String,
    /// Its statements.
    pub statements: Vec<String>,
    /// PASS, FAIL, N/A, INCONCLUSIVE or ERROR.
    pub result: Verdict,
    /// Why, if not PASS.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Every assertion that it declares.
    pub assertions: Vec<AssertionResult>,
    /// What happened.
    pub entries: Vec<Recorded>,
    /// How long it took on the rig's clock.
    #[serde(
        rename = "seconds",
        serialize_with = "seconds",
        deserialize_with = "from_seconds"
    )]
    pub time: Duration,
    /// Where its packets are, if they were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<PathBuf>,
}

fn seconds<S: serde::Serializer>(time: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_f64(time.as_secs_f64())
}

fn from_seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(from)?;
    Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)
}
