//! Commands that are known to succeed: ferroced is told, and nobody waits for the answer.

use super::Call;
use crate::answers;
use crate::carrier::RDMA_CM;
use ferroce_cabi::ucma::*;
use ferroce_cabi::ucma_frame::{MAX_POSTED_ACCEPT, MAX_POSTED_CONNECT, POST, answer};
use libc::{c_int, c_void};
use std::mem::size_of;

impl Call {
    /// Whether a command is known to succeed, so that nobody need wait for it.
    ///
    /// # Safety
    /// As [`prepare`](Call::prepare).
    pub(super) unsafe fn may_be_posted(
        &self,
        header: &rdma_ucm_cmd_hdr,
        body: *const c_void,
    ) -> bool {
        let has = |len| usize::from(header.r#in) >= len;
        let known = |id, command| answers::succeeds(self.number, id, command);
        if !self.channel.is_of(self.me) {
            return false;
        }

        match header.cmd {
            RDMA_USER_CM_CMD_CONNECT if has(size_of::<rdma_ucm_connect>()) => {
                // SAFETY: inside the command.
                let command = unsafe { body.cast::<rdma_ucm_connect>().read_unaligned() };
                let conn = &command.conn_param;
                conn.valid != 0
                    && conn.private_data_len <= MAX_POSTED_CONNECT
                    && known(command.id, answer::CONNECT)
            }
            RDMA_USER_CM_CMD_ACCEPT if has(size_of::<rdma_ucm_accept>()) => {
                // SAFETY: inside the command.
                let command = unsafe { body.cast::<rdma_ucm_accept>().read_unaligned() };
                match command.conn_param.valid {
                    0 => known(command.id, answer::ESTABLISH),
                    _ => {
                        command.conn_param.private_data_len <= MAX_POSTED_ACCEPT
                            && known(command.id, answer::ACCEPT)
                    }
                }
            }
            RDMA_USER_CM_CMD_DISCONNECT if has(size_of::<rdma_ucm_disconnect>()) => {
                // SAFETY: inside the command.
                let command = unsafe { body.cast::<rdma_ucm_disconnect>().read_unaligned() };
                answers::is_connected(self.number, command.id)
            }
            _ => false,
        }
    }

    /// Has ferroced carry out the command some time. It does so in order with the process's other
    /// commands.
    ///
    /// # Safety
    /// As [`write`](super::write).
    pub(super) unsafe fn post(&mut self) -> Result<(), c_int> {
        self.request.kind = POST;
        self.request.taken = self.channel.taken();
        // SAFETY: as the caller promises.
        unsafe { RDMA_CM.lock().send(&self.request, self.parts) }.map(drop)
    }
}
