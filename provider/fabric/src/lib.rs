//! Management as state machines: the InfiniBand communication manager, the RDMA IP CM service on
//! top of it, and the agents that a subnet manager finds in a node.
//!
//! As in the transport, time is passed in, and messages and events come out. Nothing here reads a
//! clock or a socket, starts a thread, or trusts what arrives.
//!
//! - [`cm`]: connections by REQ, REP, RTU and their relatives, and service ID resolution, for one
//!   device;
//! - [`ipcm`]: how IP addresses and ports travel in service IDs and private data, as `rdma_cm` uses
//!   them;
//! - [`rmpp`]: messages longer than a MAD; [`sa`]: questions to the subnet administrator;
//! - [`sma`]: subnet management agents, of channel adapters and switches;
//! - [`link`]: the two ends of a cable; [`peers`]: which other hosts are ferroce's;
//! - [`pma`]: performance management agents; [`gsi`]: who takes a MAD, and what is answered where
//!   nobody does.
//!
//! A host's loop is: [`Cm::receive`] for every MAD that came to QP1, [`Cm::handle_timeout`] when
//! [`Cm::next_timeout`] has passed, the consumer's calls whenever they come; and after each, what
//! was put into the [`Sink`].
#![forbid(unsafe_code)]

pub mod cm;
pub mod gsi;
pub mod ipcm;
pub mod link;
pub mod peers;
pub mod pma;
pub mod rmpp;
pub mod sa;
pub mod sma;

pub use cm::{
    Accept, Av, Cm, CmConfig, CmError, CmEvent, CmId, Connect, Counters, Limits, Path, QpRtr,
    QpRts, Resolve, ResolveReply, Sink, State, Time,
};
pub use ferroce_wire::cm::{Ece, PrivateData, Transport, about, reject, sidr_status};
pub use ferroce_wire::mad::{self, Gid, Mad};
