//! The end of ids: with their channel, by a program's wish, or before it ever heard of them.

use super::host::Host;
use super::state::Ucma;

impl Ucma {
    /// Removes a channel with everything on it.
    pub(super) fn close(&mut self, inode: u64, host: &Host<'_>) {
        let mine: Vec<u32> = self
            .ids
            .iter()
            .filter(|(_, id)| id.channel == inode)
            .map(|(handle, _)| handle)
            .collect();
        for handle in mine {
            self.remove_id(handle, host);
        }
        if let Some(channel) = self.channels.remove(&inode) {
            self.numbers.remove(channel.number);
        }
    }

    /// Takes an id out of everything, whatever it is in the middle of. Returns how many of its
    /// events were fetched.
    pub(super) fn remove_id(&mut self, handle: u32, host: &Host<'_>) -> u32 {
        self.not_awaited(handle, host);
        let Some(id) = self.ids.remove(handle) else {
            return 0;
        };

        self.quotas.leave(id.peer);
        self.generations.touch(handle);
        self.generations.end(handle);
        if let Some(service) = id.service {
            self.services.leave(service, handle, host.now);
        }
        if let Some(hop) = id.seeks {
            self.neighbours.forget(hop, handle);
        }
        if let Some(number) = id.asks {
            self.questions.forget(number);
        }

        if let Some(cm) = id.cm {
            self.by_cm.remove(&cm);
            let _ = self.cm.destroy(host.now, cm, &mut self.out);
        }

        if let Some(port) = id.port {
            self.ports.release(port, handle);
        }

        for group in id.groups {
            self.remove_group(group, host);
        }

        // Requests that nobody will accept any more go with the listener.
        let requests = self
            .channels
            .get_mut(&id.channel)
            .map(|channel| channel.forget(handle))
            .unwrap_or_default();

        self.announce_on(id.channel);
        for request in requests {
            self.remove_id(request, host);
        }
        id.reported
    }

    /// Takes back a connection request that no record tells of yet, with its id; `false`: there is
    /// none.
    pub(super) fn forget_request(&mut self, request: u32, host: &Host<'_>) -> bool {
        let Some((channel, whose)) = self.ids.get(request).map(|id| (id.channel, id.peer)) else {
            return false;
        };

        let channel = self.channels.get_mut(&channel);
        let Some(event) = channel.and_then(|channel| channel.withdraw(request, whose)) else {
            return false;
        };
        if let Some(listener) = self.ids.get_mut(event.owner) {
            listener.backlog += 1;
        }

        // There is nothing else of it that would have to be looked for among all the others'
        // events.
        if let Some(id) = self.ids.remove(request) {
            self.quotas.leave(id.peer);
            self.generations.touch(request);
            self.generations.end(request);
            if let Some(cm) = id.cm {
                self.by_cm.remove(&cm);
                let _ = self.cm.destroy(host.now, cm, &mut self.out);
            }
        }

        true
    }
}
