//! Worlds whose sides keep a record of what they do, to be looked at by others.

use crate::plan;
use crate::rng::Rng;
use crate::scenario::settings;
use crate::side::EARLY;
use crate::world::{Options, World};

/// The world of a seed's scenario, about to run; `selective`: each side may understand selective
/// acknowledgements, else neither does. For packets that come early there is always memory, as a
/// capture does not show how much there was.
pub fn world(seed: u64, selective: bool) -> World {
    let mut rng = Rng::new(seed);
    let (options, shape) = settings(&mut rng, seed);
    let plans = plan::plan(&mut rng, shape);
    let mut options = Options {
        record: true,
        ..options
    };
    for side in &mut options.sides {
        side.selective = side.selective.filter(|_| selective).and(Some(&EARLY));
    }
    World::new(options, plans)
}
