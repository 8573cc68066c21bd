//! A distribution's own copy of rdma-core's test suite, run where it is shipped.

use std::path::Path;
use std::time::Duration;

use super::{Distribution, known};
use crate::harness::case::{Ending, Parts, Stop};
use crate::harness::process;
use crate::harness::skips::Machine;
use crate::harness::unittest::{self, Outcome, Verdict};
use crate::lab::host::Host;
use crate::lab::huge::HugePages;

const LIMIT: Duration = Duration::from_secs(900);

/// Lays the suite out as it wants to be, without the tests of vendors' devices.
const UNPACK: &str = "
set -e
mkdir /tmp/suite
for shipped in /usr/share/doc/rdma-core/tests /usr/share/doc/python3-pyverbs/tests; do
    [ ! -d $shipped ] || cp -r $shipped /tmp/suite/tests
done
cd /tmp/suite/tests
gunzip -q *.gz
rm -f test_mlx5* test_efa* test_cuda* test_irdma* test_mana*
test -e run_tests.py
";

/// What the suite says where it skips a test, and why that is all right.
const SKIPS: &[(&str, &str)] = &[
    ("Create QP type 8 is not supported", RAW_PACKETS),
    ("Create Raw Packet QP with attrs", RAW_PACKETS),
    ("Create Raw Packet QP with extended attrs", RAW_PACKETS),
    ("Create Raw Packet QP without attrs", RAW_PACKETS),
    ("Create Raw Packet QP without extended attrs", RAW_PACKETS),
    ("Device /dev/dri/renderD128 is not present", "needs a GPU"),
    (
        "Allocating dmabuf is not supported by /dev/dri/renderD128",
        "needs a GPU, and pyverbs built with libdrm",
    ),
    (
        "DM dmabuf export is not supported",
        "device memory for other devices on the bus: hardware",
    ),
    (
        "Failed to create DMA Handle. Errno: 95",
        "hints for the bus where data is to be cached: hardware",
    ),
    (
        "No PHC or failed to open",
        "a clock of the network interface: hardware",
    ),
    ("CC PD is not supported", CONFIDENTIAL),
    ("Device does not report CC_DMA_BOUNCE", CONFIDENTIAL),
];
const RAW_PACKETS: &str = "raw Ethernet packets: hardware";
const CONFIDENTIAL: &str =
    "memory of confidential guests, which no adapter can reach: we are in the guest";

/// A skip that is all right only where the kernel has no huge pages to give.
const NO_HUGE_PAGES: &str = "There are no huge pages of size 2M allocated";

/// Runs it; a test's skip is all right for a known reason only.
pub(crate) fn pyverbs(distribution: Distribution, host: &Host, logs: &Path) -> Parts {
    let mut unpack = host.plain("sh");
    unpack.args(["-c", UNPACK]);
    let unpacked = process::run(unpack, logs, "unpack", LIMIT)?;
    if !unpacked.success() {
        return Err(Stop::with("the suite cannot be unpacked", &[&unpacked]));
    }

    let huge = HugePages::lend();
    let mut command = host.run("env");
    command
        .args(["-C", "/tmp/suite/tests", "python3", "run_tests.py"])
        .args(["--dev", "ferroce0", "-v"]);
    let finished = process::run(command, logs, "suite", LIMIT)?;
    let machine = Machine {
        huge_pages: huge.any(),
    };
    drop(huge);
    let outcomes = unittest::read(&finished.err)
        .map_err(|what| Stop::with(format!("{}; {what}", finished.ending()), &[&finished]))?;

    // 1 says that tests failed, which their own lines say better; anything else is a crash after
    // them.
    if !matches!(finished.code(), Some(0 | 1)) {
        return Err(Stop::with(finished.ending(), &[&finished]));
    }

    Ok(outcomes
        .into_iter()
        .map(|outcome| {
            let ending = known(distribution, &outcome.name, worth(&outcome, machine));
            (outcome.name, ending)
        })
        .collect())
}

fn worth(outcome: &Outcome, machine: Machine) -> Ending {
    match &outcome.verdict {
        Verdict::Passed => Ok(()),
        Verdict::Failed(why) => Err(Stop::fail(why)),
        Verdict::Skipped(words) => Err(match reason(words, machine) {
            Some(why) => Stop::Skip(why.to_owned()),
            None => Stop::fail(format!(
                "skipped with {words:?}, for which no reason is known"
            )),
        }),
    }
}

/// Why a skip is all right.
fn reason(words: &str, machine: Machine) -> Option<&'static str> {
    if words.contains(NO_HUGE_PAGES) {
        return (!machine.huge_pages).then_some("none to be had from the kernel");
    }
    let (_, why) = SKIPS.iter().find(|(known, _)| words.contains(known))?;
    Some(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(verdict: Verdict, huge_pages: bool) -> Ending {
        let outcome = Outcome {
            name: "test_x.T.test_a".to_owned(),
            verdict,
        };
        worth(&outcome, Machine { huge_pages })
    }

    fn skipped(words: &str, huge_pages: bool) -> Ending {
        of(Verdict::Skipped(words.to_owned()), huge_pages)
    }

    #[test]
    fn a_skip_is_all_right_for_a_known_reason_only() {
        let raw = "Create Raw Packet QP without attrs is not supported";
        assert!(matches!(skipped(raw, true), Err(Stop::Skip(why)) if why == RAW_PACKETS));
        let unknown = "Create XRCD is not supported";
        assert!(matches!(skipped(unknown, true), Err(Stop::Fail(_))));
        assert!(of(Verdict::Passed, true).is_ok());
    }

    #[test]
    fn huge_pages_are_missing_only_where_there_are_none() {
        assert!(matches!(skipped(NO_HUGE_PAGES, false), Err(Stop::Skip(_))));
        assert!(matches!(skipped(NO_HUGE_PAGES, true), Err(Stop::Fail(_))));
    }
}
