//! `SET_OPTION`.

use ferroce_cabi::ucma::*;
use rustix::io::Errno;
use zerocopy::FromBytes;

use super::events::{Detail, Kind};
use super::host::Host;
use super::id::{State, qp_type};
use super::query;
use super::state::Ucma;

impl Ucma {
    /// Sets an option of an id. `ENOSYS`: there is no such option.
    pub(super) fn set_option(
        &mut self,
        handle: u32,
        level: u32,
        name: u32,
        value: &[u8],
        host: &Host<'_>,
    ) -> Result<(), Errno> {
        match (level, name) {
            (RDMA_OPTION_ID, RDMA_OPTION_ID_TOS) => {
                self.existing(handle)?.tos = Some(byte(value)?);
            }
            (RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR) => {
                let reuse = flag(value)?;
                let id = self.existing(handle)?;
                let may = match id.state {
                    State::Idle => true,
                    State::Listen => false,
                    _ => reuse,
                };
                if !may {
                    return Err(Errno::INVAL);
                }
                id.reuse = reuse;
                if let Some(port) = id.port {
                    self.ports.update(port, handle, |owner| owner.reuse = reuse);
                }
            }
            (RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY) => {
                let afonly = flag(value)?;
                let id = self.existing(handle)?;
                if !matches!(id.state, State::Idle | State::Bound) {
                    return Err(Errno::INVAL);
                }
                id.afonly = Some(afonly);
                if let Some(port) = id.port {
                    self.ports
                        .update(port, handle, |owner| owner.afonly = afonly);
                }
            }
            (RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT) => {
                let timeout = byte(value)?;
                let id = self.existing(handle)?;
                if !matches!(id.qp_type, qp_type::RC | qp_type::XRC_SEND) || timeout > 31 {
                    return Err(Errno::INVAL);
                }
                id.ack_timeout = Some(timeout);
            }
            (RDMA_OPTION_IB, RDMA_OPTION_IB_PATH) => return self.set_path(handle, value, host),
            _ => return Err(Errno::NOSYS),
        }

        Ok(())
    }

    /// Takes a path from the program instead of resolving it. Where it leads is what the addresses
    /// say; how, is the program's choice.
    fn set_path(&mut self, handle: u32, value: &[u8], host: &Host<'_>) -> Result<(), Errno> {
        let size = size_of::<ib_path_rec_data>();
        if value.is_empty() || !value.len().is_multiple_of(size) {
            return Err(Errno::INVAL);
        }

        let record = value
            .chunks_exact(size)
            .filter_map(|chunk| ib_path_rec_data::read_from_bytes(chunk).ok())
            .find(|record| record.flags == query::PATH_FLAGS)
            .ok_or(Errno::INVAL)?;

        let path = self.path_of(handle, host)?;
        let id = self.existing(handle)?;
        id.path = Some(query::unpacked(&record.path_rec, &path));
        id.state = State::RouteResolved;
        self.raise(handle, Kind::RouteResolved, 0, Detail::None);
        Ok(())
    }
}

fn byte(value: &[u8]) -> Result<u8, Errno> {
    match value {
        [value] => Ok(*value),
        _ => Err(Errno::INVAL),
    }
}

/// An `int` that is zero or not.
fn flag(value: &[u8]) -> Result<bool, Errno> {
    let bytes: [u8; 4] = value.try_into().map_err(|_| Errno::INVAL)?;
    Ok(i32::from_ne_bytes(bytes) != 0)
}
