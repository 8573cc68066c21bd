//! File transfers: a vector of files and memory goes out, or is filled, in order.
//!
//! Files pass through a few registered buffers, so that memory stays flat whatever their size, and so that a file that
//! is cut short meanwhile is an error rather than a fault.

mod plan;
mod receive;
mod ring;
mod send;

use std::fs::File;
use std::sync::Arc;

use crate::abi::EvtFlags;
use crate::memory::Memory;

pub use plan::plan;
pub use receive::receive;
pub use ring::wait_one;
pub use send::send;

/// A part of a transfer.
pub enum Extent {
    /// The application's memory.
    Memory {
        address: usize,
        length: usize,
        mhandle: usize,
        memory: Option<Arc<Memory>>,
    },
    /// A part of a file. Received without a length: to the end of what comes.
    File {
        file: File,
        offset: u64,
        length: Option<u64>,
    },
}

/// A checked vector.
pub struct Plan {
    pub extents: Vec<Extent>,
    /// Shut down for writing afterwards.
    pub shut: bool,
}

/// What came of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    pub bytes: u64,
    pub flags: EvtFlags,
}
impl Extent {
    fn length(&self) -> u64 {
        match self {
            Self::Memory { length, .. } => *length as u64,
            Self::File { length, .. } => length.unwrap_or(0),
        }
    }
}
