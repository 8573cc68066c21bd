//! Commands that nobody waits for: `answers` has said that they would succeed.

use ferroce_cabi::ucma::*;
use ferroce_cabi::ucma_frame::Request;
use zerocopy::FromBytes;

use super::channel::Caller;
use super::events::{Detail, Kind};
use super::host::Host;
use super::state::Ucma;

impl Ucma {
    /// Carries out a command whose program was sure that it would succeed, and does not wait.
    /// Should it fail all the same, as the peer was quicker, the program hears what it would have
    /// heard if the peer had been slower.
    pub(super) fn posted(
        &mut self,
        caller: Caller,
        request: &Request,
        bytes: &[u8],
        host: &Host<'_>,
    ) {
        let result = self.command(caller, request, (bytes, &[]), host).result;
        if result == 0 || self.admits(caller, request.channel).is_err() {
            return;
        }
        let Ok((head, body)) = rdma_ucm_cmd_hdr::read_from_prefix(bytes) else {
            return;
        };

        match head.cmd {
            RDMA_USER_CM_CMD_CONNECT => {
                if let Ok((asked, _)) = rdma_ucm_connect::read_from_prefix(body)
                    && self.id(request.channel, asked.id).is_ok()
                {
                    self.raise(asked.id, Kind::ConnectError, result, Detail::None);
                }
            }
            RDMA_USER_CM_CMD_ACCEPT => {
                if let Ok((asked, _)) = rdma_ucm_accept::read_from_prefix(body)
                    && asked.conn_param.valid != 0
                    && let Ok(id) = self.id(request.channel, asked.id)
                {
                    id.uid = asked.uid;
                    let (kind, status, detail) = match id.missed.take() {
                        Some(missed) => missed,
                        None => (Kind::ConnectError, result, Detail::None),
                    };
                    self.raise(asked.id, kind, status, detail);
                }
                // The active side has been told why it is not established any more.
            }
            // An end that comes too late is no error.
            _ => {}
        }

        self.announce(host);
    }
}
