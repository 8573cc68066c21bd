//! Multicast GIDs and the IP groups that carry them.
//!
//! `::ffff:a.b.c.d` and `ff0e::ffff:a.b.c.d` (the form of rdma_cm) name the IPv4 group itself, and
//! every other GID from `ff00::` on is an IPv6 group. A sender with an IPv4 address cannot reach
//! the latter, so each has an IPv4 group standing in for it, which those who attach to it join as
//! well. Which one it is follows from the GID alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The IP groups of a multicast GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Option<Ipv6Addr>,
}

/// The groups of a GID; `None` if it is not a multicast GID.
pub(crate) fn groups(gid: [u8; 16]) -> Option<Groups> {
    let [.., a, b, c, d] = gid;
    let v4 = Ipv4Addr::new(a, b, c, d);
    match gid[..12] {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
        | [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] => {
            v4.is_multicast().then_some(Groups { v4, v6: None })
        }
        [0xff, ..] => Some(Groups {
            v4: stand_in(gid),
            v6: Some(gid.into()),
        }),
        _ => None,
    }
}

impl Groups {
    /// The group that a sender at `local` sends to.
    pub(crate) fn of_family(&self, local: IpAddr) -> Option<IpAddr> {
        match local {
            IpAddr::V4(_) => Some(self.v4.into()),
            IpAddr::V6(_) => self.v6.map(IpAddr::from),
        }
    }
}

/// An IPv4 group of 239.192.0.0/14 (organisation-local scope, RFC 2365): FNV-1a of the GID, folded
/// to 18 bits.
pub(crate) fn stand_in(gid: [u8; 16]) -> Ipv4Addr {
    let hash = gid.into_iter().fold(0x811c_9dc5u32, |h, b| {
        (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
    });
    let folded = (hash ^ hash >> 18) & 0x3_ffff;
    Ipv4Addr::from(u32::from(Ipv4Addr::new(239, 192, 0, 0)) | folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(text: &str) -> [u8; 16] {
        text.parse::<Ipv6Addr>().unwrap().octets()
    }

    #[test]
    fn both_forms_of_an_ipv4_group_are_one() {
        let want = Groups {
            v4: Ipv4Addr::new(239, 1, 2, 3),
            v6: None,
        };
        assert_eq!(groups(gid("::ffff:239.1.2.3")), Some(want));
        assert_eq!(groups(gid("ff0e::ffff:239.1.2.3")), Some(want));
        assert_eq!(groups(gid("::ffff:10.1.2.3")), None);
        assert_eq!(groups(gid("ff0e::ffff:10.1.2.3")), None);
        assert_eq!(groups(gid("fe80::1")), None);
    }

    #[test]
    fn an_ipv6_group_has_a_stand_in() {
        let group = groups(gid("ff01:0:2:c985::1")).unwrap();
        assert_eq!(group.v6.map(|g| g.octets()), Some(gid("ff01:0:2:c985::1")));
        assert_eq!(group.v4.octets()[0], 239);
        assert!((192..=195).contains(&group.v4.octets()[1]));
        assert_ne!(group.v4, groups(gid("ff01:0:2:c985::2")).unwrap().v4);
        let v6 = IpAddr::from(Ipv6Addr::LOCALHOST);
        assert!(group.of_family(v6).unwrap().is_ipv6());
        assert_eq!(groups(gid("::ffff:239.1.2.3")).unwrap().of_family(v6), None);
    }
}
