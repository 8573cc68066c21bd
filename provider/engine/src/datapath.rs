//! The way of a packet: from a queue pair to a port, and from a port to a queue pair.

pub(crate) mod arrival;
mod at_rate;
pub(crate) mod backlog;
pub(crate) mod batch;
mod company;
pub(crate) mod completing;
pub(crate) mod congestion;
pub(crate) mod datagram;
pub(crate) mod held;
pub(crate) mod path;
pub(crate) mod pump;
pub(crate) mod qp_host;
pub(crate) mod rx;
pub(crate) mod sharing;
pub(crate) mod turn_count;
pub(crate) mod turns;
pub(crate) mod tx;
mod visits;
