//! One run: each packet is decoded, steered to its queue pair, and delivered to it. Section 9.6
//! gives the order: the packet for itself, then its queue pair, its keys, and only then its PSN.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ferroce_control::{Counter, Key, PortCounter};
use ferroce_transport::Time;
use ferroce_wire::pkey;
use ferroce_wire::{Octets, Packet, Syndrome};

use super::RxState;
use super::counting::{count, count_kind};
use crate::datapath::arrival::Arrival;
use crate::datapath::completing::Failure;
use crate::datapath::qp_host::QpHost;
use crate::hca::Hca;
use crate::instrument::{CAPTURE, Came, FAULTS};
use crate::locks::MutexGuard;
use crate::memory::keys::KeyTable;
use crate::memory::shared;
use crate::port::ib;
use crate::port::recvmsg::Datagram;
use crate::port::{Incoming, Look, Opened};
use crate::progress::timers;
use crate::verbs::groups::Members;
use crate::verbs::qp::{Inner, Qp};
use crate::verbs::table::Table;

/// Packets that came in one piece: the kernel merged them (GRO), or a program of the device made
/// them.
pub(super) struct Run<'a> {
    pub(super) datagram: &'a Datagram,
    pub(super) data: Octets<'a>,
    /// The address or group that it was sent to.
    pub(super) local: IpAddr,
    /// For a group: its members here.
    pub(super) members: Option<&'a Members<Qp>>,
    pub(super) now: Time,
}

/// A packet that is whole. Its description is long, and stays where it was made.
pub(super) struct Frame<'f, 'a> {
    pub(super) packet: &'f Packet<'a>,
    pub(super) opened: &'f Opened<'a>,
    /// All of its bytes, the link's included.
    pub(super) bytes: u64,
    /// IPv4's identification.
    pub(super) id: u16,
}

/// A queue pair that packets are for, locked, and what it has been given of the run.
pub(super) struct Target<'q> {
    pub(super) qp: &'q Arc<Qp>,
    pub(super) inner: MutexGuard<'q, Inner>,
    packets: u64,
    bytes: u64,
}

impl<'q> Target<'q> {
    pub(super) fn new(qp: &'q Arc<Qp>) -> Self {
        Target {
            qp,
            inner: qp.inner.lock(),
            packets: 0,
            bytes: 0,
        }
    }

    /// One more packet for it.
    #[inline]
    pub(super) fn add(&mut self, frame: &Frame<'_, '_>) {
        self.add_packets(1, frame.bytes);
    }

    /// So many more, of so many bytes.
    #[inline]
    pub(super) fn add_packets(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }

    /// Leaves word of what came, and lets go of it.
    pub(super) fn leave(self, now: Time) {
        if self.packets != 0 {
            self.qp.received(&self.inner, self.packets, self.bytes, now);
        }
    }
}

impl<'a> Run<'a> {
    /// The size of its packets, the last one excepted.
    pub(super) fn segment(&self) -> usize {
        match self.datagram.segment {
            0 => self.data.len().max(1),
            segment => segment,
        }
    }

    /// How many packets there are.
    pub(super) fn packets(&self) -> u64 {
        self.data.len().div_ceil(self.segment()) as u64
    }

    /// The run's `place`th packet for who captures, and what was made of it.
    fn came<'f>(
        &'f self,
        look: Look,
        bytes: Octets<'f>,
        place: u16,
        frame: Option<&Frame<'_, '_>>,
    ) -> Came<'f> {
        Came {
            datagram: self.datagram,
            local: self.local,
            look,
            bytes,
            good: frame.map(|frame| (frame.id, frame.packet.bth.dest_qp)),
            place,
        }
    }

    /// How a packet of the run came, which `port` has brought.
    pub(super) fn arrival<'f>(
        &'f self,
        port: &'f impl Incoming,
        frame: &Frame<'f, 'f>,
    ) -> Arrival<'f> {
        Arrival {
            datagram: self.datagram,
            local: self.local,
            bytes: frame.opened.transport.len(),
            id: frame.id,
            port: port.ib_port().zip(frame.opened.local.as_ref()),
        }
    }
}

impl Hca {
    /// Handles a run that a port has brought. Returns whether something in it is not acknowledged
    /// by its transport.
    pub(super) fn handle(&self, rx: &mut RxState, port: &mut impl Incoming, run: &Run<'_>) -> bool {
        if self.taps.has(FAULTS) {
            return self.handle_tapped(rx, port, run);
        }

        let qps = self.qps.read();
        let keys = self.keys.read();
        let mut unacknowledged = false;
        let mut current: Option<Target<'_>> = None;

        self.each(port, run, &keys, |port, frame, _| {
            let Some(mut target) = self.steer(&qps, current.take(), frame.packet, run.now) else {
                return;
            };
            unacknowledged |= self.deliver(rx, &mut target, port, run, frame, &keys);
            current = Some(target);
        });

        if let Some(target) = current {
            target.leave(run.now);
        }
        unacknowledged
    }

    /// Decodes a run's packets, and records them if somebody captures. Those for a group go to its
    /// members; `then` gets the others that are whole, with all of their bytes.
    #[inline(always)]
    pub(super) fn each<P: Incoming>(
        &self,
        port: &mut P,
        run: &Run<'_>,
        keys: &KeyTable,
        mut then: impl FnMut(&P, &Frame<'_, '_>, Octets<'_>),
    ) {
        let captured = self.taps.has(CAPTURE).then(timers::wall_clock);

        for (place, bytes) in run.data.chunks(run.segment()).enumerate() {
            let place = place as u16;
            self.decode(port, bytes, place, |port, frame| {
                if let Some(time) = captured {
                    let look = port.look(run.datagram.port);
                    let came = run.came(look, bytes, place, frame);
                    self.taps.captures.came(time, &came);
                }

                let Some(frame) = frame else {
                    return;
                };
                let Some(members) = run.members else {
                    return then(port, frame, bytes);
                };
                if !(self.taps.has(FAULTS) && self.taps.faults.is_port_down()) {
                    let arrival = run.arrival(port, frame);
                    self.deliver_to_group(members, frame.packet, &arrival, keys, run.now);
                }
            });
        }
    }

    /// Takes a packet out of what the link has around it, and checks it for itself. Parsing first:
    /// what is not even a packet needs no checksum. `then` gets it, or `None`: it is dropped, and
    /// counted. A part of whoever calls it, on every packet's way.
    #[inline(always)]
    pub(super) fn decode<P: Incoming>(
        &self,
        port: &mut P,
        bytes: Octets<'_>,
        place: u16,
        then: impl FnOnce(&P, Option<&Frame<'_, '_>>),
    ) {
        let counters = self.counters();
        let opened = port.open(bytes);
        let parsed;
        let frame = 'whole: {
            let opened = match &opened {
                Ok(opened) => opened,
                Err(refused) => {
                    match refused.counters() {
                        (counter, Some(at_port)) => {
                            count(counters, port.ib_port(), counter, at_port, 1)
                        }
                        (counter, None) => counters.add(counter, 1),
                    }
                    break 'whole None;
                }
            };

            parsed = shared::parse(opened.transport);
            let Ok(packet) = &parsed else {
                let counter = Counter::RxParseErrors;
                count(counters, port.ib_port(), counter, PortCounter::RxErrors, 1);
                break 'whole None;
            };

            // A packet whose ICRC is wrong is dropped silently (section 9.6).
            let Some(id) = port.verify(opened, place) else {
                let counter = Counter::RxIcrcErrors;
                count(counters, port.ib_port(), counter, PortCounter::RxErrors, 1);
                break 'whole None;
            };

            Some(Frame {
                packet,
                opened,
                bytes: bytes.len() as u64,
                id,
            })
        };

        then(port, frame.as_ref());
    }

    /// Finds the queue pair that a packet is for, and locks it if it is not the one of the packet
    /// before. `None`: there is none here.
    #[inline]
    pub(super) fn steer<'q>(
        &self,
        qps: &'q Table<Qp>,
        last: Option<Target<'q>>,
        packet: &Packet<'_>,
        now: Time,
    ) -> Option<Target<'q>> {
        let number = packet.bth.dest_qp;
        if let Some(target) = last {
            if target.qp.qp_num() == number {
                return Some(target);
            }
            // No thread holds the locks of two queue pairs.
            target.leave(now);
        }

        if number >> 16 != u32::from(self.slot()) {
            self.counters().add(Counter::RxMisdirected, 1);
            return None;
        }

        // The number without the slot may be that of another lane's.
        let found = qps.find(number as u16);
        let found = found.filter(|qp| qp.qp_num() == number);
        if found.is_none() {
            self.counters().add(Counter::RxUnknownQp, 1);
        }

        found.map(Target::new)
    }

    /// Gives a packet to its queue pair, if its key and its source are right (section 9.6.1).
    /// Returns whether the transport does not acknowledge it.
    #[inline]
    fn deliver(
        &self,
        rx: &mut RxState,
        target: &mut Target<'_>,
        port: &impl Incoming,
        run: &Run<'_>,
        frame: &Frame<'_, '_>,
        keys: &KeyTable,
    ) -> bool {
        let arrival = run.arrival(port, frame);
        if !self.admits(target.qp, &target.inner, frame.packet, &arrival) {
            return false;
        }
        target.add(frame);
        self.take(rx, target, frame.packet, &arrival, keys, run.now)
    }

    /// Whether a packet's key and source are right. A part of `deliver`, on every packet's way.
    #[inline(always)]
    pub(super) fn admits(
        &self,
        qp: &Qp,
        inner: &Inner,
        packet: &Packet<'_>,
        arrival: &Arrival<'_>,
    ) -> bool {
        let counters = self.counters();
        if !pkey::matches(qp.p_key(), packet.bth.pkey) {
            counters.add(Counter::RxWrongPkey, 1);
            if let Some((port, local)) = arrival.port {
                let report = ib::wrong_key(local, packet, packet.bth.pkey.into());
                counters.report(port.number, Key::Partition, &report);
            }
            return false;
        }

        let admitted = qp.is_at(arrival) && (qp.is_datagram() || Qp::accepts_from(inner, arrival));
        if !admitted {
            counters.add(Counter::RxBadPeer, 1);
        }
        admitted
    }

    /// Gives a packet that is admitted to its queue pair. Returns whether the transport does not
    /// acknowledge it. The other part.
    #[inline(always)]
    pub(super) fn take(
        &self,
        rx: &mut RxState,
        target: &mut Target<'_>,
        packet: &Packet<'_>,
        arrival: &Arrival<'_>,
        keys: &KeyTable,
        now: Time,
    ) -> bool {
        let (qp, inner) = (target.qp, &mut *target.inner);
        if qp.is_datagram() {
            qp.take_datagram(inner, packet, arrival, keys, now);
            return true;
        }

        let Inner {
            transport, path, ..
        } = &mut *inner;
        let mut host = QpHost::new(qp, keys, path.as_deref(), now);
        host.sequence_nak = count_kind(self.counters(), packet);
        if let Some(Syndrome::RnrNak { .. }) = packet.ext.aeth.map(|aeth| aeth.kind()) {
            host.receiver_not_ready();
        }
        transport.receive(now, packet, &mut host);
        if arrival.datagram.is_marked() {
            transport.marked(now, &mut host);
        }
        let failure = host.failure();
        taken(rx, target, failure, keys, now);
        qp.is_unreliable()
    }
}

/// A connected queue pair has taken something: it will answer, or has failed of it.
#[inline(always)]
pub(super) fn taken(
    rx: &mut RxState,
    target: &mut Target<'_>,
    failure: Option<Failure>,
    keys: &KeyTable,
    now: Time,
) {
    let (qp, inner) = (target.qp, &mut *target.inner);
    if let Some(failure) = failure {
        qp.fails(inner, keys, now, failure);
    }
    if !qp.touched.swap(true, Relaxed) {
        rx.touched.push(qp.clone());
    }
}
