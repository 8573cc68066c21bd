//! What a test has the device side do beside channels: memory, and what device it is.

use crate::protocol::{Command, DeviceInfo, Region, Reply, refusal};
use crate::rig::TransportRig;
use anyhow::{Result, bail};

/// Has the device side do something that must succeed.
///
/// # Errors
/// The rig failed, or the device refused.
pub fn must(rig: &mut dyn TransportRig, command: Command) -> Result<Reply> {
    match rig.command(&command)? {
        Reply::Errno { code, what } => Err(refusal(&what, code)),
        reply => Ok(reply),
    }
}

pub(super) fn unexpected<T>(reply: Reply) -> Result<T> {
    bail!("the device side answered something else: {reply:?}")
}

/// What device this is.
///
/// # Errors
/// As [`must`].
pub fn device(rig: &mut dyn TransportRig) -> Result<DeviceInfo> {
    match must(rig, Command::Device)? {
        Reply::Device(info) => Ok(info),
        other => unexpected(other),
    }
}

/// Registers memory of zeros.
///
/// # Errors
/// As [`must`].
pub fn register(rig: &mut dyn TransportRig, len: u32, access: u32) -> Result<Region> {
    match must(
        rig,
        Command::Register {
            len,
            access,
            srq: None,
        },
    )? {
        Reply::Region(region) => Ok(region),
        other => unexpected(other),
    }
}

/// What a program of the device reads in its memory.
///
/// # Errors
/// As [`must`].
pub fn read_memory(rig: &mut dyn TransportRig, addr: u64, len: u32) -> Result<Vec<u8>> {
    match must(rig, Command::ReadMemory { addr, len })? {
        Reply::Bytes { data } => Ok(data),
        other => unexpected(other),
    }
}

/// Has a program of the device write its memory.
///
/// # Errors
/// As [`must`].
pub fn write_memory(rig: &mut dyn TransportRig, addr: u64, data: &[u8]) -> Result<()> {
    let data = data.to_vec();
    must(rig, Command::WriteMemory { addr, data }).map(|_| ())
}

/// `len` bytes that differ from place to place.
pub fn pattern(len: u32) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}
