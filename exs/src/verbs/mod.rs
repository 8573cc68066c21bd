//! The verbs layer: devices, memory regions, completion queues and connection identifiers as owned
//! Rust values over the C shim. It decides nothing about sockets and knows nothing of the protocol.

mod address;
mod device;
mod ffi;
mod id;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use address::Address;
pub(crate) use device::{Cq, Device, Mr};
pub(crate) use ffi::{CmEvent, Completion, Work};
pub(crate) use id::{CmChannel, CmId};

use crate::errno::{Errno, Result};

/// Opcodes of [`Work`].
pub(crate) const SEND: u32 = 0;
/// RDMA WRITE.
pub(crate) const WRITE: u32 = 1;
/// RDMA READ.
pub(crate) const READ: u32 = 2;
/// RDMA WRITE with immediate data, which takes a receive at the peer.
pub(crate) const WRITE_IMMEDIATE: u32 = 3;
/// SEND with immediate data.
pub(crate) const SEND_IMMEDIATE: u32 = 4;
/// A flag of [`Work`]: the bytes are copied when it is posted.
pub(crate) const INLINE: u32 = 1;

/// Whether librdmacm has been asked for what it opens devices for. It keeps them open; the child of
/// a fork has its contexts too, but none of what they stand for.
static OPENED: AtomicBool = AtomicBool::new(false);

/// Whether devices are open, in this process or in the one that it was forked from.
pub(crate) fn opened() -> bool {
    OPENED.load(Ordering::Relaxed)
}

fn opens() {
    OPENED.store(true, Ordering::Relaxed);
}

/// The answer of a shim function: 0, an errno value, or -1 with errno set.
fn check(answer: i32) -> Result<()> {
    match answer {
        0 => Ok(()),
        positive if positive > 0 => Err(Errno(positive)),
        _ => Err(Errno::from(io::Error::last_os_error())),
    }
}
