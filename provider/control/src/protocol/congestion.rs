//! Which congestion control a device has.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How the programs of a device answer when the network is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "command-line", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum CongestionControl {
    /// By a window for each path, which shrinks on losses and growing round trips.
    #[default]
    Aimd,
    /// By a rate beside it, which falls when the network marks packets (ECN) and the peer says so.
    Dcqcn,
}

/// As settings have it.
impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CongestionControl::Aimd => "aimd",
            CongestionControl::Dcqcn => "dcqcn",
        })
    }
}
