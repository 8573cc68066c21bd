//! Where an address vector leads.

use std::net::IpAddr;
use std::sync::Arc;

use ferroce_control::GidEntry;
use ferroce_transport::AddressVector;
use ferroce_wire::smp::is_multicast_lid;

use crate::error::Result;
use crate::port::address::PathKey;
use crate::port::ib::Port;

/// The port, and what it goes by there.
pub(crate) enum Route {
    /// To an address, with RoCE.
    Address {
        gid: GidEntry,
        remote: IpAddr,
        traffic_class: u8,
        hop_limit: u8,
    },
    /// By the cable of an InfiniBand port.
    Cable(Arc<Port>, AddressVector),
}

impl Route {
    /// The slot that a path has for queue pairs of `slot`. Every process on a group gets a
    /// datagram, whatever slot its number names.
    pub(crate) fn slot(&self, slot: u8) -> u8 {
        match self {
            Route::Address { remote, .. } if remote.is_multicast() => 0,
            Route::Cable(_, av) if is_multicast_lid(av.dlid) => 0,
            _ => slot,
        }
    }

    /// What names the path to queue pairs of a slot.
    pub(crate) fn key(&self, slot: u8) -> Result<PathKey> {
        match self {
            Route::Cable(port, av) => port.path_key(av, slot),
            Route::Address {
                gid,
                remote,
                traffic_class,
                hop_limit,
            } => Ok(PathKey {
                local: gid.addr,
                remote: *remote,
                slot,
                traffic_class: *traffic_class,
                hop_limit: *hop_limit,
                lids: None,
            }),
        }
    }
}
