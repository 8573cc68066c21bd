//! What the daemon waits for, over epoll: level-triggered, with a token for each descriptor.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::thread::sched_yield;

/// Whose descriptor it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// The control socket.
    Listener,
    /// The signals that end the daemon.
    Signals,
    /// The notifications about interfaces.
    Interfaces,
    /// Word that the node description was written.
    Description,
    /// A client's connection.
    Connection(u64),
    /// A client's process.
    Process(u64),
    /// What a program holds to keep the daemon.
    Hold(u64),
    /// The connection manager's socket.
    CmListener,
    /// A connection of a program's to it.
    CmSession(u64),
    /// A channel, by its inode number.
    CmChannel(u64),
    /// The process of a session.
    CmProcess(u64),
    /// The umad server's socket.
    UmadListener,
    /// A connection of a program's to it.
    UmadSession(u64),
    /// A umad or issm file, by its inode number.
    UmadFile(u64),
    /// Where programs' netlink sockets come from.
    NetlinkListener,
    /// A program's netlink socket.
    NetlinkSession(u64),
    /// The socket of a slot that nobody holds.
    Slot {
        /// The group's index.
        group: usize,
        /// The slot.
        slot: u8,
    },
}

const KIND_SHIFT: u32 = 56;
const VALUE: u64 = (1 << KIND_SHIFT) - 1;

impl Token {
    fn encode(self) -> EventData {
        let (kind, value) = match self {
            Self::Listener => (0, 0),
            Self::Signals => (1, 0),
            Self::Interfaces => (2, 0),
            Self::Connection(id) => (3, id),
            Self::Process(id) => (4, id),
            Self::CmListener => (6, 0),
            Self::CmSession(id) => (7, id),
            Self::CmChannel(inode) => (8, inode),
            Self::CmProcess(id) => (9, id),
            Self::UmadListener => (10, 0),
            Self::UmadSession(id) => (11, id),
            Self::UmadFile(inode) => (12, inode),
            Self::NetlinkListener => (13, 0),
            Self::NetlinkSession(id) => (14, id),
            Self::Hold(id) => (15, id),
            Self::Description => (16, 0),
            Self::Slot { group, slot } => (5, (group as u64) << 8 | u64::from(slot)),
        };

        EventData::new_u64(kind << KIND_SHIFT | value & VALUE)
    }

    fn decode(data: EventData) -> Option<Self> {
        let data = data.u64();
        let value = data & VALUE;
        Some(match data >> KIND_SHIFT {
            0 => Self::Listener,
            1 => Self::Signals,
            2 => Self::Interfaces,
            3 => Self::Connection(value),
            4 => Self::Process(value),
            5 => Self::Slot {
                group: (value >> 8) as usize,
                slot: value as u8,
            },
            6 => Self::CmListener,
            7 => Self::CmSession(value),
            8 => Self::CmChannel(value),
            9 => Self::CmProcess(value),
            10 => Self::UmadListener,
            11 => Self::UmadSession(value),
            12 => Self::UmadFile(value),
            13 => Self::NetlinkListener,
            14 => Self::NetlinkSession(value),
            15 => Self::Hold(value),
            16 => Self::Description,
            _ => return None,
        })
    }
}

/// One descriptor that has something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    /// Whose it is.
    pub token: Token,
    /// It can be written (and that was asked for).
    pub writable: bool,
    /// It can be read, or is at its end.
    pub readable: bool,
}

/// The set of descriptors.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    /// An empty set.
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
        })
    }

    /// Adds a descriptor, to be read.
    pub(crate) fn add(&self, fd: impl AsFd, token: Token) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, token.encode(), EventFlags::IN)
    }

    /// Adds a descriptor of which only the end is of interest.
    pub(crate) fn add_hangup(&self, fd: impl AsFd, token: Token) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, token.encode(), EventFlags::empty())
    }

    /// Says whether room to write is of interest as well.
    pub(crate) fn want_write(&self, fd: impl AsFd, token: Token, write: bool) -> Result<(), Errno> {
        let flags = if write {
            EventFlags::IN | EventFlags::OUT
        } else {
            EventFlags::IN
        };
        epoll::modify(&self.epoll, fd, token.encode(), flags)
    }

    /// Of a descriptor of which only the end is of interest: says whether room to write is as well.
    pub(crate) fn want_write_only(
        &self,
        fd: impl AsFd,
        token: Token,
        write: bool,
    ) -> Result<(), Errno> {
        let flags = if write {
            EventFlags::OUT
        } else {
            EventFlags::empty()
        };
        epoll::modify(&self.epoll, fd, token.encode(), flags)
    }

    /// Removes a descriptor.
    pub(crate) fn remove(&self, fd: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.epoll, fd)
    }

    /// Looks for so long whether something is there, awake.
    pub(crate) fn wait_awake(&self, limit: Duration) -> Result<Vec<Ready>, Errno> {
        let begin = Instant::now();
        loop {
            let ready = self.look(Some(&Timespec::default()))?;
            if !ready.is_empty() || begin.elapsed() >= limit {
                return Ok(ready);
            }
            // What is waited for may have to come from this processor.
            sched_yield();
        }
    }

    /// Waits until something is there, at most `timeout`.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Result<Vec<Ready>, Errno> {
        // Rounded up to epoll's milliseconds, lest the last one be spent spinning.
        let timeout = timeout
            .map(|t| t + Duration::from_millis(1))
            .map(|t| Timespec {
                tv_sec: t.as_secs().min(86_400) as i64,
                tv_nsec: i64::from(t.subsec_nanos()),
            });
        self.look(timeout.as_ref())
    }

    fn look(&self, timeout: Option<&Timespec>) -> Result<Vec<Ready>, Errno> {
        let mut events = Vec::with_capacity(64);
        let room = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.epoll, room, timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }

        let ready = events.iter().filter_map(|event: &epoll::Event| {
            let flags = event.flags;
            Some(Ready {
                token: Token::decode(event.data)?,
                writable: flags.intersects(EventFlags::OUT),
                readable: flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR),
            })
        });

        Ok(ready.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive() {
        for token in [
            Token::Listener,
            Token::Signals,
            Token::Interfaces,
            Token::Connection(u64::from(u32::MAX) + 5),
            Token::Process(7),
            Token::CmListener,
            Token::CmSession(8),
            Token::CmChannel(u64::from(u32::MAX)),
            Token::CmProcess(9),
            Token::UmadListener,
            Token::UmadSession(10),
            Token::UmadFile(11),
            Token::Slot {
                group: 63,
                slot: 255,
            },
        ] {
            assert_eq!(Token::decode(token.encode()), Some(token));
        }
    }
}
