//! The in-process HCA: verbs objects, memory, sockets, the event loop.
//!
//! An application's process holds one [`Hca`] for each ferroced it uses. Contexts, protection domains, memory regions,
//! completion queues and queue pairs hang off it; the transport state machines of `ferroce-transport` run inside the
//! queue pairs, and this crate carries out what they ask for: it checks keys, copies payload, sends GSO runs, receives
//! GRO runs and keeps the timers.
//!
//! Who does the work: whoever polls. [`Cq::poll`] on an empty queue and [`SendPoster`] run the engine inline; one helper
//! thread a process sleeps in io_uring and takes over while no thread polls (see `driver`).
//!
//! This crate never speaks a C ABI (that is `ferroce-cabi` and the plugin), and it never decides protocol (that is the transport).

mod advise;
mod ah;
mod arming;
mod arrival;
mod batch;
mod congestion;
mod context;
mod cq;
mod crowd;
mod datagram;
mod dm;
mod dmabuf;
mod driver;
mod entries;
mod error;
mod events;
#[cfg(target_arch = "x86_64")]
mod fault_mask;
mod forks;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod guard;
mod hca;
mod helper;
mod ib;
mod import;
mod keys;
mod limits;
mod linger;
mod marks;
mod mcast;
mod memory;
mod mgid;
mod mr;
mod mw;
mod paging;
mod path;
mod persist;
mod piece;
mod port;
mod posting;
mod pump;
mod qp;
mod qp_close;
mod qp_host;
mod qp_init;
mod receiver;
mod recvmsg;
mod rendezvous;
mod route;
mod rx;
mod shared;
mod sleep;
mod srq;
mod table;
mod tag_matching;
mod timers;
mod turn;
mod tx;
mod uring;
mod wc;
mod window;
mod words;
mod xrc;

mod ah_table;
mod dm_use;
mod groups;
mod handles;
mod held;
mod make_room;
mod poll;
mod round;
mod routing;
pub use advise::Advice;
pub use ah::Ah;
pub use context::{Context, Pd};
pub use cq::{Cq, CqInit, Moderation};
pub use dm::Dm;
pub use entries::{Entry, Lent};
pub use error::{Error, Result};
pub use events::Delivered;
pub use hca::Hca;
pub use limits::{DeviceAttr, PortAttr};
pub use mr::Mr;
pub use mw::Mw;
pub use paging::OdpCaps;
#[cfg(any(test, feature = "in-process"))]
pub use port::in_process::Faults;
pub use posting::{RecvPoster, SendPoster};
pub use qp::{Qp, QpInitView};
pub use qp_init::QpInit;
pub use srq::{Srq, SrqAttr, SrqInit};
pub use tag_matching::{TagOp, TagWork, TmInit};
pub use wc::{TagInfo, Wc};
pub use window::MwType;
pub use xrc::Xrcd;

pub use ferroce_control::{DeviceInfo, GidEntry, RuntimeDir};
pub use ferroce_transport::{
    Access, AddressVector, Datagram, Dest, Flush, Placement, QpAttr, QpAttrMask, QpCap, QpState,
    Selectivity, SendData, SendFlags, SendOp, SendRequest, Sge, Time, WcOpcode, WcStatus,
    WindowBind,
};
pub use ferroce_wire::mtu;
