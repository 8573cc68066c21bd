//! Lanes: a completion vector but the first has a slot of the device to itself, and with it sockets
//! and an inbox, a thread that receives while nobody polls, timers and paths.
//!
//! A queue pair belongs to the lane of its completion queue. So threads that poll queues of
//! different vectors have no lock in common but those of what they share by the program's own wish,
//! as a completion queue, and those of tables that are only read.

use std::sync::{Arc, OnceLock};
use std::thread;

use ferroce_control::{Client, RuntimeDir};

use super::Hca;
use crate::error::{Error, Result};
use crate::tuning::{MAX_VECTORS, MIN_VECTORS, SLOTS_LEFT};

/// The further lanes of a process, each opened when its vector is first used.
#[derive(Default)]
pub(super) struct Lanes([OnceLock<Option<Arc<Hca>>>; MAX_VECTORS as usize - 1]);

impl Lanes {
    /// Those that are open.
    pub(super) fn open(&self) -> impl Iterator<Item = &Arc<Hca>> {
        self.0.iter().filter_map(|lane| lane.get()?.as_ref())
    }
}

impl Hca {
    /// Completion vectors that there are (`num_comp_vectors`): one for each processor that the
    /// process may use, within limits.
    pub fn vectors(&self) -> u32 {
        let processors = thread::available_parallelism().map_or(1, |n| n.get() as u32);
        processors.clamp(MIN_VECTORS, MAX_VECTORS)
    }

    /// The lane of a completion vector. Where it cannot be opened the first one serves.
    pub(crate) fn lane(self: &Arc<Self>, vector: u32) -> Arc<Hca> {
        let place = (vector as usize).checked_sub(1);
        let Some(place) = place.and_then(|place| self.lanes.0.get(place)) else {
            return self.clone();
        };
        let lane = place.get_or_init(|| {
            let opened = self.open_lane();
            opened
                .inspect_err(|why| tracing::info!("vector {vector} is served by the first: {why}"))
                .ok()
        });
        lane.as_ref().unwrap_or(self).clone()
    }

    fn open_lane(self: &Arc<Self>) -> Result<Arc<Hca>> {
        let dir = self.runtime_dir()?.ok_or(Error::Dead)?;
        let dir = RuntimeDir::resolve(Some(&dir));
        let slots = Client::connect(&dir)?.status()?.slots;
        if slots.free < SLOTS_LEFT {
            return Err(Error::Full("slots for completion vectors"));
        }
        Hca::connect(&dir, self.tables())
    }
}
