//! Multicast: which queue pairs of this process are attached to which groups, and the sockets of
//! those groups.
//!
//! Over Ethernet a group's socket is bound to the group's address and is a member on the interface
//! of every address that the port has. IP delivers each datagram to every such socket of the host,
//! so that processes and daemons need not know of one another. At an InfiniBand port packets for
//! groups come to the daemon, which sends a copy to each process that has asked for it.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ferroce_control::faults::Verb;
use ferroce_control::{GroupFile, Member, outlet};
use ferroce_transport::congestion::allowance_of_buffer;
use socket2::SockRef;

use crate::error::{Error, Result};
use crate::hca::Hca;
use crate::port::mgid;
use crate::port::receiver::{self, Receiver};
use crate::port::{Carrier, Ports};
use crate::verbs::groups::Group;
use crate::verbs::limits;
use crate::verbs::qp::Qp;

impl Qp {
    /// Attaches a UD queue pair to a multicast group; attached already, it stays as it is. Over
    /// Ethernet, which has no LIDs, any will do. No multicast GID or LID, or another service:
    /// `EINVAL`; beyond the device's limits: `ENOMEM`.
    pub fn attach_mcast(self: &Arc<Self>, gid: [u8; 16], lid: u16) -> Result<()> {
        self.hca().allows(Verb::AttachMcast)?;
        let carrier = self.check_group(gid, lid)?;
        let hca = self.hca();
        let mut groups = hca.multicast.0.lock();
        let mut own = self.groups.lock();
        if own.iter().any(|(known, _)| *known == gid) {
            // As in the kernel, another LID is another attachment; what comes is the same.
            if !own.contains(&(gid, lid)) {
                own.push((gid, lid));
            }
            return Ok(());
        }

        let total: usize = groups.iter().map(|g| g.members.list().len()).sum();
        if total >= limits::MAX_TOTAL_MCAST_QP as usize {
            return Err(Error::Full("attachments to multicast groups"));
        }

        let i = match groups.iter().position(|g| g.gid == gid) {
            Some(i) => i,
            None if groups.len() >= limits::MAX_MCAST_GROUPS as usize => {
                return Err(Error::Full("multicast groups"));
            }
            None => {
                groups.push(Group::open(hca, gid, carrier)?);
                groups.len() - 1
            }
        };

        let mut members = groups[i].members.0.write();
        if members.len() >= limits::MAX_MCAST_QP_ATTACH as usize {
            return Err(Error::Full("queue pairs in one multicast group"));
        }

        members.push(self.clone());
        own.push((gid, lid));
        Ok(())
    }

    /// The groups that it is attached to, each by its GID and LID.
    pub(super) fn groups_of(&self) -> Vec<([u8; 16], u16)> {
        self.groups.lock().clone()
    }

    /// Ends the attachment with this GID and this LID (`EINVAL` if there is none).
    pub fn detach_mcast(self: &Arc<Self>, gid: [u8; 16], lid: u16) -> Result<()> {
        let absent = Error::Invalid("the queue pair is not attached to this multicast group");
        let hca = self.hca();
        let mut groups = hca.multicast.0.lock();
        let mut own = self.groups.lock();
        let Some(at) = own.iter().position(|known| *known == (gid, lid)) else {
            return Err(absent);
        };

        own.swap_remove(at);
        if own.iter().any(|(known, _)| *known == gid) {
            return Ok(());
        }
        let Some(i) = groups.iter().position(|g| g.gid == gid) else {
            return Err(absent);
        };

        let mut members = groups[i].members.0.write();
        members.retain(|qp| !Arc::ptr_eq(qp, self));
        let last = members.is_empty();
        drop(members);
        if last {
            groups.swap_remove(i).close(hca);
        }

        Ok(())
    }

    fn check_group(&self, gid: [u8; 16], lid: u16) -> Result<Carrier> {
        if !self.is_datagram() {
            return Err(Error::Invalid("only UD queue pairs receive multicast"));
        }
        self.hca().ports().carrier(gid, lid)
    }
}

impl Hca {
    /// Has the groups of this process joined by the interfaces that the port's addresses are on.
    pub(crate) fn follow_groups(&self) {
        // Over InfiniBand the lock may be held by who waits for an answer of the daemon.
        let Ports::Ethernet(_) = self.ports() else {
            return;
        };
        let mut groups = self.multicast.0.lock();
        if groups.is_empty() || !self.ports().has_sockets() || self.gids().is_empty() {
            return;
        }
        groups.iter_mut().for_each(|group| group.follow(self));
        self.driver.let_go();
    }
}

impl Group<Qp> {
    fn open(hca: &Hca, gid: [u8; 16], carrier: Carrier) -> Result<Group<Qp>> {
        let mut group = Group {
            gid,
            members: Arc::default(),
            receivers: Vec::new(),
            interfaces: Vec::new(),
            ends: Vec::new(),
        };

        hca.unacknowledged_traffic();
        let opened = match carrier {
            Carrier::Ip(groups) => group.open_addresses(hca, groups),
            Carrier::Copies => group.open_ports(hca),
        };

        if let Err(error) = opened {
            hca.no_copies(&group.ends);
            return Err(error);
        }

        hca.receivers
            .write()
            .extend(group.receivers.iter().cloned());
        hca.driver.wake();
        Ok(group)
    }

    /// Opens the sockets that are not open yet; all of them anew where there is an interface more:
    /// one that is made again has another index, and a socket stays with the one that it is bound
    /// to.
    fn open_addresses(&mut self, hca: &Hca, groups: mgid::Groups) -> Result<()> {
        let gids = hca.gids();
        let mut interfaces: Vec<u32> = gids.iter().map(|g| g.ifindex).collect();
        interfaces.sort_unstable();
        interfaces.dedup();
        if !interfaces.iter().all(|new| self.interfaces.contains(new)) {
            self.receivers
                .drain(..)
                .for_each(|receiver| receiver.close());
            self.interfaces.clone_from(&interfaces);
        }

        // Senders with IPv6 addresses use the IPv6 group, and where there is no way for it, like
        // all others the IPv4 one.
        let v6 = gids.iter().any(|g| g.addr.is_ipv6());
        let addresses = [
            Some(groups.v4.into()),
            groups.v6.filter(|_| v6).map(IpAddr::from),
        ];

        for address in addresses.into_iter().flatten() {
            if self.receivers.iter().any(|r| r.local == address) {
                continue;
            }
            let together = match outlet::is_of_a_link(address) {
                true => 1,
                false => interfaces.len().max(1),
            };
            for joined in interfaces.chunks(together) {
                let socket = hca.group_socket(address, joined)?;
                receiver::merge_runs(&socket);
                // What comes through one of several interfaces cannot be counted for that one.
                let member = match *joined {
                    [interface] => count(&socket, address, interface),
                    _ => None,
                };
                let receiver = Receiver::of_group(socket, address, self.members.clone(), member);
                receiver.ask_for_headers();
                self.receivers.push(Arc::new(receiver));
            }
        }

        Ok(())
    }

    /// Of which port a queue pair is may change while it is attached; so all are asked for.
    fn open_ports(&mut self, hca: &Hca) -> Result<()> {
        for port in hca.ports().with_cables() {
            let (socket, end) = hca.copies_of_group(port, self.gid)?;
            self.ends.push(end);
            let receiver = Receiver::of_group_at(socket, port.clone(), self.members.clone());
            self.receivers.push(Arc::new(receiver));
        }
        Ok(())
    }

    /// The port's addresses may be on other interfaces, or the first of a family.
    fn follow(&mut self, hca: &Hca) {
        let Some(groups) = mgid::groups(self.gid) else {
            return;
        };
        let before = self.receivers.clone();
        if let Err(error) = self.open_addresses(hca, groups) {
            tracing::warn!(%error, "a multicast group is not received");
        }

        fn among(all: &[Arc<Receiver<Qp>>], receiver: &Arc<Receiver<Qp>>) -> bool {
            all.iter().any(|other| Arc::ptr_eq(other, receiver))
        }
        let mut table = hca.receivers.write();
        table.retain(|r| !among(&before, r) || among(&self.receivers, r));
        let new = self.receivers.iter().filter(|r| !among(&before, r));
        table.extend(new.cloned());
    }

    fn close(self, hca: &Hca) {
        hca.no_copies(&self.ends);
        for receiver in &self.receivers {
            receiver.close();
        }
        let ours = |r: &Arc<Receiver<_>>| self.receivers.iter().any(|o| Arc::ptr_eq(o, r));
        hca.receivers.write().retain(|r| !ours(r));
        hca.driver.let_go();
    }
}

/// Has senders on this machine go by what such a socket holds.
fn count(socket: &OwnedFd, group: IpAddr, interface: u32) -> Option<Member> {
    // Perhaps less than what the slots' sockets have: the daemon may have been allowed more.
    let holds = SockRef::from(socket).recv_buffer_size().ok()?;
    let holds = u32::try_from(holds).unwrap_or(u32::MAX);
    GroupFile::open(group, interface)?.join(allowance_of_buffer(holds))
}
