//! Waiting awake for the peer's answer to a step of a connection: it comes within some 100 us, of
//! which waking a thread whose processor sleeps is a good part.

use super::Call;
use crate::sys;
use ferroce_cabi::ucma::*;
use ferroce_signals::Held;
use libc::{c_int, c_void};
use std::mem::size_of;
use std::time::{Duration, Instant};

/// How long a thread waits awake. Where it shares its processor, who is waited for may have to wait
/// as long, as a scheduler goes by what each has had.
const AWAKE: Duration = Duration::from_micros(150);

/// Whether the peer answers a command with an event.
///
/// # Safety
/// `body` is readable for `header.in` bytes.
pub(super) unsafe fn is_answered(header: &rdma_ucm_cmd_hdr, body: *const c_void) -> bool {
    match header.cmd {
        RDMA_USER_CM_CMD_CONNECT => true,
        RDMA_USER_CM_CMD_ACCEPT if usize::from(header.r#in) >= size_of::<rdma_ucm_accept>() => {
            // SAFETY: inside the command.
            let command = unsafe { body.cast::<rdma_ucm_accept>().read_unaligned() };
            // Else it is the last step, by who connects.
            command.conn_param.valid != 0
        }
        _ => false,
    }
}

impl Call {
    /// Waits awake for a message, if an answer is due and the descriptor a blocking one. The error
    /// is an errno (`EINTR`).
    pub(super) fn wait_awake(&self) -> Result<(), c_int> {
        if !self.channel.take_due() || sys::is_nonblocking(self.fd) {
            return Ok(());
        }

        let held = Held::all();
        let begin = Instant::now();
        while !sys::has_message(self.fd) {
            if begin.elapsed() >= AWAKE {
                return match held.would_end_a_call() {
                    true => Err(libc::EINTR),
                    false => Ok(()),
                };
            }
            sys::offer_processor();
        }
        Ok(())
    }
}
