//! What `ferroce status` shows, as the daemon tells it.

use serde::{Deserialize, Serialize};

use super::{DeviceInfo, GidEntry};

/// A daemon's account of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The daemon's process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// The device.
    pub device: DeviceInfo,
    /// The GID table's used entries.
    pub gids: Vec<GidEntry>,
    /// Those connected, attached or not.
    pub clients: Vec<ClientStatus>,
    /// How many slots are in which state.
    pub slots: SlotStatus,
    /// The connection manager.
    pub cm: CmStatus,
    /// Names and values: the sums over living and dead clients, then the daemon's own.
    pub counters: Vec<(String, u64)>,
}

/// One connection to the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// The process.
    pub pid: u32,
    /// Its name as it gave it; empty before it attaches.
    pub name: String,
    /// Its slot, if it has attached.
    pub slot: Option<u8>,
    /// Seconds since it connected.
    pub seconds: u64,
}

/// What the connection manager has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CmStatus {
    /// Programs that use it.
    pub programs: u32,
    /// Their rdma_cm ids.
    pub ids: u32,
    /// Connections and resolutions on the wire, those that linger after their end included.
    pub connections: u32,
    /// Service IDs that are listened to, as many as a message holds.
    pub services: Vec<u64>,
}

/// How many slots are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotStatus {
    /// Held by clients.
    pub claimed: u32,
    /// Free, and may be handed out at once.
    pub free: u32,
    /// Free, but resting until stray packets of their last owner have died out.
    pub resting: u32,
}
