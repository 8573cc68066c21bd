//! What the daemon lends the server for the time of one call. The server knows nothing else of it.

use ferroce_control::{DeviceInfo, IbPort};

use crate::gids::GidTable;
use crate::interfaces::Snapshot;
use crate::poller::Poller;

/// What the connection manager sees of the daemon.
pub(crate) struct Surroundings<'a> {
    /// The device's addresses.
    pub(crate) gids: &'a GidTable,
    /// The device.
    pub(crate) info: &'a DeviceInfo,
    /// The host's interfaces.
    pub(crate) snapshot: &'a Snapshot,
    /// None of a RoCE device.
    pub(crate) ports: &'a [IbPort],
    /// Where sockets are watched.
    pub(crate) poller: &'a Poller,
    /// Whether a request of its peer's has arrived at a program's queue pair, as the program's engine says.
    pub(crate) heard: &'a dyn Fn(u32) -> bool,
}
