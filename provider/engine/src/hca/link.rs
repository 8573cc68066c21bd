//! What the daemon tells of a RoCE device's link.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use ferroce_control::DeviceInfo;

/// The link of a RoCE device's port as it is now.
pub(super) struct Link {
    active: AtomicBool,
    mtu: AtomicU32,
    mbps: AtomicU32,
}

impl Link {
    pub(super) fn of(device: &DeviceInfo) -> Link {
        Link {
            active: AtomicBool::new(device.port_active),
            mtu: AtomicU32::new(device.active_mtu),
            mbps: AtomicU32::new(device.speed_mbps),
        }
    }

    /// Whether it is up.
    pub(super) fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// It is up now, or down. Returns whether it was not before.
    pub(super) fn set_active(&self, active: bool) -> bool {
        self.active.swap(active, Relaxed) != active
    }

    /// The largest path MTU that fits it, in bytes.
    pub(super) fn mtu(&self) -> u32 {
        self.mtu.load(Relaxed)
    }

    pub(super) fn mbps(&self) -> u32 {
        self.mbps.load(Relaxed)
    }

    pub(super) fn set(&self, mtu: u32, mbps: u32) {
        self.mtu.store(mtu, Relaxed);
        self.mbps.store(mbps, Relaxed);
    }
}
