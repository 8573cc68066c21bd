//! Channels: a queue pair of the device and one of the tester, connected, in the words of the test specification.

use crate::protocol::{Command, Reply};
use crate::rig::TransportRig;
use anyhow::{Result, bail};

/// Has the device side do something that must succeed.
///
/// # Errors
/// The rig failed, or the device refused.
pub fn must(rig: &mut dyn TransportRig, command: Command) -> Result<Reply> {
    match rig.command(&command)? {
        Reply::Errno { code, what } => bail!("{what}: errno {code}"),
        reply => Ok(reply),
    }
}
