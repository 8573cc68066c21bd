//! Agents and exchanges without the sockets, for `tests/fuzz`.

use std::time::{Duration, Instant};

use ferroce_cabi::ucma_frame;
use ferroce_cabi::umad::{ib_user_mad_hdr, ib_user_mad_hdr_old};
use ferroce_wire::mad::{Mad, MadHeader};

use super::agents::{Agents, Registration};
use super::exchange::{Exchanges, Output};
use crate::fuzzing::inputs::{mad, steps};
use crate::mads::{Address, Incoming};

/// Agents of umad files and their exchanges under any sequence of writes and MADs. Returns whether
/// an agent got something.
pub fn umad(input: &[u8]) -> bool {
    let mut agents = Agents::default();
    let mut exchanges = Exchanges::default();
    let mut registered: Vec<u32> = Vec::new();

    // Only differences of time matter.
    let mut now = Instant::now();
    let mut delivered = false;

    for (what, which, bytes) in steps(input).take(64) {
        let mut out = Output::default();
        let agent = registered
            .get(usize::from(which) % registered.len().max(1))
            .copied();
        match (what % 8, agent) {
            (0, _) => registered.extend(agents.register(which.into(), 0, wants(bytes)).ok()),
            (1 | 2, Some(agent)) => {
                let (front, message) = bytes.split_at(bytes.len().min(4));
                let header = header(front);
                let _ = exchanges.send(&agents, agent, &header, message, now, &mut out);
            }
            (3 | 4, _) => arrive(&agents, &mut exchanges, &mad(bytes), now, &mut out),
            (5, _) => {
                now += Duration::from_millis(u64::from(which) * 100);
                exchanges.handle_timeout(&agents, now, &mut out);
            }
            (6, Some(agent)) => {
                agents.remove(agent);
                exchanges.remove(agent);
                registered.retain(|known| *known != agent);
            }
            _ => {}
        }

        // What is sent arrives at the same port, perhaps as a response.
        for sent in std::mem::take(&mut out.mads).into_iter().take(16) {
            let mut mad = sent.mad;
            mad[3] ^= which & 0x80;
            arrive(&agents, &mut exchanges, &mad, now, &mut out);
        }

        for delivery in out.deliveries {
            assert!(delivery.bytes.len() <= ucma_frame::MAX_UMAD);
            delivered = true;
        }
    }

    delivered
}

/// A registration, from as many bytes as there are.
fn wants(bytes: &[u8]) -> Registration {
    let at = |n: usize| bytes.get(n).copied().unwrap_or(0);
    Registration {
        port: 1,
        qpn: at(0) & 1,
        class: at(1),
        version: at(2),
        oui: [at(3), 0, 0],
        methods: u128::from(at(4)) << (at(5) % 121),
        rmpp: at(6) & 1,
        user_rmpp: at(7) & 1 != 0,
    }
}

fn header(bytes: &[u8]) -> ib_user_mad_hdr {
    let at = |n: usize| u32::from(bytes.get(n).copied().unwrap_or(0));
    ib_user_mad_hdr {
        old: ib_user_mad_hdr_old {
            timeout_ms: at(0) * 10,
            retries: at(1) & 7,
            qpn: at(2).into(),
            ..ib_user_mad_hdr_old::default()
        },
        ..ib_user_mad_hdr::default()
    }
}

fn arrive(agents: &Agents, exchanges: &mut Exchanges, mad: &Mad, now: Instant, out: &mut Output) {
    let owner = MadHeader::parse(mad).and_then(|header| agents.owner(1, &header, mad));
    let incoming = Incoming {
        port: 1,
        qpn: 1,
        from: Address::default(),
        mad: *mad,
    };
    if let Some(owner) = owner {
        exchanges.receive(agents, owner, &incoming, now, out);
    }
}
