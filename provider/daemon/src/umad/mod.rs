//! The umad server: what the kernel's `ib_umad` and `ib_mad` are to libibumad. Programs' files come through the shim; MADs come from
//! the ports and go to them.
//!
//! [`agents`] says whose a MAD is, [`exchange`] awaits responses and does RMPP, [`files`] are the programs' descriptors,
//! [`server`] reads and writes, and by [`ioctl`] programs register agents. Which ports there are, how a MAD travels and who else
//! answers MADs is nothing to this module.

mod agents;
mod exchange;
mod files;
#[cfg(feature = "fuzzing")]
pub(crate) mod frames;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod headers;
mod ioctl;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use server::{Server, Surroundings};

use ferroce_wire::mad::Mad;

/// The far end of a MAD, seen from here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address {
    /// Its queue pair.
    pub(crate) qpn: u32,
    /// Q_Key to send with.
    pub(crate) qkey: u32,
    /// Its LID.
    pub(crate) lid: u16,
    /// Service level.
    pub(crate) sl: u8,
    /// Path bits of our own LID.
    pub(crate) path_bits: u8,
    /// What a GRH says.
    pub(crate) grh: Option<Route>,
    /// Index into our P_Key table.
    pub(crate) pkey_index: u16,
}

/// The far end of a MAD with a GRH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    /// Index of our GID.
    pub(crate) gid_index: u8,
    /// Hop limit.
    pub(crate) hop_limit: u8,
    /// Traffic class.
    pub(crate) traffic_class: u8,
    /// Its GID.
    pub(crate) gid: [u8; 16],
    /// Flow label.
    pub(crate) flow_label: u32,
}

/// A MAD to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    /// From which port, from 1.
    pub(crate) port: u8,
    /// From which queue pair, 0 or 1.
    pub(crate) qpn: u8,
    /// Where to.
    pub(crate) to: Address,
    /// What.
    pub(crate) mad: Mad,
}

/// A MAD that came.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    /// To which port, from 1.
    pub(crate) port: u8,
    /// To which queue pair, 0 or 1.
    pub(crate) qpn: u8,
    /// Where from.
    pub(crate) from: Address,
    /// What.
    pub(crate) mad: Mad,
}

impl Incoming {
    /// A MAD that goes back where this one came from.
    pub(crate) fn answer(&self, mad: Mad) -> Outgoing {
        Outgoing {
            port: self.port,
            qpn: self.qpn,
            to: Address {
                qkey: match self.qpn {
                    0 => 0,
                    _ => ferroce_wire::mad::QP1_QKEY,
                },
                ..self.from
            },
            mad,
        }
    }
}
