//! The tester's ends of the simulated cables, in virtual time: who waits brings the device to that
//! time.

use super::{Actions, MadSim, TRAINING};
use crate::protocol::{Command, Reply};
use crate::rig::{Envelope, MadRig};
use crate::trace::{Carrier, Trace};
use anyhow::Result;
use ferroce_fabric::pma::Counter;
use ferroce_fabric::sma::Port;
use ferroce_wire::mad::Mad;
use std::time::Duration;

impl MadRig for MadSim {
    fn now(&self) -> Duration {
        self.now
    }

    fn ports(&self) -> u8 {
        self.links.len() as u8
    }

    fn transmit(&mut self, port: u8, packet: &[u8]) -> Result<()> {
        let carrier = Carrier::Cable { port };
        self.trace.push(self.now, false, carrier, packet);
        if self.link_mut(port).plugged {
            let mut packet = packet.to_vec();
            self.faults.on_raw(&mut packet);
            self.arrive(port, &packet);
        }
        Ok(())
    }

    fn receive(&mut self, port: u8, within: Duration) -> Result<Option<(Envelope, Mad)>> {
        let deadline = self.now + within;
        loop {
            let first = self.link_mut(port).pending.front().map(|(at, _, _)| *at);
            let due = self.next_timeout();
            let until = [first, due, Some(deadline)].into_iter().flatten().min();
            let until = until.unwrap_or(deadline);
            if first.is_some_and(|at| at <= until.max(self.now)) {
                self.now = self.now.max(until);
                let received = self.link_mut(port).pending.pop_front();
                return Ok(received.map(|(_, envelope, mad)| (envelope, mad)));
            }

            if until >= deadline {
                self.advance(deadline);
                let late = self
                    .link_mut(port)
                    .pending
                    .front()
                    .is_some_and(|(at, _, _)| *at <= deadline);
                if !late {
                    return Ok(None);
                }
                continue;
            }

            self.advance(until);
        }
    }

    fn link(&mut self, port: u8, up: bool) -> Result<()> {
        let (time, mut out) = (self.time(), Actions::default());
        let retrain = self.now + TRAINING;
        let link = self.link_mut(port);
        link.plugged = up;
        if up {
            link.up_at = link.willing.then_some(retrain);
        } else {
            link.pending.clear();
            let before = self.node.port(port).map_or(0, Port::link_downed);
            self.node.link_down(time, port, &mut out);
            let lost = self.node.port(port).map_or(0, Port::link_downed) - before;
            self.link_mut(port).totals[Counter::LinkDowned] += lost;
        }

        self.settle(out);
        for mad in self.faults.on_link(port, up) {
            self.leave(mad);
        }
        Ok(())
    }

    fn command(&mut self, command: &Command) -> Result<Reply> {
        let mut reply = self.carry_out(command);
        self.faults.on_reply(&mut reply);
        Ok(reply)
    }

    fn sleep(&mut self, time: Duration) -> Result<()> {
        self.advance(self.now + time);
        Ok(())
    }

    fn trace(&self) -> &Trace {
        &self.trace
    }

    // Longer than any timer that there is.
    fn for_ever(&self) -> Duration {
        Duration::from_secs(0x1_0001)
    }
}
