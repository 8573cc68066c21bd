//! Congestion control: how many bytes of requests may be unacknowledged on a path. No I/O, no clock.
//!
//! A [`Controller`] hears what becomes of the packets of a path, from [`Host::path_signal`](crate::Host::path_signal), and says how large the
//! window is, which goes into [`TransmitOpts::window`](crate::TransmitOpts::window). One controller serves all queue pairs of a path, on
//! whatever threads these are, so it is shared: it takes `&self`, and counts approximately.

mod aimd;

pub use aimd::Aimd;

use crate::{PathSignal, Time};

/// Decides on a path's window.
pub trait Controller: Send + Sync {
    /// Something happened on the path at `now`, in nanoseconds of a clock that does not go back.
    fn signal(&self, now: Time, signal: PathSignal);

    /// Bytes that all queue pairs of the path together may have unacknowledged.
    fn window(&self) -> u32;
}
