//! What becomes of ids when the device changes under them: when it goes, and when it loses an address.

use ferroce_control::GidEntry;

use super::events::{Detail, Kind};
use super::id::State;
use super::{Host, Ucma};

impl Ucma {
    /// The device goes: every id that is bound to it is told, and can only be destroyed from now on.
    pub(super) fn remove_device(&mut self, host: &Host<'_>) {
        for handle in self.bound() {
            self.raise(handle, Kind::DeviceRemoval, 0, Detail::None);
            let Some(id) = self.ids.get_mut(handle) else {
                continue;
            };
            id.state = State::Removed;
            let (cm, service) = (id.cm.take(), id.service.take());
            if let Some(cm) = cm {
                self.by_cm.remove(&cm);
                let _ = self.cm.destroy(host.now, cm, &mut self.out);
            }
            if let Some(service) = service {
                self.stop_listening(service, handle, host);
            }
        }
    }

    /// The device's addresses have changed: ids whose own is gone are told.
    pub(super) fn addresses_changed(&mut self, host: &Host<'_>) {
        let served = |index: u16| host.gids.entry(index).map(|entry: &GidEntry| entry.gid);
        for handle in self.bound() {
            let Some(id) = self.ids.get_mut(handle) else {
                continue;
            };
            let own = id.path.map_or(id.src.gid(), |path| path.av.local_gid);
            if id.gid_index.and_then(served) != Some(own) && !id.any {
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
