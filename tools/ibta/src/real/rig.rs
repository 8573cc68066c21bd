//! The transport tester on a real device: an agent beside the device, and the tester's own end of
//! the wire.

use super::agent::Agent;
use super::wire::Wire;
use super::witness::{Wait, Witness};
use crate::packet::{RxPacket, TxPacket};
use crate::protocol::{AddressVector, Command, Reply};
use crate::rig::TransportRig;
use crate::trace::Trace;
use anyhow::Result;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What is known of the way between device and tester.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// How the device reaches the tester.
    pub path: AddressVector,
    /// The device's port, from 1.
    pub port: u8,
    /// The longest path MTU, in bytes.
    pub mtu: u32,
}

/// A transport rig for one test.
pub(super) struct RealRig<'a> {
    agent: &'a mut Agent,
    wire: Box<dyn Wire + 'a>,
    way: Way,
    witness: Rc<Witness>,
    began: Instant,
    /// Packets that came and were not asked for yet.
    received: VecDeque<RxPacket>,
    trace: Trace,
}

impl<'a> RealRig<'a> {
    /// A rig, and a device without objects.
    ///
    /// # Errors
    /// If the agent does not answer.
    pub(super) fn new(
        agent: &'a mut Agent,
        mut wire: Box<dyn Wire + 'a>,
        way: Way,
        witness: Rc<Witness>,
    ) -> Result<RealRig<'a>> {
        agent.call(&Command::Reset)?;
        // What a test before this one left.
        while wire.receive()?.is_some() {}
        Ok(RealRig {
            agent,
            wire,
            way,
            witness,
            began: Instant::now(),
            received: VecDeque::new(),
            trace: Trace::default(),
        })
    }

    /// Takes in everything that has come.
    fn take_in(&mut self) -> Result<()> {
        while let Some(arrived) = self.wire.receive()? {
            let at = arrived.at.saturating_duration_since(self.began);
            self.trace.push(at, true, arrived.carrier, &arrived.whole);
            if let Some(bytes) = arrived.transport {
                self.received
                    .push_back(RxPacket::decode(at, bytes, arrived.intact));
            }
        }
        Ok(())
    }
}

impl TransportRig for RealRig<'_> {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn path(&self) -> AddressVector {
        self.way.path
    }

    fn port(&self) -> u8 {
        self.way.port
    }

    fn mtu(&self) -> u32 {
        self.way.mtu
    }

    fn transmit(&mut self, packet: &TxPacket) -> Result<()> {
        self.take_in()?;
        let bytes = self.wire.encode(packet);
        let carrier = self.wire.outward();
        self.trace.push(self.now(), false, carrier, &bytes);
        self.wire.send(&bytes)
    }

    fn receive(&mut self, within: Duration) -> Result<Option<RxPacket>> {
        let wait = Wait::new(within);
        loop {
            self.take_in()?;
            let left = wait.left(&self.witness);
            if !self.received.is_empty() || left.is_zero() {
                return Ok(self.received.pop_front());
            }
            self.wire.wait(left)?;
        }
    }

    fn command(&mut self, command: &Command) -> Result<Reply> {
        let reply = self.agent.call_awake(command, &self.witness)?;
        self.take_in()?;
        Ok(reply)
    }

    fn sleep(&mut self, time: Duration) -> Result<()> {
        std::thread::sleep(time);
        self.take_in()
    }

    fn trace(&self) -> &Trace {
        &self.trace
    }

    fn stalled(&self, from: Duration, to: Duration) -> Duration {
        self.witness.stalled(self.began + from, self.began + to)
    }

    // A machine that has much else to do is no fault of the device's.
    fn patience(&self) -> Duration {
        Duration::from_secs(5)
    }
}
