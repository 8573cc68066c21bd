//! The server's sockets: programs' sessions, their channels, and QP1. It reads, has things done, and writes; nothing a
//! program does makes it wait.

use std::collections::HashMap;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ferroce_cabi::ucma_frame::{self, Reply, Request};
use ferroce_control::{GidEntry, RuntimeDir};
use ferroce_fabric::Av;
use ferroce_wire::mad::{CLASS_CM, Mad};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType,
};
use zerocopy::{FromBytes, IntoBytes};

use super::commands::Caller;
use super::{Host, Ucma};
use crate::DaemonError;
use crate::daemon::Surroundings as View;
use crate::door::Door;
use crate::error::told;
use crate::poller::{Poller, Token};
use crate::qp1::{self, Qp1, Received};
use crate::umad::Outgoing;

/// How many datagrams of one address are handled before others have their turn.
const DATAGRAMS: usize = 128;
/// Longest request: head, command, option.
const MAX_REQUEST: usize = size_of::<Request>() + ucma_frame::MAX_COMMAND + ucma_frame::MAX_OPTION;

/// A program's connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) socket: OwnedFd,
    pub(super) caller: Caller,
    pub(super) channels: usize,
    /// Becomes readable when the process dies. A child that it leaves behind may keep channels open.
    pub(super) process: Option<OwnedFd>,
}

/// The server with its sockets.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) door: Door,
    /// With the channels. It goes before the sessions: a program whose connection ends shall find its channels at their end, too.
    pub(super) ucma: Ucma,
    pub(super) sessions: HashMap<u64, Session>,
    pub(super) last_session: u64,
    qp1: Qp1,
    /// What is to be sent from QP1 of InfiniBand ports.
    pub(super) outgoing: Vec<Outgoing>,
    started: Instant,
    buffer: Box<[u8]>,
}

impl Server {
    /// Listens in the runtime directory, for the device with that node GUID.
    pub fn start(
        dir: &RuntimeDir,
        node_guid: [u8; 8],
        poller: &Poller,
    ) -> Result<Self, DaemonError> {
        let door = Door::listen(&dir.rdma_cm(), 512, Token::CmListener)?;
        door.watch(poller)?;
        Ok(Self {
            door,
            sessions: HashMap::new(),
            last_session: 0,
            ucma: Ucma::new(node_guid)?,
            qp1: Qp1::default(),
            outgoing: Vec::new(),
            started: Instant::now(),
            buffer: vec![0; 4096].into_boxed_slice(),
        })
    }

    /// Whether anybody uses it.
    pub fn is_idle(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The device goes. Programs are told, and have until [`is_gone`](Self::is_gone) to clean up.
    pub fn remove_device(&mut self, view: &View<'_>) {
        let host = self.host(view);
        self.ucma.withdraw(&host);
        self.ucma.remove_device(&host);
        self.finish(&host, view);
    }

    /// Whether nobody holds anything of a device that has gone.
    pub fn is_gone(&self) -> bool {
        !self.ucma.has_removed()
    }

    /// The device's addresses have changed.
    pub fn addresses_changed(&mut self, view: &View<'_>) {
        let host = self.host(view);
        self.ucma.addresses_changed(&host);
        self.finish(&host, view);
    }

    /// An interface has another hardware address.
    pub fn hardware_changed(&mut self, ifindex: u32, view: &View<'_>) {
        let host = self.host(view);
        self.ucma.hardware_changed(ifindex, &host);
        self.finish(&host, view);
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<Instant> {
        let times = [
            self.ucma.cm.next_timeout(),
            self.ucma.next_pause(),
            self.ucma.questions.next_timeout(),
            self.ucma.names.next_timeout(),
            self.ucma.regroup_at,
        ];
        let at = times.into_iter().flatten().min()?;
        Some(self.started + Duration::from_nanos(at))
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, view: &View<'_>) {
        let host = self.host(view);
        self.ucma.cm.handle_timeout(host.now, &mut self.ucma.out);
        self.ucma.end_pauses(false, &host);
        self.ucma.repeat_questions(&host);
        self.ucma.renew(&host);
        self.ucma.regroup(&host);
        self.finish(&host, view);
    }

    /// Reads and answers what a program has sent.
    pub fn serve(&mut self, session: u64, view: &View<'_>) {
        let mut buffer = [0; MAX_REQUEST + 1];
        let Some(entry) = self.sessions.get(&session) else {
            return;
        };
        // One at a time: a program sends the next when it has the answer.
        match rustix::net::recv(&entry.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => self.leave(session, view),
            Ok((len, _)) => {
                let good = buffer
                    .get(..len)
                    .is_some_and(|request| self.answer(session, request, view).is_ok());
                if !good {
                    // Its program is of another build, or mad.
                    tracing::warn!(session, "unintelligible request to the connection manager");
                    self.leave(session, view);
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.leave(session, view),
        }
    }

    /// An error means that the session is of no more use.
    fn answer(&mut self, session: u64, request: &[u8], view: &View<'_>) -> Result<(), Errno> {
        let (head, rest) = Request::read_from_prefix(request).map_err(|_| Errno::INVAL)?;
        let parts = rest.split_at_checked(head.command_len as usize);
        let (command, option) = parts.ok_or(Errno::INVAL)?;
        if head.version != ucma_frame::VERSION || option.len() != head.option_len as usize {
            return Err(Errno::PROTO);
        }
        let entry = self.sessions.get_mut(&session).ok_or(Errno::INVAL)?;
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
                self.reply(session, head, &[], fds)
            }
            ucma_frame::COMMAND => {
                let caller = entry.caller;
                let host = self.host(view);
                let outcome = self.ucma.command(caller, &head, (command, option), &host);
                self.finish(&host, view);
                let reply = Reply {
                    result: outcome.result,
                    take: outcome.take,
                    take_from: outcome.take_from,
                    answer_len: outcome.answer.len() as u32,
                };
                self.reply(session, reply, &outcome.answer, &[])
            }
            ucma_frame::TAKEN => {
                let caller = entry.caller;
                let host = self.host(view);
                if self.ucma.admits(caller, head.channel).is_ok() {
                    self.ucma.taken(head.channel, head.taken);
                    self.ucma.announce(&host);
                }
                Ok(())
            }
            _ => Err(Errno::INVAL),
        }
    }

    /// Makes a channel and returns the program's end, and its number.
    fn open(&mut self, session: u64, poller: &Poller) -> Result<(OwnedFd, u32), Errno> {
        let entry = self.sessions.get_mut(&session).ok_or(Errno::INVAL)?;
        if entry.channels >= ucma_frame::MAX_CHANNELS {
            return Err(Errno::MFILE);
        }
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .map_err(told)?;
        // What a program writes past librdmacm goes nowhere.
        rustix::net::shutdown(&ours, rustix::net::Shutdown::Read)?;
        let inode = rustix::fs::fstat(&theirs)?.st_ino;
        poller.add_hangup(&ours, Token::CmChannel(inode))?;
        let number = self.ucma.open(inode, ours, session, entry.caller.pid)?;
        entry.channels += 1;
        Ok((theirs, number))
    }

    fn reply(
        &self,
        session: u64,
        head: Reply,
        answer: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        let entry = self.sessions.get(&session).ok_or(Errno::INVAL)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::TOOBIG);
        }
        let parts = [IoSlice::new(head.as_bytes()), IoSlice::new(answer)];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(&entry.socket, &parts, &mut ancillary, flags).map(drop)
    }

    /// The program's last descriptor of a channel was closed.
    pub fn hung_up(&mut self, channel: u64, view: &View<'_>) {
        let host = self.host(view);
        if let Some(entry) = self.ucma.channels.get(&channel) {
            let _ = view.poller.remove(&entry.socket);
            if let Some(session) = self.sessions.get_mut(&entry.session) {
                session.channels -= 1;
            }
        }
        self.ucma.close(channel, &host);
        self.finish(&host, view);
    }

    /// A program's process has died: a child that has inherited its channels has no use of them.
    pub fn died(&mut self, session: u64, view: &View<'_>) {
        let theirs = |channel: &super::Channel| channel.session == session;
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
        let Some(entry) = self.sessions.get(&session) else {
            return;
        };
        let _ = view.poller.remove(&entry.socket);
        let alive = self
            .ucma
            .channels
            .values()
            .any(|channel| channel.session == session);
        if alive && entry.process.is_some() {
            // The process may have closed the connection only; its death is still of interest.
            return;
        }
        if let Some(process) = &entry.process {
            let _ = view.poller.remove(process);
        }
        self.sessions.remove(&session);
    }

    /// Handles what came to slot 0 at one of the device's addresses. Returns the MADs of other classes, with the queue pairs that
    /// they are from.
    pub fn receive(
        &mut self,
        socket: &OwnedFd,
        local: std::net::IpAddr,
        view: &View<'_>,
    ) -> Vec<(Av, u32, Mad)> {
        let mut others = Vec::new();
        let mut buffer = std::mem::take(&mut self.buffer);
        let host = self.host(view);
        for _ in 0..DATAGRAMS {
            match qp1::receive(socket, local, &mut buffer, view.counters) {
                Received::Mad { from, mad, .. } if mad.get(1) == Some(&CLASS_CM) => self
                    .ucma
                    .cm
                    .receive(host.now, &from, mad, &mut self.ucma.out),
                Received::Mad { from, src_qp, mad } => {
                    others.extend(mad.try_into().ok().map(|mad| (from, src_qp, mad)));
                }
                Received::Other => {}
                Received::Nothing => break,
            }
        }
        self.buffer = buffer;
        self.finish(&host, view);
        others
    }

    /// Sends a MAD of an agent's to a queue pair with its Q_Key.
    pub fn send_mad(
        &mut self,
        own: &GidEntry,
        av: &Av,
        to: (u32, u32),
        mad: &Mad,
        view: &View<'_>,
    ) {
        self.qp1.send(own, av, to, mad, view.counters);
    }

    /// Handles what the CM has to say, and sends what it wants sent.
    pub(super) fn finish(&mut self, host: &Host<'_>, view: &View<'_>) {
        self.ucma.settle(host);
        self.ucma.announce(host);
        if host.is_ib() {
            return self.hand_out(host);
        }
        for (to, mad) in std::mem::take(&mut self.ucma.out.mads) {
            // An address may have gone since.
            if let Some(own) = view.gids.entries().find(|entry| entry.gid == to.local_gid) {
                self.qp1.send(own, &to, qp1::GSI, &mad, view.counters);
            }
        }
    }

    pub(super) fn host<'a>(&self, view: &View<'a>) -> Host<'a> {
        Host {
            gids: view.gids,
            info: view.info,
            snapshot: view.snapshot,
            ports: view.ports,
            now: self.started.elapsed().as_nanos() as u64,
        }
    }
}
