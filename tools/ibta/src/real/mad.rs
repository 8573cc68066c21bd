//! The MAD tester on a real device: cables to its ports, and an agent beside it.

use super::agent::Agent;
use super::cable::Cables;
use super::witness::{Wait, Witness};
use crate::mad::wire;
use crate::protocol::{Command, Reply};
use crate::rig::{Envelope, MadRig};
use crate::trace::{Carrier, Trace};
use anyhow::Result;
use ferroce_wire::mad::Mad;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A MAD rig for one test.
pub(super) struct RealMad<'a> {
    agent: &'a mut Agent,
    cables: &'a Cables,
    witness: Rc<Witness>,
    began: Instant,
    /// Cables that the test has pulled out.
    pulled: Vec<u8>,
    trace: Trace,
}

impl<'a> RealMad<'a> {
    /// A rig whose links are up.
    ///
    /// # Errors
    /// The agent or the device does not answer.
    pub(super) fn new(
        agent: &'a mut Agent,
        cables: &'a Cables,
        witness: Rc<Witness>,
    ) -> Result<RealMad<'a>> {
        agent.call(&Command::Reset)?;
        cables.ready()?;
        Ok(RealMad {
            agent,
            cables,
            witness,
            began: Instant::now(),
            pulled: Vec::new(),
            trace: Trace::default(),
        })
    }
}

impl MadRig for RealMad<'_> {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn ports(&self) -> u8 {
        self.cables.count()
    }

    fn transmit(&mut self, port: u8, packet: &[u8]) -> Result<()> {
        let carrier = Carrier::Cable { port };
        self.trace.push(self.now(), false, carrier, packet);
        self.cables.send(port, packet)
    }

    fn receive(&mut self, port: u8, within: Duration) -> Result<Option<(Envelope, Mad)>> {
        let wait = Wait::new(within);
        loop {
            let deadline = Instant::now() + wait.left(&self.witness);
            let Some((at, packet)) = self.cables.receive(port, deadline) else {
                if wait.left(&self.witness).is_zero() {
                    return Ok(None);
                }
                continue;
            };
            let at = at.saturating_duration_since(self.began);
            self.trace.push(at, true, Carrier::Cable { port }, &packet);
            // What is no MAD is in the capture.
            if let Ok(received) = wire::read(&packet) {
                return Ok(Some(received));
            }
        }
    }

    fn link(&mut self, port: u8, up: bool) -> Result<()> {
        self.cables.plug(port, up);
        self.pulled.retain(|pulled| *pulled != port);
        if !up {
            self.pulled.push(port);
        }
        Ok(())
    }

    fn command(&mut self, command: &Command) -> Result<Reply> {
        self.agent.call_awake(command, &self.witness)
    }

    fn sleep(&mut self, time: Duration) -> Result<()> {
        std::thread::sleep(time);
        Ok(())
    }

    fn trace(&self) -> &Trace {
        &self.trace
    }

    fn stalled(&self, from: Duration, to: Duration) -> Duration {
        self.witness.stalled(self.began + from, self.began + to)
    }
}

impl Drop for RealMad<'_> {
    fn drop(&mut self) {
        for port in &self.pulled {
            self.cables.plug(*port, true);
        }
    }
}
