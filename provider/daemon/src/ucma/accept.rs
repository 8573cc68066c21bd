//! Letting programs in: who may be a session, and what is remembered of it.

use std::os::fd::OwnedFd;

use nix::sys::socket::sockopt;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

use super::commands::Caller;
use super::serve::Server;
use super::session::Session;
use crate::door;
use crate::poller::{Poller, Token};

impl Server {
    /// Takes in who knocks.
    pub fn accept(&mut self, poller: &Poller) {
        for _ in 0..door::BATCH {
            let Some(socket) = self.door.accept(poller) else {
                return;
            };
            if let Err(errno) = self.welcome(socket, poller) {
                tracing::warn!(error = %errno, "refused a program of the connection manager");
            }
        }
    }

    fn welcome(&mut self, socket: OwnedFd, poller: &Poller) -> Result<(), Errno> {
        let peer = nix::sys::socket::getsockopt(&socket, sockopt::PeerCredentials)
            .map_err(|e| Errno::from_raw_os_error(e as i32))?;
        if peer.uid() != rustix::process::geteuid().as_raw() && peer.uid() != 0 {
            return Err(Errno::ACCESS);
        }
        self.last_session += 1;
        let id = self.last_session;
        let pid = u32::try_from(peer.pid()).unwrap_or(0);
        let process = Pid::from_raw(peer.pid())
            .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        poller.add(&socket, Token::CmSession(id))?;
        if let Some(process) = &process {
            poller.add(process, Token::CmProcess(id))?;
        }
        let caller = Caller {
            session: id,
            pid,
            privileged: peer.uid() == 0,
        };
        let session = Session {
            socket,
            caller,
            channels: 0,
            process,
        };
        self.sessions.insert(id, session);
        Ok(())
    }
}
