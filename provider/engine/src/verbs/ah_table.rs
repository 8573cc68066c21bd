//! The address handles of a process by number, and what senders need of them.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::datapath::path::Path;
use crate::error::{Error, Result};
use crate::verbs::limits;
use crate::verbs::route::Route;

/// What a sender needs of an address handle.
pub(crate) struct Target {
    /// Its protection domain.
    pub(crate) pd: u32,
    /// What it was made with.
    pub(crate) cookie: u32,
    pub(crate) route: Route,
    pub(crate) paths: RwLock<Vec<Arc<Path>>>,
}

/// The handles of a process, by number: place (16 bits) and, above it, how often the place was used
/// before.
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
    pub(crate) fn insert(&mut self, target: Arc<Target>) -> Result<u32> {
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

    pub(crate) fn remove(&mut self, handle: u32) {
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
