//! What becomes of ids when the device changes under them: when it goes, when it loses an address,
//! and when an interface of its addresses gets another hardware address.

use ferroce_control::GidEntry;

use super::events::{Detail, Kind};
use super::host::Host;
use super::id::State;
use super::state::Ucma;

impl Ucma {
    /// The device goes: every id that is bound to it is told, and can only be destroyed from now
    /// on.
    pub(super) fn remove_device(&mut self, host: &Host<'_>) {
        for handle in self.bound() {
            self.raise(handle, Kind::DeviceRemoval, 0, Detail::None);
            self.not_awaited(handle, host);
            let Some(id) = self.ids.get_mut(handle) else {
                continue;
            };

            id.state = State::Removed;
            self.generations.touch(handle);
            self.generations.set_connected(handle, false);
            let (cm, service) = (id.cm.take(), id.service.take());
            if let Some(cm) = cm {
                self.by_cm.remove(&cm);
                let _ = self.cm.destroy(host.now, cm, &mut self.out);
            }

            if let Some(service) = service {
                self.services.leave(service, handle, host.now);
            }
        }
    }

    /// The device's addresses have changed: ids whose own is gone are told, once.
    pub(super) fn addresses_changed(&mut self, host: &Host<'_>) {
        for handle in self.bound() {
            let Some(id) = self.ids.get_mut(handle) else {
                continue;
            };

            let is_own = |entry: &GidEntry| match id.path {
                Some(path) => entry.gid == path.av.local_gid,
                None => id.src.names(entry),
            };

            let entry = id.gid_index.and_then(|index| host.gids.entry(index));
            let gone = !entry.is_some_and(is_own) && !id.any;
            self.generations.touch(handle);
            if gone && !id.displaced {
                self.raise(handle, Kind::AddrChange, 0, Detail::None);
            }
            if let Some(id) = self.ids.get_mut(handle) {
                id.displaced = gone;
            }
        }
    }

    /// An interface has another hardware address, as after the failover of a bond: ids whose own
    /// address is on it are told.
    pub(super) fn hardware_changed(&mut self, ifindex: u32, host: &Host<'_>) {
        let on_it = |index: u16| {
            let entry = host.gids.entry(index);
            entry.is_some_and(|entry| entry.ifindex == ifindex)
        };
        for handle in self.bound() {
            let index = self.ids.get(handle).and_then(|id| id.gid_index);
            if index.is_some_and(on_it) {
                self.generations.touch(handle);
                self.raise(handle, Kind::AddrChange, 0, Detail::None);
            }
        }
    }

    /// Whether programs have still to let go of ids of a device that has gone.
    pub(super) fn has_removed(&self) -> bool {
        self.ids.iter().any(|(_, id)| id.state == State::Removed)
    }

    fn bound(&self) -> Vec<u32> {
        let bound = self.ids.iter().filter(|(_, id)| id.gid_index.is_some());
        bound.map(|(handle, _)| handle).collect()
    }
}
