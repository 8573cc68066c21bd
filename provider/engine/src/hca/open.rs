//! Opening a device, once a process, and its lanes, and what its end is owed.

use std::path::PathBuf;
use std::sync::{Arc, Once};

use ferroce_control::{Client, RuntimeDir};
use parking_lot::Mutex;

use super::{Hca, Tables};
use crate::error::{Error, Result};
use crate::forks;
use crate::memory::guard;
use crate::port::Ports;
use crate::progress::helper;
use crate::tuning::SLOTS_LEFT;

static OPEN: Mutex<Vec<(PathBuf, Arc<Hca>)>> = Mutex::new(Vec::new());

/// A program may exit right after it took its last message: the peer must not wait for the ACK that
/// was held back.
extern "C" fn exiting() {
    // Whoever holds a lock now may never let go of it: try, do not wait.
    let Some(open) = OPEN.try_lock() else { return };
    for (_, hca) in open.iter().filter(|(_, hca)| hca.alive()) {
        let Some(qps) = hca.qps.try_read() else {
            continue;
        };
        for qp in qps.iter() {
            qp.exiting();
        }
        for lane in hca.all_lanes() {
            lane.taps.faults.held.let_go(&lane.taps);
        }
    }
}

impl Hca {
    /// The device of the daemon in `dir`: opened once a process and shared by all contexts. A
    /// forked child opens its own.
    pub fn open(dir: &RuntimeDir) -> Result<Arc<Hca>> {
        static AT_EXIT: Once = Once::new();

        forks::watch();
        AT_EXIT.call_once(|| {
            // SAFETY: the handler takes no argument and does not unwind.
            unsafe { libc::atexit(exiting) };
        });

        // One whose descriptors the program has closed is gone, if nobody has noticed yet.
        let lost = |hca: &&Arc<Hca>| !hca.is_inherited() && hca.control.is_lost();
        let lost: Vec<_> = OPEN
            .lock()
            .iter()
            .map(|(_, hca)| hca)
            .filter(lost)
            .cloned()
            .collect();
        lost.iter().for_each(|hca| hca.control_events());

        let mut open = OPEN.lock();
        for (_, hca) in open.extract_if(.., |(_, hca)| !hca.alive()) {
            if hca.is_inherited() {
                // A parent's: its memory and descriptors look like ours, and are not ours to end.
                std::mem::forget(hca);
            }
        }

        if let Some((_, hca)) = open.iter().find(|(path, _)| path == dir.path()) {
            return Ok(hca.clone());
        }

        let hca = Hca::connect(dir, Tables::default())?;
        open.push((dir.path().to_owned(), hca.clone()));
        Ok(hca)
    }

    /// The runtime directory of its daemon; `None`: it has none. `EIO` in a forked child, whose
    /// parent the device is.
    pub fn runtime_dir(self: &Arc<Self>) -> Result<Option<PathBuf>> {
        if self.is_inherited() {
            return Err(Error::Dead);
        }
        let open = OPEN.lock();
        let own = open.iter().find(|(_, hca)| Arc::ptr_eq(hca, self));
        Ok(own.map(|(dir, _)| dir.clone()))
    }

    /// Completion vectors (`num_comp_vectors`).
    pub fn vectors(&self) -> u32 {
        self.vectors
    }

    /// The lane of a completion vector. Where it cannot be opened the first one serves.
    pub(crate) fn lane(self: &Arc<Self>, vector: u32) -> Arc<Hca> {
        let refused = |why: &Error| tracing::info!("vector {vector} is served by the first: {why}");
        let open = || self.open_lane().inspect_err(refused).ok();
        let lane = self.lanes.of_vector(vector, open);
        lane.unwrap_or(self).clone()
    }

    fn open_lane(self: &Arc<Self>) -> Result<Arc<Hca>> {
        let dir = self.runtime_dir()?.ok_or(Error::Dead)?;
        let dir = RuntimeDir::resolve(Some(&dir));
        let status = self.control.ask(|daemon| daemon.status());
        // Events may have come before the answer.
        self.control_events();
        if status?.slots.free < SLOTS_LEFT {
            return Err(Error::Full("slots for completion vectors"));
        }
        Hca::connect(&dir, self.tables())
    }

    /// Attaches to the daemon in `dir` for a slot, whose tables these are.
    fn connect(dir: &RuntimeDir, tables: Tables) -> Result<Arc<Hca>> {
        guard::install();
        let mut control = Client::connect(dir)?;
        // The kernel cuts it in the middle of a character.
        let name = std::fs::read("/proc/self/comm").unwrap_or_default();
        let name = String::from_utf8_lossy(&name);
        let attachment = control.attach(name.trim_end())?;
        let gids = control.gids()?;
        let ports = match attachment.device.ib_ports {
            0 => Vec::new(),
            _ => control.ports()?,
        };

        let hca = Arc::new(Hca::new(
            Some(control),
            attachment,
            gids,
            Ports::new(ports),
            tables,
        )?);
        hca.begin_with_faults();
        // Captures that are under way have been told of beside the first answer.
        hca.queued_events();
        helper::start(&hca)?;
        Ok(hca)
    }
}
