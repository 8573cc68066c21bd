//! What librdmacm of rdma-core 60 and later asks beside: events that a program writes to itself,
//! and services of a subnet administrator. The kernel has both since 6.17.

use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::events::{Detail, Kind};
use super::id::State;
use super::state::Ucma;

/// The beginning of `struct rdma_ucm_write_cm_event`: of the union at its end only `arg` counts.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
pub(super) struct WriteEvent {
    pub(super) id: u32,
    reserved: u32,
    event: u32,
    status: i32,
    arg: u64,
}

/// The beginning of `struct rdma_ucm_resolve_ib_service`.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
pub(super) struct ResolveService {
    pub(super) id: u32,
    reserved: u32,
}

impl Ucma {
    /// `WRITE_CM_EVENT`: the program gets the event that it writes, in turn with the others.
    pub(super) fn write_event(&mut self, asked: &WriteEvent) -> Result<(), Errno> {
        let kind = [Kind::User, Kind::Internal]
            .into_iter()
            .find(|kind| *kind as u32 == asked.event)
            .ok_or(Errno::INVAL)?;
        self.raise(asked.id, kind, asked.status, Detail::Argument(asked.arg));
        Ok(())
    }

    /// `RESOLVE_IB_SERVICE`: asks for a service by its name or number. Over Ethernet there is
    /// nobody to ask (`EOPNOTSUPP`); the subnet administrators of InfiniBand ports are not asked
    /// either.
    pub(super) fn resolve_service(&mut self, handle: u32) -> Result<(), Errno> {
        match self.existing(handle)?.state {
            State::AddrResolved => Err(Errno::OPNOTSUPP),
            _ => Err(Errno::INVAL),
        }
    }
}
