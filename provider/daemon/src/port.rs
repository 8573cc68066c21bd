//! How the port follows its interface: addresses become GIDs and groups of sockets, the link's
//! state becomes the port's.

use std::time::{Duration, Instant};

use ferroce_control::DeviceInfo;

use crate::DaemonError;
use crate::adapter::Adapter;
use crate::device::{self, Source};
use crate::interfaces::{Snapshot, Watch};
use crate::poller::{Poller, Token};
use crate::service::Service;
use crate::udp_sockets::granted_without_address;

/// How long after a failure an address is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// The service that looks at the host's interfaces.
#[derive(Debug)]
pub(crate) struct Interfaces {
    watch: Watch,
    /// When to try again addresses that could not be opened.
    retry_at: Option<Instant>,
}

/// What is different at the port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    /// Something of the device.
    pub(crate) device: bool,
    /// The GID table.
    pub(crate) gids: bool,
    /// Whether the link is up.
    pub(crate) state: bool,
    /// The link's path MTU or speed.
    pub(crate) link: bool,
}

impl Service for Interfaces {
    fn next_timeout(&self) -> Option<Instant> {
        self.retry_at
    }
}

impl Interfaces {
    /// Watches, and then looks: nothing is missed between.
    pub(crate) fn start() -> Result<(Self, Snapshot), DaemonError> {
        let watch = Watch::new().map_err(DaemonError::os("watching the interfaces"))?;
        let snapshot = Snapshot::read().map_err(DaemonError::os("reading the interfaces"))?;
        let retry_at = None;
        Ok((Self { watch, retry_at }, snapshot))
    }

    /// The daemon shall hear of changes.
    pub(crate) fn open(&self, poller: &Poller) -> Result<(), DaemonError> {
        poller
            .add(&self.watch, Token::Interfaces)
            .map_err(DaemonError::os("watching the interfaces"))
    }

    /// Something has changed.
    pub(crate) fn ready(&mut self) {
        self.watch.drain();
    }

    /// Looks at the interfaces again. Returns those that have another hardware address; `None`:
    /// they could not be read.
    pub(crate) fn look(&mut self, adapter: &mut Adapter) -> Option<Vec<u32>> {
        self.retry_at = None;
        match Snapshot::read() {
            Ok(snapshot) => {
                let old = std::mem::replace(&mut adapter.snapshot, snapshot);
                Some(adapter.snapshot.other_hardware(&old))
            }
            Err(error) => {
                tracing::error!(%error, "cannot read the interfaces");
                self.retry_at = Some(Instant::now() + RETRY);
                None
            }
        }
    }

    /// Makes the port follow its interface.
    pub(crate) fn follow(&mut self, adapter: &mut Adapter) -> Change {
        if adapter.is_ib() {
            // Addresses mean nothing to cables, and a link that is gone is noticed by its silence.
            return Change::default();
        }

        let before = adapter.info.clone();
        adapter
            .source
            .follow(before.netdev_index, &adapter.snapshot);
        device::refresh(&mut adapter.info, &adapter.source, &adapter.snapshot);
        adapter.info.port_active &= !adapter.faults.is_down(1);
        let now = &adapter.info;
        let state = before.port_active != now.port_active;
        let rate = |of: &DeviceInfo| (of.active_mtu, of.speed_mbps);
        let link = rate(&before) != rate(now);

        // Given addresses stay, even while they cannot be used.
        let mut gids = match &adapter.source {
            Source::Fixed { .. } => adapter.gids.locate(&adapter.snapshot),
            Source::Interface(_) => self.follow_addresses(adapter),
        };
        gids |= adapter.gids.hide(adapter.faults.removed_gids());

        Change {
            device: before != adapter.info,
            gids,
            state,
            link,
        }
    }

    fn follow_addresses(&mut self, adapter: &mut Adapter) -> bool {
        let wanted = match adapter.source.wanted(&adapter.snapshot) {
            Ok(wanted) => wanted,
            Err(error) => {
                tracing::warn!(%error, "keeping the addresses as they are");
                return false;
            }
        };

        let mut usable = Vec::new();
        for address in wanted {
            match adapter.open_group(&address) {
                Ok(_) => usable.push(address),
                Err(error) => {
                    tracing::warn!(%error, "leaving out {}", address.addr);
                    self.retry_at = Some(Instant::now() + RETRY);
                }
            }
        }

        let changed = adapter.gids.update(&usable);
        adapter.close_unused_groups();
        changed
    }
}

impl Adapter {
    /// Takes the addresses with which the daemon starts. One that cannot be had is an error.
    pub(crate) fn open_first_addresses(&mut self) -> Result<(), DaemonError> {
        let wanted = self.source.wanted(&self.snapshot)?;
        if wanted.is_empty() {
            // As when it loses all: they may come at any time.
            tracing::warn!(netdev = self.source.netdev(), "no address yet");
        }

        // One is open already if it had to be looked for.
        for (index, _) in self.groups.iter() {
            self.watch_members(index, 0);
        }
        for address in &wanted {
            self.open_group(address)?;
        }
        self.gids.update(&wanted);
        self.info.rcvbuf = match self.groups.granted_receive_buffer() {
            Some(granted) => granted,
            None => granted_without_address(self.settings.receive_buffer)?,
        };
        Ok(())
    }
}
