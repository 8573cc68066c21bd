//! What programs send over their connections, and what becomes of a connection and its channels at
//! their end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ferroce_cabi::ucma_frame::{self, Reply, Request};
use ferroce_control::seqpacket::ReceiveError;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use zerocopy::{FromBytes, IntoBytes};

use super::channel::{Caller, Channel};
use super::serve::Server;
use super::surroundings::Surroundings as View;
use crate::error::for_programs;
use crate::poller::{Poller, Token};
use crate::sessions::Session;

/// How many requests of one program are carried out before others have their turn.
const REQUESTS: usize = 64;
/// More requests than the buffer of a program's connection holds.
const ALL_REQUESTS: usize = 1024;
/// Longest request: head, command, option.
const MAX_REQUEST: usize = size_of::<Request>() + ucma_frame::MAX_COMMAND + ucma_frame::MAX_OPTION;

/// What has become of a request.
enum Served {
    /// It has got its reply.
    Answered,
    /// It wants none.
    Noted,
    /// There was none.
    Nothing,
}

impl Server {
    /// Reads and answers what a program has sent.
    pub(crate) fn serve(&mut self, session: u64, view: &View<'_>) {
        for _ in 0..REQUESTS {
            match self.serve_one(session, view) {
                // The program sends the next when it has the answer.
                Served::Answered | Served::Nothing => return,
                Served::Noted => {}
            }
        }
    }

    fn serve_one(&mut self, session: u64, view: &View<'_>) -> Served {
        let mut buffer = [0; MAX_REQUEST];
        let Some(entry) = self.sessions.get(session) else {
            return Served::Nothing;
        };

        match entry.receive(&mut buffer) {
            Ok(request) => match self.answer(session, &buffer[..request.len], view) {
                Ok(served) => return served,
                Err(_) => complain(session),
            },
            Err(ReceiveError::WouldBlock) => return Served::Nothing,
            Err(ReceiveError::TooLong | ReceiveError::NoDescriptors) => complain(session),
            Err(ReceiveError::Closed | ReceiveError::Os(_)) => {}
        }

        self.leave(session, view);
        Served::Nothing
    }

    /// Carries out what a program has posted before it let go: the answers have nobody to go to.
    fn serve_rest(&mut self, session: u64, view: &View<'_>) {
        for _ in 0..ALL_REQUESTS {
            if matches!(self.serve_one(session, view), Served::Nothing) {
                return;
            }
        }
    }

    /// An error means that the session is of no more use.
    fn answer(&mut self, session: u64, request: &[u8], view: &View<'_>) -> Result<Served, Errno> {
        let (head, rest) = Request::read_from_prefix(request).map_err(|_| Errno::INVAL)?;
        if head.version != ucma_frame::VERSION {
            self.reply(session, Reply::other_version(), &[], &[])?;
            return Err(Errno::PROTO);
        }

        let parts = rest.split_at_checked(head.command_len as usize);
        let (command, option) = parts.ok_or(Errno::INVAL)?;
        if option.len() != head.option_len as usize {
            return Err(Errno::PROTO);
        }

        let caller = self.caller(session)?;
        match head.kind {
            ucma_frame::OPEN => {
                let mut head = Reply {
                    result: 0,
                    take: 0,
                    take_from: 0,
                    answer_len: 0,
                };

                let theirs = match self.open(session, view.poller) {
                    Ok((theirs, number)) => {
                        head.answer_len = number;
                        Some(theirs)
                    }
                    Err(errno) => {
                        head.result = -errno.raw_os_error();
                        None
                    }
                };

                let fds = theirs
                    .as_ref()
                    .map(|theirs| [theirs.as_fd(), self.ucma.generations.shared().as_fd()]);
                let fds = fds.as_ref().map_or(&[][..], |fds| &fds[..]);
                self.reply(session, head, &[], fds)?;
                Ok(Served::Answered)
            }
            ucma_frame::COMMAND => {
                let host = self.host(view);
                let outcome = self.ucma.command(caller, &head, (command, option), &host);
                self.finish(&host);
                let reply = Reply {
                    result: outcome.result,
                    take: outcome.take,
                    take_from: outcome.take_from,
                    answer_len: outcome.answer.len() as u32,
                };
                self.reply(session, reply, &outcome.answer, &[])?;
                Ok(Served::Answered)
            }
            ucma_frame::POST => {
                let host = self.host(view);
                self.ucma.posted(caller, &head, command, &host);
                self.finish(&host);
                Ok(Served::Noted)
            }
            ucma_frame::TAKEN => {
                let host = self.host(view);
                if self.ucma.admits(caller, head.channel).is_ok() {
                    self.ucma.taken(head.channel, head.taken);
                    self.ucma.announce(&host);
                }
                Ok(Served::Noted)
            }
            _ => Err(Errno::INVAL),
        }
    }

    fn caller(&self, session: u64) -> Result<Caller, Errno> {
        let entry = self.sessions.get(session).ok_or(Errno::INVAL)?;
        Ok(entry.state.caller)
    }

    /// Makes a channel and returns the program's end, and its number.
    fn open(&mut self, session: u64, poller: &Poller) -> Result<(OwnedFd, u32), Errno> {
        let program = self.sessions.get_mut(session).ok_or(Errno::INVAL)?;
        let program = &mut program.state;
        if program.channels >= ucma_frame::MAX_CHANNELS {
            return Err(Errno::MFILE);
        }

        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .map_err(for_programs)?;

        // What a program writes past librdmacm goes nowhere.
        rustix::net::shutdown(&ours, rustix::net::Shutdown::Read)?;
        let inode = rustix::fs::fstat(&theirs)?.st_ino;
        poller.add_hangup(&ours, Token::CmChannel(inode))?;
        let number = self.ucma.open(inode, ours, program.caller)?;
        program.channels += 1;
        Ok((theirs, number))
    }

    fn reply(
        &self,
        session: u64,
        head: Reply,
        answer: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        self.sessions.send(session, &[head.as_bytes(), answer], fds)
    }

    /// The program's last descriptor of a channel was closed.
    pub(crate) fn hung_up(&mut self, channel: u64, view: &View<'_>) {
        if let Some(entry) = self.ucma.channels.get(&channel) {
            self.serve_rest(entry.session, view);
        }
        let host = self.host(view);
        if let Some(entry) = self.ucma.channels.get(&channel) {
            let _ = view.poller.remove(&entry.socket);
            if let Some(session) = self.sessions.get_mut(entry.session) {
                session.state.channels -= 1;
            }
        }
        self.ucma.close(channel, &host);
        self.finish(&host);
    }

    /// A program's process has died: a child that has inherited its channels has no use of them.
    pub(crate) fn died(&mut self, session: u64, view: &View<'_>) {
        let theirs = |channel: &Channel| channel.session == session;
        let channels = self.ucma.channels.iter();
        let mine: Vec<u64> = channels
            .filter(|(_, c)| theirs(c))
            .map(|(inode, _)| *inode)
            .collect();
        for channel in mine {
            self.hung_up(channel, view);
        }
        self.leave(session, view);
    }

    /// Forgets a session. Its channels live on their own.
    fn leave(&mut self, session: u64, view: &View<'_>) {
        let channels = self.ucma.channels.values();
        let alive = { channels }.any(|channel| channel.session == session);
        let watched = self.sessions.get(session);
        if alive && watched.is_some_and(Session::watches_process) {
            // The process may have closed the connection only; its death is still of interest.
            return self.sessions.ignore(session, view.poller);
        }
        self.sessions.remove(session, view.poller);
    }
}

/// Its program is of another build, or mad.
fn complain(session: u64) {
    tracing::warn!(session, "unintelligible request to the connection manager");
}
