//! What `ferroced` and its clients share: the runtime directory, the control protocol, the blocking
//! client, and the page of counters that a client and the daemon map together.
//!
//! This is the control path only. Packets never pass through here: a client gets its slot's UDP
//! sockets from the daemon once and then works on them by itself.

mod client;
mod counters;
mod error;
mod flow;
mod generations;
pub mod link;
mod ports;
pub mod protocol;
mod runtime_dir;
pub mod seqpacket;
pub mod udp;

pub use client::Client;
pub use counters::{Counter, CounterPage};
pub use error::ControlError;
pub use flow::{FlowFile, FlowPage};
pub use generations::{GENERATIONS, Generations};
pub use ports::{Key, MAX_PORTS, PortCounter, WrongKey};
pub use protocol::{
    Attachment, ClientStatus, CmStatus, DeviceInfo, Event, GID_TABLE_LEN, GidEntry, IbPort,
    SlotStatus, Status,
};
pub use runtime_dir::RuntimeDir;

/// The errno values of this host, for code that builds a [`ControlError`] from a refusal.
pub use rustix::io::Errno;
