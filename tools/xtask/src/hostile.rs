//! Datagrams that nobody should send: noise, and captured packets changed at random.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::pcap::{Packet, ROCE_V2};

/// A small generator (SplitMix64), so that a run can be repeated from its seed.
pub struct Random(pub u64);

impl Random {
    /// 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// What is sent.
#[derive(Clone, Copy)]
pub enum Kind<'a> {
    /// Bytes without sense, of any length, half of them steered at plausible QPNs.
    Noise(&'a [Packet]),
    /// Captured packets with a few changes and the ICRC left as it was.
    Mutated(&'a [Packet]),
    /// Captured packets as they were: duplicates from the past.
    Replayed(&'a [Packet]),
}

/// Sends for `duration` from `from`'s address to `to`, port 4791, pausing now and then to leave the receiver's
/// buffer to those whose traffic it is. Answers how many datagrams went out.
pub fn send(
    kind: Kind<'_>,
    from: &str,
    to: &str,
    duration: Duration,
    random: &mut Random,
) -> Result<u64> {
    let socket = UdpSocket::bind((from, 0))?;
    let target: SocketAddr = format!("{to}:{ROCE_V2}").parse()?;
    let end = Instant::now() + duration;
    let mut sent = 0;
    while Instant::now() < end {
        for _ in 0..32 {
            let datagram = match kind {
                Kind::Noise(packets) => noise(packets, random),
                Kind::Mutated(packets) => mutated(packets, random),
                Kind::Replayed(packets) => packets[random.below(packets.len())].payload().to_vec(),
            };
            // The receiver may refuse (no such slot): that is its right.
            sent += u64::from(socket.send_to(&datagram, target).is_ok());
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(sent)
}

fn noise(packets: &[Packet], random: &mut Random) -> Vec<u8> {
    let length = match random.below(4) {
        0 => random.below(16),
        1 => random.below(64),
        2 => random.below(1500),
        _ => random.below(9000),
    };
    let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
    if random.below(2) == 0 && length >= 12 && !packets.is_empty() {
        let live = &packets[random.below(packets.len())].payload()[..12];
        bytes[1..8].copy_from_slice(&live[1..8]);
    }
    bytes
}

fn mutated(packets: &[Packet], random: &mut Random) -> Vec<u8> {
    let original = packets[random.below(packets.len())].payload();
    let mut bytes = original.to_vec();
    for _ in 0..=random.below(4) {
        let length = bytes.len();
        match random.below(5) {
            0 => bytes[random.below(28.min(length))] ^= 1 << random.below(8),
            1 => bytes[random.below(length)] = random.next() as u8,
            2 => bytes.truncate(1 + random.below(length)),
            3 => bytes.extend((0..random.below(64)).map(|_| 0xa5)),
            _ => bytes.swap(random.below(length), random.below(length)),
        }
        if bytes.is_empty() {
            return bytes;
        }
    }
    if bytes == original {
        // The changes undid each other: make it differ for certain.
        let last = bytes.len() - 1;
        bytes[last] ^= 0xff;
    }
    bytes
}
