//! Whatever comes to the agents of a node, and in whatever order: no panic, no answer to an answer,
//! nothing that grows.

use ferroce_fabric::cm::Time;
use ferroce_fabric::gsi;
use ferroce_fabric::peers::Peers;
use ferroce_fabric::pma::{Counters, Pma, Totals};
use ferroce_fabric::sma::{
    Envelope, LinkCommand, Node, NodeConfig, Offer, Output, PortEvent, Violation,
};
use ferroce_wire::greeting;
use ferroce_wire::mad::{LEN, Mad};
use ferroce_wire::smp::{self, PERMISSIVE_LID, method};

/// What a step puts out is bounded, and only what was asked is answered.
struct Bounded {
    asked: Option<Mad>,
    sent: usize,
    others: usize,
}

impl Output for Bounded {
    fn send(&mut self, port: u8, _to: Envelope, smp: &Mad) {
        assert_ne!(port, 0);
        self.sent += 1;
        if let Some(asked) = self.asked
            && smp[3] == method::GET_RESP
            && asked[3] & method::RESPONSE == 0
        {
            let status = u16::from_be_bytes([smp[4], smp[5]]) & 0x7fff;
            assert!([0, 4, 8, 12, 28].contains(&status));
        }
    }

    fn deliver(&mut self, _port: u8, _from: Envelope, _smp: &Mad) {
        self.others += 1;
    }

    fn event(&mut self, _port: u8, _event: PortEvent) {
        self.others += 1;
    }

    fn link(&mut self, _port: u8, _command: LinkCommand) {
        self.others += 1;
    }
}

/// Totals that follow from the port.
struct Moving(u64);

impl Counters for Moving {
    fn totals(&self, port: u8) -> Totals {
        Totals([self.0.wrapping_mul(u64::from(port) + 1); ferroce_fabric::pma::COUNTERS])
    }
}

const OFFER: Offer = Offer {
    widths: 3,
    speeds: 7,
    speeds_ext: 3,
};

/// An SMP or other MAD that is more likely to mean something than random bytes.
fn mad(input: &[u8], class: u8) -> Mad {
    let mut mad = [0; LEN];
    let n = input.len().min(LEN);
    mad[..n].copy_from_slice(&input[..n]);
    mad[..3].copy_from_slice(&[1, class, 1]);
    if class == smp::CLASS_DIRECTED && mad[32] & 1 == 0 {
        mad[32..36].fill(0xff);
        mad[6] %= 4;
        mad[7] %= 4;
    }
    mad
}

/// Another host's daemon asks, or answers what it was asked. Returns whether anything was ours.
fn greet(peers: &mut Peers<u8>, now: Time, host: u8, rest: &[u8]) -> bool {
    let mad = mad(rest, greeting::CLASS);
    let answer = peers.answer(&mad);
    assert!(answer.is_none_or(|answer| answer[3] == method::GET_RESP));
    // A transaction that the input can know of.
    let (known, question) = peers.ask(now, host, || 7);
    assert!(known.is_none() || question.is_none());
    let told = peers.receive(now, host, &mad);
    assert!(peers.handle_timeout(now).len() <= 256);
    answer.is_some() || told
}

/// A node of each kind under any sequence of these. Returns whether something was answered.
pub fn run(input: &[u8]) -> bool {
    let mut nodes = [
        Node::new(NodeConfig::channel_adapter(1, &[2, 3])),
        Node::new(NodeConfig::switch(4, 5)),
    ];

    let mut pmas = [Pma::new(1, 2), Pma::new(0, 5)];
    let mut peers = Peers::new(greeting::SELECTIVE);
    let mut now = 0u64;
    let mut answered = false;
    for step in input.chunks(LEN) {
        let [what, port, time, rest @ ..] = step else {
            break;
        };

        now += 1 << (time % 40);
        let lids = if what & 0x80 == 0 {
            (PERMISSIVE_LID, PERMISSIVE_LID)
        } else {
            (u16::from(*time), u16::from(*port))
        };

        let envelope = Envelope {
            slid: lids.0,
            dlid: lids.1,
            sl: what >> 4 & 7,
        };

        if what % 8 == 4 {
            answered |= greet(&mut peers, Time::from_nanos(now), *port, rest);
        }

        for (node, pma) in nodes.iter_mut().zip(&mut pmas) {
            let port = port % 7;
            let class = if what & 0x40 == 0 { 0x81 } else { 0x01 };
            let mad = match what % 8 {
                0..=3 => mad(rest, class),
                4 => mad(rest, ferroce_wire::pma::CLASS),
                _ => [0; LEN],
            };

            let mut out = Bounded {
                asked: (what % 8 < 4).then_some(mad),
                sent: 0,
                others: 0,
            };

            match what % 8 {
                0..=2 => node.receive(Time::from_nanos(now), port, envelope, &mad, &mut out),
                3 => node.send(Time::from_nanos(now), port, envelope, &mad, &mut out),
                4 => {
                    let answer = pma.receive(Time::from_nanos(now), &mad, &Moving(now));
                    assert!(answer.is_none_or(|answer| answer[3] == method::GET_RESP));
                    answered |= answer.is_some();
                    let _ = gsi::refuse(&mad);
                }
                5 => {
                    node.link_up(Time::from_nanos(now), port, OFFER, &mut out);
                    node.data_arrived(port, &mut out);
                }
                6 => {
                    node.link_down(Time::from_nanos(now), port, &mut out);
                    node.p_key_violation(
                        Time::from_nanos(now),
                        port,
                        u16::from(*time),
                        Violation::default(),
                        &mut out,
                    );
                    let _ = node.forward(port, lids.1, false);
                }
                _ => {
                    node.handle_timeout(Time::from_nanos(now), &mut out);
                    pma.handle_timeout(Time::from_nanos(now), &Moving(now));
                    node.set_is_sm(Time::from_nanos(now), port, what & 0x40 != 0, &mut out);
                }
            }

            assert!(out.sent <= 4 && out.others <= 8);
            answered |= out.asked.is_some() && out.sent > 0;
        }
    }

    answered
}
