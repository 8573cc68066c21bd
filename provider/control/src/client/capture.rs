//! What can be asked about captures.

use std::os::fd::OwnedFd;

use super::{Client, unexpected};
use crate::ControlError;
use crate::capture::{CaptureSource, CaptureWish};
use crate::protocol::{Reply, Request};

impl Client {
    /// Begins a capture, which ends with this connection. Its rings come by
    /// [`capture_ring`](Self::capture_ring), those of programs that attach later, too, which an
    /// event tells of.
    pub fn capture(&mut self, wish: CaptureWish) -> Result<(), ControlError> {
        self.plain(Request::Capture(wish))
    }

    /// The next ring that this connection has not got: to read from if it has begun a capture, else
    /// to write to. `None`: there is none at the moment.
    pub fn capture_ring(&mut self) -> Result<Option<(CaptureSource, OwnedFd)>, ControlError> {
        match self.call(Request::CaptureRing)? {
            (Reply::CaptureRing(Some(source)), mut fds) if fds.len() == 1 => {
                Ok(Some((source, fds.remove(0))))
            }
            (Reply::CaptureRing(None), _) => Ok(None),
            (other, _) => Err(unexpected(&other)),
        }
    }
}
