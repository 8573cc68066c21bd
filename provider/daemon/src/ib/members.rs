//! Programs' multicast: which processes of this host want the packets for which group, and the
//! copies that they get.
//!
//! The kernel steers a packet by its destination queue pair, and that of multicast is nobody's; so
//! such packets come to the daemon, which sends a copy to each process that has asked for the
//! group. What a program sends to a group comes here too, beside leaving by the cable, since no
//! switch sends a packet back to where it came from. Who is in a group as far as the fabric goes is
//! the subnet administrator's matter.

use std::net::SocketAddr;

use ferroce_control::Counter;
use ferroce_fabric::sma::Port;
use ferroce_wire::link::LinkPacket;
use ferroce_wire::mad::Gid;
use rustix::io::Errno;

use super::{Fabric, index};

/// The most that all processes together may ask for.
const MOST: usize = 1 << 14;

/// A process that wants the packets for a group which come to a port.
#[derive(Debug)]
pub(super) struct Member {
    /// Its connection to the daemon.
    client: u64,
    port: u8,
    mgid: Gid,
    at: SocketAddr,
}

impl Fabric {
    /// A process wants copies of a group's packets at an endpoint, which must be at the port's own
    /// address.
    pub(crate) fn join_group(
        &mut self,
        client: u64,
        port: u8,
        mgid: Gid,
        at: SocketAddr,
    ) -> Result<(), Errno> {
        let own = self.cable(port).map(|cable| cable.local);
        let good = own.is_some_and(|own| own.ip() == at.ip() && own != at) && at.port() != 0;
        if !good || mgid[0] != 0xff {
            return Err(Errno::INVAL);
        }
        if self.members.len() >= MOST {
            return Err(Errno::NOMEM);
        }

        self.members.push(Member {
            client,
            port,
            mgid,
            at,
        });

        Ok(())
    }

    /// It wants them no longer; `None`: at none of its endpoints.
    pub(crate) fn leave_group(&mut self, client: u64, at: Option<SocketAddr>) {
        self.members
            .retain(|member| member.client != client || at.is_some_and(|at| at != member.at));
    }

    /// Hands out what came to a port for a group.
    pub(super) fn give_to_members(&self, port: u8, packet: &LinkPacket<'_>, bytes: &[u8]) {
        let link = index(port).and_then(|at| self.links.get(at));
        let (Some(link), Some(grh)) = (link, packet.grh) else {
            // A packet for a group says in its GRH which one it is.
            return self.sums.add(Counter::RxParseErrors, 1);
        };
        if !self.node.port(port).is_some_and(Port::is_active) {
            return;
        }
        let wants = |member: &&Member| (member.port, member.mgid) == (port, grh.dgid);
        for member in self.members.iter().filter(wants) {
            if let Err(error) = link.end.copy_to(member.at, bytes) {
                tracing::debug!(%error, "a process misses a packet of its group");
            }
        }
    }
}
