//! The verbs layer: devices, memory regions, completion queues and connection identifiers as owned Rust values over
//! the C shim. It decides nothing about sockets and knows nothing of the protocol.

mod address;
mod device;
mod ffi;
mod id;

use std::io;

pub use address::Address;
pub use device::{Cq, Device, Mr};
pub use ffi::{CmEvent, Completion, Work};
pub use id::{CmChannel, CmId};

use crate::errno::{Errno, Result};

/// Opcodes of [`Work`].
pub const SEND: u32 = 0;
/// RDMA WRITE.
pub const WRITE: u32 = 1;
/// RDMA READ.
pub const READ: u32 = 2;
/// A flag of [`Work`]: the bytes are copied when it is posted.
pub const INLINE: u32 = 1;

/// The answer of a shim function: 0, an errno value, or -1 with errno set.
fn check(answer: i32) -> Result<()> {
    match answer {
        0 => Ok(()),
        positive if positive > 0 => Err(Errno(positive)),
        _ => Err(Errno::from(io::Error::last_os_error())),
    }
}
