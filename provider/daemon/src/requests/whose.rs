//! What a client is given, or told, by whose it is.

use ferroce_control::protocol::Reply;

use super::{Answer, Errno, failed, out_of_something, refuse};
use crate::adapter::Adapter;
use crate::clients::Clients;
use crate::users::Users;

impl Clients {
    /// A client's user.
    pub(super) fn uid_of(&self, id: u64) -> Option<u32> {
        Some(self.connections.get(id)?.state.uid)
    }

    /// Whether a client is told of a user's programs.
    pub(super) fn is_told_of(&self, id: u64, user: u32) -> bool {
        let whose = self.uid_of(id).map(Users::seen_by);
        whose.is_some_and(|whose| whose.include(user))
    }

    /// Whether a client may decide what becomes of the device.
    pub(super) fn administers(&self, id: u64) -> bool {
        self.uid_of(id).is_some_and(Users::administers)
    }

    /// The objects of a slot's owner, for who is told of its programs.
    pub(super) fn objects(&self, id: u64, slot: u8, adapter: &Adapter) -> Answer {
        let claimed = adapter.claims.of(slot);
        let Some(claimed) = claimed.filter(|claimed| self.is_told_of(id, claimed.uid)) else {
            return refuse(Errno::NOENT, format!("nobody has slot {slot}"));
        };

        let shared = claimed.objects.shared().ok_or(Errno::BADF);
        let duplicate = shared.and_then(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 0));
        match duplicate {
            Ok(table) => Answer {
                reply: Reply::Objects,
                fds: vec![table],
            },
            Err(errno) => out_of_something(errno, &"handing out a table of objects"),
        }
    }

    /// The inbox of a slot, for who shares memory with its owner: a program of the same user.
    pub(super) fn inbox(&self, id: u64, slot: u8, adapter: &Adapter) -> Answer {
        let Some(claimed) = adapter.claims.of(slot) else {
            return refuse(Errno::NOENT, format!("nobody has slot {slot}"));
        };
        if self.uid_of(id) != Some(claimed.uid) {
            let why = format!("slot {slot} is another user's: packets go to it over the socket");
            return refuse(Errno::ACCESS, why);
        }
        match claimed.inbox.duplicate() {
            Ok(inbox) => Answer {
                reply: Reply::Inbox,
                fds: vec![inbox.memory, inbox.wake],
            },
            Err(error) => failed(&error),
        }
    }
}
