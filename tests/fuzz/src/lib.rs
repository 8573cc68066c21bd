//! Whatever others feed ferroce, fed at will: a function for each thing that is parsed, which panics where a promise is broken.
//!
//! The functions are plain, so that `cargo test` replays what is kept in `seeds` with every compiler; `targets` has a program
//! for each of them, for cargo-fuzz (`cargo xtask fuzz`). Nothing here uses the network or the clock: the same input does the same.
#![forbid(unsafe_code)]

pub mod agent;
pub mod cm;
pub mod control;
pub mod exs;
pub mod icrc;
pub mod link;
pub mod packet;
pub mod rdma_cm;
pub mod ring;
pub mod rmpp;
pub mod sa;
pub mod transport;
pub mod umad;

/// Something that others feed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What the program and the directory of its seeds are called.
    pub name: &'static str,
    /// Takes one input, of any length.
    pub run: fn(&[u8]),
}

/// All there are.
pub const TARGETS: &[Target] = &[
    target("agent", agent::run),
    target("cm", cm::run),
    target("control", control::run),
    target("exs", exs::run),
    target("icrc", icrc::run),
    target("link", link::run),
    target("packet", packet::run),
    target("rdma_cm", rdma_cm::run),
    target("ring", ring::run),
    target("rmpp", rmpp::run),
    target("sa", sa::run),
    target("transport", transport::run),
    target("umad", umad::run),
];

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}
