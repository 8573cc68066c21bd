//! The umad server: what the kernel's `ib_umad` and `ib_mad` are to libibumad. Programs' files come
//! through the shim; MADs come from the ports and go to them.
//!
//! [`agents`] says whose a MAD is, [`exchange`] awaits responses and does RMPP, each [`send`] until
//! it is over, [`files`] are the programs' descriptors, [`server`] reads and writes, and by
//! [`ioctl`] programs register agents.
//! Which ports there are, how a MAD travels and who else answers MADs is nothing to this module.

mod agents;
mod exchange;
mod files;
#[cfg(feature = "fuzzing")]
pub(crate) mod frames;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod headers;
mod ioctl;
mod send;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use server::{Server, Surroundings};
