//! How the shim carries commands of the rdma_cm and umad ABIs to ferroced: datagrams of a `SOCK_SEQPACKET` socket of its own,
//! one reply for each request. This is ferroce's own, not an ABI of the kernel; both ends are of one build.
//!
//! A process has one such connection. What a program holds as the descriptor of `/dev/infiniband/rdma_cm` (a channel) is one
//! end of a socket pair that ferroced made: it is readable while there are events, because ferroced puts one byte into it
//! for each (up to a limit), and its inode number names the channel in requests.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The socket's name in the runtime directory.
pub const SOCKET: &str = "rdma_cm.sock";
/// The name of the socket for umad and issm files. A file's descriptor is one end of a `SOCK_SEQPACKET` pair from which MADs with
/// their headers are read, one datagram each.
pub const UMAD_SOCKET: &str = "umad.sock";
/// Version of the frames.
pub const VERSION: u32 = 1;
/// Opens a channel; the reply carries its descriptor.
pub const OPEN: u32 = 1;
/// Carries out a command.
pub const COMMAND: u32 = 2;
/// Opens `umadN`, `N` being [`Request::from`]; the reply carries its descriptor.
pub const UMAD_OPEN: u32 = 3;
/// The same for `issmN`. The descriptor becomes readable when the port is the caller's; with [`Request::channel`] 1 it is at
/// once, or the reply says `EAGAIN`.
pub const ISSM_OPEN: u32 = 4;
/// An ioctl of a umad file; its number is [`Request::from`], the command is its argument, and so is the answer.
pub const UMAD_IOCTL: u32 = 5;
/// A write to a umad file: the command is what was written.
pub const UMAD_WRITE: u32 = 6;
/// The longest write to a umad file, and the longest MAD with its header that is read, in bytes.
pub const MAX_UMAD: usize = 384 * 1024;
/// The longest command, in bytes, with its head.
pub const MAX_COMMAND: usize = 512;
/// The longest value of an option, in bytes.
pub const MAX_OPTION: usize = 1024;
/// The longest answer, in bytes.
pub const MAX_ANSWER: usize = 1024;

/// The head of a request. The command as the program wrote it follows, then the value of an option.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Request {
    /// [`VERSION`].
    pub version: u32,
    /// [`OPEN`], [`COMMAND`] or their like for umad.
    pub kind: u32,
    /// Inode number of the channel's or file's descriptor.
    pub channel: u64,
    /// For `MIGRATE_ID`: inode number of the descriptor named in the command; 0: there is no such descriptor.
    pub from: u64,
    /// Bytes of the command.
    pub command_len: u32,
    /// Bytes of the option.
    pub option_len: u32,
}

/// The head of a reply. What belongs at the program's response address follows.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Reply {
    /// 0, or a negative errno; [`NO_CHANNEL`]: the descriptor is no channel.
    pub result: i32,
    /// Bytes to be taken back out of the channel's descriptor, for events that are gone.
    pub take: u32,
    /// The same, of the descriptor of [`Request::from`].
    pub take_from: u32,
    /// Bytes of the answer.
    pub answer_len: u32,
}

/// A [`Reply::result`] that is no errno.
pub const NO_CHANNEL: i32 = i32::MIN;
