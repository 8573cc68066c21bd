//! How the shim carries commands of the rdma_cm and umad ABIs to ferroced, and events back. This is
//! ferroce's own, not an ABI of the kernel; both ends are of one build.
//!
//! Commands are datagrams of a `SOCK_SEQPACKET` connection that a process has once, one reply for
//! each request. What a program holds as the descriptor of `/dev/infiniband/rdma_cm` (a channel) is
//! one end of a `SOCK_SEQPACKET` pair that ferroced made. Events come through that: one [`Record`]
//! each, so that the descriptor is readable while there are events. Requests name a channel by the
//! descriptor's inode number and say how many records have been taken out of it.
//!
//! A record may bring along what ferroced would answer about an id at that moment ([`Answers`]).
//! Such an answer holds for as long as the id's number in the page of generations is the record's.
//! Commands that cannot fail by then are posted ([`POST`]) rather than asked for.

use crate::ucma::{
    ib_path_rec_data, ib_uverbs_qp_attr, rdma_ucm_event_resp, rdma_ucm_query_addr_resp,
    rdma_ucm_query_path_resp,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The socket's name in the runtime directory.
pub const SOCKET: &str = "rdma_cm.sock";
/// The name of the socket for umad and issm files. A file's descriptor is one end of a
/// `SOCK_SEQPACKET` pair from which MADs with their headers are read, one datagram each.
pub const UMAD_SOCKET: &str = "umad.sock";
/// Version of the frames.
pub const VERSION: u32 = 3;
/// Opens a channel; the reply carries its descriptor and that of the page of generations.
pub const OPEN: u32 = 1;
/// Carries out a command.
pub const COMMAND: u32 = 2;
/// Opens `umadN`, `N` being [`Request::from`]; the reply carries its descriptor.
pub const UMAD_OPEN: u32 = 3;
/// The same for `issmN`. The descriptor becomes readable when the port is the caller's; with
/// [`Request::channel`] 1 it is at once, or the reply says `EAGAIN`.
pub const ISSM_OPEN: u32 = 4;
/// An ioctl of a umad file; its number is [`Request::from`], the command is its argument, and so is
/// the answer.
pub const UMAD_IOCTL: u32 = 5;
/// A write to a umad file: the command is what was written.
pub const UMAD_WRITE: u32 = 6;
/// The longest write to a umad file, and the longest MAD with its header that is read, in bytes.
pub const MAX_UMAD: usize = 384 * 1024;
/// Says how many records have been taken, and nothing else. There is no reply.
pub const TAKEN: u32 = 7;
/// Carries out a command as [`COMMAND`] does, without a reply. It is `CONNECT`, `ACCEPT` or
/// `DISCONNECT`, of which is known that it succeeds; should it fail all the same, since something
/// has happened meanwhile, an event says so.
pub const POST: u32 = 8;
/// The most private data of a `CONNECT` that is posted, in bytes: what is left beside the header of
/// the RDMA IP CM service.
pub const MAX_POSTED_CONNECT: u8 = 56;
/// The same of an `ACCEPT`: what a REP holds.
pub const MAX_POSTED_ACCEPT: u8 = 196;
/// The longest command, in bytes, with its head.
pub const MAX_COMMAND: usize = 512;
/// The longest value of an option, in bytes.
pub const MAX_OPTION: usize = 1024;
/// The longest answer, in bytes.
pub const MAX_ANSWER: usize = 1024;
/// The most channels that there are at a time; their numbers are below.
pub const MAX_CHANNELS: usize = 1 << 16;

/// The head of a request. The command as the program wrote it follows, then the value of an option.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Request {
    /// [`VERSION`].
    pub version: u32,
    /// [`OPEN`], [`COMMAND`], [`TAKEN`] or their like for umad.
    pub kind: u32,
    /// Inode number of the channel's or file's descriptor.
    pub channel: u64,
    /// For `MIGRATE_ID`: inode number of the descriptor named in the command; 0: there is no such
    /// descriptor.
    pub from: u64,
    /// How many records have been taken from the channel (modulo 2^32). With commands that take
    /// events back exactly so many; with others perhaps more by now.
    pub taken: u32,
    /// The same, of [`from`](Self::from).
    pub taken_from: u32,
    /// Bytes of the command.
    pub command_len: u32,
    /// Bytes of the option.
    pub option_len: u32,
}

/// The head of a reply. What belongs at the program's response address follows.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Reply {
    /// 0, or a negative errno; [`NO_CHANNEL`]: the descriptor is no channel; or [`OTHER_VERSION`].
    pub result: i32,
    /// Records to be taken out of the channel's descriptor and thrown away: events that are gone,
    /// and others which follow once more.
    pub take: u32,
    /// The same, of the descriptor of [`Request::from`].
    pub take_from: u32,
    /// Bytes of the answer; of [`OPEN`] the number of the channel.
    pub answer_len: u32,
}

/// A [`Reply::result`] that is no errno.
pub const NO_CHANNEL: i32 = i32::MIN;
/// Another one: ferroced is of another build. [`Reply::answer_len`] is its version, and the
/// connection ends. So that this can be told, every version has [`Request::version`] and the head
/// of a reply where this one has them.
pub const OTHER_VERSION: i32 = i32::MIN + 1;

impl Reply {
    /// What a program of another build is told.
    pub const fn other_version() -> Reply {
        Reply {
            result: OTHER_VERSION,
            take: 0,
            take_from: 0,
            answer_len: VERSION,
        }
    }
}

/// The head of a record; the event follows, and [`Answers`] if there are some.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Record {
    /// Not 0: ferroced wants to hear ([`TAKEN`]) when this has been taken.
    pub tell: u32,
    /// Which answers come along: bits of [`answer`].
    pub answers: u32,
    /// The id which they are about.
    pub id: u32,
    /// The id's number in the page of generations.
    pub generation: u32,
    /// The id's other number there without [`CONNECTED`]: others of the same name have another.
    pub life: u32,
}

/// The bit of an id's life that says that it has a connection, be that at its end, so that
/// `DISCONNECT` succeeds.
pub const CONNECTED: u32 = 1;

/// Bits of [`Record::answers`].
pub mod answer {
    /// [`Answers::addr`](super::Answers::addr).
    pub const ADDR: u32 = 1 << 0;
    /// [`Answers::gid`](super::Answers::gid).
    pub const GID: u32 = 1 << 1;
    /// [`Answers::path`](super::Answers::path).
    pub const PATH: u32 = 1 << 2;
    /// The first of [`Answers::qp_attr`](super::Answers::qp_attr); the others' bits follow.
    pub const QP_ATTR: u32 = 1 << 3;
    /// No answer: `CONNECT` would succeed.
    pub const CONNECT: u32 = 1 << 8;
    /// No answer: `ACCEPT` of the passive side would.
    pub const ACCEPT: u32 = 1 << 9;
    /// No answer: `ACCEPT` of the active side would, whose QP is ready.
    pub const ESTABLISH: u32 = 1 << 10;
}

/// States of a QP (`enum ibv_qp_state`) whose attributes may come along: INIT, RTR, RTS.
pub const QP_STATES: [u32; 3] = [1, 2, 3];

/// Answers about an id. Those that do not come along are zeros.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Answers {
    /// `RDMA_USER_CM_QUERY_ADDR`.
    pub addr: rdma_ucm_query_addr_resp,
    /// `RDMA_USER_CM_QUERY_GID`.
    pub gid: rdma_ucm_query_addr_resp,
    /// `RDMA_USER_CM_QUERY_PATH`, with one path.
    pub path: PathAnswer,
    /// `RDMA_USER_CM_CMD_INIT_QP_ATTR` for each of [`QP_STATES`].
    pub qp_attr: [ib_uverbs_qp_attr; QP_STATES.len()],
}

/// The answer to `RDMA_USER_CM_QUERY_PATH` with one path.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct PathAnswer {
    /// How many there are: one.
    pub head: rdma_ucm_query_path_resp,
    /// The path.
    pub path: ib_path_rec_data,
}

/// Bytes of a record without answers.
pub const SHORT_RECORD: usize = size_of::<Record>() + size_of::<rdma_ucm_event_resp>();
/// Bytes of a record with answers.
pub const LONG_RECORD: usize = SHORT_RECORD + size_of::<Answers>();
