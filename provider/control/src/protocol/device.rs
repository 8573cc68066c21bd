//! What a device is.

use serde::{Deserialize, Serialize};

use super::CongestionControl;
use crate::random::random;

/// The device, as a program sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Such as `ferroce0`.
    pub name: String,
    /// Its number in the kernel's manner, by which netlink and the connection manager know it: the
    /// daemon's choice ([`new_index`](Self::new_index)).
    #[serde(default)]
    pub index: u32,
    /// Its entry in `infiniband_verbs`, such as `uverbs0`.
    pub uverbs: String,
    /// Node GUID, in network order.
    pub node_guid: [u8; 8],
    /// System image GUID, in network order.
    pub sys_image_guid: [u8; 8],
    /// The network interface that carries the port.
    pub netdev: String,
    /// That interface's index.
    pub netdev_index: u32,
    /// That interface's MTU in bytes.
    pub netdev_mtu: u32,
    /// The path MTU that fits it: 256, 512, 1024, 2048 or 4096 bytes of payload.
    pub active_mtu: u32,
    /// The speed of the link in Mb/s (see [`Rate`](crate::link::Rate)).
    pub speed_mbps: u32,
    /// Whether the port is up.
    pub port_active: bool,
    /// How many ports an InfiniBand device has; 0: this is a RoCE device with one.
    #[serde(default)]
    pub ib_ports: u8,
    /// Entries in the GID table, used or not.
    pub gid_tbl_len: u16,
    /// What the kernel grants the receive sockets, as `getsockopt(SO_RCVBUF)` says: bytes of
    /// memory, of which packets use about half for their own data.
    pub rcvbuf: u32,
    /// Firmware version to show: ferroce's own.
    pub fw_ver: String,
    /// By what Local ACK Timeouts are multiplied, 1 to 10,000.
    pub stretch_timeouts: u32,
    /// How programs answer when the network is full.
    pub congestion: CongestionControl,
}

impl DeviceInfo {
    /// An index for a new device, 10,000 to 999,999: devices of the kernel's have the lowest
    /// numbers that are free when they come, so none ever gets there. A program must be able to
    /// tell it from one that was at its place before: librdmacm goes on with a device that it
    /// knows.
    pub fn new_index() -> u32 {
        10_000 + random::<u32>() % 990_000
    }
}
