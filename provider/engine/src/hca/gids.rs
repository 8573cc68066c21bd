//! The GID tables of the ports, as far as the daemon has told.

use std::net::IpAddr;

use ferroce_control::{GID_TABLE_LEN, GidEntry};

use super::Hca;
use crate::error::{Error, Result};
use crate::port::Ports;
use crate::port::ib;

/// An entry of a port's GID table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gid {
    /// In network order.
    pub raw: [u8; 16],
    /// The index of its interface; 0: that of an InfiniBand port has none.
    pub ifindex: u32,
}

impl Hca {
    /// What is at an index of a port's GID table, if anything; no file of the image is read.
    /// `EINVAL`: there is no such port or index. `EIO`: the daemon has left.
    pub fn gid_entry(&self, port: u32, index: u32) -> Result<Option<Gid>> {
        // What has been told may have to be taken yet.
        self.control_events();
        if self.is_gone() {
            return Err(Error::Dead);
        }

        // No table is as long as that.
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        let (len, found) = match &self.ports {
            Ports::Infiniband(ports) => {
                // What is no number of a port is none's.
                let state = ib::find(ports, u8::try_from(port).unwrap_or(0))?.state();
                let found = state.gids.iter().find(|(at, _)| *at == index);
                let found = found.map(|(_, raw)| Gid {
                    raw: *raw,
                    ifindex: 0,
                });
                (state.gid_tbl_len, found)
            }
            _ if port != 1 => return Err(Error::Invalid("the device has port 1 only")),
            _ => {
                let gids = self.gids.read();
                let found = gids.iter().find(|entry| entry.index == index);
                let found = found.map(|entry| Gid {
                    raw: entry.gid,
                    ifindex: entry.ifindex,
                });
                (GID_TABLE_LEN, found)
            }
        };
        match index < len {
            true => Ok(found),
            false => Err(Error::Invalid("index: beyond the GID table")),
        }
    }

    /// The used entries of the GID table.
    pub fn gids(&self) -> Vec<GidEntry> {
        self.gids.read().clone()
    }

    pub(crate) fn gid(&self, index: u8) -> Result<GidEntry> {
        let gids = self.gids.read();
        let entry = gids.iter().find(|g| g.index == u16::from(index)).cloned();
        entry.ok_or(Error::Invalid("sgid_index: no such entry in the GID table"))
    }

    /// Whether an address is one of the port's.
    pub(crate) fn has_address(&self, ip: IpAddr) -> bool {
        self.gids.read().iter().any(|g| g.addr == ip)
    }
}
