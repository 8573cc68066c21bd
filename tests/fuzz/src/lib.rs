//! Whatever others feed ferroce, fed at will: a function for each thing that is parsed, which
//! panics where a promise is broken.
//!
//! The functions are plain, so that `cargo test` replays what is kept in `seeds` with every
//! compiler; `targets` has a program for each of them, for cargo-fuzz (`cargo xtask fuzz`). Nothing
//! here uses the network or the clock: the same input does the same.
#![forbid(unsafe_code)]

pub mod agent;
pub mod capture;
pub mod cm;
pub mod control;
pub mod exs;
pub mod exs_hello;
pub mod icrc;
pub mod identification;
pub mod link;
pub mod netlink;
pub mod packet;
pub mod rdma_cm;
pub mod rdma_cm_frames;
pub mod replay_file;
pub mod ring;
pub mod rmpp;
pub mod sa;
pub mod tag_matching;
pub mod transport;
pub mod umad;
pub mod umad_frames;

/// Something that others feed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What the program and the directory of its seeds are called.
    pub name: &'static str,
    /// Takes one input, of any length. Returns whether something in it got past the first check: an
    /// input of which nothing does tries little.
    pub run: fn(&[u8]) -> bool,
}

/// All there are.
pub const TARGETS: &[Target] = &[
    target("agent", agent::run),
    target("capture", capture::run),
    target("cm", cm::run),
    target("control", control::run),
    target("exs", exs::run),
    target("exs_hello", exs_hello::run),
    target("icrc", icrc::run),
    target("identification", identification::run),
    target("link", link::run),
    target("netlink", netlink::run),
    target("packet", packet::run),
    target("rdma_cm", rdma_cm::run),
    target("rdma_cm_frames", rdma_cm_frames::run),
    target("replay_file", replay_file::run),
    target("ring", ring::run),
    target("rmpp", rmpp::run),
    target("sa", sa::run),
    target("tag_matching", tag_matching::run),
    target("transport", transport::run),
    target("umad", umad::run),
    target("umad_frames", umad_frames::run),
];

const fn target(name: &'static str, run: fn(&[u8]) -> bool) -> Target {
    Target { name, run }
}
