//! A simulator for the transport: two hosts, a bad link, virtual time, and a model that knows what
//! must come out.
//!
//! Everything follows from a seed, so that every failure can be replayed: `FERROCE_SIM_SEED=n cargo
//! test -p ferroce-sim --release --test seeds -- --nocapture` prints a trace. Nothing here uses the
//! network, the clock or threads.
#![forbid(unsafe_code)]

pub mod bulk;
pub mod faults;
pub mod host;
pub mod link;
pub mod marked;
pub mod memory;
pub mod model;
pub mod nothing;
pub mod paced;
pub mod plan;
pub mod recorded;
pub mod requests;
pub mod rng;
pub mod scenario;
pub mod side;
pub mod stretched;
pub mod tester;
pub mod tester_host;
mod tester_selective;
pub mod tester_setup;
pub mod unreliable;
pub mod watch;
pub mod wire;
pub mod world;

pub use host::SimHost;
pub use link::{Link, LinkConfig};
pub use memory::{Buffer, Memory};
pub use nothing::Nothing;
pub use rng::Rng;
pub use tester::Tester;
pub use world::{Options, World};
