//! MADs on their way: what came and what goes, with the far end as it is seen from here. Over RoCE
//! a far end has no LID, but always a GRH.

use ferroce_wire::mad::{Mad, QP1, QP1_QKEY};

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

impl Address {
    /// Whether both are the same port's: with a GRH by the GID, else by the LID.
    pub(crate) fn is_same_port(&self, other: &Address) -> bool {
        match (&self.grh, &other.grh) {
            (None, None) => self.lid == other.lid,
            (Some(one), Some(other)) => one.gid == other.gid,
            _ => false,
        }
    }
}

/// A MAD to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    /// From which port, from 1.
    pub(crate) port: u8,
    /// From which queue pair, 0 or 1.
    pub(crate) qpn: u32,
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
    pub(crate) qpn: u32,
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
                    QP1 => QP1_QKEY,
                    _ => 0,
                },
                ..self.from
            },
            mad,
        }
    }
}

impl Outgoing {
    /// A MAD that a port sends to its own QP1, as it comes there.
    pub(crate) fn looped(&self) -> Incoming {
        Incoming {
            port: self.port,
            qpn: self.qpn,
            from: Address {
                qpn: QP1,
                qkey: QP1_QKEY,
                ..self.to
            },
            mad: self.mad,
        }
    }
}
