//! OpenSM, as a test sees it: a process and its log.

use std::fs;
use std::path::PathBuf;

use crate::harness::case::{Ending, Stop};
use crate::harness::process::Running;
use crate::lab::subnet::LIMIT;
use rustix::process::Signal;

/// A subnet manager that runs.
pub(crate) struct Manager {
    running: Running,
    log: PathBuf,
}

impl Manager {
    pub(super) fn new(running: Running, log: PathBuf) -> Manager {
        Manager { running, log }
    }

    /// Waits until its log has a word.
    pub(crate) fn wait_for(&mut self, word: &str) -> Result<(), Stop> {
        let log = self.log.clone();
        let has = |_: &Running| fs::read_to_string(&log).is_ok_and(|text| text.contains(word));
        if self.running.wait_until(LIMIT, has) {
            return Ok(());
        }
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        Err(Stop::fail(format!(
            "opensm does not come to {word:?}; its log is:\n{log}"
        )))
    }

    /// How often its log has a word.
    pub(crate) fn count(&self, word: &str) -> usize {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.matches(word).count()
    }

    /// Errors in its log.
    pub(crate) fn errors(&self) -> Vec<String> {
        errors_of(&fs::read_to_string(&self.log).unwrap_or_default())
    }

    /// Kills it; it has no time to say anything.
    pub(crate) fn kill(self) {
        self.running.kill();
    }

    /// Asks it to read its files and look at the fabric anew.
    pub(crate) fn reload(&self) {
        self.running.signal(Signal::HUP);
    }

    /// Asks it to leave, which it has to do.
    pub(crate) fn stop(self) -> Ending {
        self.running.signal(Signal::TERM);
        let finished = self.running.finish(LIMIT);
        match finished.status {
            Some(_) => Ok(()),
            None => Err(Stop::with("OpenSM does not leave", &[&finished])),
        }
    }
}

/// The errors in a log of OpenSM.
///
/// One of them is none: the first data packet that an armed port gets makes it active. Its
/// neighbour may be active, and send, before the subnet manager has asked the port to become
/// active, which it then refuses with status 7 as no transition of states. OpenSM logs any refusal,
/// and then, as what it is, one that it has expected.
fn errors_of(log: &str) -> Vec<String> {
    let mut expected = log.matches("during ACTIVE transition").count();
    let is_refusal = |line: &str| line.contains("ERR 3111") && line.ends_with("status = 0x1C");
    let mut errors = Vec::new();
    for line in log.lines().filter(|line| line.contains("ERR ")) {
        match expected > 0 && is_refusal(line) {
            true => expected -= 1,
            false => errors.push(line.to_owned()),
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: &str = "39 273953 [3A] 0x01 -> log_rcv_cb_error: ERR 3111: Received MAD with error status = 0x1C\n";
    const EXPECTED: &str = "39 274024 [3C] 0x02 -> pi_rcv_process_set: Received error status 0x1c for SetResp() during ACTIVE transition\n";

    #[test]
    fn a_refusal_to_become_active_is_an_error_where_opensm_did_not_expect_it() {
        assert_eq!(errors_of(&[REFUSED, EXPECTED].concat()).len(), 0);
        assert_eq!(errors_of(&[REFUSED, REFUSED, EXPECTED].concat()).len(), 1);
        assert_eq!(errors_of(REFUSED).len(), 1);
        let other = REFUSED.replace("0x1C", "0x4");
        assert_eq!(errors_of(&[&other, EXPECTED].concat()).len(), 1);
        assert_eq!(errors_of("40 1 [3C] 0x01 -> ERR 3120 Timeout\n").len(), 1);
    }
}
