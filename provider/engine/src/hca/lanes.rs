//! Lanes: a completion vector but the first has a slot of the device to itself, and with it sockets
//! and an inbox, a thread that receives while nobody polls, timers and paths.
//!
//! A queue pair belongs to the lane of its completion queue. So threads that poll queues of
//! different vectors have no lock in common but those of what they share by the program's own wish,
//! as a completion queue, and those of tables that are only read.

use std::sync::{Arc, OnceLock};

use crate::tuning::{MAX_VECTORS, MIN_VECTORS};

/// The further lanes of a process, each opened when its vector is first used. One that could not be
/// opened is not tried again.
pub(super) struct Lanes<H>([OnceLock<Option<Arc<H>>>; MAX_VECTORS as usize - 1]);

/// How many completion vectors a device says to have: one for each processor of the machine, within
/// limits. Which of them the thread that asks may use does not matter.
pub(super) fn vectors() -> u32 {
    // SAFETY: touches no memory.
    let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(processors)
        .unwrap_or(MIN_VECTORS)
        .clamp(MIN_VECTORS, MAX_VECTORS)
}

impl<H> Default for Lanes<H> {
    fn default() -> Self {
        Lanes([const { OnceLock::new() }; MAX_VECTORS as usize - 1])
    }
}

impl<H> Lanes<H> {
    /// Those that are open.
    pub(super) fn open(&self) -> impl Iterator<Item = &Arc<H>> {
        self.0.iter().filter_map(|lane| lane.get()?.as_ref())
    }

    /// That of a vector, opened if it is not yet; none where it is the first, or cannot be opened.
    pub(super) fn of_vector(
        &self,
        vector: u32,
        open: impl FnOnce() -> Option<Arc<H>>,
    ) -> Option<&Arc<H>> {
        let place = (vector as usize).checked_sub(1)?;
        self.0.get(place)?.get_or_init(open).as_ref()
    }
}
