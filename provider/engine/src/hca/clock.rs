//! The queue pairs' deadlines and the alarms of other objects, and carrying out what is due.

use ferroce_transport::Time;

use super::Hca;
use crate::timers::{self, Alarm};

impl Hca {
    pub(crate) fn add_timer(&self, at: Time, index: u16) {
        if self.timers.add(at, index) {
            self.driver.wake_for(at);
        }
    }

    pub(crate) fn add_alarm(&self, at: Time, alarm: Alarm) {
        if self.alarms.add(at, alarm) {
            self.driver.wake_for(at);
        }
    }

    /// When something is to be done next; `Time::MAX` for never.
    pub(crate) fn next_timer(&self) -> Time {
        self.timers.next().min(self.alarms.next())
    }

    /// The device's clock, which stamps completions: nanoseconds of `CLOCK_MONOTONIC`.
    pub fn clock(&self) -> u64 {
        timers::now()
    }

    /// Runs the QPs and the completion queues whose time has come.
    pub(crate) fn run_timers(&self, now: Time) {
        if self.alarms.next() <= now {
            while let Some(alarm) = self.alarms.pop(now) {
                if let Some(cq) = alarm.cq.upgrade() {
                    cq.alarm(now);
                }
            }
        }
        if self.timers.next() > now {
            return;
        }
        let qps = self.qps.read_recursive();
        let keys = self.keys.read_recursive();
        while let Some(index) = self.timers.pop(now) {
            if let Some(qp) = qps.find(index) {
                qp.timer_fired(&keys, now);
            }
        }
    }
}
