//! The faults on command that the daemon tells of, and the verbs that ask for them.

use std::sync::Arc;

use ferroce_control::faults::Verb;

use super::Hca;
use crate::datapath::path::Path;
use crate::error::{Error, Result};
use crate::instrument::{FAULTS, Keeper, Waiting};
use crate::port::address::PathKey;
use crate::progress::timers::{Alarm, Alarms};

impl Hca {
    /// The device has just been opened: it begins with the faults that there are.
    pub(super) fn begin_with_faults(self: &Arc<Self>) {
        let keeper = Arc::downgrade(self);
        self.taps.faults.held.belongs_to(keeper);
        self.renew_faults();
    }

    /// Takes the faults of this program as the daemon has them now.
    pub(super) fn renew_faults(&self) {
        // Without a daemon there is nobody who would have any.
        let _ = self.ask_for_faults();
    }

    fn ask_for_faults(&self) -> Result<()> {
        self.control.ask(|daemon| {
            let given = daemon.my_faults()?;
            let any = self.taps.faults.replace(&given, self.counters());
            self.taps.set(FAULTS, any);
            Ok(())
        })?;
        Ok(())
    }

    /// Goes by all that the daemon has told until now: its faults, and who captures. `EIO` in a
    /// forked child, whose parent the device is.
    pub fn catch_up(&self) -> Result<()> {
        if self.is_inherited() {
            return Err(Error::Dead);
        }

        // What the daemon has told before comes before the answer.
        self.ask_for_faults()?;
        self.control_events();
        while self.is_noticing() {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Whether a verb may be carried out.
    pub(crate) fn allows(&self, verb: Verb) -> Result<()> {
        if self.is_gone() {
            return Err(Error::Dead);
        }
        self.taps.allows(verb, |place| self.counters().hit(place))
    }

    /// A queue pair has gone, of this ordinal.
    pub(crate) fn forget_faults_of(&self, ordinal: u32) {
        if self.taps.has(FAULTS) {
            self.taps.faults.forget(ordinal);
        }
    }
}

impl Keeper for Hca {
    fn wake_at(&self, at: ferroce_transport::Time, alarm: Alarm) {
        self.add_alarm(at, alarm);
    }

    fn path_of(&self, key: &PathKey) -> Option<Arc<Path>> {
        Hca::path_of(self, key)
    }

    fn go_on(&self, packets: Vec<Waiting>) {
        Hca::go_on(self, packets);
    }
}
