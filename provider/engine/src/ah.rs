//! Address handles: where datagrams go, resolved when they are made and found again by the number that a work request carries.
//!
//! A datagram's path depends on its destination queue pair too (see `path`), so a handle keeps one for each slot that it
//! was used for. Nothing is sent from here.

use std::sync::Arc;

use ferroce_transport::AddressVector;
use parking_lot::RwLock;

use crate::context::Pd;
use crate::error::{Error, Result};
use crate::hca::Hca;
use crate::limits;
use crate::path::Path;
use crate::route::Route;

/// An address handle.
pub struct Ah {
    pd: Arc<Pd>,
    av: AddressVector,
    handle: u32,
    cookie: u32,
}

impl Ah {
    pub(crate) fn create(pd: &Arc<Pd>, av: &AddressVector, cookie: u32) -> Result<Arc<Ah>> {
        let hca = pd.context().hca();
        // Without a GRH it is the LID that leads somewhere, and 0 is what the port shows as its own. Datagram rsockets
        // make a handle to themselves so. RoCE has no such handles otherwise, and programs test that.
        let to_itself = || av.dlid == 0 && has_datagrams(hca, pd);
        let route = Route::of_handle(hca, av, to_itself)?;
        let handle = hca.ahs.write().insert(Arc::new(Target {
            pd: pd.handle(),
            cookie,
            route,
            paths: RwLock::new(Vec::new()),
        }))?;
        pd.add_user();
        Ok(Arc::new(Ah {
            pd: pd.clone(),
            av: *av,
            handle,
            cookie,
        }))
    }

    /// Where it leads.
    pub fn address_vector(&self) -> &AddressVector {
        &self.av
    }

    /// What work requests name it by ([`Datagram::ah`](crate::Datagram)). The number of a handle that has gone is not soon
    /// another's.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// What work requests show with the number ([`Datagram::cookie`](crate::Datagram)).
    pub fn cookie(&self) -> u32 {
        self.cookie
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        self.pd.context().hca().ahs.write().remove(self.handle);
        self.pd.remove_user();
    }
}

/// Whether a protection domain has queue pairs that could be meant by a handle which leads back to the port.
fn has_datagrams(hca: &Hca, pd: &Pd) -> bool {
    let qps = hca.qps.read_recursive();
    qps.iter()
        .any(|qp| qp.is_datagram() && qp.pd_handle() == pd.handle())
}

/// What a sender needs of an address handle.
pub(crate) struct Target {
    /// Its protection domain.
    pub(crate) pd: u32,
    /// What it was made with.
    pub(crate) cookie: u32,
    route: Route,
    paths: RwLock<Vec<Arc<Path>>>,
}

impl Target {
    /// The path to queue pairs of a slot.
    pub(crate) fn path(&self, hca: &Hca, slot: u8) -> Result<Arc<Path>> {
        let slot = self.route.slot(slot);
        let here = |path: &&Arc<Path>| path.key.slot == slot && !path.is_stale();
        let known = |paths: &Vec<Arc<Path>>| paths.iter().find(here).cloned();
        if let Some(path) = known(&self.paths.read()) {
            return Ok(path);
        }
        let path = self.route.path(hca, slot)?;
        let mut paths = self.paths.write();
        Ok(known(&paths).unwrap_or_else(|| {
            paths.retain(|path| !path.is_stale());
            paths.push(path.clone());
            path
        }))
    }
}

/// The handles of a process, by number: place (16 bits) and, above it, how often the place was used before.
#[derive(Default)]
pub(crate) struct AhTable {
    places: Vec<Place>,
    free: Vec<u16>,
}

struct Place {
    use_count: u16,
    target: Option<Arc<Target>>,
}

impl AhTable {
    fn insert(&mut self, target: Arc<Target>) -> Result<u32> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.places.len() < limits::MAX_AH as usize => {
                self.places.push(Place {
                    use_count: 0,
                    target: None,
                });
                (self.places.len() - 1) as u16
            }
            None => return Err(Error::Full("address handles")),
        };
        let entry = &mut self.places[usize::from(place)];
        // Never 0, so that no number is.
        entry.use_count = entry.use_count.checked_add(1).unwrap_or(1);
        entry.target = Some(target);
        Ok(u32::from(entry.use_count) << 16 | u32::from(place))
    }

    fn remove(&mut self, handle: u32) {
        if self.get(handle).is_some() {
            self.places[usize::from(handle as u16)].target = None;
            self.free.push(handle as u16);
        }
    }

    pub(crate) fn get(&self, handle: u32) -> Option<&Arc<Target>> {
        let place = self.places.get(usize::from(handle as u16))?;
        if u32::from(place.use_count) != handle >> 16 {
            return None;
        }
        place.target.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use ferroce_control::GidEntry;

    use super::*;

    fn target(pd: u32) -> Arc<Target> {
        Arc::new(Target {
            pd,
            cookie: 0,
            route: Route::Address {
                gid: GidEntry {
                    index: 0,
                    gid: [0; 16],
                    addr: Ipv4Addr::LOCALHOST.into(),
                    scope_id: 0,
                    ifindex: 1,
                    ifname: "lo".into(),
                },
                remote: Ipv4Addr::LOCALHOST.into(),
                traffic_class: 0,
                hop_limit: 0,
            },
            paths: RwLock::new(Vec::new()),
        })
    }

    #[test]
    fn the_number_of_a_handle_that_has_gone_finds_nothing() {
        let mut table = AhTable::default();
        let first = table.insert(target(1)).unwrap();
        assert_eq!(table.get(first).map(|t| t.pd), Some(1));
        table.remove(first);
        assert!(table.get(first).is_none());
        let second = table.insert(target(2)).unwrap();
        assert_ne!(first, second);
        assert!(table.get(first).is_none());
        table.remove(first);
        assert_eq!(table.get(second).map(|t| t.pd), Some(2));
        assert!(table.get(0).is_none());
    }

    #[test]
    fn as_many_as_promised_and_no_more() {
        let mut table = AhTable::default();
        let one = target(1);
        let handles: Vec<_> = (0..limits::MAX_AH)
            .map(|_| table.insert(one.clone()).unwrap())
            .collect();
        assert!(matches!(table.insert(one.clone()), Err(Error::Full(_))));
        table.remove(handles[77]);
        table.insert(one).unwrap();
    }
}
