//! Receiving: runs are taken from sockets and the inbox and handled (`run`), and the queue pairs
//! that got packets answer.

mod counting;
mod run;
pub(crate) mod state;
mod stretched;
mod tapped;

use std::sync::atomic::Ordering::Relaxed;

use ferroce_control::{Counter, PortCounter};
use ferroce_transport::Time;
use ferroce_transport::congestion::buffer_cost;
use ferroce_wire::Octets;

use self::counting::count;
use self::run::Run;
use self::state::Take;
use crate::datapath::batch;
use crate::hca::Hca;
use crate::memory::keys::KeyTable;
use crate::port::ib::Port;
use crate::port::receiver::Receiver;
use crate::port::recvmsg::{Datagram, receive};
use crate::port::ring::Arrived;
use crate::port::{Cable, Form, Ring, Udp};
#[cfg(any(test, feature = "in-process"))]
use crate::port::{Medium, Ports, in_process::End};
use crate::progress::timers;
use crate::tuning::{DATAGRAMS_PER_ROUND, SETTLE_TIME};
use crate::verbs::qp::{Inner, Qp};

/// With the queue pairs that it has to do with.
pub(crate) type RxState = state::RxState<Qp>;

impl Hca {
    /// Takes datagrams from one socket without waiting; returns how many there were.
    pub(crate) fn drain(&self, rx: &mut RxState, receiver: &Receiver<Qp>, take: Take) -> usize {
        let mut buffer = std::mem::take(&mut rx.buffer);
        let mut n = 0;
        loop {
            let Ok((len, datagram)) = receive(&receiver.socket, &mut buffer) else {
                if self.counts_received() {
                    receiver.nothing_left(timers::now());
                }
                break;
            };
            self.process(rx, receiver, &datagram, buffer[..len].into());
            n += 1;
            if !take.goes_on(n, len, datagram.segment) {
                break;
            }
        }

        rx.buffer = buffer;
        n
    }

    /// Takes what has come, up to a point; returns how many runs there were.
    pub(crate) fn receive_a_round(&self, rx: &mut RxState) -> usize {
        let take = Take::AtMost(DATAGRAMS_PER_ROUND);
        self.drain_inbox(rx, take) + self.receive_from_ports(rx, take)
    }

    /// Takes what has come to every port but through the inbox; returns how many runs there were.
    pub(crate) fn receive_from_ports(&self, rx: &mut RxState, take: Take) -> usize {
        #[cfg(any(test, feature = "in-process"))]
        if let Ports::Ethernet(Medium::InProcess(end)) = self.ports() {
            return self.drain_end(rx, end, take);
        }
        let receivers = self.receivers.read();
        receivers
            .iter()
            .map(|receiver| self.drain(rx, receiver, take))
            .sum()
    }

    /// Takes what a device of this program has sent.
    #[cfg(any(test, feature = "in-process"))]
    fn drain_end(&self, rx: &mut RxState, end: &End, take: Take) -> usize {
        let mut n = 0;
        while let Some(frame) = end.take() {
            let label = frame.label;
            let datagram = Datagram {
                from: label.from,
                port: label.port,
                segment: frame.segment,
                dropped: None,
                traffic_class: label.traffic_class,
                flow_label: 0,
                hop_limit: label.hop_limit,
            };

            let run = Run {
                datagram: &datagram,
                data: frame.bytes.as_slice().into(),
                local: label.to,
                members: None,
                now: rx.begin(),
            };
            self.process_flow(rx, &run);
            n += 1;
            let more = take.goes_on(n, frame.bytes.len(), frame.segment);
            end.give_back(frame);
            if !more {
                break;
            }
        }

        n
    }

    /// Takes what processes of this device have put into the inbox; returns how many runs there
    /// were.
    pub(crate) fn drain_inbox(&self, rx: &mut RxState, take: Take) -> usize {
        if !self.inbox.is_marked() {
            return 0;
        }

        let mut rings = std::mem::take(&mut rx.rings);
        let mut n = 0;
        let each = |arrived: Arrived<'_>| {
            let Arrived { label, form, bytes } = arrived;
            let segment = match form {
                Form::Packets(segment) => segment.map_or(0, usize::from),
                Form::Stretch(_) => 0,
            };

            let datagram = Datagram {
                from: label.from,
                port: 0,
                segment,
                dropped: None,
                traffic_class: label.traffic_class,
                flow_label: 0,
                hop_limit: label.hop_limit,
            };

            let run = Run {
                datagram: &datagram,
                data: bytes,
                local: label.to,
                members: None,
                now: rx.begin(),
            };

            n += 1;
            match form {
                Form::Packets(_) => {
                    self.process_inbox(rx, &run);
                    take.goes_on(n, bytes.len(), segment)
                }
                Form::Stretch(mtu) => {
                    self.process_stretch(rx, &run, mtu);
                    // An ACK may have been put in with it.
                    take.has_room(n)
                }
            }
        };

        let broken = || self.counters().add(Counter::RxParseErrors, 1);
        self.inbox.take(&mut rings, each, broken);
        rx.rings = rings;
        n
    }

    /// Handles one datagram or merged run of a socket. [`answer`](Self::answer) follows, after this
    /// one or some more.
    pub(crate) fn process(
        &self,
        rx: &mut RxState,
        receiver: &Receiver<Qp>,
        datagram: &Datagram,
        data: Octets<'_>,
    ) {
        let members = receiver.members.as_deref();

        // The kernel may hold on to a group's socket for a while after the last member has left.
        if members.is_some() && receiver.closed.load(Relaxed) {
            return;
        }

        let run = Run {
            datagram,
            data,
            local: receiver.local,
            members,
            now: rx.begin(),
        };

        let unacknowledged = match (receiver.port.as_deref(), members) {
            (None, _) => {
                self.count_dropped(receiver, &run);
                self.process_flow(rx, &run)
            }
            (Some(port), None) => self.process_cable(rx, receiver, port, &run),
            (Some(port), Some(_)) => self.process_copies(rx, receiver, port, &run),
        };

        // To a group nothing is acknowledged.
        if unacknowledged || members.is_some() {
            receiver.take(buffer_cost(data.len(), datagram.segment != 0));
        }
    }

    /// RoCEv2, for this process or for a group.
    fn process_flow(&self, rx: &mut RxState, run: &Run<'_>) -> bool {
        let (from, port) = (run.datagram.from, run.datagram.port);
        let Some(mut udp) = Udp::of_flow(&mut rx.flows, from, port, run.local) else {
            return false;
        };

        let counters = self.counters();
        let kind = match run.members {
            None => Counter::RxPackets,
            Some(_) => Counter::RxMulticast,
        };
        counters.add(kind, run.packets());
        counters.add(Counter::RxBytes, run.data.len() as u64);

        let unacknowledged = self.handle(rx, &mut udp, run);
        udp.keep(&mut rx.flows);
        unacknowledged
    }

    /// What came by the cable of an InfiniBand port, or was sent by the port to itself.
    fn process_cable(
        &self,
        rx: &mut RxState,
        receiver: &Receiver<Qp>,
        port: &Port,
        run: &Run<'_>,
    ) -> bool {
        let counters = self.counters();
        let packets = run.packets();
        let Some(mut cable) = Cable::of_port(port, run.datagram.from) else {
            counters.add(Counter::RxBadPeer, packets);
            return false;
        };
        let count = |counter, at_port, n| count(counters, Some(port), counter, at_port, n);
        count(Counter::RxPackets, PortCounter::RxPackets, packets);
        let bytes = run.data.len() as u64;
        count(Counter::RxBytes, PortCounter::RxBytes, bytes);
        self.count_dropped(receiver, run);

        self.handle(rx, &mut cable, run)
    }

    /// Copies of what came to an InfiniBand port for a group are the daemon's, which has counted
    /// them.
    fn process_copies(
        &self,
        rx: &mut RxState,
        receiver: &Receiver<Qp>,
        port: &Port,
        run: &Run<'_>,
    ) -> bool {
        if port.end() != (run.datagram.from, run.datagram.port).into() {
            self.counters().add(Counter::RxMisdirected, 1);
            return false;
        }
        self.count_dropped(receiver, run);
        self.handle(rx, &mut Cable::of_group(port), run)
    }

    /// What the kernel has dropped since it last said so.
    fn count_dropped(&self, receiver: &Receiver<Qp>, run: &Run<'_>) {
        let Some(dropped) = run.datagram.dropped else {
            return;
        };
        let more = dropped.wrapping_sub(receiver.dropped.swap(dropped, Relaxed));
        count(
            self.counters(),
            receiver.port.as_deref(),
            Counter::RxSocketOverflow,
            PortCounter::Overruns,
            more.into(),
        );
    }

    /// Handles a run from the inbox.
    fn process_inbox(&self, rx: &mut RxState, run: &Run<'_>) {
        let counters = self.counters();
        counters.add(Counter::RxPackets, run.packets());
        counters.add(Counter::RxBytes, run.data.len() as u64);
        self.handle(rx, &mut Ring, run);
    }

    /// Before a sleep: tells senders without acknowledgement of sockets that are empty. Returns how
    /// long to sleep at most.
    pub(crate) fn settle_receivers(&self, now: Time) -> Time {
        let receivers = self.receivers.read();
        let unsettled = receivers.iter().filter(|r| r.settle_if_empty(now)).count();
        if unsettled == 0 {
            Time::MAX
        } else {
            now + 2 * SETTLE_TIME
        }
    }

    /// Ends a batch: sends the completion events, and lets the QPs that got packets answer, one
    /// acknowledgement each for all that came. Returns the time, of the last run if there was one
    /// only.
    pub(crate) fn answer(&self, rx: &mut RxState) -> Time {
        // What an XRC target takes in the program answers by another queue pair, whose packets
        // would pass the ACK if the program heard of it first. Programs with one channel for both
        // their queues count on a request's completion before the answer to it.
        let targets = rx.touched.iter().any(|qp| qp.domain().is_some());
        if targets {
            let keys = self.keys.read();
            let now = timers::now();
            for qp in rx.touched.extract_if(.., |qp| qp.domain().is_some()) {
                qp.answer(&mut qp.inner.lock(), &keys, now);
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

        let keys = self.keys.read();
        match &*rx.touched {
            [qp] => qp.answer(&mut qp.inner.lock(), &keys, now),
            all => self.visit(all, |qp, inner| qp.answer(inner, &keys, now)),
        }
        rx.touched.clear();
        drop(keys);
        self.hand_turns(now);
        now
    }
}

impl Qp {
    /// Answers what has come in a batch.
    fn answer(&self, inner: &mut Inner, keys: &KeyTable, now: Time) {
        self.touched.store(false, Relaxed);
        let flush = !inner.transport.ack_deferrable();
        self.pump(inner, keys, now, flush);
    }
}
