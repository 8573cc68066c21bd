//! Letting programs in: what is remembered of a session.

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

use super::channel::Caller;
use super::serve::{Server, Session};
use crate::door::{self, Guest};
use crate::poller::{Poller, Token};

impl Server {
    /// Takes in who knocks.
    pub fn accept(&mut self, poller: &Poller) {
        for _ in 0..door::BATCH {
            let Some(guest) = self.door.accept(poller) else {
                return;
            };
            if let Err(errno) = self.welcome(guest, poller) {
                tracing::warn!(error = %errno, "refused a program of the connection manager");
            }
        }
    }

    fn welcome(&mut self, guest: Guest, poller: &Poller) -> Result<(), Errno> {
        let Guest {
            socket,
            pid,
            is_root,
        } = guest;
        self.last_session += 1;
        let id = self.last_session;
        let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let process =
            process.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        poller.add(&socket, Token::CmSession(id))?;
        if let Some(process) = &process {
            poller.add(process, Token::CmProcess(id))?;
        }
        let caller = Caller {
            session: id,
            pid,
            privileged: is_root,
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
