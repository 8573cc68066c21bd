//! Datagrams with descriptors over a `SOCK_SEQPACKET` unix socket. Knows nothing of the messages.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::protocol::{MAX_FDS, MAX_MESSAGE};

/// A datagram as received.
#[derive(Debug)]
pub struct Datagram {
    /// How many bytes of the buffer it fills.
    pub len: usize,
    /// The descriptors that came with it.
    pub fds: Vec<OwnedFd>,
}

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    /// Nothing is there now.
    WouldBlock,
    /// The other side has closed.
    Closed,
    /// The datagram was longer than [`MAX_MESSAGE`] or had too many descriptors, and is lost.
    TooLong,
    /// It came with more descriptors than this process may have (`ulimit -n`), and is lost with all
    /// of them.
    NoDescriptors,
    /// The system call failed.
    Os(Errno),
}

/// Whether an operation waits until it can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It waits.
    Block,
    /// It fails with `EAGAIN`.
    Not,
}

/// A buffer that holds any datagram.
pub fn buffer() -> Vec<u8> {
    vec![0; MAX_MESSAGE]
}

/// Sends one datagram. Never raises SIGPIPE.
pub fn send(
    socket: impl AsFd,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    wait: Wait,
) -> Result<(), Errno> {
    send_parts(socket, &[bytes], fds, wait)
}

/// The same, of a datagram that lies in parts: two at most.
pub fn send_parts(
    socket: impl AsFd,
    parts: &[&[u8]],
    fds: &[BorrowedFd<'_>],
    wait: Wait,
) -> Result<(), Errno> {
    let mut slices = [IoSlice::new(&[]); 2];
    let slices = slices.get_mut(..parts.len()).ok_or(Errno::TOOBIG)?;
    for (slice, part) in slices.iter_mut().zip(parts) {
        *slice = IoSlice::new(part);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::TOOBIG);
    }

    let mut flags = SendFlags::NOSIGNAL;
    if wait == Wait::Not {
        flags |= SendFlags::DONTWAIT;
    }

    rustix::io::retry_on_intr(|| rustix::net::sendmsg(&socket, slices, &mut ancillary, flags))?;
    Ok(())
}

/// Receives one datagram into `buffer` (see [`buffer`]). Descriptors come close-on-exec.
pub fn receive(socket: impl AsFd, buffer: &mut [u8], wait: Wait) -> Result<Datagram, ReceiveError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut flags = RecvFlags::CMSG_CLOEXEC;
    if wait == Wait::Not {
        flags |= RecvFlags::DONTWAIT;
    }

    let message = loop {
        let mut iov = [IoSliceMut::new(buffer)];
        match rustix::net::recvmsg(&socket, &mut iov, &mut ancillary, flags) {
            Ok(message) => break message,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Err(ReceiveError::WouldBlock),
            Err(Errno::CONNRESET | Errno::PIPE) => return Err(ReceiveError::Closed),
            Err(errno) => return Err(ReceiveError::Os(errno)),
        }
    };

    let mut fds = Vec::new();
    for control in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = control {
            fds.extend(rights);
        }
    }

    if message.flags.contains(ReturnFlags::TRUNC) {
        return Err(ReceiveError::TooLong);
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        // There was room for so many: the kernel took those that it could make.
        return Err(match fds.len() {
            MAX_FDS => ReceiveError::TooLong,
            _ => ReceiveError::NoDescriptors,
        });
    }

    if message.bytes == 0 {
        // Nobody sends an empty datagram: this is the end.
        return Err(ReceiveError::Closed);
    }

    Ok(Datagram {
        len: message.bytes,
        fds,
    })
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The process, 0 if it is in a namespace that this one does not see.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
}

/// The groups of who has connected, or who listened, when that was done.
pub fn peer_groups(socket: impl AsFd) -> Result<Vec<u32>, Errno> {
    let mut groups = vec![0_u32; 64];
    let first = credentials(&socket)?.gid;
    loop {
        let mut len = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        // SAFETY: there is room for what the length says, and the descriptor is open.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &mut len,
            )
        };
        let needed = len as usize / size_of::<u32>();
        match result {
            0 => {
                groups.truncate(needed);
                groups.push(first);
                return Ok(groups);
            }
            _ if needed > groups.len() => groups.resize(needed, 0),
            _ => return Err(last_error()),
        }
    }
}

/// Who has connected, or who listened, when that was done.
pub fn peer(socket: impl AsFd) -> Result<Peer, Errno> {
    credentials(&socket).map(|peer| Peer {
        pid: peer.pid.unsigned_abs(),
        uid: peer.uid,
    })
}

fn credentials(socket: impl AsFd) -> Result<libc::ucred, Errno> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = size_of_val(&peer) as libc::socklen_t;

    // Not rustix's: its process IDs are never 0.
    // SAFETY: there is room for what the length says, and the descriptor is open.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &mut len,
        )
    };

    match result {
        0 => Ok(peer),
        _ => Err(last_error()),
    }
}

fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// Connects to the socket at `path`.
pub fn connect(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = new_socket()?;
    let (address, _directory) = address(path)?;
    rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address))?;
    Ok(socket)
}

/// Connects to the socket of that name in a directory that is open; `path` is the directory's, for
/// where there is no `/proc`.
pub(crate) fn connect_in(directory: &OwnedFd, path: &Path, name: &str) -> Result<OwnedFd, Errno> {
    let held = Path::new("/proc/thread-self/fd").join(directory.as_raw_fd().to_string());
    match std::fs::symlink_metadata(&held) {
        Ok(_) => connect(&held.join(name)),
        Err(_) => connect(&path.join(name)),
    }
}

/// Listens at `path`, which must not exist.
pub fn listen(path: &Path, backlog: i32) -> Result<OwnedFd, Errno> {
    let socket = new_socket()?;
    let (address, _directory) = address(path)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, backlog)?;
    Ok(socket)
}

fn new_socket() -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
}

/// The socket's address. A path longer than the 107 bytes that fit is reached through its
/// directory's descriptor, which must live until the call is done.
fn address(path: &Path) -> Result<(SocketAddrUnix, Option<OwnedFd>), Errno> {
    match SocketAddrUnix::new(path) {
        Err(Errno::NAMETOOLONG) => {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(Errno::NAMETOOLONG);
            };
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = rustix::fs::open(parent, flags, Mode::empty())?;
            let mut short = std::path::PathBuf::from("/proc/thread-self/fd");
            short.push(directory.as_raw_fd().to_string());
            short.push(name);
            Ok((SocketAddrUnix::new(&short)?, Some(directory)))
        }
        other => other.map(|address| (address, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    fn pair(dir: &Path) -> (OwnedFd, OwnedFd) {
        let path = dir.join("s");
        let listener = listen(&path, 1).unwrap();
        let client = connect(&path).unwrap();
        (client, rustix::net::accept(&listener).unwrap())
    }

    #[test]
    fn bytes_and_descriptors_arrive_together() {
        let temp = tempfile::tempdir().unwrap();
        let (a, b) = pair(temp.path());
        let (mut reader, writer) = std::io::pipe().unwrap();
        send(&a, b"hello", &[writer.as_fd()], Wait::Block).unwrap();
        drop(writer);
        let mut buffer = buffer();
        let datagram = receive(&b, &mut buffer, Wait::Block).unwrap();
        assert_eq!(&buffer[..datagram.len], b"hello");
        let mut file = File::from(datagram.fds.into_iter().next().unwrap());
        file.write_all(b"through").unwrap();
        drop(file);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");

        assert_eq!(
            receive(&b, &mut buffer, Wait::Not).unwrap_err(),
            ReceiveError::WouldBlock
        );

        drop(a);
        assert_eq!(
            receive(&b, &mut buffer, Wait::Block).unwrap_err(),
            ReceiveError::Closed
        );
    }

    #[test]
    fn too_long_a_datagram_is_told() {
        let temp = tempfile::tempdir().unwrap();
        let (a, b) = pair(temp.path());
        send(&a, &vec![1; MAX_MESSAGE + 1], &[], Wait::Block).unwrap();
        send(&a, b"next", &[], Wait::Block).unwrap();
        let mut buffer = buffer();
        assert_eq!(
            receive(&b, &mut buffer, Wait::Block).unwrap_err(),
            ReceiveError::TooLong
        );
        assert_eq!(receive(&b, &mut buffer, Wait::Block).unwrap().len, 4);
    }

    #[test]
    fn both_ends_know_each_other() {
        let temp = tempfile::tempdir().unwrap();
        let (a, b) = pair(temp.path());
        let own = Peer {
            pid: std::process::id(),
            uid: rustix::process::getuid().as_raw(),
        };
        assert_eq!((peer(a), peer(b)), (Ok(own), Ok(own)));
        let file = File::open("/dev/null").unwrap();
        assert_eq!(peer(file), Err(Errno::NOTSOCK));
    }

    #[test]
    fn long_paths_work() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("d".repeat(120));
        std::fs::create_dir(&dir).unwrap();
        let _ = pair(&dir);
    }
}
