//! Two managers and a wire between them that a test delivers by hand.
#![allow(dead_code)] // not every test uses everything

use ferroce_fabric::cm::Time;
use ferroce_fabric::cm::*;
use ferroce_fabric::{Ece, Gid, Mad, Transport};
use ferroce_wire::cm::{Message, attribute};
use std::collections::VecDeque;

/// What a manager said.
#[derive(Default)]
pub(crate) struct Out {
    pub sent: VecDeque<(Av, Mad)>,
    pub events: VecDeque<(CmId, CmEvent)>,
}

impl Sink for Out {
    fn send(&mut self, to: &Av, mad: &Mad) {
        self.sent.push_back((*to, *mad));
    }

    fn event(&mut self, id: CmId, event: CmEvent) {
        self.events.push_back((id, event));
    }
}

impl Out {
    pub(crate) fn event_at(&mut self, index: usize) -> (CmId, CmEvent) {
        self.events.remove(index).expect("an event")
    }

    pub(crate) fn next(&mut self) -> (CmId, CmEvent) {
        self.event_at(0)
    }

    /// The messages that were sent, by their attributes; forgets them.
    pub(crate) fn drain(&mut self) -> Vec<Message> {
        self.sent
            .drain(..)
            .map(|(_, mad)| Message::parse(&mad).expect("one of ours").1)
            .collect()
    }
}

pub(crate) fn gid(last: u8) -> Gid {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last]
}

pub(crate) fn av(local: u8, remote: u8) -> Av {
    Av {
        local_gid: gid(local),
        local_index: 0,
        remote_gid: gid(remote),
        pkey: 0xffff,
        sl: 0,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 64,
        local_lid: 0,
        remote_lid: 0,
    }
}

pub(crate) fn path(local: u8, remote: u8) -> Path {
    Path {
        av: av(local, remote),
        mtu: 3,
        packet_rate: 2,
        packet_life_time: 16,
    }
}

pub(crate) fn connect(service_id: u64, path: Path, qpn: u32) -> Connect<'static> {
    Connect {
        service_id,
        path,
        qpn,
        transport: Transport::Rc,
        starting_psn: 0x11_1111,
        responder_resources: 3,
        initiator_depth: 5,
        remote_response_timeout: 20,
        local_response_timeout: 20,
        retry_count: 7,
        rnr_retry_count: 6,
        max_cm_retries: 15,
        flow_control: true,
        srq: false,
        ece: Ece::default(),
        private_data: b"request",
    }
}

pub(crate) fn accept(qpn: u32) -> Accept<'static> {
    Accept {
        qpn,
        starting_psn: 0x22_2222,
        responder_resources: 5,
        initiator_depth: 3,
        rnr_retry_count: 4,
        flow_control: true,
        private_data: b"reply",
        ..Accept::default()
    }
}

/// Two managers, at 10.0.0.1 and 10.0.0.2.
pub(crate) struct Pair {
    pub now: Time,
    pub cm: [Cm; 2],
    pub out: [Out; 2],
    /// QPs at which a request of the peer's has arrived.
    pub heard: Vec<u32>,
}

pub(crate) const SERVICE: u64 = 0x0106_1c06;

impl Pair {
    pub(crate) fn new() -> Pair {
        Pair::with_limits(Limits::default())
    }

    pub(crate) fn with_limits(limits: Limits) -> Pair {
        Pair::with(limits, 1)
    }

    /// Whose timeouts are stretched.
    pub(crate) fn stretched(stretch: u32) -> Pair {
        Pair::with(Limits::default(), stretch)
    }

    fn with(limits: Limits, stretch: u32) -> Pair {
        let cm = |n: u8| {
            Cm::new(CmConfig {
                ca_guid: u64::from(n),
                ack_delay: 15,
                seed: [n; 32],
                limits,
                stretch,
            })
        };

        Pair {
            now: Time::ZERO,
            cm: [cm(1), cm(2)],
            out: Default::default(),
            heard: Vec::new(),
        }
    }

    /// Delivers everything that was sent, and what is sent upon it.
    pub(crate) fn deliver(&mut self) {
        while self.step(0) | self.step(1) {}
    }

    /// Delivers what `from` has sent; `false` if that was nothing.
    pub(crate) fn step(&mut self, from: usize) -> bool {
        let sent = std::mem::take(&mut self.out[from].sent);
        for (to, mad) in &sent {
            self.arrive(1 - from, to, mad);
        }
        !sent.is_empty()
    }

    /// One MAD arrives at `at`, that was sent to `to`.
    pub(crate) fn arrive(&mut self, at: usize, to: &Av, mad: &[u8]) {
        let from = Av {
            local_gid: to.remote_gid,
            remote_gid: to.local_gid,
            ..*to
        };
        self.cm[at].receive(self.now, &from, mad, &mut self.out[at]);
    }

    /// Lets time pass until the next deadline of either.
    pub(crate) fn pass(&mut self) -> bool {
        let next = self.cm.iter().filter_map(Cm::next_timeout).min();
        let Some(next) = next else { return false };
        self.now = self.now.max(next);
        for side in 0..2 {
            self.time_out(side);
        }
        true
    }

    /// Does what is due at a side.
    pub(crate) fn time_out(&mut self, side: usize) {
        let heard = |qpn| self.heard.contains(&qpn);
        self.cm[side].handle_timeout(self.now, &heard, &mut self.out[side]);
    }

    /// Connects 0 to 1; the IDs of both.
    pub(crate) fn connected(&mut self, qpns: [u32; 2]) -> [CmId; 2] {
        let active = self.cm[0]
            .connect(
                self.now,
                &connect(SERVICE, path(1, 2), qpns[0]),
                &mut self.out[0],
            )
            .unwrap();

        self.deliver();
        let (passive, event) = self.out[1].next();
        assert!(matches!(event, CmEvent::Request { .. }), "{event:?}");
        self.cm[1]
            .accept(self.now, passive, &accept(qpns[1]), &mut self.out[1])
            .unwrap();
        self.deliver();
        assert!(matches!(self.out[0].next(), (id, CmEvent::Reply(_)) if id == active));
        self.cm[0]
            .establish(self.now, active, b"", &mut self.out[0])
            .unwrap();
        self.deliver();
        assert!(matches!(self.out[1].next(), (id, CmEvent::Established(Some(_))) if id == passive));
        [active, passive]
    }
}

/// A request of side 0 that side 1 has received; the IDs of both, and the request's bytes.
pub(crate) fn asked(p: &mut Pair, qpn: u32) -> (CmId, CmId, Box<[u8; 256]>) {
    let a = p.cm[0]
        .connect(p.now, &connect(SERVICE, path(1, 2), qpn), &mut p.out[0])
        .unwrap();
    let mad = Box::new(p.out[0].sent[0].1);
    p.deliver();
    let (b, event) = p.out[1].next();
    assert!(matches!(event, CmEvent::Request { .. }), "{event:?}");
    (a, b, mad)
}

pub(crate) fn listening() -> Pair {
    let mut p = Pair::new();
    p.cm[1].listen(SERVICE, !0).unwrap();
    p
}

/// Messages of a kind that came to a side again.
pub(crate) fn duplicates(p: &Pair, side: usize, attribute: u16) -> u64 {
    p.cm[side].counters().duplicates[usize::from(attribute - attribute::REQ)]
}
