//! One receive call, and what the kernel tells beside the bytes.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use super::calls;

/// `IPV6_FLOWINFO`: as an option, has the kernel tell class and flow label.
pub(super) const IPV6_FLOWINFO: libc::c_int = 11;

/// What one receive call brought, beside the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    pub(crate) from: IpAddr,
    pub(crate) port: u16,
    /// Size of each packet of a merged run, the last one excepted; 0: a single packet.
    pub(crate) segment: usize,
    /// Datagrams that the socket has dropped in its life, if it has dropped any.
    pub(crate) dropped: Option<u32>,
    /// TOS or traffic class.
    pub(crate) traffic_class: u8,
    /// IPv6's flow label.
    pub(crate) flow_label: u32,
    /// TTL or hop limit.
    pub(crate) hop_limit: u8,
}

impl Datagram {
    /// Whether the network has marked it: congestion experienced (RFC 3168).
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        const CE: u8 = 3;
        self.traffic_class & CE == CE
    }
}

/// Room for the control messages: segment size, drops, TOS and TTL, or their like of IPv6 with the
/// flow label, 24 bytes each.
pub(crate) const CONTROL: usize = 128;

#[repr(align(8))]
struct Control([u8; CONTROL]);

/// One `recvmsg` that does not wait.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, Datagram)> {
    let mut control = Control([0; CONTROL]);

    // SAFETY: all zeroes is a valid sockaddr_storage and msghdr.
    let (mut name, mut msg): (libc::sockaddr_storage, libc::msghdr) = unsafe { std::mem::zeroed() };
    let mut iov = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };

    msg.msg_name = (&raw mut name).cast();
    msg.msg_namelen = size_of_val(&name) as u32;
    msg.msg_iov = &mut iov;
    msg.msg_iovlen = 1;
    msg.msg_control = control.0.as_mut_ptr().cast();
    msg.msg_controllen = control.0.len() as _;

    // SAFETY: `msg` describes a name, a buffer and control space that outlive the call.
    let n = unsafe { calls::recvmsg(socket, &mut msg, libc::MSG_DONTWAIT) }?;

    #[allow(clippy::unnecessary_cast, reason = "musl has 32 bits there")]
    let written = msg.msg_controllen as usize;
    let control = &control.0[..written.min(CONTROL)];

    // SAFETY: the kernel wrote the name into a sockaddr_storage, which is larger than any sockaddr.
    let name =
        unsafe { std::slice::from_raw_parts((&raw const name).cast::<u8>(), size_of_val(&name)) };
    Ok((n, describe(name, control)))
}

/// Reads the source address and the segment size from what the kernel wrote.
pub(crate) fn describe(name: &[u8], control: &[u8]) -> Datagram {
    let family = name
        .first_chunk::<2>()
        .map_or(0, |b| u16::from_ne_bytes(*b));
    let port = name
        .get(2..4)
        .map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    let from = match i32::from(family) {
        libc::AF_INET6 => name
            .get(8..24)
            .and_then(|b| <[u8; 16]>::try_from(b).ok())
            .map(|b| Ipv6Addr::from(b).into()),
        _ => name
            .get(4..8)
            .and_then(|b| <[u8; 4]>::try_from(b).ok())
            .map(|b| Ipv4Addr::from(b).into()),
    };

    let mut datagram = Datagram {
        from: from.unwrap_or(Ipv4Addr::UNSPECIFIED.into()),
        port,
        segment: 0,
        dropped: None,
        traffic_class: 0,
        flow_label: 0,
        // Linux's own default, where the kernel does not say.
        hop_limit: 64,
    };

    read_control(control, &mut datagram);
    datagram
}

/// Reads the control messages: `struct cmsghdr` (length, level, type) and data, 8-byte aligned.
fn read_control(mut control: &[u8], datagram: &mut Datagram) {
    const HEADER: usize = size_of::<libc::cmsghdr>();

    while let (Some(len), Some(level), Some(kind)) = (
        control.first_chunk::<8>(),
        word(control, 8),
        word(control, 12),
    ) {
        let len = usize::from_ne_bytes(*len);
        if len < HEADER || len > control.len() {
            break;
        }

        match (level, kind, word(control, HEADER)) {
            (libc::SOL_UDP, libc::UDP_GRO, Some(size)) => {
                datagram.segment = usize::try_from(size).unwrap_or(0)
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, Some(dropped)) => {
                datagram.dropped = Some(dropped as u32)
            }
            // one byte of data, and padding
            (libc::IPPROTO_IP, libc::IP_TOS, Some(tos)) => {
                datagram.traffic_class = tos.to_ne_bytes()[0]
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, Some(class)) => {
                datagram.traffic_class = class as u8
            }
            (libc::IPPROTO_IP, libc::IP_TTL, Some(ttl))
            | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, Some(ttl)) => {
                datagram.hop_limit = ttl as u8
            }
            (libc::IPPROTO_IPV6, IPV6_FLOWINFO, Some(info)) => {
                datagram.flow_label = u32::from_be(info as u32) & 0xf_ffff
            }
            _ => {}
        }

        control = &control[len.next_multiple_of(8).min(control.len())..];
    }
}

fn word(bytes: &[u8], at: usize) -> Option<i32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|b| i32::from_ne_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, value: i32) -> Vec<u8> {
        let mut m = 20u64.to_ne_bytes().to_vec();
        m.extend([level, kind, value, 0].iter().flat_map(|w| w.to_ne_bytes()));
        m
    }

    #[test]
    fn control_messages_are_read_and_nonsense_is_passed_over() {
        let mut control = message(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 7);
        control.extend(message(libc::SOL_UDP, libc::UDP_GRO, 4112));
        let d = describe(&[2, 0, 0xc0, 1, 127, 0, 0, 9], &control);
        assert_eq!(
            (d.from, d.port),
            (Ipv4Addr::new(127, 0, 0, 9).into(), 0xc001)
        );
        assert_eq!((d.segment, d.dropped), (4112, Some(7)));
        for cut in 0..control.len() {
            describe(&[], &control[..cut]);
        }
        assert_eq!(describe(&[], &[0xff; 40]).segment, 0);
    }
}
