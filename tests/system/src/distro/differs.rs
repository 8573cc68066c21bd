//! What fails in a distribution for reasons that are upstream's, as data: which program or test,
//! where, what is seen, and the commit that mended it. That it still fails in this way is checked:
//! what passes has to be taken out, unless it fails now and then only.

use super::Distribution;
use crate::harness::case::{Ending, Stop};

/// One such thing.
pub(super) struct Differs {
    /// The name of the test, or its beginning where it ends in `*`.
    pub name: &'static str,
    /// The mirror's names of the distributions.
    pub suites: &'static [&'static str],
    /// Parts of what is seen, of the failure or of what the programs say: all of them.
    pub says: &'static [&'static str],
    /// It fails now and then.
    pub seldom: bool,
    /// Why it fails.
    pub why: &'static str,
    /// What mended it: project and commit or release.
    pub mended: &'static str,
}

/// All that is known.
const DIFFERS: &[Differs] = &[
    Differs {
        name: "test_rdmacm.CMTestCase.test_rdmacm_async_multicast_traffic",
        suites: &["bullseye"],
        says: &[OWN_PACKETS_SAY],
        seldom: false,
        why: OWN_PACKETS,
        mended: OWN_PACKETS_MENDED,
    },
    Differs {
        name: "test_rdmacm.CMTestCase.test_rdmacm_async_ex_multicast_traffic",
        suites: &["bullseye"],
        says: &[OWN_PACKETS_SAY],
        // Which of the two packets is seen first is a matter of time.
        seldom: true,
        why: OWN_PACKETS,
        mended: OWN_PACKETS_MENDED,
    },
    Differs {
        name: "test_device.DMTest.test_multi_process_alloc_dm",
        suites: &["sid"],
        says: &["cannot be converted to a Python object for pickling"],
        seldom: false,
        why: "from Python 3.14 on multiprocessing does not fork unless asked to, which this test (c6ab85dff) does not",
        mended: "nothing yet: not in rdma-core's ce466b337 of August 2026",
    },
    Differs {
        name: "rping*",
        suites: &["sid"],
        // The last of twenty round trips has been made.
        says: &["client: killed after", "out of time", "rdma-ping-19"],
        seldom: true,
        why: "since f3ae6534a it joins the thread that polls for events and then waits for one, which rdma_destroy_id may have taken back in between",
        mended: "nothing yet: not in rdma-core's 691953d8d of August 2026",
    },
];

const OWN_PACKETS: &str =
    "both ends send to the group that they have joined, and take their own packet for the other's";
/// What the suite makes of the message in which the end says so: it expects two values.
const OWN_PACKETS_SAY: &str = "too many values to unpack";
const OWN_PACKETS_MENDED: &str =
    "rdma-core 7d311d535, one direction (release 44); the message: a344e834f (34)";

/// What an ending is worth in a distribution: a failure as listed passes, one that is missing is a
/// failure.
pub(crate) fn known(distribution: Distribution, name: &str, ending: Ending) -> Ending {
    judge(DIFFERS, distribution, name, ending)
}

fn judge(list: &[Differs], distribution: Distribution, name: &str, ending: Ending) -> Ending {
    let listed = |differs: &&Differs| {
        differs.suites.contains(&distribution.suite) && matches(differs.name, name)
    };
    let Some(differs) = list.iter().find(listed) else {
        return ending;
    };

    let Differs { why, mended, .. } = differs;
    match ending {
        Ok(()) if differs.seldom => Ok(()),
        Ok(()) => Err(Stop::fail(format!(
            "passes, and is listed as failing ({why}; mended by {mended}): take it out of differs.rs"
        ))),
        Err(Stop::Fail(failure)) => {
            let seen = |part: &&str| {
                let by_command = |command: &crate::harness::process::Finished| {
                    let said = [&command.out, &command.err, &command.ending()];
                    said.iter().any(|text| text.contains(part))
                };
                failure.what.contains(part) || failure.commands.iter().any(by_command)
            };
            if differs.says.iter().all(seen) {
                return Ok(());
            }

            let what = format!("fails otherwise than listed ({why}): {}", failure.what);
            Err(Stop::Fail(crate::harness::case::Failure {
                what,
                ..failure
            }))
        }
        skipped => skipped,
    }
}

/// Whether a name is meant by a pattern.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distro::{DEBIAN_13, DISTRIBUTIONS};

    const LIST: &[Differs] = &[
        Differs {
            name: "ib_read_bw *",
            suites: &["trixie"],
            says: &["ret=95"],
            seldom: false,
            why: "asks for a function of one vendor",
            mended: "release 2",
        },
        Differs {
            name: "rping",
            suites: &["trixie"],
            says: &["out of time", "last"],
            seldom: true,
            why: "waits for what has gone",
            mended: "nothing yet",
        },
    ];

    fn fails(ending: Ending) -> bool {
        matches!(ending, Err(Stop::Fail(_)))
    }

    #[test]
    fn what_is_listed_must_fail_as_it_says() {
        let judged = |name, ending| judge(LIST, DEBIAN_13, name, ending);
        assert!(judged("ib_read_bw -n 5", Err(Stop::fail("Failed, ret=95"))).is_ok());
        assert!(fails(judged(
            "ib_read_bw -n 5",
            Err(Stop::fail("signal 11"))
        )));
        assert!(fails(judged("ib_read_bw -n 5", Ok(()))));
    }

    #[test]
    fn what_fails_now_and_then_may_pass_and_fails_in_no_other_way() {
        let judged = |ending| judge(LIST, DEBIAN_13, "rping", ending);
        assert!(judged(Ok(())).is_ok());
        assert!(judged(Err(Stop::fail("the last one, then out of time"))).is_ok());
        assert!(fails(judged(Err(Stop::fail("out of time")))));
        assert!(fails(judged(Err(Stop::fail(
            "the last one, then signal 11"
        )))));
    }

    #[test]
    fn what_is_not_listed_is_what_it_is() {
        let failed = || Err(Stop::fail("Failed, ret=95"));
        assert!(fails(judge(LIST, DEBIAN_13, "ib_read_lat -n 5", failed())));
        assert!(fails(judge(
            LIST,
            DISTRIBUTIONS[0],
            "ib_read_bw -n 5",
            failed()
        )));
        assert!(judge(LIST, DISTRIBUTIONS[0], "ib_read_bw -n 5", Ok(())).is_ok());
    }

    #[test]
    fn the_list_names_distributions_that_there_are() {
        for differs in DIFFERS {
            assert!(!differs.says.is_empty() && !differs.mended.is_empty());
            for suite in differs.suites {
                let known = DISTRIBUTIONS.iter().any(|known| known.suite == *suite);
                assert!(known, "{}: {suite}", differs.name);
            }
        }
    }
}
