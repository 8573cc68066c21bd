//! A distribution's own copy of rdma-core's test suite, run where it is shipped.

use std::path::Path;
use std::time::Duration;

use super::{Distribution, known};
use crate::case::{Ending, Stop};
use crate::host::Host;
use crate::process;
use crate::unittest::{self, Outcome, Verdict};

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
const SKIPS: &[(&str, &str)] = &[];

/// Runs it; a test's skip is all right for a known reason only.
pub fn pyverbs(
    distribution: Distribution,
    host: &Host,
    logs: &Path,
) -> Result<Vec<(String, Ending)>, Stop> {
    let mut unpack = host.plain("sh");
    unpack.args(["-c", UNPACK]);
    let unpacked = process::run(unpack, logs, "unpack", LIMIT)?;
    if !unpacked.success() {
        return Err(Stop::with("the suite cannot be unpacked", &[&unpacked]));
    }
    let mut command = host.run("env");
    command
        .args(["-C", "/tmp/suite/tests", "python3", "run_tests.py"])
        .args(["--dev", "ferroce0", "-v"]);
    let finished = process::run(command, logs, "suite", LIMIT)?;
    let outcomes = unittest::read(&finished.err)
        .map_err(|what| Stop::with(format!("{}; {what}", finished.ending()), &[&finished]))?;
    // 1 says that tests failed, which their own lines say better; anything else is a crash after them.
    if !matches!(finished.code(), Some(0 | 1)) {
        return Err(Stop::with(finished.ending(), &[&finished]));
    }
    Ok(outcomes
        .into_iter()
        .map(|outcome| {
            let ending = known(distribution, &outcome.name, worth(&outcome));
            (outcome.name, ending)
        })
        .collect())
}

fn worth(outcome: &Outcome) -> Ending {
    match &outcome.verdict {
        Verdict::Passed => Ok(()),
        Verdict::Failed(why) => Err(Stop::fail(why)),
        Verdict::Skipped(words) => {
            let reason = SKIPS.iter().find(|(known, _)| words.contains(known));
            Err(match reason {
                Some((_, why)) => Stop::Skip((*why).to_owned()),
                None => Stop::fail(format!(
                    "skipped with {words:?}, for which no reason is known"
                )),
            })
        }
    }
}
