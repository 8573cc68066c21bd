//! Other distributions: their file systems, programs in them, and what is known to fail there for
//! reasons that are not ours.
//!
//! A distribution is a root directory with its own rdma-core, perftest and the rest, in which the
//! programs run on this machine's kernel. ferroce is not built there: one build serves all.

mod archive;
mod differs;
pub(crate) mod emulator;
mod root;
mod suite;

pub(crate) use archive::{Archive, PACKAGING, PROGRAMS};
pub(crate) use differs::known;
pub(crate) use root::Root;
pub(crate) use suite::pyverbs;

/// A distribution that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Distribution {
    /// Its name in the names of tests.
    pub name: &'static str,
    /// The mirror's name for it.
    pub suite: &'static str,
}

/// All of them, the oldest first.
pub(crate) const DISTRIBUTIONS: &[Distribution] = &[
    Distribution {
        name: "debian-11",
        suite: "bullseye",
    },
    DEBIAN_12,
    DEBIAN_13,
    Distribution {
        name: "debian-sid",
        suite: "sid",
    },
];

/// The one whose programs are tried on another architecture.
pub(crate) const DEBIAN_12: Distribution = Distribution {
    name: "debian-12",
    suite: "bookworm",
};

/// The one that is tried by the way, too.
pub(crate) const DEBIAN_13: Distribution = Distribution {
    name: "debian-13",
    suite: "trixie",
};
