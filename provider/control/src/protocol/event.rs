//! What a daemon tells of itself, and how that waits for who does not look.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// What the daemon tells without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The GID table has changed: read it again.
    GidChange,
    /// The port went up or down.
    PortState {
        /// Whether it is up now.
        active: bool,
    },
    /// A RoCE device's link is another, which consumers are not told.
    Link {
        /// As [`DeviceInfo::active_mtu`](super::DeviceInfo::active_mtu).
        active_mtu: u32,
        /// As [`DeviceInfo::speed_mbps`](super::DeviceInfo::speed_mbps).
        speed_mbps: u32,
    },
    /// Something is different at a port of an InfiniBand device: describe it again.
    Port {
        /// The port's number.
        port: u8,
        /// What consumers are told, as a value of `enum ibv_event_type`.
        event: u32,
    },
    /// The faults are others: ask for them again.
    Faults,
    /// Hosts that this client has asked about have answered: ask again.
    Hosts,
    /// There are rings of captures that this client has not got, or some have ended.
    Captures,
    /// The daemon goes, or has gone, and the device with it. The last event.
    Shutdown,
}

impl Event {
    /// Goes to the end of a queue, where only the last one of those that say the same is kept: what
    /// it is about is read when it is handled, and whoever never looks must not fill any memory.
    /// Which of several states is the last one stays known, and that there was another. Of links,
    /// only the last one counts.
    pub fn join(self, queue: &mut VecDeque<Event>) {
        let is_link = |event: &Event| matches!(event, Event::Link { .. });
        queue.retain(|queued| *queued != self && !(is_link(queued) && is_link(&self)));
        queue.push_back(self);
    }
}
