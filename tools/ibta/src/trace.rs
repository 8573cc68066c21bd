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

    /// The packets in order of their times. `counts` are numbers of packets that were known at some
    /// time: each becomes the number that it takes to have them all.
    pub fn in_order<'a>(mut self, counts: impl IntoIterator<Item = &'a mut usize>) -> Trace {
        let mut order: Vec<usize> = (0..self.frames.len()).collect();
        order.sort_by_key(|&index| self.frames[index].at);

        // How many one has to take to have the first n of before.
        let mut enough = vec![0; self.frames.len() + 1];
        for (now, &before) in order.iter().enumerate() {
            enough[before + 1] = now + 1;
        }
        for n in 1..enough.len() {
            enough[n] = enough[n].max(enough[n - 1]);
        }

        for count in counts {
            *count = enough[(*count).min(self.frames.len())];
        }
        self.frames.sort_by_key(|frame| frame.at);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_was_seen_late_moves_to_its_time() {
        let mut trace = Trace::default();
        let carrier = Carrier::Cable { port: 1 };
        for (ms, byte) in [(1, 0), (5, 1), (3, 2)] {
            trace.push(Duration::from_millis(ms), false, carrier, &[byte]);
        }
        let mut counts = [0, 1, 2, 3];
        let trace = trace.in_order(&mut counts);
        let bytes: Vec<u8> = trace.frames.iter().map(|frame| frame.bytes[0]).collect();
        assert_eq!(bytes, [0, 2, 1]);
        assert_eq!(counts, [0, 1, 3, 3]);
    }
}
