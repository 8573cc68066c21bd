//! Worlds whose sides keep a record of what they do, to be looked at by others.

use crate::plan;
use crate::rng::Rng;
use crate::scenario::settings;
use crate::world::{Options, World};

/// The world of a seed's scenario, about to run. Neither side understands selective
/// acknowledgements, of which no record says so.
pub fn world(seed: u64) -> World {
    let mut rng = Rng::new(seed);
    let (options, shape) = settings(&mut rng, seed);
    let plans = plan::plan(&mut rng, shape);
    let mut options = Options {
        record: true,
        ..options
    };
    for side in &mut options.sides {
        side.selective = None;
    }
    World::new(options, plans)
}
