//! The messages between `ferroced` and its clients, as JSON in datagrams of a `SOCK_SEQPACKET`
//! socket. Descriptors travel beside the text; which message carries which is said at each.
//!
//! A client sends requests with numbers of its own choosing and gets one reply to each, in order.
//! Events come at any time between. Every message bears the protocol's version, and a daemon that
//! gets another version answers with an error in its own.

mod attachment;
mod congestion;
mod device;
mod event;
mod ports;
mod status;

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::ControlError;
use crate::Network;
use crate::capture::{CaptureSource, CaptureWish};
use crate::faults::{Fault, FaultList, GivenFaults};

pub use attachment::Attachment;
pub use congestion::CongestionControl;
pub use device::DeviceInfo;
pub use event::Event;
pub use ports::{GidEntry, IbPort};
pub use status::{ClientStatus, CmStatus, SlotStatus, Status};

/// Version of the protocol and of the layouts of all memory that is shared: the page of counters,
/// the table of objects, inboxes and their rings, the rings of captures.
pub const VERSION: u32 = 18;

/// The longest message, in bytes; longer ones are refused.
pub const MAX_MESSAGE: usize = 128 * 1024;

/// The most descriptors that one message may carry.
pub const MAX_FDS: usize = 4;

/// The longest program name that a daemon keeps, in bytes.
pub const MAX_NAME: usize = 64;

/// Entries in a port's GID table; unused ones are zero.
pub const GID_TABLE_LEN: u16 = 64;

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Claim a slot for this connection, which keeps it until it closes.
    Attach {
        /// The program's name, for `ferroce status`.
        name: String,
        /// The process, as it sees itself. Shown only if the kernel does not tell better.
        pid: u32,
    },
    /// List the GID table. That of an InfiniBand device is each port's own: see [`Request::Ports`].
    Gids,
    /// Describe the ports of an InfiniBand device.
    Ports,
    /// This slot's UDP socket for the address of one GID.
    ReceiveSocket {
        /// Index into the GID table; of an InfiniBand device, the port's number less one.
        gid_index: u16,
    },
    /// The client has closed this slot's socket of an address that has left the GID table, or soon
    /// will have.
    LeaveSocket {
        /// The address.
        addr: IpAddr,
        /// The scope of a link-local address, else 0.
        scope_id: u32,
    },
    /// A UDP socket to send by, of the daemon's network: bound to a GID's address and the first of
    /// RoCEv2's source ports that is free. Errors: those of [`Outlet::open`](crate::Outlet::open)
    /// there, and `EMFILE` as long as the client has too many.
    SendSocket {
        /// As of [`Request::ReceiveSocket`].
        gid_index: u16,
        /// Where it leads: an address or a group.
        to: IpAddr,
        /// The number of the source port that is tried first, of [`PORTS`](crate::outlet::PORTS).
        first: u16,
    },
    /// A UDP socket of the daemon's network that receives what comes for a group by interfaces of
    /// a RoCE port's addresses (`EMFILE`: as above; `ENODEV`: they are on none of these).
    GroupSocket {
        /// Its address.
        group: IpAddr,
        /// Their indexes.
        interfaces: Vec<u32>,
    },
    /// By which interface of the daemon's network packets should leave.
    WayOut {
        /// Index into the GID table: where they come from.
        gid_index: u16,
        /// Where they go.
        to: IpAddr,
    },
    /// The inbox of another slot of the device (`ENOENT`: nobody has that slot).
    Inbox {
        /// The slot, 1 to 255.
        slot: u8,
    },
    /// The table of a slot's objects, to read (`ENOENT`: nobody has that slot).
    Objects {
        /// The slot, 1 to 255.
        slot: u8,
    },
    /// What the programs of another RoCE host can do. Where that is not known yet the host is
    /// asked, and [`Event::Hosts`] tells when it has answered.
    Host {
        /// Index into the GID table: whence it is asked.
        gid_index: u16,
        /// The host's GID, in network order.
        gid: [u8; 16],
    },
    /// From now on send a copy of each packet for a multicast group that comes to an InfiniBand
    /// port to this endpoint.
    JoinGroup {
        /// The port's number.
        port: u8,
        /// The group.
        mgid: [u8; 16],
        /// A UDP socket of the client's, at the address of the port's own end of its cable.
        at: SocketAddr,
    },
    /// Send no more to this endpoint.
    LeaveGroup {
        /// What was given when joining.
        at: SocketAddr,
    },
    /// Show what programs send and receive, those of the client's user, or all if it administers
    /// the device, until this connection closes (`EBUSY`: too many do so).
    Capture(CaptureWish),
    /// The next ring of a capture that this connection has not got yet: of its own capture, to read
    /// from, or, for a program, to write to.
    CaptureRing,
    /// Something that holds the daemon: while any process has it open, the daemon is not idle.
    Hold,
    /// Do not leave for want of programs, whatever the settings say of it, until asked to stop.
    Stay,
    /// Describe daemon, device and clients.
    Status,
    /// Have something go wrong from now on ([`crate::faults`]).
    AddFault {
        /// What, for whom, how often, how long.
        fault: Box<Fault>,
    },
    /// List what goes wrong, and which programs do not go by it yet.
    Faults,
    /// End a fault (`ENOENT`: there is none of that number), or all of them.
    ClearFaults {
        /// Its number; `None`: all.
        id: Option<u32>,
    },
    /// The faults of the program that asks, which is attached.
    MyFaults,
    /// Stop the daemon.
    Shutdown,
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The slot is claimed. Four descriptors: the page of counters, the table of objects, the
    /// memory of the slot's inbox, the eventfd that wakes its owner.
    Attached {
        /// 1 to 255.
        slot: u8,
        /// The device to which it belongs.
        device: DeviceInfo,
        /// Where the daemon's sockets are.
        network: Network,
    },
    /// No slot may be handed out now, but one will have rested soon.
    Busy {
        /// When to ask again, in milliseconds.
        retry_ms: u64,
    },
    /// The GID table's used entries, by index.
    Gids(Vec<GidEntry>),
    /// The ports in order.
    Ports(Vec<IbPort>),
    /// One descriptor: the socket.
    ReceiveSocket,
    /// One descriptor: the socket.
    SendSocket,
    /// One descriptor: the socket.
    GroupSocket,
    /// The interface's index; `None`: as the host's routes say.
    WayOut(Option<u32>),
    /// Two descriptors: the memory of the inbox, the eventfd that wakes its owner.
    Inbox,
    /// What is known of the host.
    Host {
        /// It is ferroce's, and its programs understand selective acknowledgements.
        selective: bool,
    },
    /// A ring, and one descriptor: its memory. Without either there is none at the moment.
    CaptureRing(Option<CaptureSource>),
    /// One descriptor, open for reading only: the table.
    Objects,
    /// One descriptor: the end of a pipe that is good for nothing but being held.
    Held,
    /// The answer to [`Request::Status`].
    Status(Box<Status>),
    /// The fault has this number.
    FaultAdded {
        /// From 1.
        id: u32,
    },
    /// The answer to [`Request::Faults`].
    Faults(FaultList),
    /// The answer to [`Request::MyFaults`].
    MyFaults(GivenFaults),
    /// Done.
    Ok,
    /// Refused.
    Error {
        /// A positive errno.
        errno: i32,
        /// Why, and what to do.
        message: String,
    },
}

/// A message from client to daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientMessage {
    /// [`VERSION`].
    pub v: u32,
    /// The request's number; the reply bears it too.
    pub id: u64,
    /// The request.
    pub request: Request,
}

/// A message from daemon to client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerMessage {
    /// [`VERSION`].
    pub v: u32,
    /// What it is.
    #[serde(flatten)]
    pub body: ServerBody,
}

/// Whether a daemon's message answers something or came by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerBody {
    /// The answer to the request of this number.
    Reply {
        /// The request's number.
        id: u64,
        /// The answer.
        reply: Reply,
    },
    /// An event.
    Event(Event),
}

/// Only what every version's messages have.
#[derive(Deserialize)]
struct AnyVersion {
    v: u32,
    #[serde(default)]
    id: u64,
}

/// Why a message could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// It is of another version of the protocol.
    Version {
        /// The sender's version.
        theirs: u32,
        /// The request's number, 0 if there is none.
        id: u64,
    },
    /// It is none of the messages above.
    Malformed(String),
}

fn decode<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, DecodeError> {
    let malformed = |e: serde_json::Error| DecodeError::Malformed(e.to_string());
    let any: AnyVersion = serde_json::from_slice(bytes).map_err(malformed)?;
    if any.v != VERSION {
        return Err(DecodeError::Version {
            theirs: any.v,
            id: any.id,
        });
    }
    serde_json::from_slice(bytes).map_err(malformed)
}

fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, ControlError> {
    let bytes = serde_json::to_vec(message).map_err(|e| ControlError::Malformed(e.to_string()))?;
    if bytes.len() > MAX_MESSAGE {
        return Err(ControlError::Malformed(format!(
            "message of {} bytes is too long",
            bytes.len()
        )));
    }
    Ok(bytes)
}

impl ClientMessage {
    /// The bytes to send.
    pub fn encode(&self) -> Result<Vec<u8>, ControlError> {
        encode(self)
    }

    /// Reads what a client sent.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(bytes)
    }
}

impl ServerMessage {
    /// A reply to the request numbered `id`.
    pub fn reply(id: u64, reply: Reply) -> Self {
        Self {
            v: VERSION,
            body: ServerBody::Reply { id, reply },
        }
    }

    /// An event.
    pub fn event(event: Event) -> Self {
        Self {
            v: VERSION,
            body: ServerBody::Event(event),
        }
    }

    /// The bytes to send.
    pub fn encode(&self) -> Result<Vec<u8>, ControlError> {
        encode(self)
    }

    /// Reads what a daemon sent.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(bytes)
    }
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
