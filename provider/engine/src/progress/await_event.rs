//! A thread of the application that waits awake for an event of a completion channel: it receives
//! meanwhile.
//!
//! It has the turn from one event to the next: that it asks for the next one does not say, as
//! otherwise, that it sleeps.

use ferroce_transport::Duration;

use crate::hca::Hca;
use crate::progress::linger::Outcome;
use crate::progress::timers;
use crate::verbs::channel::Receives;

impl Receives for Hca {
    fn may_wait_awake(&self) -> bool {
        self.alive() && self.driver.has_helper && !self.crowd.is_suspected()
    }

    fn will_sleep(&self) {
        if self.alive() && self.driver.awake_waits.goes() {
            self.app_will_sleep();
        }
    }

    fn wait_awake(&self, patience: Duration, has_come: &dyn Fn() -> bool) -> Outcome {
        if !self.driver.awake_waits.begin() {
            return Outcome::Cut;
        }

        let is_over = || has_come() || self.crowd.is_suspected() || !self.alive();
        self.poll_until(timers::now() + patience, is_over);
        let outcome = if has_come() {
            Outcome::Paid
        } else if self.crowd.is_suspected() {
            Outcome::Crowded
        } else if !self.alive() {
            Outcome::Cut
        } else {
            Outcome::InVain
        };

        let paid = outcome == Outcome::Paid;
        if !paid {
            self.app_will_sleep();
        }
        self.driver.awake_waits.end(paid);
        outcome
    }
}

impl Hca {
    /// A thread of the application has asked for an event: it is about to sleep, or to wait awake.
    pub(crate) fn app_asks_for_event(&self) {
        let driver = &self.driver;
        if !driver.awake_waits.is_back_soon() || !driver.app_drives() {
            return self.app_will_sleep();
        }
        self.send_what_waits();
        driver.polls_until(timers::now());
    }
}
