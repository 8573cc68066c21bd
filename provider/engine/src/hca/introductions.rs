//! Queue pairs and the hosts of their peers. The daemon finds out which hosts are ferroce's, and
//! nobody waits for it: a connection begins as with a stranger, and its queue pair is introduced
//! when the answer is there.

use std::net::IpAddr;

use super::Hca;
use super::hosts::Way;
use crate::port::Ports;
use crate::port::address::{PathKey, gid_address};
use crate::progress::timers;

impl Hca {
    /// A reliable connection is about to go there. The first in a while has the daemon ask.
    pub(crate) fn meet_host(&self, gid_index: u8, gid: [u8; 16]) {
        if !self.hosts.finds_out() {
            return;
        }
        let ip = gid_address(gid);
        let way = (gid_index.into(), gid);
        // What the device's own processes send to each other is not lost on any network.
        let elsewhere = matches!(self.ports(), Ports::Ethernet(_)) && !self.has_address(ip);
        if elsewhere && self.hosts.meet(timers::now(), ip, way) {
            self.ask_about(ip, way);
            self.queued_events();
        }
    }

    /// Whether the peer at the other end of a path may understand selective acknowledgements.
    pub(crate) fn may_speak_selective(&self, key: &PathKey) -> bool {
        self.hosts.finds_out() && key.lids.is_none() && self.hosts.understands(key.remote)
    }

    /// Whether the peer there is of this device, and may understand filled packets.
    pub(crate) fn fills_to_itself(&self, key: &PathKey) -> bool {
        self.hosts.is_selective() && key.lids.is_none() && self.has_address(key.remote)
    }

    /// Hosts have answered the daemon.
    pub(super) fn hosts_answered(&self) {
        for (ip, way) in self.hosts.open() {
            if self.ask_about(ip, way) {
                self.introduce(ip);
            }
        }
    }

    /// Asks the daemon, and keeps what it says. Without a daemon nobody is anybody.
    fn ask_about(&self, ip: IpAddr, (gid_index, gid): Way) -> bool {
        let answer = self
            .control
            .ask(|daemon| daemon.speaks_selective(gid_index, gid));
        let understands = answer.unwrap_or(false);
        if understands {
            self.hosts.found(ip);
        }
        understands
    }

    /// Tells the queue pairs that are connected to a host. Those that connect now see for
    /// themselves, as it is known by now.
    fn introduce(&self, ip: IpAddr) {
        let qps: Vec<_> = self.qps.read().iter().cloned().collect();
        for qp in qps {
            let mut inner = qp.inner.lock();
            let there = inner.path.as_ref().map(|path| path.key);
            if there.is_some_and(|key| key.remote == ip && key.lids.is_none()) {
                inner.transport.introduce();
                inner.transport.expect_filled(false);
            }
        }
    }
}
