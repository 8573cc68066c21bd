//! What a client has once it has attached.

use super::DeviceInfo;
use crate::objects::ObjectTable;
use crate::{CounterPage, InboxFds, Network};

/// What [`Client::attach`](crate::Client::attach) returns.
#[derive(Debug)]
pub struct Attachment {
    /// 1 to 255; the top byte of this process's queue pair numbers.
    pub slot: u8,
    /// The device.
    pub device: DeviceInfo,
    /// Where the daemon's sockets are.
    pub network: Network,
    /// This client's counters.
    pub counters: CounterPage,
    /// Where it says which objects it has.
    pub objects: ObjectTable,
    /// Where other clients of the device put packets for this one.
    pub inbox: InboxFds,
}
