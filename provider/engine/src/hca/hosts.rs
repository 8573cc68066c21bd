//! What is known of the hosts that reliable connections go to: whether they are ferroce's too, so
//! that losses on the way there can be recovered from by selective acknowledgements. Who asks them,
//! and what follows, is in `introductions`.

use std::collections::HashMap;
use std::net::IpAddr;

use ferroce_control::switches::Recovery;
use ferroce_transport::{Duration, Time};
use parking_lot::Mutex;

/// How long an answer of the daemon's holds.
const HOLDS: Duration = Duration::from_secs(60);
/// The most hosts that are remembered.
const MOST: usize = 1024;

/// Whence a host is asked, an index into the GID table, and its GID.
pub(super) type Way = (u16, [u8; 16]);

/// Hosts, as the daemon knows them.
pub(crate) struct Hosts {
    recovery: Recovery,
    known: Mutex<HashMap<IpAddr, Known>>,
}

#[derive(Clone, Copy)]
struct Known {
    way: Way,
    selective: bool,
    until: Time,
}

impl Hosts {
    pub(crate) fn new(recovery: Recovery) -> Hosts {
        Hosts {
            recovery,
            known: Mutex::default(),
        }
    }

    /// Whether selective acknowledgements are understood at all.
    pub(crate) fn is_selective(&self) -> bool {
        self.recovery != Recovery::GoBackN
    }

    /// Whether everybody is told so.
    pub(crate) fn introduces_all(&self) -> bool {
        self.recovery == Recovery::Selective
    }

    /// Whether it depends on the host who is told so.
    pub(super) fn finds_out(&self) -> bool {
        self.recovery == Recovery::Automatic
    }

    /// A connection goes there. Whether the daemon is to be asked about it; from now on
    /// [`open`](Self::open) has it.
    pub(super) fn meet(&self, now: Time, ip: IpAddr, way: Way) -> bool {
        if !self.finds_out() {
            return false;
        }
        let mut known = self.known.lock();
        if known.get(&ip).is_some_and(|known| known.until > now) {
            return false;
        }
        if known.len() >= MOST {
            known.clear();
        }
        let host = Known {
            way,
            selective: false,
            until: now + HOLDS,
        };
        known.insert(ip, host);
        true
    }

    /// Those of whom nothing is known yet, or that they do not understand.
    pub(super) fn open(&self) -> Vec<(IpAddr, Way)> {
        let known = self.known.lock();
        let open = known.iter().filter(|(_, known)| !known.selective);
        open.map(|(ip, known)| (*ip, known.way)).collect()
    }

    /// One of them does.
    pub(super) fn found(&self, ip: IpAddr) {
        if let Some(known) = self.known.lock().get_mut(&ip) {
            known.selective = true;
        }
    }

    /// Whether a host is known to understand.
    pub(super) fn understands(&self, ip: IpAddr) -> bool {
        let known = self.known.lock();
        known.get(&ip).is_some_and(|known| known.selective)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAY: Way = (3, [7; 16]);

    fn ip(n: u16) -> IpAddr {
        let [high, low] = n.to_be_bytes();
        IpAddr::from([10, 0, high, low])
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_host_is_asked_about_once_a_minute() {
        let hosts = Hosts::new(Recovery::Automatic);
        assert!(hosts.meet(at(0), ip(1), WAY));
        assert!(!hosts.meet(at(59), ip(1), WAY));
        assert_eq!(hosts.open(), [(ip(1), WAY)]);
        assert!(!hosts.understands(ip(1)));

        hosts.found(ip(1));
        assert!(hosts.understands(ip(1)));
        assert!(hosts.open().is_empty());

        // It may be another's since.
        assert!(hosts.meet(at(60), ip(1), WAY));
        assert!(!hosts.understands(ip(1)));
    }

    #[test]
    fn nobody_is_asked_where_it_is_decided_already() {
        for recovery in [Recovery::GoBackN, Recovery::Selective] {
            assert!(!Hosts::new(recovery).meet(at(0), ip(1), WAY));
        }
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let hosts = Hosts::new(Recovery::Automatic);
        for n in 0..3000 {
            assert!(hosts.meet(at(0), ip(n), WAY));
            assert!(hosts.open().len() <= MOST);
        }
        hosts.found(ip(1)); // forgotten, and no harm done
        assert!(!hosts.understands(ip(1)));
    }
}
