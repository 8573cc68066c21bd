//! Receiving: a run, which the kernel merged (GRO) or a process of the device made, is cut into packets, checked, and given to the
//! queue pairs they are for.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ferroce_control::{Counter, CounterPage, Key, PortCounter};
use ferroce_transport::Time;
use ferroce_wire::link::LinkPacket;
use ferroce_wire::pkey;
use ferroce_wire::{NakCode, Octets, Operation, Packet, Syndrome};

use crate::batch;
use crate::datagram::Arrival;
use crate::flows::{Checks, Flows};
use crate::hca::Hca;
use crate::ib::{self, Link, Source};
use crate::keys::KeyTable;
use crate::lane::{Arrived, Lanes};
use crate::mcast::Members;
use crate::pacing;
use crate::qp::{Inner, Qp};
use crate::qp_host::QpHost;
use crate::receiver::{Receiver, SETTLE};
use crate::recvmsg::{Datagram, receive};
use crate::shared;
use crate::timers;

/// The largest datagram, or run of merged datagrams.
pub(crate) const MAX_DATAGRAM: usize = 65_536;
/// How many datagrams are taken from a socket in one go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Take {
    /// At most so many.
    Some(usize),
    /// As `Some`, but nothing after a packet that came by itself or with one other (the ACK of a message shares the send of its
    /// answer), for which somebody may be waiting: longer runs are bulk, of which several are better answered at once.
    Runs(usize),
}

impl Take {
    /// Whether to look for more after so many datagrams, the last of them of `len` bytes in packets of `segment` (0: a single one).
    fn goes_on(self, taken: usize, len: usize, segment: usize) -> bool {
        match self {
            Take::Some(limit) => taken < limit,
            Take::Runs(limit) => taken < limit && segment != 0 && len > 2 * segment,
        }
    }
}

/// The receive side's own state, under the lock that a polling thread tries.
pub(crate) struct RxState {
    buffer: Box<[u8]>,
    /// QPs that got packets and have yet to answer.
    touched: Vec<Arc<Qp>>,
    flows: Flows,
    /// The inbox.
    lanes: Lanes,
    /// Runs handled since the last answers, and when the last of them was begun.
    runs: u32,
    at: Time,
}

impl RxState {
    pub(crate) fn new() -> RxState {
        RxState {
            buffer: vec![0; MAX_DATAGRAM].into_boxed_slice(),
            touched: Vec::new(),
            flows: Flows::new(),
            lanes: Lanes::default(),
            runs: 0,
            at: 0,
        }
    }
}

/// What brought packets.
#[derive(Clone, Copy)]
pub(crate) enum Via<'a> {
    Socket(&'a Receiver),
    /// Memory, from a process of this device; the address that they were sent to.
    Inbox(IpAddr),
}

impl<'a> Via<'a> {
    fn members(self) -> Option<&'a Arc<Members>> {
        match self {
            Via::Socket(receiver) => receiver.members.as_ref(),
            Via::Inbox(_) => None,
        }
    }

    fn link(self) -> Option<&'a Arc<Link>> {
        match self {
            Via::Socket(receiver) => receiver.link.as_ref(),
            Via::Inbox(_) => None,
        }
    }

    fn local(self) -> IpAddr {
        match self {
            Via::Socket(receiver) => receiver.local,
            Via::Inbox(to) => to,
        }
    }
}

/// What shows that a packet is as it was sent.
enum Proof {
    /// The ICRC, with what is known of the flow; where that is kept.
    Flow(usize, Checks),
    /// The CRCs of an InfiniBand packet.
    Link,
    /// It has been in memory only.
    Needless,
}

impl Hca {
    /// Takes datagrams from one socket without waiting; returns how many there were.
    pub(crate) fn drain(&self, rx: &mut RxState, receiver: &Receiver, take: Take) -> usize {
        let mut buffer = std::mem::take(&mut rx.buffer);
        let mut n = 0;
        loop {
            let Ok((len, datagram)) = receive(receiver, &mut buffer) else {
                if self.counts_received() {
                    receiver.nothing_left(timers::now());
                }
                break;
            };
            self.process(rx, Via::Socket(receiver), &datagram, buffer[..len].into());
            n += 1;
            if !take.goes_on(n, len, datagram.segment) {
                break;
            }
        }
        rx.buffer = buffer;
        n
    }

    /// Takes datagrams from every socket; returns how many there were.
    pub(crate) fn drain_all(&self, rx: &mut RxState, take: Take) -> usize {
        let receivers = self.receivers.read_recursive();
        receivers
            .iter()
            .map(|receiver| self.drain(rx, receiver, take))
            .sum()
    }

    /// Takes what processes of this device have put into the inbox; returns how many runs there were.
    pub(crate) fn drain_inbox(&self, rx: &mut RxState, take: Take) -> usize {
        if !self.inbox.is_marked() {
            return 0;
        }
        let mut lanes = std::mem::take(&mut rx.lanes);
        let mut n = 0;
        let each = |arrived: Arrived<'_>| {
            let Arrived {
                label,
                segment,
                bytes,
            } = arrived;
            let datagram = Datagram {
                from: label.from,
                port: 0,
                segment,
                dropped: None,
                traffic_class: label.traffic_class,
                flow_label: 0,
                hop_limit: label.hop_limit,
            };
            self.process(rx, Via::Inbox(label.to), &datagram, bytes);
            n += 1;
            take.goes_on(n, bytes.len(), segment)
        };
        let broken = || self.counters().add(Counter::RxParseErrors, 1);
        self.inbox.take(&mut lanes, each, broken);
        rx.lanes = lanes;
        n
    }

    /// Handles one datagram or merged run. [`answer`](Self::answer) follows, after this one or some more.
    pub(crate) fn process(
        &self,
        rx: &mut RxState,
        via: Via<'_>,
        datagram: &Datagram,
        data: Octets<'_>,
    ) {
        batch::begin();
        let now = timers::now();
        rx.runs += 1;
        rx.at = now;
        let counters = self.counters();
        let (members, link) = (via.members(), via.link());
        let mut proof = match via {
            Via::Inbox(_) => Proof::Needless,
            Via::Socket(_) if link.is_some() => Proof::Link,
            Via::Socket(receiver) => {
                let (from, port) = (datagram.from, datagram.port);
                match rx.flows.find(from, port, receiver.local) {
                    Some((place, checks)) => Proof::Flow(place, checks),
                    None => return,
                }
            }
        };
        // The kernel may hold on to a group's socket for a while after the last member has left.
        if let Via::Socket(receiver) = via
            && members.is_some()
            && receiver.closed.load(Relaxed)
        {
            return;
        }
        // Copies of what came for a group are the daemon's, which has counted it.
        let copies = members.and(link);
        if copies.is_some_and(|link| link.end() != (datagram.from, datagram.port).into()) {
            return counters.add(Counter::RxMisdirected, 1);
        }
        let segment = if datagram.segment == 0 {
            data.len().max(1)
        } else {
            datagram.segment
        };
        let packets = data.len().div_ceil(segment) as u64;
        let source = link.filter(|_| copies.is_none());
        let source = source.map_or(Source::Far, |link| link.source(datagram.from));
        if source == Source::Stranger {
            return counters.add(Counter::RxBadPeer, packets);
        }
        let count = |counter, at_port, n: u64| {
            counters.add(counter, n);
            if let Some(link) = link {
                counters.add_at(link.number, at_port, n);
            }
        };
        if copies.is_none() {
            match members {
                None => count(Counter::RxPackets, PortCounter::RxPackets, packets),
                // Of RoCE: an InfiniBand port's are copies.
                Some(_) => counters.add(Counter::RxMulticast, packets),
            }
            count(Counter::RxBytes, PortCounter::RxBytes, data.len() as u64);
        }
        if let (Via::Socket(receiver), Some(dropped)) = (via, datagram.dropped) {
            let more = dropped.wrapping_sub(receiver.dropped.swap(dropped, Relaxed));
            count(
                Counter::RxSocketOverflow,
                PortCounter::Overruns,
                more.into(),
            );
        }
        let qps = self.qps.read_recursive();
        let keys = self.keys.read_recursive();
        let mut unacknowledged = false;
        let mut current: Option<(&Arc<Qp>, parking_lot::MutexGuard<'_, Inner>)> = None;
        for (i, bytes) in data.chunks(segment).enumerate() {
            // Off a cable comes a whole InfiniBand packet; from its BTH on all is the same.
            let (bytes, local) = match link {
                None => (bytes, None),
                Some(link) => match bytes.private().and_then(LinkPacket::parse) {
                    Some(local) if copies.is_some() && link.takes_of_group(&local) => {
                        (local.transport.into(), Some(local))
                    }
                    Some(local) if source == Source::Own && !link.sent(&local) => {
                        counters.add(Counter::RxBadPeer, 1);
                        continue;
                    }
                    Some(local) if copies.is_none() && link.takes(&local) => {
                        (local.transport.into(), Some(local))
                    }
                    Some(_) => {
                        counters.add(Counter::RxMisdirected, 1);
                        continue;
                    }
                    None => {
                        count(Counter::RxParseErrors, PortCounter::RxErrors, 1);
                        continue;
                    }
                },
            };
            // The order of section 9.6: the packet for itself, then its queue pair, its keys, and only then its PSN.
            // Parsing first: what is not even a packet needs no checksum.
            let packet = match shared::parse(bytes) {
                Ok(packet) => packet,
                Err(_) => {
                    count(Counter::RxParseErrors, PortCounter::RxErrors, 1);
                    continue;
                }
            };
            // a packet whose ICRC is wrong is dropped silently
            let place = i as u16;
            let id = match (&local, &mut proof) {
                (Some(local), _) if local.is_intact() => Some(place),
                (None, Proof::Flow(_, checks)) => bytes
                    .private()
                    .and_then(|bytes| checks.verify(bytes, place)),
                (None, Proof::Needless) => Some(place),
                _ => None,
            };
            let Some(id) = id else {
                count(Counter::RxIcrcErrors, PortCounter::RxErrors, 1);
                continue;
            };
            let arrival = Arrival {
                datagram,
                local: via.local(),
                bytes: bytes.len(),
                id,
                link: link.map(|link| &**link).zip(local.as_ref()),
            };
            if let Some(members) = members {
                self.deliver_to_group(members, &packet, &arrival, &keys, now);
                continue;
            }
            let number = packet.bth.dest_qp;
            if number >> 16 != u32::from(self.slot()) {
                counters.add(Counter::RxMisdirected, 1);
                continue;
            }
            let found = match current.take() {
                Some((qp, inner)) if qp.qp_num() == number => Some((qp, inner)),
                other => {
                    drop(other);
                    qps.find(number as u16)
                        .and_then(|qp| Some((qp, qp.lock()?)))
                }
            };
            let Some((qp, mut inner)) = found else {
                counters.add(Counter::RxUnknownQp, 1);
                continue;
            };
            // Section 9.6.1
            if !pkey::matches(qp.p_key(), packet.bth.pkey) {
                counters.add(Counter::RxWrongPkey, 1);
                if let Some((link, local)) = arrival.link {
                    let report = ib::wrong_key(local, &packet, packet.bth.pkey.into());
                    counters.report(link.number, Key::Partition, &report);
                }
            } else if !qp.is_at(&arrival) {
                counters.add(Counter::RxBadPeer, 1);
            } else if qp.is_datagram() {
                unacknowledged = true;
                qp.take_datagram(&mut inner, &packet, &arrival, &keys, now);
            } else if !Qp::accepts_from(&inner, &arrival) {
                counters.add(Counter::RxBadPeer, 1);
            } else {
                let Inner {
                    transport, path, ..
                } = &mut *inner;
                let mut host = QpHost::new(qp, &keys, path.as_deref(), now);
                host.sequence_nak = count_kind(counters, &packet);
                transport.receive(now, &packet, &mut host);
                if host.overrun {
                    qp.overrun(&mut inner, &keys, now);
                }
                unacknowledged |= qp.is_unreliable();
                if !qp.touched.swap(true, Relaxed) {
                    rx.touched.push(qp.clone());
                }
            }
            current = Some((qp, inner));
        }
        if let Proof::Flow(place, checks) = proof {
            rx.flows.keep(place, checks);
        }
        if unacknowledged
            && let Via::Socket(receiver) = via
            && let Some(page) = receiver.flow()
        {
            let cost = pacing::cost(data.len(), datagram.segment != 0);
            page.take(self.slot(), cost);
        }
    }

    /// Before a sleep: tells senders without acknowledgement of sockets that are empty. Returns how long to sleep at most.
    pub(crate) fn settle_receivers(&self, now: Time) -> Time {
        let receivers = self.receivers.read_recursive();
        let unsettled = receivers.iter().filter(|r| r.settle_if_empty(now)).count();
        if unsettled == 0 {
            Time::MAX
        } else {
            now + 2 * SETTLE
        }
    }

    /// Ends a batch: sends the completion events, and lets the QPs that got packets answer, one acknowledgement each for all
    /// that came. Returns the time, of the last run if there was one only.
    pub(crate) fn answer(&self, rx: &mut RxState) -> Time {
        // What an XRC target takes in the program answers by another queue pair, whose packets would pass the ACK if the program heard of it
        // first. Programs with one channel for both their queues count on a request's completion before the answer to it.
        let targets = rx.touched.iter().any(|qp| qp.domain().is_some());
        if targets {
            let keys = self.keys.read_recursive();
            let now = timers::now();
            for qp in rx.touched.extract_if(.., |qp| qp.domain().is_some()) {
                qp.answer(&keys, now);
            }
        }
        batch::deliver();
        // One run was handled just now.
        let now = match std::mem::take(&mut rx.runs) {
            1 => rx.at,
            _ => timers::now(),
        };
        if rx.touched.is_empty() {
            return now;
        }
        let keys = self.keys.read_recursive();
        for qp in rx.touched.drain(..) {
            qp.answer(&keys, now);
        }
        now
    }
}

impl Qp {
    /// Answers what has come in a batch.
    fn answer(&self, keys: &KeyTable, now: Time) {
        self.touched.store(false, Relaxed);
        let Some(mut inner) = self.lock() else { return };
        let flush = !inner.transport.ack_deferrable();
        self.pump(&mut inner, keys, now, flush);
    }
}

/// Counts what a packet asks for or refuses; returns whether it is a NAK for a PSN sequence error.
fn count_kind(counters: &CounterPage, packet: &Packet<'_>) -> bool {
    let syndrome = packet.ext.aeth.map(|aeth| aeth.kind());
    let request = match packet.info.operation {
        Operation::Send => Counter::RxSendRequests,
        Operation::Write => Counter::RxWriteRequests,
        Operation::ReadRequest => Counter::RxReadRequests,
        Operation::CompareSwap | Operation::FetchAdd | Operation::AtomicWrite => {
            Counter::RxAtomicRequests
        }
        _ => {
            if let Some(Syndrome::RnrNak { .. }) = syndrome {
                counters.add(Counter::RnrNakRetry, 1);
            }
            return syndrome == Some(Syndrome::Nak(NakCode::PsnSequenceError));
        }
    };
    if packet.info.begins() {
        counters.add(request, 1);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_may_wait_for_is_answered_before_a_look_for_more() {
        let go_on = |len, segment| Take::Runs(4).goes_on(1, len, segment);
        // An ACK; an answer and the ACK that came with it; the two packets of a message.
        for (len, segment) in [(20, 0), (40, 20), (56, 36), (4132, 4112), (8224, 4112)] {
            assert!(!go_on(len, segment), "{len} {segment}");
        }
        assert!(go_on(60_000, 4112));
        assert!(go_on(60, 20));
        assert!(!Take::Runs(4).goes_on(4, 60_000, 4112));
        assert!(Take::Some(8).goes_on(7, 20, 0));
        assert!(!Take::Some(8).goes_on(8, 20, 0));
    }
}
