//! What can be asked about other hosts.

use super::{Client, unexpected};
use crate::ControlError;
use crate::protocol::{Reply, Request};

impl Client {
    /// Whether another RoCE host is ferroce's and its programs understand selective
    /// acknowledgements, as far as that is known now. Where it is not, the host is asked, and
    /// [`Event::Hosts`](crate::Event::Hosts) tells when to ask here again. `gid`: in network order.
    /// `ENOENT`: there is no such entry in the GID table.
    pub fn speaks_selective(
        &mut self,
        gid_index: u16,
        gid: [u8; 16],
    ) -> Result<bool, ControlError> {
        match self.call(Request::Host { gid_index, gid })? {
            (Reply::Host { selective }, _) => Ok(selective),
            (other, _) => Err(unexpected(&other)),
        }
    }
}
