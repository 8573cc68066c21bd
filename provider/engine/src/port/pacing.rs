//! What is known of a receiver of unacknowledged traffic (UC, UD) on this machine: the counters of
//! its address, in memory that senders and receivers share (`FlowPage`). How fast it is sent to by
//! them is decided by the transport's [`Pacer`](ferroce_transport::congestion::Pacer).

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use ferroce_control::{FlowPage, GroupFile};
use ferroce_transport::congestion::Gauge;

/// The counters of a receiver's address, or of a group, which senders on the same machine keep too.
pub(crate) struct Counters {
    whose: Whose,
    /// Looked for at the first use; many receivers have none.
    place: OnceLock<Place>,
}

/// Of whom they are.
#[derive(Clone, Copy)]
enum Whose {
    Slot {
        ip: IpAddr,
        scope_id: u32,
        slot: u8,
    },
    /// Through one interface.
    Group {
        ip: IpAddr,
        interface: u32,
    },
}

enum Place {
    /// Of another machine, or another user's.
    Nowhere,
    Address(FlowPage, u8),
    Group(GroupFile),
}

impl Counters {
    pub(super) fn of_slot(ip: IpAddr, scope_id: u32, slot: u8) -> Counters {
        Counters::of(Whose::Slot { ip, scope_id, slot })
    }

    pub(super) fn of_group(ip: IpAddr, interface: u32) -> Counters {
        Counters::of(Whose::Group { ip, interface })
    }

    fn of(whose: Whose) -> Counters {
        Counters {
            whose,
            place: OnceLock::new(),
        }
    }

    fn place(&self) -> &Place {
        let open = || match self.whose {
            Whose::Slot { ip, scope_id, slot } => {
                Some(Place::Address(FlowPage::open(ip, scope_id)?, slot))
            }
            Whose::Group { ip, interface } => Some(Place::Group(GroupFile::open(ip, interface)?)),
        };
        self.place.get_or_init(|| open().unwrap_or(Place::Nowhere))
    }
}

impl Gauge for Counters {
    fn room(&self, limit: u64) -> Option<u64> {
        match self.place() {
            Place::Nowhere => None,
            Place::Address(page, slot) => Some(limit.saturating_sub(page.in_flight(*slot))),
            Place::Group(group) => group.room(limit),
        }
    }

    fn taken(&self) -> u64 {
        match self.place() {
            Place::Nowhere => 0,
            Place::Address(page, slot) => page.received(*slot).load(Relaxed),
            Place::Group(group) => group.taken(),
        }
    }

    fn sent(&self, cost: u64) {
        match self.place() {
            Place::Nowhere => {}
            Place::Address(page, slot) => {
                page.sent(*slot).fetch_add(cost, Relaxed);
            }
            Place::Group(group) => group.send(cost),
        }
    }

    /// Of other machines, other users and containers.
    fn has_others(&self) -> bool {
        matches!(self.whose, Whose::Group { .. })
    }

    fn stalled(&self) {
        if let Place::Group(group) = self.place() {
            group.forget_the_dead();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_control::FlowFile;

    #[test]
    fn what_is_sent_and_taken_is_seen_by_both() {
        let ip = IpAddr::from([192, 0, 2, 92]);
        let _file = FlowFile::create(ip, 0).unwrap();
        let page = FlowPage::open(ip, 0).unwrap();
        let counters = Counters::of_slot(ip, 0, 3);
        counters.sent(100_000);
        page.take(3, 30_000);
        assert_eq!(counters.room(100_000), Some(30_000));
        assert_eq!(counters.taken(), 30_000);
        // Another slot's are others.
        assert_eq!(Counters::of_slot(ip, 0, 4).room(100), Some(100));
    }

    #[test]
    fn of_other_machines_nothing_is_known() {
        let ip = IpAddr::from([192, 0, 2, 93]);
        assert_eq!(Counters::of_slot(ip, 0, 3).room(100), None);
    }

    #[test]
    fn of_a_group_the_members_of_this_machine_are_known() {
        let ip = IpAddr::from([239, 192, 0, 94]);
        let counters = Counters::of_group(ip, 1);
        counters.sent(100);
        assert_eq!(counters.room(1000), None);
        let member = GroupFile::open(ip, 1).unwrap().join(500).unwrap();
        counters.sent(100);
        // Through another interface others are reached.
        Counters::of_group(ip, 2).sent(100);
        assert_eq!(counters.room(1000), Some(400));
        member.page().take(member.number(), 60);
        assert_eq!((counters.room(1000), counters.taken()), (Some(460), 160));
    }
}
