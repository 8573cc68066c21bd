//! `ferroced`: what is per host and outlives a process. It owns the device's addresses and UDP
//! sockets, deals out slots of queue pair numbers, and keeps the images of `/sys` and `/dev` in
//! which rdma-core finds the device; and it is the connection manager, which speaks to others of
//! its kind from QP1.
//!
//! It never carries data: packets for queue pairs go to the processes that own them, straight from
//! the kernel. Those that come here are for QP1 or for nobody.

mod adapter;
mod armed;
mod attention;
mod captures;
mod claims;
mod clients;
mod clock;
pub mod config;
mod connection;
mod counting;
mod daemon;
mod described;
mod description;
mod device;
mod door;
mod error;
mod event_loop;
mod faults;
mod faulty;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gids;
mod group;
mod groups;
mod gsi;
mod hosts;
pub mod ib;
mod ib_host;
mod ib_ports;
mod image;
pub mod inherited;
mod interfaces;
mod lent;
pub mod limits;
mod lock;
pub mod log;
mod mads;
mod message_faults;
mod next_hop;
mod nldev;
mod performance;
mod place;
mod poller;
mod port;
mod qp1;
mod real;
mod requests;
mod service;
mod sessions;
pub mod signals;
mod slots;
mod stay;
mod steering;
pub mod switch;
mod sysfs;
mod totals;
mod ucma;
mod udp_sockets;
mod umad;
mod users;

pub use config::{Config, Settings};
pub use daemon::Daemon;
pub use error::DaemonError;
