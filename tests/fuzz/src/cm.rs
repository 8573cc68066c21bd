//! The communication manager under any sequence of calls, messages and pauses: what it keeps is
//! bounded, what it sends is understood, and when everything is destroyed nothing is left.

use arbitrary::{Arbitrary, Unstructured};
use ferroce_fabric::cm::Time;
use ferroce_fabric::cm::*;
use ferroce_fabric::{Ece, Mad, Transport};
use ferroce_wire::MadHeader;
use ferroce_wire::cm::Message;

#[derive(Default)]
struct Out {
    sent: Vec<Mad>,
    ids: Vec<CmId>,
    events: usize,
}

impl Sink for Out {
    fn send(&mut self, _: &Av, mad: &Mad) {
        Message::parse(mad).expect("what is sent is understood");
        self.sent.push(*mad);
    }

    fn event(&mut self, id: CmId, _: CmEvent) {
        self.ids.push(id);
        self.events += 1;
    }
}

const LIMITS: Limits = Limits {
    connections: 16,
    half_open: 8,
    half_open_of_peer: 4,
    half_open_of_listener: 6,
    listeners: 2,
};

fn av(remote: u8) -> Av {
    Av {
        local_gid: [1; 16],
        local_index: 0,
        remote_gid: [remote; 16],
        pkey: 0xffff,
        sl: 0,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 64,
        local_lid: 0,
        remote_lid: 0,
    }
}

fn connect(qpn: u8) -> Connect<'static> {
    Connect {
        service_id: 5,
        path: Path {
            av: av(1),
            mtu: 3,
            packet_rate: 0,
            packet_life_time: 10,
        },
        qpn: qpn.into(),
        transport: Transport::Rc,
        starting_psn: 0,
        responder_resources: 0,
        initiator_depth: 0,
        remote_response_timeout: 14,
        local_response_timeout: 14,
        retry_count: 0,
        rnr_retry_count: 0,
        max_cm_retries: 2,
        flow_control: false,
        srq: false,
        ece: Ece::default(),
        private_data: b"",
    }
}

/// One manager under any sequence of these. Returns whether a message that came had an answer or
/// was told of.
pub fn run(input: &[u8]) -> bool {
    let mut input = Unstructured::new(input);
    let Ok(steps) = <Vec<(u8, u8, u8, Vec<u8>)>>::arbitrary(&mut input) else {
        return false;
    };

    let mut accepted = false;
    let mut cm = Cm::new(CmConfig {
        ca_guid: 1,
        ack_delay: 5,
        seed: [3; 32],
        limits: LIMITS,
        stretch: 1,
    });

    let mut out = Out::default();
    let mut now = 0;
    cm.listen(5, !0).unwrap();
    for (what, which, peer, bytes) in steps {
        let before = (out.sent.len(), out.events);
        step(&mut cm, &mut out, &mut now, (what, which, peer, &bytes));
        assert!(cm.len() <= LIMITS.connections);
        accepted |= (2..10).contains(&(what % 16)) && before != (out.sent.len(), out.events);
    }

    for id in std::mem::take(&mut out.ids) {
        let _ = cm.destroy(Time::from_nanos(now), id, &mut out);
    }
    while let Some(next) = cm.next_timeout() {
        now = now.max(next.as_nanos());
        cm.handle_timeout(Time::from_nanos(now), &|qpn| qpn & 1 == 1, &mut out);
    }

    assert!(cm.is_empty());
    accepted
}

/// One of them: what, of what, from whom, and the bytes that come along.
fn step(cm: &mut Cm, out: &mut Out, now: &mut u64, of: (u8, u8, u8, &[u8])) {
    let (what, which, peer, bytes) = of;
    let at = Time::from_nanos(*now);
    let id = out
        .ids
        .get(usize::from(which) % out.ids.len().max(1))
        .copied();

    match (what % 16, id) {
        (0, _) => {
            if let Ok(id) = cm.connect(at, &connect(which), out) {
                out.ids.push(id);
            }
        }
        (1, _) => {
            *now += u64::from(which) << (peer % 32);
            cm.handle_timeout(Time::from_nanos(*now), &|qpn| qpn & 1 == 1, out);
        }
        // Bytes as they are, and as a message of some kind.
        (2, _) => cm.receive(at, &av(peer % 3), bytes, out),
        (3..6, _) => {
            let mut mad = [0; 256];
            MadHeader::cm(0x10 + u16::from(which % 11), 0, 0).emit(&mut mad);
            let n = bytes.len().min(232);
            mad[24..24 + n].copy_from_slice(&bytes[..n]);
            cm.receive(at, &av(peer % 3), &mad, out);
        }
        // What was sent comes back to its sender, whose peer it is itself; perhaps a little
        // changed.
        (6..10, _) if !out.sent.is_empty() => {
            let mut mad = out.sent[usize::from(which) % out.sent.len()];
            if let [place, change, ..] = bytes[..] {
                mad[usize::from(place)] ^= change;
            }
            cm.receive(at, &av(1), &mad, out);
        }
        (10, Some(id)) => {
            let accept = Accept {
                qpn: peer.into(),
                ..Accept::default()
            };
            let _ = cm.accept(at, id, &accept, out);
        }
        (11, Some(id)) => {
            let _ = cm.establish(at, id, bytes, out);
        }
        (12, Some(id)) => {
            let _ = cm.reject(at, id, peer.into(), b"", bytes, out);
            let _ = cm.mra(at, id, peer, which & 1 == 0, bytes, out);
        }
        (13, Some(id)) => {
            let _ = cm.disconnect(at, id, bytes, out);
            let _ = cm.disconnect_reply(at, id, bytes, out);
        }
        (14, Some(id)) => {
            let reply = ResolveReply {
                status: peer,
                private_data: bytes,
                ..ResolveReply::default()
            };
            let _ = cm.resolve_reply(at, id, &reply, out);
            let _ = cm.communication_established(at, id, out);
        }
        (15, Some(id)) => {
            let _ = cm.destroy(at, id, out);
        }
        _ => {}
    }
}
