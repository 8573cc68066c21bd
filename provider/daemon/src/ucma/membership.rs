//! Multicast groups over InfiniBand: the subnet administrator makes a port a member, and says by
//! which LID the group is reached.
//!
//! A port is a member as long as any program of this host is: several share the membership, and it
//! ends with the last; for those who only send and for the others apart. An administrator that
//! starts anew has forgotten its members, and says so; they are told to it again, and only if the
//! group then is another, or is refused, does the program hear of it.

use std::net::IpAddr;
use std::time::Duration;

use ferroce_cabi::ucma::{RDMA_PS_UDP, ib_uverbs_ah_attr, ib_uverbs_global_route};
use ferroce_fabric::sa::{Answer, Question};
use ferroce_wire::mad::{DEFAULT_PKEY, MULTICAST_QPN};
use ferroce_wire::sa::{
    FULL_MEMBER, McMemberRecord, SEND_ONLY_FULL_MEMBER, attribute, component, method,
};
use ferroce_wire::smp::is_multicast_lid;
use rustix::io::Errno;

use super::addr::{Addr, Gid};
use super::datagram::{request, set_qkey};
use super::events::{Detail, Kind};
use super::groups::{Group, MAX_GROUPS, Membership};
use super::host::Host;
use super::id::State;
use super::questions::{Asker, one, status};
use super::route::port_of;
use super::state::Ucma;

/// How long the administrator is asked.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a change of the ports must be past before groups are joined again: as with names.
const SETTLING: Duration = Duration::from_millis(500);
/// The bit of a P_Key that says full member.
const FULL: u16 = 0x8000;

impl Ucma {
    /// Asks for an id's membership in a group. Returns the group's handle; the event comes later.
    pub(super) fn join_fabric(
        &mut self,
        handle: u32,
        uid: u64,
        addr: Addr,
        send_only: bool,
        host: &Host<'_>,
    ) -> Result<u32, Errno> {
        let id = self.existing(handle)?;
        let entry = id.gid_index.and_then(|index| host.gids.entry(index));
        let entry = entry.ok_or(Errno::INVAL)?;
        let ready = matches!(id.state, State::Bound | State::AddrResolved);

        // No group at all asks the administrator to choose one.
        let known = addr.is_multicast() || addr.is_zero();
        if !id.is_datagram() || !ready || addr == Addr::None || !known {
            return Err(Errno::INVAL);
        }
        if id.groups.len() >= MAX_GROUPS {
            return Err(Errno::NOMEM);
        }
        if u32::from(id.space) == RDMA_PS_UDP || id.qkey == 0 {
            set_qkey(id, 0)?;
        }

        let port = port_of(entry.index);
        let keys = &host.port(port).ok_or(Errno::NODEV)?.p_keys;
        let pkey = keys.first().copied().unwrap_or(DEFAULT_PKEY);
        let record = McMemberRecord {
            mgid: mgid(&addr, id.space, pkey),
            port_gid: entry.gid,
            qkey: id.qkey,
            pkey,
            join_state: match send_only {
                true => SEND_ONLY_FULL_MEMBER,
                false => FULL_MEMBER,
            },
            ..McMemberRecord::default()
        };

        let member = Membership {
            port,
            gid_index: entry.index,
            record,
            asks: None,
            joined: false,
        };

        self.stay(port, &record);
        let group = self.groups.insert(Group {
            id: handle,
            uid,
            reported: 0,
            member: Some(member),
        })?;

        if let Err(errno) = self.ask_for_membership(group, host) {
            self.groups.remove(group);
            return Err(errno);
        }

        self.existing(handle)?.groups.push(group);
        Ok(group)
    }

    fn ask_for_membership(&mut self, group: u32, host: &Host<'_>) -> Result<(), Errno> {
        let member = self.groups.get(group).and_then(|group| group.member);
        let member = member.ok_or(Errno::NOENT)?;
        let question = Question {
            port: member.port,
            method: method::SET,
            attribute: attribute::MC_MEMBER_RECORD,
            mask: component::MEMBER | component::GROUP,
            data: member.record.emit(),
            patient: false,
        };

        let number = self
            .questions
            .ask(Asker::Group(group), question, PATIENCE, host.now)?;
        if let Some(member) = self.groups.get_mut(group).and_then(|g| g.member.as_mut()) {
            member.asks = Some(number);
        }

        Ok(())
    }

    /// The administrator has answered.
    pub(super) fn membership_answered(&mut self, handle: u32, number: u32, answer: Answer) {
        let member = self.groups.get_mut(handle).and_then(|g| g.member.as_mut());
        let Some(member) = member.filter(|member| member.asks == Some(number)) else {
            return;
        };

        member.asks = None;
        let record = match one(answer) {
            Ok(data) => McMemberRecord::parse(&data),
            Err(failure) => {
                return self.raise_group(
                    handle,
                    Kind::MulticastError,
                    status(failure),
                    Detail::None,
                );
            }
        };

        let asked = member.record;
        let chosen = asked.mgid == [0; 16] && record.mgid[0] == 0xff;
        let good = (record.mgid == asked.mgid || chosen) && is_multicast_lid(record.mlid);
        let again = std::mem::replace(&mut member.joined, true);
        let same = (record.mlid, record.qkey) == (asked.mlid, asked.qkey);
        if !good || again && !same {
            // What the kernel says of a group that is not what it was.
            let status = -Errno::NETRESET.raw_os_error();
            return self.raise_group(handle, Kind::MulticastError, status, Detail::None);
        }

        if again {
            return;
        }

        member.record = McMemberRecord {
            join_state: asked.join_state,
            port_gid: asked.port_gid,
            ..record
        };

        let mut param = request(&[]);
        param.ah_attr = ib_uverbs_ah_attr {
            grh: ib_uverbs_global_route {
                dgid: record.mgid,
                flow_label: record.flow_label,
                sgid_index: member.gid_index as u8,
                hop_limit: record.hop_limit,
                traffic_class: record.traffic_class,
                reserved: 0,
            },
            sl: record.sl,
            dlid: record.mlid,
            is_global: 1,
            port_num: member.port,
            static_rate: record.rate,
            ..Default::default()
        };

        (param.qp_num, param.qkey) = (MULTICAST_QPN, record.qkey);
        self.raise_group(handle, Kind::MulticastJoin, 0, Detail::Datagram(param));
    }

    /// An id has no more part in a group. The port is no member any more in the ways (bits of
    /// JoinState) in which no other id is one.
    pub(super) fn end_membership(&mut self, group: &Group, host: &Host<'_>) {
        let Some(member) = group.member else { return };
        if let Some(number) = member.asks {
            self.questions.forget(number);
        }

        let (port, mgid) = (member.port, member.record.mgid);
        let others = self.groups.iter().filter_map(|(_, group)| group.member);
        let kept = others
            .filter(|other| other.may_count() && other.is_same(port, &mgid))
            .fold(0, |kept, other| kept | other.record.join_state);
        let join_state = member.record.join_state & !kept;
        if mgid == [0; 16] || join_state == 0 || !member.may_count() {
            return;
        }

        let question = Question {
            port,
            method: method::DELETE,
            attribute: attribute::MC_MEMBER_RECORD,
            mask: component::MEMBER,
            data: McMemberRecord {
                join_state,
                ..member.record
            }
            .emit(),
            patient: false,
        };

        let asker = Asker::Leave(port, mgid, join_state);
        let _ = self.questions.ask(asker, question, PATIENCE, host.now);
    }

    /// A port that is about to become a member is not to be taken out by what was asked for before.
    fn stay(&mut self, port: u8, record: &McMemberRecord) {
        let leave = Asker::Leave(port, record.mgid, record.join_state);
        for number in self.questions.asked_by(leave) {
            self.questions.forget(number);
        }
    }

    /// The ports have changed, or their subnet manager has: memberships are asked for again in a
    /// moment.
    pub(super) fn regroup_soon(&mut self, host: &Host<'_>) {
        let any = self.groups.iter().any(|(_, group)| group.member.is_some());
        self.regroup_at = any.then_some(host.now + SETTLING);
    }

    /// Asks for them, if it is time.
    pub(super) fn regroup(&mut self, host: &Host<'_>) {
        if self.regroup_at.is_none_or(|at| at > host.now) {
            return;
        }
        self.regroup_at = None;
        let joined = |(handle, group): (u32, &Group)| {
            let member = group.member.as_ref()?;
            (member.joined && member.asks.is_none()).then_some(handle)
        };
        let groups: Vec<u32> = self.groups.iter().filter_map(joined).collect();
        for group in groups {
            let _ = self.ask_for_membership(group, host);
        }
    }
}

/// The GID of the group that an address means to an id: itself, what RFC 4391 makes of an IP
/// address, or with rdma_cm's own signature in the place of IPoIB's what the kernel makes of it for
/// datagram services.
pub(super) fn mgid(addr: &Addr, space: u16, pkey: u16) -> Gid {
    const IPOIB: u8 = 0x1b;
    const RDMA_CM: u8 = 0x01;

    let ip = match addr {
        Addr::Ip { ip, .. } if !ip.is_unspecified() => *ip,
        Addr::Ib(ib) => return ib.gid,
        _ => return [0; 16],
    };

    let signature = match u32::from(space) == RDMA_PS_UDP {
        true => RDMA_CM,
        false => IPOIB,
    };

    let mut gid = [0; 16];
    (gid[0], gid[1], gid[3]) = (0xff, 0x12, signature);
    gid[4..6].copy_from_slice(&(pkey | FULL).to_be_bytes());
    match ip {
        IpAddr::V4(ip) => {
            gid[2] = 0x40;
            gid[12..].copy_from_slice(&ip.octets());
            gid[12] &= 0x0f;
        }
        IpAddr::V6(ip) => {
            let octets = ip.octets();
            // An MGID that an administrator has chosen.
            if octets[0] == 0xff && octets[1] & 0xf0 == 0x10 && octets[2..4] == [0xa0, IPOIB] {
                return octets;
            }
            gid[2] = 0x60;
            gid[6..].copy_from_slice(&octets[6..]);
        }
    }

    gid
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    const IPOIB_SPACE: u16 = 0x0002;

    fn of(ip: &str, space: u16) -> String {
        let addr = Addr::ip(ip.parse().unwrap(), 0, 0);
        Ipv6Addr::from(mgid(&addr, space, 0x7fff)).to_string()
    }

    #[test]
    fn groups_are_those_of_ipoib_with_the_signature_of_the_space() {
        let udp = RDMA_PS_UDP as u16;
        assert_eq!(of("239.1.2.3", udp), "ff12:4001:ffff::f01:203");
        assert_eq!(of("224.0.0.1", IPOIB_SPACE), "ff12:401b:ffff::1");
        assert_eq!(of("ff0e::1:2", udp), "ff12:6001:ffff::1:2");
        assert_eq!(of("ff12:a01b::5", udp), "ff12:a01b::5");
        assert_eq!(of("0.0.0.0", udp), "::");
    }
}
