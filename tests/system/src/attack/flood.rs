//! A flood of management packets at a cable's end: such as are answered, such as are wrong, such as
//! are nothing at all. It seems to come from whatever endpoint the test says.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use ferroce_wire::link::{Head, MANAGEMENT_LANE};
use ferroce_wire::lrh::NextHeader;
use ferroce_wire::mad::{DEFAULT_PKEY, LEN, Mad, MadHeader, QP1_QKEY};
use ferroce_wire::{Bth, Deth, Ext, Header, ICRC_LEN, Lrh, opcode};
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with,
};

/// Packets between two pauses, and how long one is: some ten thousand packets a second, more than
/// anybody handles who has other things to do.
const BURST: usize = 64;
const PAUSE: Duration = Duration::from_millis(1);

/// A flood that goes on until it is stopped.
pub(crate) struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Begins: from an endpoint that others may have, to the end `to`, where the port with LID
    /// `lid` is. Answers go to LID `slid`.
    ///
    /// # Errors
    /// The system's, `PermissionDenied` for whoever may not have raw sockets.
    pub(crate) fn start(
        from: SocketAddrV4,
        to: SocketAddrV4,
        slid: u16,
        lid: u16,
    ) -> io::Result<Flood> {
        let raw = Raw::new(from, to)?;
        let stop = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&sent));
        let packets = packets(slid, lid);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Relaxed) {
                for packet in packets.iter().cycle().take(BURST) {
                    // What is not taken was no flood.
                    if raw.send(packet).is_ok() {
                        count.fetch_add(1, Relaxed);
                    }
                }
                std::thread::sleep(PAUSE);
            }
        });

        Ok(Flood {
            stop,
            sent,
            thread: Some(thread),
        })
    }

    /// How many packets were sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends UDP datagrams with any source.
struct Raw {
    socket: OwnedFd,
    from: SocketAddrV4,
    to: SocketAddrV4,
}

impl Raw {
    fn new(from: SocketAddrV4, to: SocketAddrV4) -> io::Result<Raw> {
        let family = AddressFamily::INET;
        // With this protocol the IP header comes from us.
        let protocol = Some(ipproto::RAW);
        let socket = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        Ok(Raw { socket, from, to })
    }

    fn send(&self, payload: &[u8]) -> io::Result<()> {
        let udp = (payload.len() + 8) as u16;
        // The kernel puts in the total length, the Identification and the checksum; there need be
        // none of UDP.
        let mut datagram = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
        datagram.extend(self.from.ip().octets());
        datagram.extend(self.to.ip().octets());
        for field in [self.from.port(), self.to.port(), udp, 0] {
            datagram.extend(field.to_be_bytes());
        }
        datagram.extend(payload);
        let to = SocketAddr::from((*self.to.ip(), 0));
        sendto(&self.socket, &datagram, SendFlags::empty(), &to)?;
        Ok(())
    }
}

/// A frame of training by an end that nobody has heard of: who believes it takes its link down.
pub(crate) fn frame() -> Vec<u8> {
    let mut frame = vec![0x0f, 0, 1, 1, 0x02, 0x01, 0, 0];
    frame.extend([0x5a; 8]);
    frame
}

/// A packet of data: a SEND to a connected queue pair, with its CRCs.
pub(crate) fn data([from, lid]: [u16; 2], qp: u32, psn: u32) -> Vec<u8> {
    let header = Header {
        bth: Bth {
            opcode: opcode::RC_SEND_ONLY,
            ack_req: true,
            pkey: DEFAULT_PKEY,
            dest_qp: qp,
            psn,
            ..Bth::default()
        },
        ext: Ext::default(),
    };
    framed([from, lid], 0, &header, &[0x5a; 64])
}

/// One of each kind.
fn packets(from: u16, lid: u16) -> Vec<Vec<u8>> {
    // Get(NodeInfo), Get(PortInfo), Set(PortInfo) of nothing, at QP0; Get(PortCounters), Get of a
    // class without agent at QP1.
    let smps =
        [(1, 0x11), (1, 0x15), (2, 0x15)].map(|(method, attribute)| (0, 0x01, method, attribute));
    let gmps = [(4, 0x12), (0x32, 0x10)].map(|(class, attribute)| (1, class, 1, attribute));
    let mut packets: Vec<Vec<u8>> = smps
        .into_iter()
        .chain(gmps)
        .map(|(qp, class, method, attribute)| packet([from, lid], qp, class, method, attribute))
        .collect();
    let whole = packets[0].clone();

    // At QP1 with a Q_Key that is not its own.
    packets.push(packet_with_key([from, lid], 1, 4, 1, 0x12, 0x1111_1111));

    // Cut off anywhere, damaged anywhere.
    packets.extend((0..whole.len()).step_by(7).map(|len| whole[..len].to_vec()));
    packets.extend((0..whole.len()).step_by(5).map(|at| {
        let mut packet = whole.clone();
        packet[at] ^= 1 << (at % 8);
        packet
    }));

    packets
}

fn packet(lids: [u16; 2], qp: u32, class: u8, method: u8, attribute: u16) -> Vec<u8> {
    let qkey = if qp == 0 { 0 } else { QP1_QKEY };
    packet_with_key(lids, qp, class, method, attribute, qkey)
}

fn packet_with_key(
    [from, lid]: [u16; 2],
    qp: u32,
    class: u8,
    method: u8,
    attribute: u16,
    qkey: u32,
) -> Vec<u8> {
    let mut mad: Mad = [0; LEN];
    MadHeader {
        base_version: 1,
        class,
        class_version: 1,
        method,
        tid: 0x1234,
        attribute,
        ..MadHeader::default()
    }
    .emit(&mut mad);

    let header = Header {
        bth: Bth {
            opcode: opcode::UD_SEND_ONLY,
            pkey: DEFAULT_PKEY,
            dest_qp: qp,
            ..Bth::default()
        },
        ext: Ext {
            deth: Some(Deth { qkey, src_qp: qp }),
            ..Ext::default()
        },
    };

    let lane = if qp == 0 { MANAGEMENT_LANE } else { 0 };
    framed([from, lid], lane, &header, &mad)
}

/// A whole packet between two LIDs, its ICRC included.
fn framed([from, lid]: [u16; 2], lane: u8, header: &Header, payload: &[u8]) -> Vec<u8> {
    let head = Head {
        lrh: Lrh {
            vl: lane,
            version: 0,
            sl: 0,
            next: NextHeader::Local,
            dlid: lid,
            words: 0,
            slid: from,
        },
        grh: None,
    };

    let transport = header.len() + payload.len() + ICRC_LEN;
    let mut packet = vec![0; head.len() + transport];
    let mut icrc = head.emit(transport, &mut packet);
    let (_, rest) = packet.split_at_mut(head.len());
    let len = header.emit(rest);
    icrc.header(&rest[..len]);
    icrc.payload(payload);
    rest[len..len + payload.len()].copy_from_slice(payload);
    rest[len + payload.len()..].copy_from_slice(&icrc.finish());
    packet
}
