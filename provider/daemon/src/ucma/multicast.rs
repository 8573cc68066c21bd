//! Joining multicast groups. Over Ethernet the group's IP membership is the QP's that is attached
//! to it; here is only what a program must know to attach and to send. Over InfiniBand the subnet
//! administrator is asked (`membership`).

use ferroce_cabi::ucma::RDMA_PS_UDP;
use ferroce_fabric::cm::Av;
use ferroce_wire::mad::{DEFAULT_PKEY, MULTICAST_QPN};
use rustix::io::Errno;

use super::addr::Addr;
use super::datagram::{address, request, set_qkey};
use super::events::{Detail, Kind};
use super::groups::{Group, MAX_GROUPS};
use super::host::Host;
use super::id::State;
use super::route::NO_LID;
use super::state::Ucma;

/// Hop limit of what is sent to a group.
const HOP_LIMIT: u8 = 64;
impl Ucma {
    /// `JOIN_MCAST`. Returns the membership's handle; the event tells the rest.
    pub(super) fn join(
        &mut self,
        handle: u32,
        uid: u64,
        addr: Addr,
        send_only: bool,
        host: &Host<'_>,
    ) -> Result<u32, Errno> {
        if host.is_ib() {
            return self.join_fabric(handle, uid, addr, send_only, host);
        }

        let id = self.existing(handle)?;
        let entry = id.gid_index.and_then(|index| host.gids.entry(index));
        let entry = entry.ok_or(Errno::INVAL)?;
        if !id.is_datagram() || !matches!(id.state, State::Bound | State::AddrResolved) {
            return Err(Errno::INVAL);
        }

        let same_family = addr.meant().is_ipv4() == entry.addr.is_ipv4();
        if !addr.is_multicast() || !same_family {
            return Err(Errno::INVAL);
        }
        if id.groups.len() >= MAX_GROUPS {
            return Err(Errno::NOMEM);
        }
        if u32::from(id.space) == RDMA_PS_UDP || id.qkey == 0 {
            set_qkey(id, 0)?;
        }

        let av = Av {
            local_gid: entry.gid,
            local_index: entry.index,
            remote_gid: addr.gid(),
            pkey: DEFAULT_PKEY,
            sl: 0,
            traffic_class: id.tos.unwrap_or(0),
            flow_label: 0,
            hop_limit: HOP_LIMIT,
            local_lid: NO_LID,
            remote_lid: NO_LID,
        };

        let mut param = request(&[]);
        param.ah_attr = address(&av, entry.index);
        (param.qp_num, param.qkey) = (MULTICAST_QPN, id.qkey);
        let group = Group {
            id: handle,
            uid,
            reported: 0,
            member: None,
        };
        let group = self.groups.insert(group)?;
        self.existing(handle)?.groups.push(group);
        self.raise_group(group, Kind::MulticastJoin, 0, Detail::Datagram(param));
        Ok(group)
    }

    /// `LEAVE_MCAST`. Returns how many of the group's events were fetched.
    pub(super) fn leave(
        &mut self,
        channel: u64,
        handle: u32,
        host: &Host<'_>,
    ) -> Result<u32, Errno> {
        let member = self.groups.get(handle).ok_or(Errno::NOENT)?.id;
        let id = self.existing(member)?;
        if id.channel != channel {
            return Err(Errno::INVAL);
        }
        id.groups.retain(|group| *group != handle);
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.forget_group(handle);
        }
        Ok(self.remove_group(handle, host))
    }

    /// Takes a group from its id. Returns how many of its events were fetched.
    pub(super) fn remove_group(&mut self, handle: u32, host: &Host<'_>) -> u32 {
        let Some(group) = self.groups.remove(handle) else {
            return 0;
        };
        self.end_membership(&group, host);
        group.reported
    }
}
