//! The flows that reach a process: the ICRC's part that their packets share, and how their senders
//! number packets.

use std::net::IpAddr;

use ferroce_wire::ROCE_V2_PORT;
use ferroce_wire::icrc::{Flow, Verdict};
use ferroce_wire::identification::Habit;

use crate::tuning::FLOWS;

/// Remembered flows, by source address, source port and the address they were sent to.
pub(crate) struct Flows(Box<[Option<Known>]>);

#[derive(Clone, Copy)]
struct Known {
    from: IpAddr,
    port: u16,
    to: IpAddr,
    checks: Checks,
}

/// What checks a flow's packets.
#[derive(Clone, Copy)]
pub(crate) struct Checks {
    flow: Flow,
    habit: Habit,
}

impl Flows {
    pub(crate) fn new() -> Flows {
        Flows(vec![None; FLOWS].into_boxed_slice())
    }

    /// The checks of a flow, and where to put them back when they have seen its packets. `None`:
    /// addresses of two families.
    pub(crate) fn find(&mut self, from: IpAddr, port: u16, to: IpAddr) -> Option<(usize, Checks)> {
        let place = place(from, port);
        if let Some(known) = &self.0[place]
            && (known.from, known.port, known.to) == (from, port, to)
        {
            return Some((place, known.checks));
        }

        let flow = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => Flow::v4(from, to, port, ROCE_V2_PORT),
            (IpAddr::V6(from), IpAddr::V6(to)) => Flow::v6(from, to, port, ROCE_V2_PORT),
            _ => return None,
        };

        let checks = Checks {
            flow,
            habit: Habit::default(),
        };

        self.0[place] = Some(Known {
            from,
            port,
            to,
            checks,
        });

        Some((place, checks))
    }

    /// Puts back what [`find`](Self::find) gave.
    pub(crate) fn keep(&mut self, place: usize, checks: Checks) {
        if let Some(known) = &mut self.0[place] {
            known.checks = checks;
        }
    }
}

impl Checks {
    /// The Identification with which a packet's ICRC is right, if its sender would have used it.
    /// `at` is the packet's place in its run.
    #[inline]
    pub(crate) fn verify(&mut self, packet: &[u8], at: u16) -> Option<u16> {
        let guess = self.habit.guess(at);
        let id = match self.flow.verify(packet, guess) {
            Verdict::Exact => guess,
            Verdict::WithId(id) => id,
            Verdict::Bad => return None,
        };
        (!self.flow.is_v4() || self.habit.takes(id)).then_some(id)
    }
}

/// FNV-1a.
fn place(from: IpAddr, port: u16) -> usize {
    let add = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = match &from {
        IpAddr::V4(from) => from.octets().iter().fold(0x811c_9dc5, add),
        IpAddr::V6(from) => from.octets().iter().fold(0x811c_9dc5, add),
    };
    let hash = port.to_be_bytes().iter().fold(hash, add);
    (hash ^ hash >> 16) as usize % FLOWS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet with the ICRC of this Identification.
    fn packet(flow: Flow, id: u16, len: usize) -> Vec<u8> {
        let mut packet = vec![0x5a; len];
        let mut icrc = flow.start(len, id);
        icrc.header(&packet[..12]);
        icrc.payload(&packet[12..len - 4]);
        packet[len - 4..].copy_from_slice(&icrc.finish());
        packet
    }

    #[test]
    fn a_flow_is_held_to_what_it_has_shown() {
        let (from, to) = ("10.0.0.1", "10.0.0.2");
        let flow = Flow::v4(
            from.parse().unwrap(),
            to.parse().unwrap(),
            50_000,
            ROCE_V2_PORT,
        );

        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        let mut flows = Flows::new();
        let mut verify = |port, id| {
            let (place, mut checks) = flows.find(from, port, to).unwrap();
            let seen = checks.verify(&packet(flow, id, 80), 0);
            flows.keep(place, checks);
            seen
        };
        assert_eq!(verify(50_000, 4_711), Some(4_711));
        for id in [0; 100] {
            assert_eq!(verify(50_000, id), Some(id));
        }
        assert_eq!(verify(50_000, 4_711), None);
        assert_eq!(verify(50_000, 63), Some(63));

        // Another flow's packets are not this one's.
        assert_eq!(verify(50_001, 0), None);
        assert_eq!(verify(50_000, 1), Some(1));
    }
}
