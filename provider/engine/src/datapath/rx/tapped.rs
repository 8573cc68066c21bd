//! A run while something is on (`instrument`): its packets one by one, and what faults make of
//! each.
//!
//! A packet is checked, steered and admitted as ever, and only then asked about. What comes late,
//! or changed, comes as a run of its own, of which it is known that it is as it was sent.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ferroce_control::capture::record::Fate;
use ferroce_control::faults::{Damage, Direction, Lane};
use ferroce_control::{Counter, PortCounter};
use ferroce_transport::{Injected, Time};
use ferroce_wire::{Octets, Packet};

use super::RxState;
use super::counting::{count, count_kind};
use super::run::{Frame, Run, Target};
use crate::datapath::arrival::Arrival;
use crate::datapath::qp_host::QpHost;
use crate::hca::Hca;
use crate::instrument::faults::{Passing, Verdict};
use crate::instrument::{self, Waiting};
use crate::memory::keys::KeyTable;
use crate::port::ib::{self, Port};
use crate::port::recvmsg::Datagram;
use crate::port::{Cable, Incoming, Look, Opened, Refused, Ring};
use crate::verbs::qp::{Inner, Qp};
use crate::verbs::table::Table;

/// What packets are delivered under.
#[derive(Clone, Copy)]
struct Tables<'a> {
    qps: &'a Table<Qp>,
    keys: &'a KeyTable,
}

/// A packet that was found to be as it was sent, whatever has been done to it since.
struct Vouched<'a, P>(&'a P, u16);

impl<P: Incoming> Incoming for Vouched<'_, P> {
    fn ib_port(&self) -> Option<&Port> {
        self.0.ib_port()
    }

    fn open<'a>(&self, frame: Octets<'a>) -> Result<Opened<'a>, Refused> {
        self.0.open(frame)
    }

    fn look(&self, source_port: u16) -> Look {
        self.0.look(source_port)
    }

    fn verify(&mut self, _: &Opened<'_>, _: u16) -> Option<u16> {
        Some(self.1)
    }
}

impl Hca {
    /// As [`handle`](Hca::handle).
    #[cold]
    pub(super) fn handle_tapped(
        &self,
        rx: &mut RxState,
        port: &mut impl Incoming,
        run: &Run<'_>,
    ) -> bool {
        let (qps, keys) = (self.qps.read(), self.keys.read());
        let tables = Tables {
            qps: &qps,
            keys: &keys,
        };
        let mut unacknowledged = false;

        self.each(port, run, &keys, |port, frame, bytes| {
            unacknowledged |= self.arrives(rx, port, run, frame, bytes, tables);
        });

        unacknowledged
    }

    /// A packet that is whole.
    fn arrives(
        &self,
        rx: &mut RxState,
        port: &impl Incoming,
        run: &Run<'_>,
        frame: &Frame<'_, '_>,
        bytes: Octets<'_>,
        tables: Tables<'_>,
    ) -> bool {
        let packet = frame.packet;
        let arrival = run.arrival(port, frame);
        let Some(Target { qp, inner, .. }) = self.steer(tables.qps, None, packet, run.now) else {
            return false;
        };
        if !self.admits(qp, &inner, packet, &arrival) {
            return false;
        }

        // A copy of a request whose refusal has not gone yet is refused with it, and hit no more.
        let refusing = inner.transport.refusing(packet);
        let passing = Passing {
            qp: qp.qp_num(),
            ordinal: qp.ordinal,
            peer: Some(inner.transport.query().dest_qp_num),
            direction: Direction::In,
            packet,
            length: frame.opened.transport.len(),
            refusable: inner.transport.may_refuse(packet) && refusing.is_none(),
        };
        let mut verdict = self.taps.faults.judge(&passing, self.counters());
        verdict.refused = verdict.refused.or(refusing);
        drop(inner);

        let lane = Lane {
            ordinal: qp.ordinal,
            direction: Direction::In,
        };
        let overtaken = self.taps.faults.held.overtaken(lane);
        let unacknowledged = match verdict {
            Verdict { lost: true, .. } => {
                self.taps.fault(qp.qp_num(), true, packet, Fate::Lost);
                false
            }
            Verdict {
                damaged: Some((Damage::Icrc, _)),
                ..
            } => {
                self.taps.fault(qp.qp_num(), true, packet, Fate::Lost);
                let counter = Counter::RxIcrcErrors;
                let counters = self.counters();
                count(counters, port.ib_port(), counter, PortCounter::RxErrors, 1);
                false
            }
            Verdict {
                refused: Some(why), ..
            } => {
                self.refuse(rx, qp, packet, why, run, tables.keys);
                false
            }
            _ => self.arrives_somehow(rx, port, run, frame, bytes, (qp, lane, verdict), tables),
        };

        self.arrive(rx, overtaken, tables);
        unacknowledged
    }

    /// A packet that comes, be it changed, twice or later.
    #[allow(clippy::too_many_arguments)]
    fn arrives_somehow(
        &self,
        rx: &mut RxState,
        port: &impl Incoming,
        run: &Run<'_>,
        frame: &Frame<'_, '_>,
        bytes: Octets<'_>,
        (qp, lane, verdict): (&Arc<Qp>, Lane, Verdict),
        tables: Tables<'_>,
    ) -> bool {
        let times = 1 + usize::from(verdict.twice);
        let held = &self.taps.faults.held;
        let late = verdict.delayed.is_some() || verdict.overtaken;
        if verdict.twice {
            (self.taps).fault(qp.qp_num(), true, frame.packet, Fate::Twice);
        }
        if late || verdict.damaged.is_some() {
            (self.taps).fault(qp.qp_num(), true, frame.packet, Fate::Held);
        }
        if !late && verdict.damaged.is_none() {
            let arrival = run.arrival(port, frame);
            return (0..times).fold(false, |_, _| {
                self.given(rx, Target::new(qp), frame, &arrival, tables.keys, run.now)
            });
        }

        let mut whole = bytes.to_vec();
        if let Some((_, random)) = verdict.damaged {
            let payload = frame.packet.content();
            let start = payload.as_ptr().addr() - bytes.as_ptr().addr();
            instrument::flip(&mut whole[start..start + payload.len()], random);
        }

        for _ in 0..times {
            let waiting = Waiting::Arriving {
                datagram: Datagram {
                    segment: 0,
                    dropped: None,
                    ..*run.datagram
                },
                local: run.local,
                port: port.ib_port().map(|port| port.number),
                bytes: whole.clone(),
                id: frame.id,
            };
            match verdict.delayed {
                Some(by) => held.delay(lane, by, waiting),
                None if verdict.overtaken => held.overtake(lane, waiting),
                None => self.arrive(rx, vec![waiting], tables),
            }
        }
        !late && qp.is_unreliable()
    }

    /// Packets that were held back go on. Nothing is locked.
    pub(crate) fn go_on(&self, packets: Vec<Waiting>) {
        let mut arriving = Vec::new();
        for packet in packets {
            match packet {
                Waiting::Leaving { .. } => packet.leave(&self.taps),
                Waiting::Arriving { .. } => arriving.push(packet),
            }
        }
        if arriving.is_empty() {
            return;
        }

        let mut rx = self.rx.lock();
        rx.begin();
        let (qps, keys) = (self.qps.read(), self.keys.read());
        let tables = Tables {
            qps: &qps,
            keys: &keys,
        };
        self.arrive(&mut rx, arriving, tables);
        drop((qps, keys));
        self.answer(&mut rx);
        self.driver.arrivals.happened();
    }

    /// Delivers packets that faults have been asked about.
    fn arrive(&self, rx: &mut RxState, packets: Vec<Waiting>, tables: Tables<'_>) {
        for packet in packets {
            let Waiting::Arriving {
                datagram,
                local,
                port,
                bytes,
                id,
            } = packet
            else {
                continue;
            };

            let run = Run {
                datagram: &datagram,
                data: bytes.as_slice().into(),
                local,
                members: None,
                now: rx.at,
            };
            let ports = self.ports().with_cables();
            match port.map(|number| ib::find(ports, number)) {
                None => self.deliver_again(rx, &mut Vouched(&Ring, id), &run, tables),
                Some(Ok(port)) => {
                    if let Some(cable) = Cable::of_port(port, datagram.from) {
                        self.deliver_again(rx, &mut Vouched(&cable, id), &run, tables);
                    }
                }
                Some(Err(_)) => {}
            }
        }
    }

    fn deliver_again(
        &self,
        rx: &mut RxState,
        port: &mut impl Incoming,
        run: &Run<'_>,
        tables: Tables<'_>,
    ) {
        self.decode(port, run.data, 0, |port, frame| {
            let Some(frame) = frame else {
                return;
            };
            let Some(target) = self.steer(tables.qps, None, frame.packet, run.now) else {
                return;
            };
            let arrival = run.arrival(port, frame);
            if self.admits(target.qp, &target.inner, frame.packet, &arrival) {
                let number = target.qp.qp_num();
                self.taps.fault(number, true, frame.packet, Fate::Arrives);
                self.given(rx, target, frame, &arrival, tables.keys, run.now);
            }
        });
    }

    /// As [`take`](Hca::take), which is a part of whoever calls it.
    #[inline(never)]
    fn given(
        &self,
        rx: &mut RxState,
        mut target: Target<'_>,
        frame: &Frame<'_, '_>,
        arrival: &Arrival<'_>,
        keys: &KeyTable,
        now: Time,
    ) -> bool {
        target.add(frame);
        let unacknowledged = self.take(rx, &mut target, frame.packet, arrival, keys, now);
        target.leave(now);
        unacknowledged
    }

    /// Has a request refused that nothing is wrong with.
    fn refuse(
        &self,
        rx: &mut RxState,
        qp: &Arc<Qp>,
        packet: &Packet<'_>,
        why: Injected,
        run: &Run<'_>,
        keys: &KeyTable,
    ) {
        let mut inner = qp.inner.lock();
        count_kind(self.counters(), packet);
        let Inner {
            transport, path, ..
        } = &mut *inner;
        if !transport.may_refuse(packet) {
            return;
        }
        self.taps.refused(qp.qp_num(), packet, why);
        let mut host = QpHost::new(qp, keys, path.as_deref(), run.now);
        transport.refuse_request(packet, why, &mut host);
        if !qp.touched.swap(true, Relaxed) {
            rx.touched.push(qp.clone());
        }
    }
}
