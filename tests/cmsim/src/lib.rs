//! A simulator for the communication manager: two hosts whose programs decide at random, a bad
//! network, virtual time.
//!
//! Everything follows from a seed, so that every failure can be replayed: `FERROCE_SIM_SEED=n cargo
//! test -p ferroce-cmsim --release --test seeds -- --nocapture` prints a trace. Nothing here uses
//! the network, the clock or threads.
#![forbid(unsafe_code)]

mod decisions;
pub mod host;
pub mod network;
pub mod plan;
pub mod program;
pub mod world;

pub use network::{Network, NetworkConfig};
pub use plan::{Outcome, Plan};
pub use world::World;
