//! What the kernel knows of network interfaces and their addresses, by rtnetlink.
//! Reads only; and as notifications can be lost, a change means reading everything anew.

mod rtnetlink;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ferroce_control::rtnetlink::{Socket, subscribe};
use rustix::io::Errno;
use rustix::net::RecvFlags;

/// One network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Its hardware address, if it has one of six bytes that is not all zeros.
    pub mac: Option<[u8; 6]>,
    /// Whether it is up and has a carrier.
    pub up: bool,
    /// Whether it is a loopback interface.
    pub loopback: bool,
}

/// One address that can be bound now: IPv6 addresses whose duplicate detection is still running are
/// left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The interface's index.
    pub ifindex: u32,
    /// The address.
    pub ip: IpAddr,
    /// Length of its prefix in bits.
    pub prefix_len: u8,
}

impl Address {
    /// Whether `ip` is in this address's prefix.
    fn covers(&self, ip: IpAddr) -> bool {
        let bits = |ip: IpAddr| match ip {
            IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
            IpAddr::V6(v6) => u128::from(v6),
        };
        let same_family = self.ip.is_ipv4() == ip.is_ipv4();
        let mask = match self.prefix_len {
            0 => 0,
            len => u128::MAX << (128 - u32::from(len.min(128))),
        };
        same_family && bits(self.ip) & mask == bits(ip) & mask
    }
}

/// Everything at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// All interfaces.
    pub links: Vec<Link>,
    /// All usable addresses.
    pub addresses: Vec<Address>,
}

impl Snapshot {
    /// Asks the kernel.
    pub(crate) fn read() -> io::Result<Self> {
        let mut snapshot = Self::default();
        let kernel = Socket::default();
        rtnetlink::each_link(&kernel, |link| snapshot.links.push(link))?;
        rtnetlink::each_address(&kernel, |address| snapshot.addresses.push(address))?;
        Ok(snapshot)
    }

    /// The interface of that name.
    pub(crate) fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// The interface of that index.
    pub(crate) fn link_at(&self, index: u32) -> Option<&Link> {
        self.links.iter().find(|link| link.index == index)
    }

    /// The interfaces that had another hardware address in `old`.
    pub(crate) fn other_hardware(&self, old: &Snapshot) -> Vec<u32> {
        let before = |link: &Link| old.links.iter().find(|other| other.index == link.index);
        let changed = self
            .links
            .iter()
            .filter(|link| before(link).is_some_and(|before| before.mac != link.mac));
        changed.map(|link| link.index).collect()
    }

    /// The interface on which an address is that was on the one of this index: if that has it no
    /// more, perhaps another.
    pub(crate) fn link_now(&self, ip: IpAddr, index: u32) -> Option<&Link> {
        let has = |a: &Address| a.ip == ip && a.ifindex == index;
        let moved = match self.addresses.iter().any(has) {
            true => None,
            false => self.link_of(ip, None),
        };
        moved.or_else(|| self.link_at(index))
    }

    /// The interface to which an address belongs: the one that has it, else the loopback interface
    /// whose prefix contains it, as every address of 127.0.0.0/8 is local.
    pub(crate) fn link_of(&self, ip: IpAddr, ifindex: Option<u32>) -> Option<&Link> {
        if let Some(index) = ifindex {
            return self.link_at(index);
        }

        let exact = self
            .addresses
            .iter()
            .find(|a| a.ip == ip)
            .and_then(|a| self.link_at(a.ifindex));

        exact.or_else(|| {
            self.addresses
                .iter()
                .filter(|a| a.covers(ip))
                .filter_map(|a| self.link_at(a.ifindex))
                .find(|link| link.loopback)
        })
    }
}

/// Tells when links or addresses may have changed.
#[derive(Debug)]
pub(crate) struct Watch {
    socket: OwnedFd,
}

impl Watch {
    /// Begins to watch. What changed before is not told.
    pub(crate) fn new() -> io::Result<Self> {
        let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        let socket = subscribe(groups as u32)?;
        Ok(Self { socket })
    }

    /// Takes all notifications. An overrun is one too.
    pub(crate) fn drain(&self) {
        // That there was one is all that counts.
        let mut start = [0; 16];
        for _ in 0..10_000 {
            let taken = rustix::net::recv(&self.socket, &mut start, RecvFlags::DONTWAIT);
            if taken.is_err_and(|errno| errno == Errno::AGAIN) {
                return;
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there_and_owns_its_whole_prefix() {
        let snapshot = Snapshot::read().unwrap();
        let lo = snapshot.links.iter().find(|link| link.loopback).unwrap();
        assert_eq!(lo.name, "lo");
        assert!(lo.mtu >= 1500 && lo.mac.is_none());
        if lo.up {
            let link = snapshot
                .link_of("127.0.7.99".parse().unwrap(), None)
                .unwrap();
            assert_eq!(link.index, lo.index);
        }

        assert!(
            snapshot
                .link_of("203.0.113.77".parse().unwrap(), None)
                .is_none()
        );
    }

    #[test]
    fn prefixes_cover_what_they_should() {
        let address = |ip: &str, prefix_len| Address {
            ifindex: 1,
            ip: ip.parse().unwrap(),
            prefix_len,
        };
        assert!(address("127.0.0.1", 8).covers("127.9.9.9".parse().unwrap()));
        assert!(!address("127.0.0.1", 8).covers("128.0.0.1".parse().unwrap()));
        assert!(!address("127.0.0.1", 8).covers("::7f00:1".parse().unwrap()));
        assert!(address("fd00::2", 64).covers("fd00::ffff".parse().unwrap()));
        assert!(!address("::1", 128).covers("::2".parse().unwrap()));
        assert!(address("0.0.0.0", 0).covers("1.2.3.4".parse().unwrap()));
    }
}
