//! Programs' umad and issm files: their agents, what waits to be read, and who holds a port's issm.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;

use ferroce_cabi::umad::{MAX_AGENTS, ib_user_mad_hdr};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use zerocopy::IntoBytes;

use crate::error::for_programs;

/// The most bytes that wait for one file; what comes beyond is lost, as on a wire.
const MAX_WAITING: usize = 16 << 20;

/// One open umad file.
#[derive(Debug)]
pub(super) struct File {
    pub(super) socket: OwnedFd,
    pub(super) port: u8,
    /// The agents' transaction numbers, by their ids.
    pub(super) agents: [Option<u32>; MAX_AGENTS],
    /// Headers are the new ones, as `IB_USER_MAD_ENABLE_PKEY` was said, or
    /// `IB_USER_MAD_REGISTER_AGENT2` first of all.
    pub(super) pkeys: bool,
    /// An agent was registered, or something else done.
    pub(super) used: bool,
    waiting: VecDeque<Vec<u8>>,
    bytes_waiting: usize,
}

impl File {
    /// A new file of a port; our end of its socket is `socket`.
    pub(super) fn new(socket: OwnedFd, port: u8) -> File {
        File {
            socket,
            port,
            agents: [None; MAX_AGENTS],
            pkeys: false,
            used: false,
            waiting: VecDeque::new(),
            bytes_waiting: 0,
        }
    }

    /// Bytes of the header that this file's program knows.
    pub(super) fn header_len(&self) -> usize {
        match self.pkeys {
            true => size_of::<ib_user_mad_hdr>(),
            false => size_of::<ferroce_cabi::umad::ib_user_mad_hdr_old>(),
        }
    }

    /// Puts a MAD where the program reads it. `true`: some must wait until the program has read.
    pub(super) fn put(&mut self, mut header: ib_user_mad_hdr, mad: &[u8]) -> bool {
        let len = self.header_len();
        // What is given back with an error has the program's own header.
        if header.old.status == 0 {
            header.old.length = (len + mad.len()) as u32;
        }
        if self.bytes_waiting + len + mad.len() > MAX_WAITING {
            tracing::debug!("a program does not read its MADs");
            return !self.waiting.is_empty();
        }
        let mut bytes = header.as_bytes()[..len].to_vec();
        bytes.extend_from_slice(mad);
        self.bytes_waiting += bytes.len();
        self.waiting.push_back(bytes);
        self.flush()
    }

    /// Moves what waits into the socket. `true`: some must wait until the program has read.
    pub(super) fn flush(&mut self) -> bool {
        while let Some(first) = self.waiting.front() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::send(&self.socket, first, flags) {
                Err(Errno::AGAIN | Errno::NOBUFS) => return true,
                // Sent, or the program has gone, or it is longer than a socket may hold.
                _ => {
                    self.bytes_waiting -= first.len();
                    self.waiting.pop_front();
                }
            }
        }
        false
    }
}

/// Who holds a port's issm, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Issm {
    /// The holder is the first. Each has its file's inode number and our end of its socket.
    pub(super) queue: VecDeque<(u64, OwnedFd)>,
}

/// The issm of all ports.
pub(super) type Issms = HashMap<u8, Issm>;

/// A socket pair for a file: our end, the program's, and the inode number by which it is known.
pub(super) fn pair() -> Result<(OwnedFd, OwnedFd, u64), Errno> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(for_programs)?;
    enlarge(&ours);
    // What a program writes past the shim goes nowhere.
    rustix::net::shutdown(&ours, rustix::net::Shutdown::Read)?;
    let inode = rustix::fs::fstat(&theirs)?.st_ino;
    Ok((ours, theirs, inode))
}

/// Long messages need a socket that holds them.
fn enlarge(socket: &OwnedFd) {
    let bytes = 2 * ferroce_cabi::ucma_frame::MAX_UMAD;
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(socket, bytes);
}
