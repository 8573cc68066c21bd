//! Management datagrams: those that Linux sent, and ours.

use ferroce_wire::cm::{Message, Req, SidrReq};
use ferroce_wire::greeting::{self, Greeting};
use ferroce_wire::mad::{self, Mad};
use ferroce_wire::{pma, smp};

use super::steps::Wanted;
use super::{Seeds, file, hex};

/// Messages of Linux's communication manager, by name.
pub(crate) fn captured() -> Vec<(String, Mad)> {
    let text = file("provider/fabric/tests/vectors/linux-6.1.txt");
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let mads = lines.map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let mut mad = [0; mad::LEN];
        let bytes = hex(words[2]);
        mad[..bytes.len()].copy_from_slice(&bytes);
        (words[0].to_owned(), mad)
    });
    mads.collect()
}

/// Steps of the target `cm`.
fn cm_steps(steps: &[(u8, u8, u8, &[u8])]) -> Vec<u8> {
    let wanted = steps
        .iter()
        .fold(Wanted::new(), |wanted, (what, which, peer, bytes)| {
            let wanted = wanted.flag(true).byte(*what).byte(*which).byte(*peer);
            wanted.vector(bytes)
        });
    wanted.flag(false).done()
}

pub(crate) fn cm() -> Seeds {
    let mut seeds = Seeds::new();
    for (name, mad) in captured() {
        let seed = match Message::parse(&mad).expect("a message").1 {
            Message::Req(req) => {
                // As it came, which nobody listens to, and for the service that is.
                seeds.insert(format!("linux-{name}"), cm_steps(&[(2, 0, 1, &mad)]));
                let ours = Message::Req(Req {
                    service_id: 5,
                    ..req
                });

                let accepted = [
                    (2, 0, 1, &ours.emit(1)[..]),
                    (10, 1, 7, &[]),
                    (13, 1, 0, b"over"),
                ];
                seeds.insert(format!("{name}-accepted"), cm_steps(&accepted));
                let refused = [(2, 0, 1, &ours.emit(1)[..]), (12, 1, 28, b"not today")];
                seeds.insert(format!("{name}-refused"), cm_steps(&refused));
                continue;
            }
            Message::SidrReq(request) => {
                let ours = Message::SidrReq(SidrReq {
                    service_id: 5,
                    ..request
                });
                cm_steps(&[
                    (2, 0, 1, &mad),
                    (2, 0, 1, &ours.emit(1)),
                    (14, 1, 0, b"here"),
                ])
            }
            // What answers, answers a connection of this end's.
            _ => answered(&mad),
        };

        seeds.insert(format!("linux-{name}"), seed);
    }

    // Both ends in one: each message comes back to its sender.
    let whole: &[(u8, u8, u8, &[u8])] = &[
        (0, 1, 0, &[]),
        (6, 0, 0, &[]),
        (10, 1, 9, &[]),
        (6, 1, 0, &[]),
        (11, 0, 0, b"hello"),
        (6, 2, 0, &[]),
        (13, 0, 0, &[]),
        (6, 3, 0, &[]),
        (1, 255, 30, &[]),
        (15, 0, 0, &[]),
    ];

    for end in 2..=whole.len() {
        seeds.insert(format!("both-{end:02}"), cm_steps(&whole[..end]));
    }
    seeds
}

/// An answer of Linux's with the names of a connection that is asked for first; the request comes
/// back before, so something is taken.
fn answered(mad: &Mad) -> Vec<u8> {
    cm_steps(&[
        (0, 1, 0, &[]),
        (2, 0, 1, mad),
        (6, 0, 0, &[]),
        (2, 0, 2, mad),
    ])
}

/// A step of the target `agent`: 256 bytes, of which 253 are the MAD's.
fn agent_step(what: u8, port: u8, mad: &[u8]) -> Vec<u8> {
    let mut step = vec![what, port, 1];
    step.extend(mad);
    step.resize(mad::LEN, 0);
    step
}

pub(crate) fn agent() -> Seeds {
    let mut seeds = Seeds::new();
    let request = |class: u8, method: u8, attribute: u16, modifier: u32| {
        let mut mad = [0; mad::LEN];
        mad[..4].copy_from_slice(&[1, class, 1, method]);
        mad[16..18].copy_from_slice(&attribute.to_be_bytes());
        mad[20..24].copy_from_slice(&modifier.to_be_bytes());
        mad
    };

    let attributes = [
        smp::attribute::NODE_DESCRIPTION,
        smp::attribute::NODE_INFO,
        smp::attribute::SWITCH_INFO,
        smp::attribute::GUID_INFO,
        smp::attribute::PORT_INFO,
        smp::attribute::P_KEY_TABLE,
        smp::attribute::SL_TO_VL,
        smp::attribute::VL_ARBITRATION,
        smp::attribute::LINEAR_FORWARDING,
        smp::attribute::MULTICAST_FORWARDING,
        smp::attribute::SM_INFO,
    ];

    for attribute in attributes {
        for (what, class) in [(0, smp::CLASS_DIRECTED), (0x40, smp::CLASS_LID)] {
            for (name, method) in [("get", smp::method::GET), ("set", smp::method::SET)] {
                let mut mad = request(class, method, attribute, 1);
                if class == smp::CLASS_DIRECTED {
                    // At the end of a route of one hop.
                    mad[6..8].fill(1);
                    mad[32..36].fill(0xff);
                }
                let up = agent_step(5, 1, &[]);
                let seed = [up, agent_step(what, 1, &mad)].concat();
                seeds.insert(format!("{name}-{class:02x}-{attribute:04x}"), seed);
            }
        }
    }

    let counters = [
        pma::attribute::CLASS_PORT_INFO,
        pma::attribute::PORT_SAMPLES_CONTROL,
        pma::attribute::PORT_SAMPLES_RESULT,
        pma::attribute::PORT_COUNTERS,
        pma::attribute::PORT_COUNTERS_EXTENDED,
    ];

    for attribute in counters {
        let mut mad = request(pma::CLASS, smp::method::GET, attribute, 0);
        mad[65] = 1;
        seeds.insert(format!("counters-{attribute:04x}"), agent_step(4, 1, &mad));
    }

    for answer in [false, true] {
        // The target's transaction.
        let greeting = Greeting {
            answer,
            tid: 7,
            features: greeting::SELECTIVE,
        };
        let name = if answer { "answer" } else { "question" };
        let step = agent_step(4, 1, &greeting.emit());
        seeds.insert(format!("greeting-{name}"), step);
    }

    seeds
}

pub(crate) fn rmpp() -> Seeds {
    let mut seeds = Seeds::new();
    let next = |wanted: Wanted| wanted.variant(2, 4);
    for length in [60u16, 100, 256, 257, 500, 1000, 2000, 40_000] {
        let start = Wanted::new().number(length.to_le_bytes());
        let whole = (0..12).fold(start.clone(), |wanted, _| {
            // The receiver's acknowledgement of everything so far.
            let ack = |wanted: Wanted| wanted.variant(0, 4).byte(2).byte(1).byte(4);
            ack(next(next(wanted))).number(64u16.to_le_bytes())
        });
        seeds.insert(format!("whole-{length}"), whole.done());
        let repeated = next(next(start).variant(3, 4)).done();
        seeds.insert(format!("again-{length}"), repeated);
    }

    for (name, flags, number, length) in [
        ("only", 7u8, 1u8, 20u16),
        ("first", 3, 1, 5000),
        ("middle", 1, 1, 0),
        ("too-long", 3, 1, u16::MAX),
    ] {
        let segment = |wanted: Wanted, flags, number, length: u16| {
            let wanted = wanted.variant(0, 4).byte(1).byte(flags).byte(number);
            wanted.number(length.to_le_bytes())
        };
        let wanted = segment(Wanted::new().number([0; 2]), flags, number, length);
        let seed = segment(segment(wanted, 1, 2, 0), 5, 3, 100).done();
        seeds.insert(name.to_owned(), seed);
    }

    seeds
}

pub(crate) fn sa() -> Seeds {
    let mut seeds = Seeds::new();
    let ask = |wanted: Wanted, method: u8, attribute: u8, patient: bool| {
        let wanted = wanted.variant(0, 5).flag(true);
        wanted.byte(method).byte(attribute).flag(patient)
    };

    let answer = |wanted: Wanted, which: u8, status: u16| {
        let wanted = wanted.variant(2, 5).byte(which);
        // A change of nothing.
        wanted.number(status.to_le_bytes()).byte(0).byte(0)
    };

    let wait = |wanted: Wanted, time: u16| wanted.variant(3, 5).number(time.to_le_bytes());
    for attribute in [0x35u8, 0x38, 0x33, 0x31] {
        for (method, name) in [(1u8, "get"), (2, "set"), (0x12, "table"), (0x15, "delete")] {
            for (status, how) in [(0u16, "well"), (0x0100, "busy"), (0x0300, "none")] {
                let wanted = ask(Wanted::new(), method, attribute, status != 0);
                let wanted = wait(answer(wanted, 0, status), 600);
                // Whatever the first was, the second is answered at once.
                let wanted = answer(ask(wanted, 1, attribute, false), 1, 0);
                seeds.insert(format!("{name}-{attribute:02x}-{how}"), wanted.done());
            }
        }
    }

    seeds
}
