//! Congestion control: how many bytes may be on their way on a path, and when more may follow. No
//! I/O, no clock.
//!
//! A [`Controller`] hears what leaves on a path and what becomes of it, and says two things: the
//! window, in bytes of requests that may be unacknowledged, which goes into
//! [`TransmitOpts::window`](crate::TransmitOpts::window), and the allowance, in bytes that may
//! leave now, which goes into [`TransmitOpts::budget`](crate::TransmitOpts::budget). What is
//! acknowledged (RC, XRC) is bounded by the one ([`Aimd`]), what is not (UC, UD) by the other
//! ([`Pacer`]). Where networks mark packets there is a rate beside the window ([`Dcqcn`]).
//!
//! One controller serves all queue pairs of a path, on whatever threads these are, so it is shared:
//! it takes `&self`, and counts approximately.

mod aimd;
mod dcqcn;
mod pacer;

pub use aimd::Aimd;
pub use dcqcn::{Dcqcn, Reaction};
pub use pacer::{Gauge, Pacer, Unknown, allowance_of_buffer, buffer_cost};

use crate::{PathSignal, Time};

/// Decides on what may be on its way on a path.
pub trait Controller: Send + Sync {
    /// Packets of `bytes` are about to leave at `now`; `run`: several of one size, in one send.
    /// Whoever goes by the window alone has no use for it.
    fn sent(&self, now: Time, bytes: usize, run: bool) {
        let _ = (now, bytes, run);
    }

    /// Something happened on the path at `now`, by a clock that does not go back
    /// (see [`Host::path_signal`](crate::Host::path_signal)).
    fn signal(&self, now: Time, signal: PathSignal);

    /// Bytes that all queue pairs of the path together may have unacknowledged.
    fn window(&self) -> u32;

    /// Bytes of requests that may leave in one piece, as a run of packets that the kernel divides
    /// only where it has to. A queue that has no room for all of it drops all of it.
    fn run(&self) -> u32 {
        u32::MAX
    }

    /// Bytes that may leave now, or when to ask again. As much as there is, unless the controller
    /// has a pace.
    fn allowance(&self, now: Time) -> Result<u64, Time> {
        let _ = now;
        Ok(u64::MAX)
    }
}
