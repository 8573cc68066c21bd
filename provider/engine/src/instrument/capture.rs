//! Captures: what is sent and received is copied into the rings of whoever captures.
//!
//! A run is cut into its packets, each of which is a record as it would be seen on a wire. Of those
//! that go through memory, which bear no ICRC, it is computed here, as if they went in datagrams
//! from and to the addresses of their label. A ring without room costs the record, which the ring
//! counts, and nobody's time.

mod verbs;

pub(crate) use self::verbs::Made;
pub(super) use self::verbs::fate;

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use ferroce_control::capture::CaptureWriter;
use ferroce_control::capture::record::{MEMORY_PORT, Medium, Packet, Record, What};
use ferroce_wire::icrc::Flow;
use ferroce_wire::{ICRC_LEN, Octets, ROCE_V2_PORT, bth};
use parking_lot::Mutex;

use crate::datapath::path::Path;
use crate::memory::{guard, shared};
use crate::port::recvmsg::Datagram;
use crate::port::{Exit, Look, Outgoing};
use crate::tuning::COPY_LIMIT;

/// Linux's own (`net.ipv4.ip_default_ttl`), and that of multicast.
const HOP_LIMIT: u8 = 64;
const MULTICAST_HOP_LIMIT: u8 = 1;

/// The rings of whoever captures, with the memory to cut runs in. Locked for as long as a run is
/// copied, and nothing else is locked meanwhile.
#[derive(Default)]
pub(crate) struct Captures(Mutex<State>);

#[derive(Default)]
struct State {
    writers: Vec<CaptureWriter>,
    run: Vec<u8>,
}

/// A packet that came, and what was made of it.
pub(crate) struct Came<'a> {
    pub(crate) datagram: &'a Datagram,
    /// The address or group that it was sent to.
    pub(crate) local: IpAddr,
    pub(crate) look: Look,
    pub(crate) bytes: Octets<'a>,
    /// Its Identification and the queue pair that it is for; `None`: it was dropped.
    pub(crate) good: Option<(u16, u32)>,
    /// Its place in the run.
    pub(crate) place: u16,
}

impl Captures {
    /// From now on records go into this ring, too.
    pub(super) fn add(&self, ring: OwnedFd) {
        match CaptureWriter::open(ring) {
            Ok(writer) => self.0.lock().writers.push(writer),
            Err(error) => tracing::warn!(%error, "this program is not captured"),
        }
    }

    /// Lets go of the rings that nobody reads any more, or of all. Returns whether packets are
    /// wanted, and whether what is done by verbs is.
    pub(super) fn wanted(&self, none: bool) -> (bool, bool) {
        let mut state = self.0.lock();
        state.writers.retain(|writer| !none && !writer.is_over());
        if state.writers.is_empty() {
            state.run = Vec::new();
        }
        let verbs = state.writers.iter().any(CaptureWriter::wants_verbs);
        (!state.writers.is_empty(), verbs)
    }

    /// Records a run that a queue pair has sent at `time`: the packets that `iov` describes.
    /// `segment` is their size when there are several.
    #[cold]
    pub(crate) fn sent(
        &self,
        time: u64,
        qpn: u32,
        path: &Path,
        iov: &[libc::iovec],
        segment: Option<u16>,
    ) {
        let mut state = self.0.lock();
        let State { writers, run } = &mut *state;
        if !gather(iov, run) {
            return;
        }

        let way = way_out(path);
        let segment = segment.map_or(run.len(), usize::from).max(1);
        for (place, packet) in run.chunks_mut(segment).enumerate() {
            let id = match way.medium {
                Medium::Cable(_) => 0,
                _ => place as u16,
            };
            put(writers, time, qpn, Packet { id, ..way }, packet);
        }
    }

    /// Records a packet that came at `time`.
    #[cold]
    pub(crate) fn came(&self, time: u64, came: &Came<'_>) {
        let mut state = self.0.lock();
        let State { writers, run } = &mut *state;
        run.resize(came.bytes.len(), 0);
        match came.bytes {
            Octets::Private(bytes) => run.copy_from_slice(bytes),
            Octets::Shared(bytes) => drop(shared::copy(bytes, run)),
        }

        let (id, qpn) = came.good.unwrap_or((came.place, 0));
        let packet = Packet {
            incoming: true,
            refused: came.good.is_none(),
            medium: medium(came.look),
            original: 0,
            from: came.datagram.from,
            to: came.local,
            traffic_class: came.datagram.traffic_class,
            hop_limit: came.datagram.hop_limit,
            id,
            flow_label: came.datagram.flow_label,
        };
        put(writers, time, qpn, packet, run);
    }
}

/// Puts one packet into all rings.
fn put(writers: &mut [CaptureWriter], time: u64, qpn: u32, packet: Packet, bytes: &mut [u8]) {
    let packet = Packet {
        original: bytes.len() as u32,
        ..packet
    };
    if packet.medium == Medium::Memory {
        seal(&packet, bytes);
    }

    let record = Record {
        time,
        qpn,
        what: What::Packet(packet),
    };
    for writer in writers {
        writer.put(&record, bytes);
    }
}

/// Writes the ICRC that the packet would have in a datagram.
fn seal(packet: &Packet, bytes: &mut [u8]) {
    let flow = match (packet.from, packet.to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Flow::v4(from, to, MEMORY_PORT, ROCE_V2_PORT),
        (IpAddr::V6(from), IpAddr::V6(to)) => Flow::v6(from, to, MEMORY_PORT, ROCE_V2_PORT),
        _ => return,
    };
    let len = bytes.len();
    let Some((covered, place)) = bytes.split_last_chunk_mut::<ICRC_LEN>() else {
        return;
    };
    if covered.len() < bth::LEN {
        return;
    }

    let mut icrc = flow.start(len, packet.id);
    icrc.header(covered);
    *place = icrc.finish();
}

/// Copies what `iov` describes. `false`: some of it is not mapped any more.
fn gather(iov: &[libc::iovec], run: &mut Vec<u8>) -> bool {
    run.clear();
    run.reserve(iov.iter().map(|piece| piece.iov_len).sum());
    for piece in iov {
        let (from, len) = (piece.iov_base.cast::<u8>(), piece.iov_len);
        // SAFETY: there is room for all pieces. They are the engine's own or of registered ranges,
        // whose keys our caller holds the table's lock of; the short ones are all the engine's.
        unsafe {
            let to = run.as_mut_ptr().add(run.len());
            match len <= COPY_LIMIT {
                true => to.copy_from_nonoverlapping(from, len),
                false if guard::copy(to, from, len).is_err() => return false,
                false => {}
            }
            run.set_len(run.len() + len);
        }
    }
    true
}

/// What all packets of a path have in common.
fn way_out(path: &Path) -> Packet {
    let key = &path.key;
    let default = match key.is_multicast() {
        true => MULTICAST_HOP_LIMIT,
        false => HOP_LIMIT,
    };
    Packet {
        incoming: false,
        refused: false,
        medium: medium(Exit::look(&path.exit)),
        original: 0,
        from: key.local,
        to: key.remote,
        traffic_class: key.traffic_class,
        // As the sockets are told.
        hop_limit: match key.hop_limit {
            0 | 1 => default,
            limit => limit,
        },
        id: 0,
        flow_label: 0,
    }
}

fn medium(look: Look) -> Medium {
    match look {
        Look::Udp(port) => Medium::Udp(port),
        Look::Memory => Medium::Memory,
        Look::Cable(port) => Medium::Cable(port),
    }
}
