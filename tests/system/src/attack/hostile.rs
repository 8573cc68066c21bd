//! Datagrams that nobody should send: noise, captured packets changed at random, requests for
//! connections that nobody wants.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use ferroce_wire::cm::{Message, PrivateData, Req};
use ferroce_wire::icrc::Flow;
use ferroce_wire::mad::{DEFAULT_PKEY, LEN, QP1_QKEY};
use ferroce_wire::{Bth, Deth, Ext, Header, ICRC_LEN, opcode};

use crate::attack::pcap::{Packet, ROCE_V2};

/// A small generator (SplitMix64), so that a run can be repeated from its seed.
pub(crate) struct Random(pub u64);

impl Random {
    /// 64 random bits.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound.max(1) as u64) as usize
    }
}

/// What is sent.
#[derive(Clone, Copy)]
pub(crate) enum Kind<'a> {
    /// Bytes without sense, of any length, half of them steered at plausible QPNs.
    Noise(&'a [Packet]),
    /// Captured packets with a few changes and the ICRC left as it was.
    Mutated(&'a [Packet]),
    /// Captured packets as they were: duplicates from the past.
    Replayed(&'a [Packet]),
}

/// Sends for `duration` from `from`'s address to `to`, port 4791, pausing now and then to leave the
/// receiver's buffer to those whose traffic it is. Answers how many datagrams went out.
pub(crate) fn send(
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
    let mut bytes: Vec<u8> = (0..length).map(|_| random.number() as u8).collect();
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
            1 => bytes[random.below(length)] = random.number() as u8,
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

/// Where the flood's requests come from, in turn: unprivileged sockets.
const FLOODERS: Range<u8> = 66..74;
/// Requests between two pauses, and how long one is: a device that is only flooded is no device.
const BURST: usize = 64;
const PAUSE: Duration = Duration::from_millis(2);

/// Requests for connections at some servers, each from another queue pair, that goes on until it is
/// stopped. Nobody is there for the answers, and the requests say that he will take hours.
pub(crate) struct Requests {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Requests {
    /// Begins: to the device at `address`, for what listens at `ports`, in turn; from several
    /// addresses.
    pub(crate) fn start(address: &str, ports: &[u16]) -> Result<Requests> {
        Self::from_addresses(FLOODERS, address, ports)
    }

    /// The same from one address.
    pub(crate) fn of_one(address: &str, ports: &[u16]) -> Result<Requests> {
        Self::from_addresses(FLOODERS.start..FLOODERS.start + 1, address, ports)
    }

    fn from_addresses(from: Range<u8>, address: &str, ports: &[u16]) -> Result<Requests> {
        let to = SocketAddrV4::new(address.parse()?, ROCE_V2);
        let flooders: Vec<_> = from
            .map(|last| flooder(Ipv4Addr::new(127, 0, 0, last), *to.ip()))
            .collect::<Result<_>>()?;
        let ports = ports.to_vec();
        let (stop, sent) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&sent));
        let thread = std::thread::spawn(move || {
            let turns = flooders.iter().cycle();
            let mut turns = (0..).zip(turns);
            while !stopped.load(Relaxed) {
                for (n, (socket, from, flow)) in turns.by_ref().take(BURST) {
                    let port = ports[(n as usize / flooders.len()) % ports.len()];
                    let packet = request(flow, *from, *to.ip(), port, n);
                    count.fetch_add(u64::from(socket.send_to(&packet, to).is_ok()), Relaxed);
                }
                std::thread::sleep(PAUSE);
            }
        });

        Ok(Requests {
            stop,
            sent,
            thread: Some(thread),
        })
    }

    /// How many were sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Ends; how many were sent.
    pub(crate) fn stop(self) -> u64 {
        self.sent()
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A socket of its own for an address, and the flow from there.
fn flooder(from: Ipv4Addr, to: Ipv4Addr) -> Result<(UdpSocket, Ipv4Addr, Flow)> {
    let socket = UdpSocket::bind((from, 0))?;
    let port = socket.local_addr()?.port();
    Ok((socket, from, Flow::v4(from, to, port, ROCE_V2)))
}

/// The `n`th request, BTH to ICRC.
fn request(flow: &Flow, from: Ipv4Addr, to: Ipv4Addr, port: u16, n: u32) -> Vec<u8> {
    // The header of the RDMA IP CM service.
    let mut data = vec![0, 0x40, 0x10, 0];
    for address in [from, to] {
        data.extend([0; 12]);
        data.extend(address.octets());
    }

    let req = Req {
        local_comm_id: n,
        local_qpn: n & 0x00ff_ffff,
        ca_guid: 0x66,
        mtu: 3,
        service_id: 0x0106_0000 | u64::from(port),
        local_response_timeout: 31,
        max_cm_retries: 15,
        private_data: PrivateData::new(&data).unwrap_or_default(),
        ..Req::default()
    };

    let mad = Message::Req(req).emit(n.into());
    let header = Header {
        bth: Bth {
            opcode: opcode::UD_SEND_ONLY,
            pkey: DEFAULT_PKEY,
            dest_qp: 1,
            ..Bth::default()
        },
        ext: Ext {
            deth: Some(Deth {
                qkey: QP1_QKEY,
                src_qp: 1,
            }),
            ..Ext::default()
        },
    };

    let mut packet = vec![0; 20 + LEN + ICRC_LEN];
    let head = header.emit(&mut packet);
    packet[head..head + LEN].copy_from_slice(&mad);
    let len = packet.len();

    // A socket that does not ask for DF may number as it likes: the receiver finds out.
    let mut icrc = flow.start(len, 0);
    icrc.header(&packet[..head]);
    icrc.payload(&mad);
    packet[head + LEN..].copy_from_slice(&icrc.finish());
    packet
}
