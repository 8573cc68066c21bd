//! What is said of a channel whose ferroced has gone.

use super::Call;
use crate::sys;
use ferroce_cabi::ucma::*;
use libc::c_int;
use std::time::Duration;

/// What is done once the daemon is gone.
const LETS_GO: [u32; 2] = [RDMA_USER_CM_CMD_DESTROY_ID, RDMA_USER_CM_CMD_LEAVE_MCAST];

impl Call {
    /// What a command to the channel with this descriptor comes to that failed, `done`, if that is
    /// because ferroced has gone.
    ///
    /// # Safety
    /// As [`write`](super::write).
    pub(super) unsafe fn without_ferroced(
        &self,
        fd: c_int,
        command: u32,
        done: &Option<Result<(), c_int>>,
    ) -> Option<Result<(), c_int>> {
        if !matches!(done, None | Some(Err(libc::EIO))) {
            return None;
        }
        // A daemon that dies closes one thing after the other: who may rely on its being gone waits
        // for the rest.
        let wait = match LETS_GO.contains(&command) {
            true => Duration::from_secs(1),
            false => Duration::ZERO,
        };
        // SAFETY: as the caller promises.
        sys::is_abandoned(fd, wait).then(|| unsafe { self.afterwards(command) })
    }

    /// What is said of a channel whose ferroced has left, whether or not there is another one:
    /// nothing can be done with its ids but letting go of them, which always can.
    ///
    /// # Safety
    /// As [`write`](super::write).
    unsafe fn afterwards(&self, command: u32) -> Result<(), c_int> {
        if !LETS_GO.contains(&command) {
            return Err(libc::EIO);
        }
        // No event is awaited any more.
        let nothing = rdma_ucm_destroy_id_resp { events_reported: 0 };
        if self.answer.iov_len >= size_of_val(&nothing) {
            // SAFETY: the caller's structure, whose place may be unaligned.
            unsafe {
                self.answer
                    .iov_base
                    .cast::<rdma_ucm_destroy_id_resp>()
                    .write_unaligned(nothing)
            };
        }
        Ok(())
    }
}
