//! The memory of a device, as its program reads it.

use crate::protocol::{Command, Reply};
use crate::rig::TransportRig;
use std::ops::RangeInclusive;

/// Of how many bytes the memory is read, to know what a packet carries.
pub(super) const READABLE: RangeInclusive<u32> = 1..=1 << 20;

/// Bytes of the device's memory as they are now, of an address and so many, if they can be read.
pub(super) type Memory<'m> = &'m mut dyn FnMut(u64, u32) -> Option<Vec<u8>>;

/// How to read the memory of a rig's device.
pub(super) fn memory_of<'r>(
    rig: &'r mut (dyn TransportRig + '_),
) -> impl FnMut(u64, u32) -> Option<Vec<u8>> + 'r {
    |addr, len| match rig.command(&Command::ReadMemory { addr, len }) {
        Ok(Reply::Bytes { data }) => Some(data),
        _ => None,
    }
}
