//! A socket that sends: its source port and its options.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use ferroce_control::outlet::PORTS;
use socket2::Socket;

use crate::port::address::{PathKey, address_gid};

/// The number of the source port that is tried first: FNV-1a over what distinguishes the flow.
/// `own_slot` spreads the processes of one host over source ports.
pub(crate) fn first_port(key: PathKey, own_slot: u8) -> u16 {
    let hash = address_gid(key.remote)
        .into_iter()
        .chain([key.slot, own_slot, key.traffic_class])
        .chain(key.lids.map_or([0; 2], |lids| lids.dlid.to_be_bytes()))
        .fold(0x811c_9dc5u32, |h, b| {
            (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
        });
    (hash ^ hash >> 16) as u16 % PORTS
}

pub(super) enum OptionKind {
    /// DF, whatever anybody says of the path's MTU: with `IP_PMTUDISC_DO` one forged ICMP message
    /// has the kernel refuse everything longer to that peer for ten minutes.
    DontFragment,
    TrafficClass,
    HopLimit,
    MulticastHops,
}

pub(super) fn option(
    socket: &Socket,
    family: IpAddr,
    kind: OptionKind,
    value: libc::c_int,
) -> io::Result<()> {
    let v4 = family.is_ipv4();
    let (level, name, value) = match kind {
        OptionKind::DontFragment if v4 => (
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        ),
        OptionKind::DontFragment => (
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_PROBE,
        ),
        OptionKind::TrafficClass if v4 => (libc::IPPROTO_IP, libc::IP_TOS, value),
        OptionKind::TrafficClass => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, value),
        OptionKind::HopLimit if v4 => (libc::IPPROTO_IP, libc::IP_TTL, value),
        OptionKind::HopLimit => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, value),
        OptionKind::MulticastHops if v4 => (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, value),
        OptionKind::MulticastHops => (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, value),
    };

    // SAFETY: `value` is an int that outlives the call.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as u32,
        )
    };

    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
