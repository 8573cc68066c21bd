//! File transfers: a vector of files and memory goes out, or is filled, in order.
//!
//! Files pass through a few registered buffers, so that memory stays flat whatever their size, and
//! so that a file that is cut short meanwhile is an error rather than a fault.

mod plan;
mod receive;
mod ring;
mod send;

use std::fs::File;
use std::sync::Arc;

use crate::abi::EvtFlags;
use crate::memory::Memory;
use crate::socket::Transfer;

pub(crate) use plan::{Plan, plan};
pub(crate) use receive::receive;
pub(crate) use ring::wait_one;
pub(crate) use send::send;

/// A part of a transfer.
pub(crate) enum Extent {
    /// The application's memory.
    Memory(Piece),
    /// A part of a file. Received without a length: to the end of what comes.
    File {
        file: File,
        offset: u64,
        length: Option<u64>,
    },
}

/// Memory of the application's, as an element names it.
pub(crate) struct Piece {
    pub address: usize,
    pub length: usize,
    pub mhandle: usize,
    pub memory: Option<Arc<Memory>>,
}

impl Piece {
    /// What a socket is given; `flag` as there.
    fn transfer(&self, flag: bool) -> Transfer {
        Transfer {
            address: self.address,
            length: self.length,
            memory: self.memory.clone(),
            region: None,
            mhandle: self.mhandle,
            flag,
        }
    }
}

/// What came of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    pub bytes: u64,
    pub flags: EvtFlags,
}

impl Extent {
    fn length(&self) -> u64 {
        match self {
            Self::Memory(piece) => piece.length as u64,
            Self::File { length, .. } => length.unwrap_or(0),
        }
    }
}
