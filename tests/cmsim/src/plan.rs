//! What is to happen in a world, at random from a seed, and what came of it.

use crate::network::NetworkConfig;
use ferroce_sim::Rng;
use ferroce_wire::time::Duration;

pub(crate) const MS: Duration = Duration::from_millis(1);

/// What happens in a world.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The network.
    pub network: NetworkConfig,
    /// Connections that are asked for.
    pub connections: u64,
    /// Within which time.
    pub within: Duration,
    /// Longest time that a program takes to decide.
    pub patience: Duration,
    /// How many percent of the IDs are destroyed at any time, whatever their state.
    pub destroyed: u32,
    /// Response timeout, as an exponent.
    pub response_timeout: u8,
}

impl Plan {
    /// A plan that follows from a generator.
    pub fn random(rng: &mut Rng) -> Plan {
        let clean = rng.percent(10);
        let ppm = |rng: &mut Rng, most| if clean { 0 } else { rng.below(most) as u32 };
        Plan {
            network: NetworkConfig {
                delay: Duration::from_nanos(rng.range(1_000, 50_000_000)),
                loss: ppm(rng, 350_000),
                duplicate: ppm(rng, 300_000),
                reorder: ppm(rng, 500_000),
                late: rng.pick(&[MS, 100 * MS, 2_000 * MS, 20_000 * MS]),
            },
            connections: rng.range(1, 12),
            within: Duration::from_millis(rng.range(1, 20_000)),
            patience: rng.pick(&[MS, 200 * MS, 10_000 * MS]),
            destroyed: rng.pick(&[0, 10, 50]),
            response_timeout: rng.range(14, 20) as u8,
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Messages sent.
    pub messages: u64,
    /// Connections that stood at some time, counted at both sides.
    pub established: u64,
    /// Refused, at either side.
    pub rejected: u64,
    /// Without an answer.
    pub timed_out: u64,
    /// Still there when nothing more happened, counted at both sides.
    pub left: u64,
    /// Still connected at one side, all of whose confirmations were lost, or late.
    pub unheard: u64,
    /// Datagram services found.
    pub resolved: u64,
}
