//! The sockets of a client's slot, which it is given as it asks for them.

use std::os::fd::OwnedFd;
use std::time::Instant;

use ferroce_control::Errno;

use super::{Answer, out_of_something, refuse};
use crate::DaemonError;
use crate::adapter::Adapter;
use crate::clients::Clients;
use crate::gids::Wanted;
use ferroce_control::protocol::Reply;

/// More packets than any receive buffer holds.
const WHOLE_BUFFER: usize = 1 << 17;

impl Clients {
    pub(super) fn receive_socket(
        &mut self,
        id: u64,
        gid_index: u16,
        adapter: &mut Adapter,
    ) -> Answer {
        let Some(slot) = self.slot_of(id) else {
            return refuse(Errno::INVAL, "attach before asking for sockets");
        };

        let group = if adapter.is_ib() {
            let index = usize::from(gid_index);
            if index >= adapter.groups.len() {
                return refuse(Errno::NOENT, format!("there is no port {}", index + 1));
            }
            Ok(index)
        } else {
            let Some(entry) = adapter.gids.entry(gid_index) else {
                return refuse(Errno::NOENT, format!("GID {gid_index} is not in use"));
            };
            let wanted = Wanted {
                addr: entry.addr,
                scope_id: entry.scope_id,
                ifindex: entry.ifindex,
                ifname: entry.ifname.clone(),
            };
            adapter.open_group(&wanted)
        };

        match group.and_then(|group| self.hand_out(slot, group, adapter)) {
            Ok(fd) => Answer {
                reply: Reply::ReceiveSocket,
                fds: vec![fd],
            },
            Err(error) => {
                tracing::error!(%error, slot, "cannot hand out a socket");
                let errno = match &error {
                    DaemonError::Os { source, .. } => {
                        source.raw_os_error().map(Errno::from_raw_os_error)
                    }
                    DaemonError::PortTaken { .. } => Some(Errno::ADDRINUSE),
                    DaemonError::NoSuchAddress { .. } => Some(Errno::ADDRNOTAVAIL),
                    _ => None,
                };
                out_of_something(errno.unwrap_or(Errno::IO), &error)
            }
        }
    }

    fn hand_out(
        &mut self,
        slot: u8,
        index: usize,
        adapter: &mut Adapter,
    ) -> Result<OwnedFd, DaemonError> {
        let claimed = adapter.claims.of(slot);
        let user = claimed.and_then(|claimed| adapter.sockets_user(claimed.uid));
        let is_first = claimed.is_some_and(|claimed| !claimed.groups.contains(&index));
        let socket = adapter.socket(index, slot, user)?;
        let duplicate = socket
            .try_clone()
            .map_err(DaemonError::os("duplicating a socket"))?;
        if is_first {
            adapter.groups[index].hand_out(slot, user)?;
            // Until now the socket was drained from here. What came since the last look was for the
            // slot's last owner.
            if let Some(socket) = adapter.groups[index].existing(slot) {
                let _ = adapter.poller.remove(socket);
            }
            if adapter.drain(index, slot, WHOLE_BUFFER) {
                self.slots.disturb(Instant::now(), slot);
            }
            if let Some(claimed) = adapter.claims.of_mut(slot) {
                claimed.groups.insert(index);
            }
        }

        Ok(duplicate)
    }
}
