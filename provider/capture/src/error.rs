//! What can go wrong with a capture.

use std::io;

use ferroce_control::ControlError;

/// Why a capture ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The daemon, or a ring.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// What was captured could not be written.
    #[error("writing packets: {0}")]
    Write(#[from] io::Error),
}

impl Error {
    /// The positive errno that stands for it at a C boundary.
    pub fn errno(&self) -> i32 {
        match self {
            Self::Control(error) => error.errno(),
            Self::Write(source) => source
                .raw_os_error()
                .unwrap_or_else(|| ferroce_control::Errno::IO.raw_os_error()),
        }
    }
}
