//! Which network namespace a thread's sockets are of.

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

use crate::udp;

/// A network namespace, by what tells it from others of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Its number, which no other has or had (`SO_NETNS_COOKIE`, Linux 5.14).
    Cookie(u64),
    /// The inode of its file below `/proc`.
    Inode(u64),
    /// It cannot be told.
    Unknown,
}

impl Network {
    /// That of the calling thread.
    pub fn here() -> Self {
        let opened = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        );
        let cookie = opened.ok().and_then(|socket| udp::network_cookie(&socket));
        match cookie {
            Some(cookie) => Self::Cookie(cookie),
            None => Self::by_file(),
        }
    }

    fn by_file() -> Self {
        match rustix::fs::stat("/proc/thread-self/ns/net") {
            Ok(file) => Self::Inode(file.st_ino),
            Err(_) => Self::Unknown,
        }
    }

    /// Whether it is known to be another one.
    pub fn differs(self, other: Self) -> bool {
        match (self, other) {
            (Self::Cookie(one), Self::Cookie(other)) | (Self::Inode(one), Self::Inode(other)) => {
                one != other
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn threads_of_one_network_are_told_the_same() {
        let other = thread::spawn(|| [Network::here(), Network::by_file()]);
        let other = other.join().unwrap();
        for (here, there) in [Network::here(), Network::by_file()].into_iter().zip(other) {
            assert_eq!(here, there);
            assert!(!here.differs(there));
        }
    }

    /// Where this process may do so.
    #[test]
    fn a_thread_that_has_left_is_elsewhere() {
        let left = thread::spawn(|| {
            // SAFETY: no other thread shares what this one leaves.
            let left = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
            left.then(|| [Network::here(), Network::by_file()])
        });
        let Some(there) = left.join().unwrap() else {
            return;
        };
        for (here, there) in [Network::here(), Network::by_file()].into_iter().zip(there) {
            assert!(here == Network::Unknown || here.differs(there), "{here:?}");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_taken_for_the_same() {
        assert!(!Network::Cookie(1).differs(Network::Inode(2)));
        assert!(!Network::Unknown.differs(Network::Cookie(1)));
        assert!(Network::Inode(1).differs(Network::Inode(2)));
    }
}
