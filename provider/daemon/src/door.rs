//! Where programs knock: a listening socket in the runtime directory. While there are no
//! descriptors to let anybody in it is not watched, or whoever knocks would keep the daemon
//! spinning; who waits is let in as soon as there are some. Nobody is let in but the device's
//! users, whoever can reach the socket.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferroce_control::seqpacket;
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::DaemonError;
use crate::poller::{Poller, Token};
use crate::users::Users;

/// How long a door stays shut before the next attempt.
const PAUSE: Duration = Duration::from_secs(1);
/// How many are let in before others have their turn.
pub(crate) const BATCH: usize = 64;

/// Who was let in.
#[derive(Debug)]
pub(crate) struct Guest {
    /// The connection.
    pub(crate) socket: OwnedFd,
    /// The process, 0 if it is in a namespace that this one does not see.
    pub(crate) pid: u32,
    /// Its user.
    pub(crate) uid: u32,
}

impl Guest {
    /// Looks at who has connected. `None` if it is somebody who has no business here.
    fn new(socket: OwnedFd, users: Users) -> Option<Self> {
        let peer = seqpacket::peer(&socket).ok()?;
        if !users.have(&socket, peer.uid) {
            tracing::warn!(uid = peer.uid, "refused a connection of another user");
            return None;
        }
        Some(Self {
            socket,
            pid: peer.pid,
            uid: peer.uid,
        })
    }
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Door {
    path: PathBuf,
    users: Users,
    listener: OwnedFd,
    token: Token,
    /// When to look again, while it is shut.
    shut_until: Option<Instant>,
    /// Whether nobody could be let in the last time.
    failing: bool,
}

impl Door {
    /// Listens at a path, with room for so many who wait. Nobody is let in before
    /// [`watch`](Self::watch).
    pub(crate) fn listen(
        path: &Path,
        backlog: i32,
        token: Token,
        users: Users,
    ) -> Result<Self, DaemonError> {
        match fs::remove_file(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(DaemonError::file(path)(e));
            }
            _ => {}
        }
        let listener = seqpacket::listen(path, backlog)
            .and_then(|fd| rustix::io::ioctl_fionbio(&fd, true).map(|()| fd))
            .map_err(DaemonError::os(format!("listening at {}", path.display())))?;
        users.let_at(path)?;
        Ok(Self::new(path, listener, token, users))
    }

    /// A door that nobody comes to, for servers whose programs are the caller's own.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn nowhere(token: Token) -> Result<Self, Errno> {
        use rustix::net::{AddressFamily, SocketType};
        let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
        Ok(Self::new(Path::new(""), listener, token, Users::Own))
    }

    fn new(path: &Path, listener: OwnedFd, token: Token, users: Users) -> Self {
        Self {
            path: path.to_owned(),
            users,
            listener,
            token,
            shut_until: None,
            failing: false,
        }
    }

    /// The daemon shall hear who knocks.
    pub(crate) fn watch(&self, poller: &Poller) -> Result<(), DaemonError> {
        poller
            .add(&self.listener, self.token)
            .map_err(DaemonError::os(format!("watching {}", self.path.display())))
    }

    /// The socket.
    pub(crate) fn listener(&self) -> &OwnedFd {
        &self.listener
    }

    /// The next who knocks and may come in; who may not sees the end of his connection. Shuts the
    /// door when there is no descriptor.
    pub(crate) fn accept(&mut self, poller: &Poller) -> Option<Guest> {
        for _ in 0..BATCH {
            match rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    if std::mem::take(&mut self.failing) {
                        tracing::info!(at = %self.path.display(), "lets programs in again");
                    }
                    if let Some(guest) = Guest::new(socket, self.users) {
                        return Some(guest);
                    }
                }
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(Errno::AGAIN) => return None,
                Err(errno) => {
                    if !std::mem::replace(&mut self.failing, true) {
                        tracing::error!(error = %errno, at = %self.path.display(), "cannot let programs in");
                    }
                    let _ = poller.remove(&self.listener);
                    self.shut_until = Some(Instant::now() + PAUSE);
                    return None;
                }
            }
        }

        None
    }

    /// When [`reopen`](Self::reopen) has something to do.
    pub(crate) fn reopens_at(&self) -> Option<Instant> {
        self.shut_until
    }

    /// Hears again who knocks, if it is time.
    pub(crate) fn reopen(&mut self, now: Instant, poller: &Poller) {
        if self.shut_until.is_some_and(|at| at <= now) {
            self.shut_until = match poller.add(&self.listener, self.token) {
                Ok(()) => None,
                Err(_) => Some(now + PAUSE),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SendFlags, SocketType};

    const NOW: Option<Duration> = Some(Duration::ZERO);

    /// Accepting fails again and again, and the socket is readable all the while: as when there are
    /// no descriptors.
    #[test]
    fn a_door_that_nobody_can_be_let_in_by_is_shut_for_a_second() {
        let poller = Poller::new().unwrap();
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::NONBLOCK,
            None,
        )
        .unwrap();
        rustix::net::send(&theirs, b"knock", SendFlags::empty()).unwrap();
        let mut door = Door::new(Path::new("door"), ours, Token::Listener, Users::Own);
        door.watch(&poller).unwrap();

        for _ in 0..3 {
            assert_eq!(poller.wait(NOW).unwrap().len(), 1);
            let before = Instant::now();
            assert!(door.accept(&poller).is_none());
            let at = door.reopens_at().unwrap();
            assert!(at >= before + PAUSE);
            assert!(poller.wait(NOW).unwrap().is_empty());
            door.reopen(at - Duration::from_nanos(1), &poller);
            assert_eq!(door.reopens_at(), Some(at));
            assert!(poller.wait(NOW).unwrap().is_empty());
            door.reopen(at, &poller);
            assert_eq!(door.reopens_at(), None);
        }
    }

    #[test]
    fn who_is_let_in_is_known() {
        let pair = || {
            let seqpacket = SocketType::SEQPACKET;
            rustix::net::socketpair(AddressFamily::UNIX, seqpacket, SocketFlags::CLOEXEC, None)
        };
        let uid = rustix::process::geteuid().as_raw();
        let guest = Guest::new(pair().unwrap().0, Users::Own).unwrap();
        assert_eq!((guest.pid, guest.uid), (std::process::id(), uid));
    }

    #[test]
    fn who_knocks_is_let_in_once() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("door");
        fs::write(&path, "what another daemon left").unwrap();
        let poller = Poller::new().unwrap();
        let mut door = Door::listen(&path, 4, Token::Listener, Users::Own).unwrap();
        door.watch(&poller).unwrap();
        assert!(door.accept(&poller).is_none());
        let _theirs = [(); 2].map(|()| seqpacket::connect(&path).unwrap());
        assert_eq!(poller.wait(NOW).unwrap().len(), 1);
        assert!(door.accept(&poller).is_some());
        assert!(door.accept(&poller).is_some());
        assert!(door.accept(&poller).is_none());
        assert!(poller.wait(NOW).unwrap().is_empty());
        assert_eq!(door.reopens_at(), None);
    }
}
