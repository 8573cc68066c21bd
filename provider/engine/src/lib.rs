//! The in-process HCA: verbs objects, memory, sockets, the event loop.
//!
//! An application's process holds one [`Hca`] for each ferroced it uses. Contexts, protection
//! domains, memory regions, completion queues and queue pairs hang off it; the transport state
//! machines of `ferroce-transport` run inside the queue pairs, and this crate carries out what they
//! ask for: it checks keys, copies payload, sends GSO runs, receives GRO runs and keeps the timers.
//!
//! Who does the work: whoever polls. [`Cq::poll`] on an empty queue and [`SendPoster::doorbell`]
//! run the engine inline; one helper thread a process sleeps in io_uring and takes over while no
//! thread polls (see `driver`).
//!
//! What programs make and use is in `verbs`; `datapath` takes packets from queue pairs to ports and
//! back; what a port is, is in `port`; `memory` has the keys and every access to the program's
//! memory; `progress` whoever makes all of this move; `instrument` what can be had of them on
//! command; `hca` is the device, which holds it together.
//!
//! This crate never speaks a C ABI (that is `ferroce-cabi` and the plugin), and it never decides
//! protocol (that is the transport).

mod datapath;
mod error;
mod forks;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hca;
mod instrument;
mod locks;
mod memory;
mod own;
mod port;
mod progress;
mod tuning;
mod verbs;

pub use error::{Error, Result};
pub use hca::{Gid, Hca};
pub use instrument::latency::Histogram;
pub use instrument::watch::{Call, Made};
pub use memory::paging::OdpCaps;
pub use memory::window::MwType;
#[cfg(any(test, feature = "in-process"))]
pub use port::in_process::{Faults, Side};
pub use verbs::advise::Advice;
pub use verbs::ah::Ah;
pub use verbs::channel::AwakeWait;
pub use verbs::completions::Moderation;
pub use verbs::context::{Context, Pd};
pub use verbs::cq::{Cq, CqInit};
pub use verbs::dm::Dm;
pub use verbs::entries::{Entry, Lent};
pub use verbs::events::Delivered;
pub use verbs::limits::{DeviceAttr, PortAttr};
pub use verbs::made::channel_closed;
pub use verbs::mr::Mr;
pub use verbs::mw::Mw;
pub use verbs::posting::{RecvPoster, SendPoster};
pub use verbs::qp::numbers::Insight;
pub use verbs::qp::{Qp, QpInitView};
pub use verbs::qp_init::QpInit;
pub use verbs::shared_requests::SrqAttr;
pub use verbs::srq::{Srq, SrqInit, TmInit};
pub use verbs::tag_matching::{TagOp, TagWork};
pub use verbs::wc::{TagInfo, Wc};
pub use verbs::xrc::Xrcd;

pub use ferroce_control::objects::{LastError, QpNumbers};
pub use ferroce_control::{Counter, DeviceInfo, GidEntry, RuntimeDir, switches};
pub use ferroce_transport::{
    Access, AddressVector, Datagram, Dest, Flush, Placement, QpAttr, QpAttrMask, QpCap, QpState,
    Selectivity, SendData, SendFlags, SendOp, SendRequest, Sge, Time, WcOpcode, WcStatus,
    WindowBind,
};
pub use ferroce_wire::mtu;
