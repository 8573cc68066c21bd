//! Every packet of a test as it was on the wire, with its time.

use std::net::SocketAddr;
use std::time::Duration;

/// What carried a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// RoCEv2: the bytes are the UDP payload.
    Roce {
        /// From where.
        from: SocketAddr,
        /// To where.
        to: SocketAddr,
    },
    /// A cable: the bytes are a whole InfiniBand packet from the LRH to the ICRC.
    Cable {
        /// The tester's port, from 1.
        port: u8,
    },
}

/// One packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When, since the rig began.
    pub at: Duration,
    /// By the device; otherwise by the tester.
    pub by_device: bool,
    /// What carried it.
    pub carrier: Carrier,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The packets of a test, as they were sent and received.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// In order of their times, or nearly.
    pub frames: Vec<Frame>,
}

impl Trace {
    /// Adds a packet.
    pub fn push(&mut self, at: Duration, by_device: bool, carrier: Carrier, bytes: &[u8]) {
        self.frames.push(Frame {
            at,
            by_device,
            carrier,
            bytes: bytes.to_vec(),
        });
    }
}
