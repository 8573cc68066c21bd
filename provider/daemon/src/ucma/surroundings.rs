//! What the daemon lends the server for the time of one call. The server knows nothing else of it.

use ferroce_control::rtnetlink::Socket;
use ferroce_control::{DeviceInfo, IbPort};

use crate::claims::Claims;
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
    /// Who knows the host's routes and neighbours.
    pub(crate) kernel: &'a Socket,
    /// Whether the device's addresses were given, one by one.
    pub(crate) given: bool,
    /// None of a RoCE device.
    pub(crate) ports: &'a [IbPort],
    /// Where sockets are watched.
    pub(crate) poller: &'a Poller,
    /// Who has which queue pairs.
    pub(crate) claims: &'a Claims,
}
