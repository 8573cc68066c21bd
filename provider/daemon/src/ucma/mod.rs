//! The server behind `/dev/infiniband/rdma_cm`: what the kernel's `rdma_ucm` and `rdma_cm` modules
//! are to librdmacm.
//!
//! A program's descriptor is a *channel* with a queue of events; its ids live here until the
//! channel closes or the process dies. Commands come in as the bytes that librdmacm wrote
//! (`commands`), and nothing in them is trusted. What an id wants of the wire is asked of the CM
//! (`ferroce_fabric`), which answers with events. Nothing here waits: each command is answered at
//! once, and what takes time ends in an event. Sockets are `serve`'s and `qp1`'s business.
//!
//! The modules stand in layers, and each knows only those below it. At the bottom are addresses,
//! events and the tables of what there is (`services`, `questions`, `names`, `quotas`, …), which
//! `state` holds together. Above it is what becomes of ids (`connect`, `requests`, `resolve`,
//! `multicast`, …), then the commands, and at the top the server with its sockets.

mod accept;
mod addr;
mod announce;
mod answers;
mod arguments;
mod channel;
mod commands;
mod connect;
mod datagram;
mod device;
mod events;
mod faults;
#[cfg(feature = "fuzzing")]
pub(crate) mod frames;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod gmp;
mod groups;
mod host;
mod id;
mod infiniband;
mod listed;
mod membership;
mod multicast;
mod names;
mod neighbours;
mod options;
mod outbox;
mod ports;
mod posted;
mod qp_attr;
mod query;
mod questions;
mod quotas;
mod raise;
mod removal;
mod report;
mod requests;
mod resolve;
mod route;
mod serve;
mod services;
mod session;
mod settle;
mod state;
mod steps;
mod surroundings;
mod table;
mod terms;
mod turns;
mod written;

pub(crate) use self::serve::Server;
pub(crate) use self::surroundings::Surroundings;
