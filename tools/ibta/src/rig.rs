//! What a test runs on: the tester's own end of the wire, and the device side's ear. Times are
//! virtual or real.
//!
//! Waits are of so much time in which the machine runs: while it stands still nothing can come
//! ([`TransportRig::stalled`]).
//!
//! Errors are failures of the rig (the agent is gone, say), never the device's refusal: that is a
//! [`Reply::Errno`].

use crate::packet::{RxPacket, TxPacket};
use crate::protocol::{AddressVector, Command, Reply};
use crate::run::Stop;
use crate::trace::Trace;
use anyhow::Result;
use ferroce_wire::mad::Mad;
use std::time::Duration;

/// The transport tester.
pub trait TransportRig {
    /// Time since the rig began.
    fn now(&self) -> Duration;
    /// How the device reaches the tester.
    fn path(&self) -> AddressVector;
    /// The port of the device under test, from 1.
    fn port(&self) -> u8;
    /// The longest path MTU between the two, in bytes.
    fn mtu(&self) -> u32;
    /// Sends a packet to the device.
    fn transmit(&mut self, packet: &TxPacket) -> Result<()>;
    /// The next packet of the device to any of the tester's queue pairs; `None` if none came within
    /// that time. Packets that came during commands and sleeps are kept.
    fn receive(&mut self, within: Duration) -> Result<Option<RxPacket>>;
    /// Has the device side do something.
    fn command(&mut self, command: &Command) -> Result<Reply>;
    /// Lets time pass.
    fn sleep(&mut self, time: Duration) -> Result<()>;
    /// Every packet so far.
    fn trace(&self) -> &Trace;
    /// How much of the time between two times of the rig's clock the machine that rig and device
    /// run on stood still. Who is late by no more may be blamed for nothing. In virtual time it
    /// never does.
    fn stalled(&self, _from: Duration, _to: Duration) -> Duration {
        Duration::ZERO
    }
    /// How long to wait for what must come.
    fn patience(&self) -> Duration {
        Duration::from_secs(2)
    }
    /// How long to listen before saying that nothing comes.
    fn silence(&self) -> Duration {
        Duration::from_millis(100)
    }
}

/// Where a MAD goes to, or came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Source LID.
    pub slid: u16,
    /// Destination LID.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// Destination queue pair: 0 (on the management lane) or 1.
    pub qp: u32,
    /// Source queue pair.
    pub src_qp: u32,
    /// Q_Key (of queue pair 0: not looked at).
    pub qkey: u32,
    /// P_Key.
    pub pkey: u16,
}

/// The MAD tester: port n of the tester is cabled to port n of the device.
pub trait MadRig {
    /// Time since the rig began.
    fn now(&self) -> Duration;
    /// Cables, numbered from 1.
    fn ports(&self) -> u8;
    /// Sends a packet by a cable as it stands, from the LRH to the ICRC.
    fn transmit(&mut self, port: u8, packet: &[u8]) -> Result<()>;
    /// The next MAD that the device sent by that cable; `None` if none came within that time.
    fn receive(&mut self, port: u8, within: Duration) -> Result<Option<(Envelope, Mad)>>;
    /// Plugs a cable in, or pulls it out.
    fn link(&mut self, port: u8, up: bool) -> Result<()>;
    /// Has the device side do something: what programs of the device see.
    fn command(&mut self, command: &Command) -> Result<Reply>;
    /// Lets time pass.
    fn sleep(&mut self, time: Duration) -> Result<()>;
    /// Every packet so far.
    fn trace(&self) -> &Trace;
    /// How much of the time between two times the machine stood still, as
    /// [`TransportRig::stalled`].
    fn stalled(&self, _from: Duration, _to: Duration) -> Duration {
        Duration::ZERO
    }
    /// How long to wait for what must never come, however long one waits.
    fn for_ever(&self) -> Duration {
        Duration::from_secs(2)
    }
    /// How long to wait for what must come, whatever the device's timers say.
    fn patience(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// Makes rigs, a fresh one for each test.
pub trait Backend {
    /// A transport tester and a device without objects.
    fn transport(&mut self) -> Result<Box<dyn TransportRig + '_>>;
    /// A MAD tester and a device with at least so many ports, which have links. `lanes` is the
    /// VLCap that the test is about: a simulated device has just that, a real one what it has.
    ///
    /// # Errors
    /// There is none to be had, or none for such a device.
    fn mad(&mut self, ports: u8, lanes: u8) -> Result<Box<dyn MadRig + '_>, Stop>;
}
