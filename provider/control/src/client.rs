//! The blocking client: one connection, one request at a time, events in between. It never touches
//! packets and never retries a request on its own, except that [`Client::attach`] waits while all
//! free slots rest.

mod capture;
mod faults;
mod hosts;
mod sockets;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::objects::{ObjectTable, Seen};
use crate::process;
use crate::protocol::{
    ClientMessage, DecodeError, MAX_NAME, Reply, Request, ServerBody, ServerMessage, VERSION,
};
use crate::runtime_dir;
use crate::seqpacket::{self, ReceiveError, Wait};
use crate::{
    Attachment, ControlError, CounterPage, Event, GidEntry, IbPort, InboxFds, RuntimeDir, Status,
};

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to `ferroced`. What was claimed through it is released when it is dropped, or when
/// the process dies.
///
/// A forked child must not use its parent's client; it connects anew.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    path: PathBuf,
    buffer: Vec<u8>,
    last_id: u64,
    events: VecDeque<Event>,
    closed: bool,
}

impl Client {
    /// Connects to the daemon of a runtime directory.
    ///
    /// Fails with [`ControlError::NotRunning`] if there is none, and refuses a directory that
    /// somebody else could change.
    pub fn connect(dir: &RuntimeDir) -> Result<Self, ControlError> {
        Ok(Self {
            socket: dir.connect(runtime_dir::SOCKET)?,
            path: dir.socket(),
            buffer: seqpacket::buffer(),
            last_id: 0,
            events: VecDeque::new(),
            closed: false,
        })
    }

    /// Claims a slot, which this connection keeps until it closes. `name` is the program's, for
    /// `ferroce status`.
    ///
    /// If every slot is taken or resting, waits for one to have rested, for as long as any request
    /// may take; then the error is `EBUSY`. A second call on one connection is `EINVAL`.
    pub fn attach(&mut self, name: &str) -> Result<Attachment, ControlError> {
        let deadline = Instant::now() + PATIENCE;
        let name: String = name
            .chars()
            .filter(|c| !c.is_control())
            .take(MAX_NAME)
            .collect();

        loop {
            let request = Request::Attach {
                name: name.clone(),
                pid: std::process::id(),
            };

            match self.call(request)? {
                (
                    Reply::Attached {
                        slot,
                        device,
                        network,
                    },
                    mut fds,
                ) if fds.len() == 4 && slot != 0 => {
                    let counters = CounterPage::from_fd(fds.remove(0))?;
                    let objects = ObjectTable::from_fd(fds.remove(0))?;
                    return Ok(Attachment {
                        slot,
                        device,
                        network,
                        counters,
                        objects,
                        inbox: inbox(fds),
                    });
                }
                (Reply::Busy { retry_ms }, _) => {
                    if Instant::now() >= deadline {
                        return Err(ControlError::Refused {
                            errno: Errno::BUSY.raw_os_error(),
                            message: "all 255 slots of the device are taken".into(),
                        });
                    }
                    thread::sleep(Duration::from_millis(retry_ms.clamp(1, 1_000)));
                }
                (other, _) => return Err(unexpected(&other)),
            }
        }
    }

    /// The used entries of the GID table, by index.
    pub fn gids(&mut self) -> Result<Vec<GidEntry>, ControlError> {
        match self.call(Request::Gids)? {
            (Reply::Gids(gids), _) => Ok(gids),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// The ports of an InfiniBand device; none of a RoCE device.
    pub fn ports(&mut self) -> Result<Vec<IbPort>, ControlError> {
        match self.call(Request::Ports)? {
            (Reply::Ports(ports), _) => Ok(ports),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// The inbox of a slot of the device, one's own included. `ENOENT`: nobody has that slot.
    pub fn inbox(&mut self, slot: u8) -> Result<InboxFds, ControlError> {
        match self.call(Request::Inbox { slot })? {
            (Reply::Inbox, fds) if fds.len() == 2 => Ok(inbox(fds)),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// The objects of the program that has a slot, to look at. `ENOENT`: nobody has that slot, or
    /// it is another user's.
    pub fn objects(&mut self, slot: u8) -> Result<Seen, ControlError> {
        match self.call(Request::Objects { slot })? {
            (Reply::Objects, mut fds) if fds.len() == 1 => Seen::from_fd(fds.remove(0)),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Whether an event came while a reply was awaited, which [`event_fd`](Self::event_fd) no
    /// longer tells.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// Has copies of the packets for a multicast group that come to an InfiniBand port sent to an
    /// endpoint of this process (`EINVAL`: not one at the port's address, or no such port;
    /// `ENOMEM`: too many).
    pub fn join_group(
        &mut self,
        port: u8,
        mgid: [u8; 16],
        at: SocketAddr,
    ) -> Result<(), ControlError> {
        self.plain(Request::JoinGroup { port, mgid, at })
    }

    /// Ends what [`join_group`](Self::join_group) began.
    pub fn leave_group(&mut self, at: SocketAddr) -> Result<(), ControlError> {
        self.plain(Request::LeaveGroup { at })
    }

    /// A descriptor that keeps the daemon from leaving for want of programs for as long as any
    /// process has it open. It may be left to any process: it is the end of a pipe that nobody
    /// reads, and nothing can be asked or learnt through it.
    pub fn hold(&mut self) -> Result<OwnedFd, ControlError> {
        match self.call(Request::Hold)? {
            (Reply::Held, mut fds) if fds.len() == 1 => Ok(fds.remove(0)),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Has the daemon stay until it is asked to stop, though it was to leave when it is idle: it is
    /// needed by programs that are yet to be started, of which nobody can tell when that will be.
    pub fn stay(&mut self) -> Result<(), ControlError> {
        self.plain(Request::Stay)
    }

    /// The daemon's account of itself.
    pub fn status(&mut self) -> Result<Status, ControlError> {
        match self.call(Request::Status)? {
            (Reply::Status(status), _) => Ok(*status),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Asks the daemon to stop. It answers before it cleans up: wait for [`Event::Shutdown`] to
    /// know that it has gone.
    pub fn shutdown(&mut self) -> Result<(), ControlError> {
        self.plain(Request::Shutdown)
    }

    /// A request whose answer says no more than that it is done.
    fn plain(&mut self, request: Request) -> Result<(), ControlError> {
        match self.call(request)? {
            (Reply::Ok, _) => Ok(()),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Becomes readable when an event may have come. After any request too, call
    /// [`try_event`](Self::try_event) until it returns `None`: an event that arrived while the
    /// reply was awaited is queued here and no longer makes the descriptor readable.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next event, if there is one; never blocks. A daemon that has gone in whatever way counts
    /// as [`Event::Shutdown`], which is returned once, as the last.
    pub fn try_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.closed {
                return None;
            }

            match seqpacket::receive(&self.socket, &mut self.buffer, Wait::Not) {
                // A reply at this point is to a request that was given up.
                Ok(datagram) => {
                    let message = ServerMessage::decode(&self.buffer[..datagram.len]);
                    if let Ok(ServerMessage {
                        body: ServerBody::Event(event),
                        ..
                    }) = message
                    {
                        self.queue(event);
                    }
                }
                Err(ReceiveError::WouldBlock) => return None,
                Err(ReceiveError::TooLong | ReceiveError::NoDescriptors) => {}
                Err(ReceiveError::Closed | ReceiveError::Os(_)) => self.queue(Event::Shutdown),
            }
        }
    }

    /// Blocks until an event comes, at most `timeout`.
    pub fn wait_event(&mut self, timeout: Duration) -> Option<Event> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(event) = self.try_event() {
                return Some(event);
            }
            if self.closed || !self.readable_before(deadline).unwrap_or(false) {
                return None;
            }
        }
    }

    fn queue(&mut self, event: Event) {
        if self.closed {
            return;
        }
        self.closed = event == Event::Shutdown;
        event.join(&mut self.events);
    }

    fn call(&mut self, request: Request) -> Result<(Reply, Vec<OwnedFd>), ControlError> {
        if self.closed {
            return Err(ControlError::Closed);
        }

        self.last_id += 1;
        let id = self.last_id;
        let bytes = ClientMessage {
            v: VERSION,
            id,
            request,
        }
        .encode()?;

        match seqpacket::send(&self.socket, &bytes, &[], Wait::Block) {
            Ok(()) => {}
            // It may have left a last word.
            Err(Errno::PIPE | Errno::CONNRESET) => {}
            Err(errno) => return Err(ControlError::io("sending to ferroced")(errno)),
        }

        let deadline = Instant::now() + PATIENCE;
        loop {
            if !self.readable_before(deadline)? {
                let peer = seqpacket::peer(&self.socket).map(|peer| peer.pid);
                return Err(ControlError::Timeout {
                    who: match peer {
                        Ok(pid @ 1..) => process::describe(pid),
                        _ => "ferroced".into(),
                    },
                    seconds: PATIENCE.as_secs(),
                });
            }

            let datagram = match seqpacket::receive(&self.socket, &mut self.buffer, Wait::Not) {
                Ok(datagram) => datagram,
                Err(ReceiveError::WouldBlock) => continue,
                Err(ReceiveError::Closed) => {
                    self.queue(Event::Shutdown);
                    return Err(ControlError::Closed);
                }
                Err(ReceiveError::TooLong) => {
                    return Err(ControlError::Malformed("it is too long".into()));
                }
                Err(ReceiveError::NoDescriptors) => {
                    return Err(ControlError::io(
                        "ferroced hands descriptors over, of which this process may have no more (`ulimit -n`)",
                    )(Errno::MFILE));
                }
                Err(ReceiveError::Os(errno)) => {
                    return Err(ControlError::io("receiving from ferroced")(errno));
                }
            };

            let message = match ServerMessage::decode(&self.buffer[..datagram.len]) {
                Ok(message) => message,
                Err(DecodeError::Version { theirs, .. }) => {
                    return Err(ControlError::Version {
                        socket: self.path.clone(),
                        theirs,
                        ours: VERSION,
                    });
                }
                Err(DecodeError::Malformed(why)) => return Err(ControlError::Malformed(why)),
            };

            match message.body {
                ServerBody::Event(event) => {
                    self.queue(event);
                    if event == Event::Shutdown {
                        return Err(ControlError::Closed);
                    }
                }
                ServerBody::Reply { id: replied, .. } if replied < id && replied != 0 => {}
                ServerBody::Reply {
                    reply: Reply::Error { errno, message },
                    ..
                } => {
                    return Err(ControlError::Refused { errno, message });
                }
                ServerBody::Reply { reply, .. } => return Ok((reply, datagram.fds)),
            }
        }
    }

    fn readable_before(&self, deadline: Instant) -> Result<bool, ControlError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            match rustix::event::poll(&mut fds, Some(&timeout)) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(ControlError::io("waiting for ferroced")(errno)),
            }
        }
    }
}

/// Of two descriptors, in the order in which they are sent.
fn inbox(mut fds: Vec<OwnedFd>) -> InboxFds {
    InboxFds {
        memory: fds.remove(0),
        wake: fds.remove(0),
    }
}

fn unexpected(reply: &Reply) -> ControlError {
    ControlError::Malformed(format!("an answer to another question: {reply:?}"))
}
