//! The queue pairs' deadlines and the alarms of other objects, and carrying out what is due.

use ferroce_transport::Time;

use super::Hca;
use crate::datapath::pump::Fired;
use crate::progress::timers::{self, Alarm, Alarms};
use crate::tuning::{RETRIES_PER_ROUND, RETRY_INTERVAL};

impl Alarms for Hca {
    fn add_alarm(&self, at: Time, alarm: Alarm) {
        if self.alarms.add(at, alarm) {
            self.driver.wake_for(at);
        }
    }
}

impl Hca {
    pub(crate) fn add_timer(&self, at: Time, index: u16) {
        if self.timers.add(at, index) {
            self.driver.wake_for(at);
        }
    }

    /// When something is to be done next; `Time::MAX` for never.
    pub(crate) fn next_timer(&self) -> Time {
        self.timers.next().min(self.alarms.next())
    }

    /// The device's clock, which stamps completions: nanoseconds of `CLOCK_MONOTONIC`.
    pub fn clock(&self) -> u64 {
        timers::now().as_nanos()
    }

    /// Runs the QPs and the completion queues whose time has come. `received`: something has come
    /// just now, and more may wait.
    pub(crate) fn run_timers(&self, now: Time, received: bool) {
        if self.alarms.next() <= now {
            while let Some(alarm) = self.alarms.pop(now) {
                if let Some(of) = alarm.of.upgrade() {
                    of.alarm(now);
                }
            }
        }

        if self.timers.next() <= now {
            self.run_queue_pairs(now, received);
        }
        self.hand_turns(now);
    }

    fn run_queue_pairs(&self, now: Time, received: bool) {
        let qps = self.qps.read();
        let keys = self.keys.read();
        let mut retries = self.retries_now(now, received);
        while let Some(index) = self.timers.pop(now) {
            let Some(qp) = qps.find(index) else { continue };
            match qp.timer_fired(&keys, now, retries != 0) {
                Fired::Other => {}
                Fired::Retry => retries -= 1,
                Fired::Held => {
                    self.timers.add(now, index);
                    break;
                }
            }
        }
    }

    /// How many QPs may send again in one go what was not answered in time.
    ///
    /// Where thousands send at once, more is lost than the receiver's socket holds, and their
    /// timers come up together too. Sent again all at once it would be lost again, until no retry
    /// is left; and who sends does not receive meanwhile, here perhaps the very answers that are
    /// missed. So what has come is taken first, and a few send in between.
    fn retries_now(&self, now: Time, received: bool) -> u32 {
        let last = self.retried_at.load();
        if received && now - last < RETRY_INTERVAL {
            return 0;
        }
        self.retried_at.store(now);
        RETRIES_PER_ROUND
    }
}
