//! Who is replayed: the queue pairs of a capture, and of each what happened to it, in order.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use ferroce_transport::{QpState, Time};
use ferroce_wire::Packet;

use crate::error::Error;
use crate::file::{Capture, Entry, What};
use crate::journal::{Completed, Fate, Fault, Post, Said, Settings};
use crate::machine::Request;

/// Numbers up to this are not of programs: management, and what was dropped.
const MANAGEMENT: u32 = 1;
/// The number for groups.
const MULTICAST: u32 = 0xff_ffff;

/// A queue pair, and what happened to it.
#[derive(Clone, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) events: Vec<Timed<'a>>,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) struct Timed<'a> {
    pub(crate) time: Time,
    pub(crate) event: Event<'a>,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum Event<'a> {
    SetTo(Settings),
    /// As the journal has it.
    PostSend(Post),
    /// The same, with what its packets show (see `plan`).
    Post(Request),
    PostRecv {
        wr_id: u64,
        bytes: u64,
    },
    Completion(Completed),
    State(QpState),
    /// It was told that its peer may understand selective acknowledgements.
    Introduced,
    /// A packet came, and a fault had its way with it.
    Came(Packet<'a>, Option<Fate>),
    Sent(Packet<'a>),
    /// A fault has its way with a packet that leaves.
    Leaves(Fault),
}

/// The numbers of the queue pairs that can be replayed.
pub(crate) fn numbers(capture: &Capture<'_>) -> Result<Vec<u32>, Error> {
    let mut own = BTreeSet::new();
    let mut addressed = BTreeSet::new();
    for entry in &capture.entries {
        match &entry.what {
            What::Said(qpn, _) => drop(own.insert(*qpn)),
            What::Packet(packet) => {
                own.extend(packet.seen.map(|seen| seen.qpn));
                if let Ok(parsed) = Packet::parse(&packet.bytes) {
                    addressed.insert(parsed.bth.dest_qp);
                }
            }
        }
    }

    let mut numbers = match own.is_empty() {
        true => addressed,
        false => own,
    };
    numbers.retain(|number| *number > MANAGEMENT && *number != MULTICAST);
    match numbers.is_empty() {
        true => Err(Error::Nothing(capture.others)),
        false => Ok(numbers.into_iter().collect()),
    }
}

impl<'a> Subject<'a> {
    /// What a capture has of a queue pair. `peer`: its number, where nobody but a wire has seen the
    /// packets.
    pub(crate) fn of(capture: &'a Capture<'a>, qpn: u32, peer: Option<u32>) -> Subject<'a> {
        let seen = |entry: &Entry<'_>| match &entry.what {
            What::Packet(packet) => packet.seen.is_some_and(|seen| seen.incoming),
            What::Said(..) => false,
        };
        let view = View {
            qpn,
            comes: capture.entries.iter().any(seen),
            wire: Wire::of(capture, qpn, peer),
        };

        let mut events = Vec::new();
        for entry in &capture.entries {
            view.take(entry, &mut events);
        }
        Subject { events }
    }

    /// Whether any packet is its own.
    pub(crate) fn has_packets(&self) -> bool {
        let packet = |timed: &Timed<'_>| matches!(timed.event, Event::Came(..) | Event::Sent(_));
        self.events.iter().any(packet)
    }
}

/// How a queue pair's events are told from others'.
struct View {
    qpn: u32,
    /// What comes was seen by whom it came to; otherwise it is what others have sent.
    comes: bool,
    /// Who it is on a wire, where nobody else has seen it.
    wire: Option<Wire>,
}

impl View {
    fn take<'a>(&self, entry: &'a Entry<'a>, events: &mut Vec<Timed<'a>>) {
        let event = match &entry.what {
            What::Said(qpn, said) if *qpn == self.qpn => match said {
                Said::SetTo(settings) => Event::SetTo(*settings),
                Said::PostSend(post) => Event::PostSend(*post),
                Said::PostRecv { wr_id, bytes } => Event::PostRecv {
                    wr_id: *wr_id,
                    bytes: *bytes,
                },
                Said::Completion(completed) => Event::Completion(*completed),
                Said::State(state) => Event::State(*state),
                Said::Fault(fault) if fault.incoming => {
                    return fated(fault, entry.time, events);
                }
                Said::Fault(fault) => Event::Leaves(*fault),
            },
            What::Said(..) => return,
            What::Packet(packet) => {
                let Ok(parsed) = Packet::parse(&packet.bytes) else {
                    return;
                };
                // What fills a packet is nothing to the transport.
                let parsed = parsed.without_filler();
                let incoming = match (packet.seen, &self.wire) {
                    (Some(seen), _) if seen.incoming => self.comes && seen.qpn == self.qpn,
                    (Some(seen), _) if seen.qpn == self.qpn => false,
                    (Some(_), _) => !self.comes && parsed.bth.dest_qp == self.qpn,
                    (None, Some(wire)) => match wire.way(packet.from, packet.to, &parsed) {
                        Some(incoming) => incoming,
                        None => return,
                    },
                    (None, None) => return,
                };
                match packet.seen {
                    Some(seen) if !incoming && (seen.incoming || seen.qpn != self.qpn) => return,
                    _ if incoming => Event::Came(parsed, None),
                    _ => Event::Sent(parsed),
                }
            }
        };
        events.push(Timed {
            time: entry.time,
            event,
        });
    }
}

/// A fault has its way with a packet that has come before.
fn fated(fault: &Fault, time: Time, events: &mut Vec<Timed<'_>>) {
    let found = events
        .iter_mut()
        .rev()
        .find_map(|timed| match &mut timed.event {
            Event::Came(packet, fate)
                if (packet.bth.opcode, packet.bth.psn) == (fault.opcode, fault.psn) =>
            {
                Some((*packet, fate))
            }
            _ => None,
        });
    match (found, fault.fate) {
        (Some((packet, _)), Fate::Arrives) => events.push(Timed {
            time,
            event: Event::Came(packet, None),
        }),
        (Some((_, of)), fate) => *of = Some(fate),
        (None, _) => {}
    }
}

/// Who a queue pair is, going by packets alone, which do not name their sender.
struct Wire {
    address: IpAddr,
    qpn: u32,
    peer: Option<u32>,
}

impl Wire {
    fn of(capture: &Capture<'_>, qpn: u32, peer: Option<u32>) -> Option<Wire> {
        let unseen = || {
            capture
                .entries
                .iter()
                .filter_map(|entry| match &entry.what {
                    What::Packet(packet) if packet.seen.is_none() => {
                        Some((packet, Packet::parse(&packet.bytes).ok()?))
                    }
                    _ => None,
                })
        };
        let address = unseen().find(|(_, parsed)| parsed.bth.dest_qp == qpn)?.0.to;

        // The peer is whose numbers fit: what answers bears the numbers of what was asked.
        let mut asked = HashSet::new();
        let mut answered = HashSet::new();
        for (_, parsed) in unseen().filter(|(_, parsed)| parsed.bth.dest_qp == qpn) {
            match parsed.info.is_response() {
                true => answered.insert(parsed.bth.psn),
                false => asked.insert(parsed.bth.psn),
            };
        }
        let mut fits: BTreeMap<u32, u64> = BTreeMap::new();
        for (_, parsed) in unseen().filter(|(packet, _)| packet.from == address) {
            let others = match parsed.info.is_response() {
                true => &asked,
                false => &answered,
            };
            let fit = fits.entry(parsed.bth.dest_qp).or_default();
            *fit += u64::from(others.contains(&parsed.bth.psn));
        }
        fits.retain(|number, _| *number > MANAGEMENT && *number != qpn);
        let best = fits
            .iter()
            .max_by_key(|(_, fit)| **fit)
            .map(|(number, _)| *number);
        Some(Wire {
            address,
            qpn,
            peer: peer.or(best),
        })
    }

    /// Whether a packet comes to it, or leaves; `None`: it is another's.
    fn way(&self, from: IpAddr, to: IpAddr, packet: &Packet<'_>) -> Option<bool> {
        let by_deth = packet.ext.deth.map(|deth| deth.src_qp);
        if to == self.address && packet.bth.dest_qp == self.qpn {
            return Some(true);
        }
        let own = match by_deth {
            Some(source) => source == self.qpn,
            None => Some(packet.bth.dest_qp) == self.peer,
        };
        (from == self.address && own).then_some(false)
    }
}
