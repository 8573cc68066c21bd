//! What `ferroced` and its clients share: the runtime directory, the control protocol, the blocking
//! client, and the memory that processes map together: counters, and inboxes.
//!
//! This is the control path only. A client gets its slot's UDP sockets and its inbox from the
//! daemon once and then works on them by itself, in another network namespace also those that it
//! sends by.

pub mod addr_spec;
pub mod capabilities;
pub mod capture;
pub mod children;
mod client;
mod counters;
pub mod datagram;
mod error;
pub mod faults;
mod flow;
mod generations;
pub mod holder;
mod inbox;
pub mod latency;
pub mod link;
pub mod loopback;
mod network;
pub mod objects;
pub mod outlet;
mod ports;
mod premises;
pub mod process;
pub mod protocol;
pub mod random;
pub mod routes;
pub mod rtnetlink;
mod runtime_dir;
pub mod seqpacket;
pub mod switches;
pub mod threads;
mod trust;
pub mod udp;
#[cfg(feature = "uring")]
pub mod uring;

pub use addr_spec::AddrSpec;
pub use client::Client;
pub use counters::{Counter, CounterPage};
pub use error::ControlError;
pub use flow::{FlowFile, FlowPage, GroupFile, Member};
pub use generations::{GENERATIONS, Generations};
pub use inbox::{InboxFds, InboxHead, RING_BYTES, RingMemory};
pub use network::Network;
pub use outlet::Outlet;
pub use ports::{Key, MAX_PORTS, PortCounter, WrongKey};
pub use premises::Premises;
pub use protocol::{
    Attachment, ClientStatus, CmStatus, CongestionControl, DeviceInfo, Event, GID_TABLE_LEN,
    GidEntry, IbPort, SlotStatus, Status,
};
pub use runtime_dir::RuntimeDir;

/// The errno values of this host, for code that builds a [`ControlError`] from a refusal.
pub use rustix::io::Errno;
