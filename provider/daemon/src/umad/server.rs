//! The server's sockets: programs' sessions and files. It reads, has things done, and writes;
//! nothing a program does makes it wait.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use ferroce_cabi::ucma_frame::{self, Reply, Request};
use ferroce_cabi::umad::ib_user_mad_hdr;
use ferroce_control::RuntimeDir;
use ferroce_control::seqpacket::ReceiveError;
use ferroce_wire::mad::MadHeader;
use rustix::io::Errno;
use rustix::net::SendFlags;
use zerocopy::{FromBytes, IntoBytes};

use super::agents::Agents;
use super::exchange::{Exchanges, Output};
use super::files::{File, Issms, pair};
use crate::DaemonError;
use crate::mads::{Incoming, Outgoing};
use crate::poller::{Poller, Token};
use crate::service::Service;
use crate::sessions::{Kind, Session, Sessions};
use crate::users::Users;

/// Longest request: head and MAD.
const MAX_REQUEST: usize = size_of::<Request>() + ucma_frame::MAX_UMAD;
/// What every write must have: the kernel reads that much.
const LEAST_MAD: usize = 36;
/// The most files that may be open at once.
const MAX_FILES: usize = 4096;

pub(super) const KIND: Kind = Kind {
    door: Token::UmadListener,
    session: Token::UmadSession,
    backlog: 128,
    most: usize::MAX,
};

/// What the server sees of the daemon.
pub(crate) struct Surroundings<'a> {
    pub(crate) poller: &'a Poller,
    /// The number of the first port's file.
    pub(crate) first: u32,
    /// How many ports the device has.
    pub(crate) ports: u8,
    /// Whether they have a QP0.
    pub(crate) smi: bool,
}

/// The server with its sockets.
#[derive(Debug)]
pub(crate) struct Server {
    sessions: Sessions<()>,
    pub(super) files: HashMap<u64, File>,
    issms: Issms,
    pub(super) agents: Agents,
    pub(super) exchanges: Exchanges,
    out: Output,
    buffer: Box<[u8]>,
}

/// What a program's argument is to be, or why nothing comes of what it asked.
pub(super) type Answer = Result<Vec<u8>, Refusal>;

/// Why a program is refused something.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) errno: Errno,
    /// What its argument is to be, if that says more.
    pub(super) bytes: Vec<u8>,
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self {
            errno,
            bytes: Vec::new(),
        }
    }
}

impl Service for Server {
    fn next_timeout(&self) -> Option<Instant> {
        let exchanges = self.exchanges.next_timeout();
        exchanges
            .into_iter()
            .chain(self.sessions.next_timeout())
            .min()
    }

    fn is_used(&self) -> bool {
        !self.sessions.is_empty() || !self.files.is_empty()
    }
}

impl Server {
    /// Listens in the runtime directory.
    // Who sends MADs of his own manages the fabric: as with the kernel's files that is root.
    pub(crate) fn start(dir: &RuntimeDir, poller: &Poller) -> Result<Self, DaemonError> {
        let sessions = Sessions::listen(&dir.umad(), KIND, Users::Own)?;
        sessions.open(poller)?;
        Ok(Self::of(sessions))
    }

    /// With these sessions.
    pub(super) fn of(sessions: Sessions<()>) -> Self {
        Self {
            sessions,
            files: HashMap::new(),
            issms: Issms::new(),
            agents: Agents::default(),
            exchanges: Exchanges::default(),
            out: Output::default(),
            buffer: vec![0; MAX_REQUEST].into_boxed_slice(),
        }
    }

    /// Whether a program holds a port's issm.
    pub(crate) fn is_sm(&self, port: u8) -> bool {
        let issm = self.issms.get(&port);
        issm.is_some_and(|issm| !issm.queue.is_empty())
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant, around: &Surroundings<'_>) {
        self.sessions.handle_timeout(now, around.poller);
        self.exchanges
            .handle_timeout(&self.agents, now, &mut self.out);
        self.deliver(around);
    }

    /// Takes what is to be sent.
    pub(crate) fn outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.out.mads)
    }

    /// A MAD has come to a port that is nobody else's. `false`: it is no agent's either.
    pub(crate) fn receive(
        &mut self,
        incoming: &Incoming,
        header: &MadHeader,
        around: &Surroundings<'_>,
    ) -> bool {
        let Some(owner) = self.agents.owner(incoming.port, header, &incoming.mad) else {
            return false;
        };
        let now = Instant::now();
        self.exchanges
            .receive(&self.agents, owner, incoming, now, &mut self.out);
        self.deliver(around);
        true
    }

    /// Takes connections.
    pub(crate) fn accept(&mut self, around: &Surroundings<'_>) {
        self.sessions
            .accept(around.poller, |_, guest| Session::new(guest.socket, ()));
    }

    /// Takes in a program that has not knocked.
    #[cfg(feature = "fuzzing")]
    pub(super) fn enter(&mut self, session: u64, socket: OwnedFd) {
        self.sessions.insert(session, Session::new(socket, ()));
    }

    /// Whether a program's connection is still of use.
    #[cfg(feature = "fuzzing")]
    pub(super) fn has_session(&self, session: u64) -> bool {
        self.sessions.get(session).is_some()
    }

    /// Reads and answers what a program has sent.
    pub(crate) fn serve(&mut self, session: u64, around: &Surroundings<'_>) {
        let Some(entry) = self.sessions.get(session) else {
            return;
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let keep = match entry.receive(&mut buffer) {
            Ok(request) => self.answer(session, &buffer[..request.len], around).is_ok(),
            Err(ReceiveError::WouldBlock) => true,
            Err(_) => false,
        };
        self.buffer = buffer;
        if !keep {
            self.sessions.remove(session, around.poller);
        }
    }

    /// An error means that the session is of no more use.
    fn answer(
        &mut self,
        session: u64,
        request: &[u8],
        around: &Surroundings<'_>,
    ) -> Result<(), Errno> {
        let (head, body) = Request::read_from_prefix(request).map_err(|_| Errno::INVAL)?;
        if head.version != ucma_frame::VERSION {
            self.send(session, Reply::other_version(), &[], None)?;
            return Err(Errno::PROTO);
        }

        if body.len() != head.command_len as usize {
            tracing::warn!(session, "unintelligible request to the umad server");
            return Err(Errno::PROTO);
        }

        let mut descriptor = None;
        let mut open = |opened: Result<OwnedFd, Errno>| {
            descriptor = Some(opened?);
            Ok(Vec::new())
        };

        let known = self.files.contains_key(&head.channel);
        let answer = match head.kind {
            ucma_frame::UMAD_OPEN => open(self.open(head.from, around)),
            ucma_frame::ISSM_OPEN => open(self.open_issm(head.from, head.channel != 0, around)),
            ucma_frame::UMAD_IOCTL | ucma_frame::UMAD_WRITE if !known => {
                return self.reply(session, ucma_frame::NO_CHANNEL, &[], None);
            }
            ucma_frame::UMAD_IOCTL => self.ioctl(head.channel, head.from, body),
            ucma_frame::UMAD_WRITE => self.write(head.channel, body),
            _ => return Err(Errno::INVAL),
        };

        self.deliver(around);
        match answer {
            Ok(bytes) => self.reply(session, 0, &bytes, descriptor.as_ref()),
            Err(Refusal { errno, bytes }) => {
                self.reply(session, -errno.raw_os_error(), &bytes, None)
            }
        }
    }

    fn reply(
        &self,
        session: u64,
        result: i32,
        bytes: &[u8],
        fd: Option<&OwnedFd>,
    ) -> Result<(), Errno> {
        let head = Reply {
            result,
            take: 0,
            take_from: 0,
            answer_len: bytes.len() as u32,
        };
        self.send(session, head, bytes, fd)
    }

    fn send(
        &self,
        session: u64,
        head: Reply,
        bytes: &[u8],
        fd: Option<&OwnedFd>,
    ) -> Result<(), Errno> {
        let fds: Vec<_> = fd.map(AsFd::as_fd).into_iter().collect();
        self.sessions.send(session, &[head.as_bytes(), bytes], &fds)
    }

    /// Opens `umadN`: files are numbered in the order of ports.
    fn open(&mut self, number: u64, around: &Surroundings<'_>) -> Result<OwnedFd, Errno> {
        let port = port_of(number, around)?;
        if self.files.len() >= MAX_FILES {
            return Err(Errno::NFILE);
        }
        let (ours, theirs, inode) = pair()?;
        around.poller.add_hangup(&ours, Token::UmadFile(inode))?;
        self.files.insert(inode, File::new(ours, port));
        Ok(theirs)
    }

    /// Opens `issmN`, which makes the port that of a subnet manager. One program may at a time.
    fn open_issm(
        &mut self,
        number: u64,
        now_or_never: bool,
        around: &Surroundings<'_>,
    ) -> Result<OwnedFd, Errno> {
        let port = port_of(number, around)?;
        if !around.smi {
            return Err(Errno::NXIO);
        }

        let queue = &mut self.issms.entry(port).or_default().queue;
        if now_or_never && !queue.is_empty() {
            return Err(Errno::AGAIN);
        }
        if queue.len() >= MAX_FILES {
            return Err(Errno::NFILE);
        }

        let (ours, theirs, inode) = pair()?;
        around.poller.add_hangup(&ours, Token::UmadFile(inode))?;
        if queue.is_empty() {
            grant(&ours);
        }

        queue.push_back((inode, ours));
        Ok(theirs)
    }

    /// The program's last descriptor of a file was closed, or there is room again in it.
    pub(crate) fn file_event(&mut self, inode: u64, writable: bool, around: &Surroundings<'_>) {
        if writable && let Some(file) = self.files.get_mut(&inode) {
            let full = file.flush();
            let _ = around
                .poller
                .want_write_only(&file.socket, Token::UmadFile(inode), full);
            return;
        }

        if let Some(file) = self.files.remove(&inode) {
            let _ = around.poller.remove(&file.socket);
            for agent in file.agents.into_iter().flatten() {
                self.agents.remove(agent);
                self.exchanges.remove(agent);
            }
            return;
        }

        for issm in self.issms.values_mut() {
            let Some(at) = issm.queue.iter().position(|(held, _)| *held == inode) else {
                continue;
            };
            if let Some((_, socket)) = issm.queue.remove(at) {
                let _ = around.poller.remove(&socket);
            }
            if at == 0
                && let Some((_, next)) = issm.queue.front()
            {
                grant(next);
            }
        }
    }

    fn write(&mut self, inode: u64, bytes: &[u8]) -> Answer {
        let file = self.files.get(&inode).ok_or(Errno::BADF)?;
        let len = file.header_len();
        if bytes.len() < len + LEAST_MAD {
            return Err(Errno::INVAL.into());
        }
        let (front, message) = bytes.split_at(len);
        let mut header = ib_user_mad_hdr::default();
        header.as_mut_bytes()[..len].copy_from_slice(front);
        let slot = file.agents.get(header.old.id as usize);
        let agent = slot.ok_or(Errno::INVAL)?.ok_or(Errno::IO)?;
        let now = Instant::now();
        self.exchanges
            .send(&self.agents, agent, &header, message, now, &mut self.out)?;
        Ok(Vec::new())
    }

    /// Puts what has come into the programs' files.
    fn deliver(&mut self, around: &Surroundings<'_>) {
        for delivery in std::mem::take(&mut self.out.deliveries) {
            if let Some(file) = self.files.get_mut(&delivery.file)
                && file.put(delivery.header, &delivery.bytes)
            {
                let token = Token::UmadFile(delivery.file);
                let _ = around.poller.want_write_only(&file.socket, token, true);
            }
        }
    }
}

/// The port of a file's number.
fn port_of(number: u64, around: &Surroundings<'_>) -> Result<u8, Errno> {
    let index = number.checked_sub(around.first.into());
    match index.and_then(|index| u8::try_from(index).ok()) {
        Some(index) if index < around.ports => Ok(index + 1),
        _ => Err(Errno::NXIO),
    }
}

/// Tells a program that the port's issm is its own.
fn grant(socket: &OwnedFd) {
    let _ = rustix::net::send(socket, &[1], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}
