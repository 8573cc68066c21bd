//! What is known of the hosts that reliable connections go to: whether they are ferroce's too, so
//! that losses on the way there can be recovered from by selective acknowledgements. The daemon
//! finds it out, and nobody waits for it: a connection begins as with a stranger, and its queue
//! pair is told later.

use std::collections::HashMap;
use std::net::IpAddr;

use ferroce_control::switches::Recovery;
use ferroce_transport::{Duration, Time};
use parking_lot::Mutex;

use super::Hca;
use crate::port::Ports;
use crate::port::address::{PathKey, gid_address};
use crate::progress::timers;

/// How long an answer of the daemon's holds.
const HOLDS: Duration = Duration::from_secs(60);
/// The most hosts that are remembered.
const MOST: usize = 1024;

/// Hosts, as the daemon knows them.
pub(crate) struct Hosts {
    recovery: Recovery,
    known: Mutex<HashMap<IpAddr, Known>>,
}

#[derive(Clone, Copy)]
struct Known {
    /// Whence the daemon asks it: an index into the GID table, and its GID.
    way: (u16, [u8; 16]),
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
}

impl Hca {
    /// A reliable connection is about to go there. The first in a while has the daemon ask.
    pub(crate) fn meet_host(&self, gid_index: u8, gid: [u8; 16]) {
        let ip = gid_address(gid);
        let automatic = self.hosts.recovery == Recovery::Automatic;
        let elsewhere = matches!(self.ports(), Ports::Ethernet(_)) && !self.has_address(ip);
        if !automatic || !elsewhere {
            return;
        }

        let now = timers::now();
        let way = (gid_index.into(), gid);
        {
            let mut known = self.hosts.known.lock();
            if known.get(&ip).is_some_and(|known| known.until > now) {
                return;
            }
            if known.len() >= MOST {
                known.clear();
            }
            // Before the daemon is asked: its news of the host must find it.
            let until = now + HOLDS;
            known.insert(
                ip,
                Known {
                    way,
                    selective: false,
                    until,
                },
            );
        }
        self.ask_about(ip, way);
        self.queued_events();
    }

    /// Whether the peer at the other end of a path may understand selective acknowledgements. What
    /// the device's own processes send to each other is not lost on any network.
    pub(crate) fn may_speak_selective(&self, key: &PathKey) -> bool {
        if self.hosts.recovery != Recovery::Automatic || key.lids.is_some() {
            return false;
        }
        let known = self.hosts.known.lock();
        known.get(&key.remote).is_some_and(|known| known.selective)
    }

    /// Hosts have answered the daemon.
    pub(super) fn hosts_answered(&self) {
        let open: Vec<_> = {
            let known = self.hosts.known.lock();
            let open = known.iter().filter(|(_, known)| !known.selective);
            open.map(|(ip, known)| (*ip, known.way)).collect()
        };
        for (ip, way) in open {
            if self.ask_about(ip, way) {
                self.introduce(ip);
            }
        }
    }

    /// Asks the daemon, and keeps what it says.
    fn ask_about(&self, ip: IpAddr, (gid_index, gid): (u16, [u8; 16])) -> bool {
        let selective = self
            .control
            .ask(|daemon| daemon.speaks_selective(gid_index, gid));
        let selective = selective.unwrap_or(false);
        if selective && let Some(known) = self.hosts.known.lock().get_mut(&ip) {
            known.selective = true;
        }
        selective
    }

    /// Tells the queue pairs that are connected to a host.
    fn introduce(&self, ip: IpAddr) {
        let qps: Vec<_> = self.qps.read_recursive().iter().cloned().collect();
        for qp in qps {
            let mut inner = qp.inner.lock();
            let there = inner.path.as_ref().map(|path| path.key);
            if there.is_some_and(|key| key.remote == ip && key.lids.is_none()) {
                inner.transport.introduce();
            }
        }
    }
}
