//! The transport tester over a simulated wire, in virtual time: nothing waits, and nothing depends
//! on the machine.

use super::clock;
use super::device::{DEVICE, Device, MTU, TESTER};
use super::faults::Faults;
use crate::packet::{RxPacket, TxPacket};
use crate::protocol::{AddressVector, Command, Completion, Reply, Side};
use crate::rig::TransportRig;
use crate::trace::{Carrier, Trace};
use anyhow::Result;
use ferroce_sim::wire::flow;
use ferroce_wire::icrc::Verdict;
use ferroce_wire::time::Time;
use ferroce_wire::{Packet, ROCE_V2_PORT};
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

/// How long a packet is on its way.
const LATENCY: Duration = Duration::from_micros(2);

/// Packets on their way, by the time at which they arrive and a running number.
type Wire = BTreeMap<(Duration, u64), Vec<u8>>;

/// The rig.
pub struct SimTransport {
    now: Duration,
    device: Device,
    faults: Faults,
    sent: u64,
    to_device: Wire,
    to_tester: Wire,
    received: VecDeque<RxPacket>,
    trace: Trace,
}

impl SimTransport {
    /// A rig with a sound device, or a mutant.
    pub fn new(mut faults: Faults) -> SimTransport {
        SimTransport {
            now: Duration::ZERO,
            device: Device::new(faults.on_place.take(), faults.p_key),
            faults,
            sent: 0,
            to_device: Wire::new(),
            to_tester: Wire::new(),
            received: VecDeque::new(),
            trace: Trace::default(),
        }
    }

    fn address(side: usize) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, side as u16 + 1)
    }

    fn carrier(from: usize) -> Carrier {
        let port = |side| if side == from { 0xc000 } else { ROCE_V2_PORT };
        let end = |side| SocketAddr::new(SimTransport::address(side).into(), port(side));
        Carrier::Roce {
            from: end(from),
            to: end(1 - from),
        }
    }

    fn encode(from: usize, packet: &TxPacket) -> Vec<u8> {
        packet.encode(|len| flow(from).start(len, 0))
    }

    /// How fast the device's clock runs.
    fn speed(&self) -> f64 {
        self.faults.clock.unwrap_or(1.0)
    }

    /// What the device's clock says now.
    fn device_time(&self) -> Time {
        clock::device_time(self.now, self.speed())
    }

    /// What the device has to send and to tell goes its way.
    fn settle(&mut self) {
        let now = self.device_time();
        for datagram in self.device.transmit(now) {
            let out = match &mut self.faults.on_tx {
                Some(hook) => match Packet::parse(&datagram) {
                    Ok(packet) => hook(TxPacket::new(
                        packet.bth,
                        packet.ext,
                        packet.payload.to_vec(),
                    ))
                    .into_iter()
                    .map(|(delay, packet)| (delay, SimTransport::encode(DEVICE, &packet)))
                    .collect(),
                    Err(_) => vec![(Duration::ZERO, datagram)],
                },
                None => vec![(Duration::ZERO, datagram)],
            };

            for (delay, bytes) in out {
                self.sent += 1;
                let at = self.now + LATENCY + delay;
                self.to_tester.insert((at, self.sent), bytes);
            }
        }

        let hook = &mut self.faults.on_completion;
        self.device.collect(|side, completion| match hook {
            Some(hook) => hook(side, completion),
            None => vec![completion],
        });
    }

    /// Lets time pass until `done`, at most until `deadline`. Whether it was done.
    fn pass(
        &mut self,
        deadline: Duration,
        mut done: impl FnMut(&mut SimTransport) -> bool,
    ) -> bool {
        loop {
            self.settle();
            if done(self) {
                return true;
            }

            let due = self.device.next_timeout();
            let timer = due.map(|at| clock::tester_time(at, self.speed()));
            let arrival = |wire: &Wire| wire.first_key_value().map(|((at, _), _)| *at);
            let next = [timer, arrival(&self.to_device), arrival(&self.to_tester)];
            let Some(next) = next
                .into_iter()
                .flatten()
                .min()
                .filter(|at| *at <= deadline)
            else {
                self.now = self.now.max(deadline);
                return false;
            };

            self.now = self.now.max(next);
            self.step();
        }
    }

    /// What is due now happens.
    fn step(&mut self) {
        let now = self.device_time();
        self.device.handle_timeout(now);
        while let Some(entry) = self.to_device.first_entry()
            && entry.key().0 <= self.now
        {
            let datagram = entry.remove();
            self.device.receive(now, &datagram);
        }

        while let Some(entry) = self.to_tester.first_entry()
            && entry.key().0 <= self.now
        {
            let datagram = entry.remove();
            self.trace
                .push(self.now, true, SimTransport::carrier(DEVICE), &datagram);
            let intact = flow(DEVICE).verify(&datagram, 0) == Verdict::Exact;
            self.received
                .push_back(RxPacket::decode(self.now, datagram, intact));
        }
    }

    fn poll(&mut self, qp: u32, side: Side, at_most: u32, within: Duration) -> Reply {
        let at_most = at_most as usize;
        let enough = |rig: &mut SimTransport| {
            let there = rig.device.queue(qp, side);
            there.is_none_or(|queue| queue.len() >= at_most)
        };
        self.pass(self.now + within, enough);
        let Some(queue) = self.device.queue(qp, side) else {
            return Reply::Errno {
                code: super::attributes::EINVAL,
                what: "ibv_poll_cq".to_owned(),
            };
        };
        let completions: Vec<Completion> = queue.drain(..at_most.min(queue.len())).collect();
        Reply::Completions { completions }
    }
}

impl TransportRig for SimTransport {
    fn now(&self) -> Duration {
        self.now
    }

    fn path(&self) -> AddressVector {
        AddressVector {
            dgid: Some(SimTransport::address(TESTER).octets()),
            hop_limit: 64,
            port: 1,
            ..AddressVector::default()
        }
    }

    fn port(&self) -> u8 {
        1
    }

    fn mtu(&self) -> u32 {
        MTU
    }

    fn transmit(&mut self, packet: &TxPacket) -> Result<()> {
        let bytes = SimTransport::encode(TESTER, packet);
        self.trace
            .push(self.now, false, SimTransport::carrier(TESTER), &bytes);
        let out = match &mut self.faults.on_rx {
            Some(hook) => hook(packet.clone())
                .into_iter()
                .map(|(delay, packet)| (delay, SimTransport::encode(TESTER, &packet)))
                .collect(),
            None => vec![(Duration::ZERO, bytes)],
        };

        for (delay, bytes) in out {
            self.sent += 1;
            let at = self.now + LATENCY + delay;
            self.to_device.insert((at, self.sent), bytes);
        }

        Ok(())
    }

    fn receive(&mut self, within: Duration) -> Result<Option<RxPacket>> {
        self.pass(self.now + within, |rig| !rig.received.is_empty());
        Ok(self.received.pop_front())
    }

    fn command(&mut self, command: &Command) -> Result<Reply> {
        let command = match &mut self.faults.on_command {
            Some(hook) => hook(command.clone()),
            None => command.clone(),
        };

        // What arrived before the command counts before it.
        self.settle();
        match command {
            Command::Poll {
                qp,
                queue,
                at_most,
                within,
            } => return Ok(self.poll(qp, queue, at_most, within)),
            Command::Events { within } => {
                self.pass(self.now + within, |rig| !rig.device.events().is_empty());
                let events = self.device.events().drain(..).collect();
                return Ok(Reply::Events { events });
            }
            _ => {}
        }

        let early = match (&command, &mut self.faults.on_post) {
            (Command::PostSend { qp, request }, Some(hook)) => {
                Some((*qp, hook(*qp, request))).filter(|(_, early)| !early.is_empty())
            }
            _ => None,
        };

        let reply = self.device.command(self.device_time(), command);
        if let (Some((qp, early)), Reply::Done) = (early, &reply)
            && let Some(queue) = self.device.queue(qp, Side::Send)
        {
            queue.extend(early);
        }

        self.settle();
        Ok(reply)
    }

    fn sleep(&mut self, time: Duration) -> Result<()> {
        self.pass(self.now + time, |_| false);
        Ok(())
    }

    fn trace(&self) -> &Trace {
        &self.trace
    }
}
