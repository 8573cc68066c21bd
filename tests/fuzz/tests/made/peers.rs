//! What the other end of a connection says, and other processes of the device.

use exs::proto::message::{Header, Hello, Kind};

use super::Seeds;
use super::steps::{Wanted, short_step};
use super::wire::captured;

/// How many steps an EXS connection knows.
const EXS_STEPS: u32 = 9;

fn exs_send(wanted: Wanted, variant: u32, length: u32, flag: bool) -> Wanted {
    let wanted = wanted
        .variant(variant, EXS_STEPS)
        .number(length.to_le_bytes());
    wanted.flag(flag).flag(true)
}

/// What the peer might say to a connection with a send and a receive of its own.
fn exs_messages() -> Vec<(String, Header)> {
    let header = |kind, length| Header {
        data_credit: 1,
        control_credit: 1,
        length,
        address: 0x1000,
        key: 7,
        ..Header::new(kind)
    };

    let credit = header(Kind::Credit, 0);
    vec![
        (
            "credit".to_owned(),
            Header {
                data_credit: 0,
                control_credit: 0,
                ..credit
            },
        ),
        (
            "source".to_owned(),
            Header {
                data_credit: 0,
                control_credit: 0,
                ..header(Kind::Source, 9000)
            },
        ),
        (
            "source-end".to_owned(),
            Header {
                data_credit: 0,
                control_credit: 0,
                end: true,
                ..header(Kind::Source, 100)
            },
        ),
        (
            "advert".to_owned(),
            Header {
                data_credit: 0,
                control_credit: 0,
                ..header(Kind::Advert, 5000)
            },
        ),
        (
            "advert-fill".to_owned(),
            Header {
                data_credit: 0,
                control_credit: 0,
                fill: true,
                ..header(Kind::Advert, 50)
            },
        ),
        (
            "fin".to_owned(),
            Header {
                data_credit: 0,
                control_credit: 0,
                ..header(Kind::Fin, 0)
            },
        ),
        (
            "stop".to_owned(),
            Header {
                data_credit: 0,
                control_credit: 0,
                ..header(Kind::Stop, 0)
            },
        ),
    ]
}

/// The steps of a connection that gets one of these.
fn exs_steps(wanted: Wanted, header: &Header) -> Wanted {
    let wanted = exs_send(exs_send(wanted, 1, 4000, false), 0, 3000, true);
    let wanted = wanted.variant(2, EXS_STEPS).number(header.encode());
    // Completed, and the end of its own stream.
    wanted.variant(4, EXS_STEPS).variant(5, EXS_STEPS)
}

pub(crate) fn exs() -> Seeds {
    let mut seeds = Seeds::new();
    for (name, header) in exs_messages() {
        for messages in [false, true] {
            let begun = Wanted::new().flag(messages).flag(false);
            let seed = exs_steps(begun, &header).done();
            seeds.insert(format!("{name}-{messages}"), seed);
        }
    }

    // Messages with payload are made by the target.
    for length in [1u32, 2, 32, 100, 1000, 2000, 2001, 4096] {
        let wanted = exs_send(Wanted::new().number([0; 2]), 1, 2000, true);
        let wanted = wanted.variant(3, EXS_STEPS).byte(1).byte(1).number([0; 2]);
        let wanted = wanted.number(length.to_le_bytes()).byte(0);
        seeds.insert(
            format!("payload-{length}"),
            wanted.variant(4, EXS_STEPS).done(),
        );
    }

    // What comes without a header, and goes out so.
    for (name, written, length) in [("data", false, 1000_u32), ("written", true, 2000)] {
        let begun = Wanted::new().flag(false).flag(true);
        let wanted = exs_send(exs_send(begun, 1, 9000, true), 0, 3000, true);
        let wanted = wanted.variant(8, EXS_STEPS).flag(written).byte(1);
        let wanted = wanted.number([0; 3]).number(length.to_le_bytes());
        seeds.insert(
            format!("immediate-{name}"),
            wanted.variant(4, EXS_STEPS).done(),
        );
    }

    seeds
}

pub(crate) fn exs_hello() -> Seeds {
    let mut seeds = Seeds::new();
    let usual = Hello {
        messages: false,
        data_slots: 16,
        control_slots: 16,
        payload: 4096,
        immediates: false,
    };

    let hellos = [
        ("usual", usual),
        (
            "messages",
            Hello {
                messages: true,
                ..usual
            },
        ),
        (
            "immediates",
            Hello {
                immediates: true,
                ..usual
            },
        ),
        (
            "least",
            Hello {
                data_slots: 2,
                control_slots: 4,
                payload: 64,
                ..usual
            },
        ),
        (
            "most",
            Hello {
                data_slots: 0x3fff,
                control_slots: 0x3fff,
                payload: u32::MAX,
                ..usual
            },
        ),
    ];

    for (name, hello) in hellos {
        // As the connection manager hands it over, with zeros behind.
        let mut private = hello.encode().to_vec();
        private.resize(56, 0);
        seeds.insert(name.to_owned(), private);
        for (what, header) in exs_messages() {
            let steps = exs_steps(Wanted::new(), &header).done();
            seeds.insert(
                format!("{name}-{what}"),
                [&hello.encode()[..], &steps].concat(),
            );
        }
    }

    seeds
}

/// A record of a ring, filled up to whole cache lines.
fn record(len: usize, segment: u16) -> Vec<u8> {
    let mut gid = [0; 16];
    gid[10..].copy_from_slice(&[0xff, 0xff, 192, 0, 2, 1]);
    let mut record = (len as u32).to_ne_bytes().to_vec();
    record.extend(segment.to_ne_bytes());
    record.extend([0, 64]);
    record.extend([gid, gid].concat());
    record.extend((0..len).map(|n| n as u8));
    record.resize(record.len().next_multiple_of(64), 0);
    record
}

pub(crate) fn ring() -> Seeds {
    let mut seeds = Seeds::new();
    for (len, segment) in [
        (16, 0),
        (24, 8),
        (100, 0),
        (300, 64),
        (276, 276),
        (1000, 256),
        (4000, 1024),
    ] {
        for times in [1u8, 3, 15] {
            let record = record(len, segment);
            let [high, low] = u16::try_from(record.len()).unwrap().to_be_bytes();
            let seed = [&[high, low, 0, times], &record[..]].concat();
            seeds.insert(format!("{len}-{segment}-{times}"), seed);
        }
    }

    let two = [record(20, 0), record(90, 0)].concat();
    let [high, low] = u16::try_from(two.len()).unwrap().to_be_bytes();
    let seed = [&[high, low, 0, 2], &two[..]].concat();
    seeds.insert("two".to_owned(), seed);
    seeds
}

pub(crate) fn tag_matching() -> Seeds {
    let mut seeds = Seeds::new();
    let header = |op: u8, tag: u64| {
        let mut bytes = vec![op, 0, 0, 0, 1, 2, 3, 4];
        bytes.extend(tag.to_be_bytes());
        bytes
    };

    let announcement = |tag, len: u32| {
        let mut bytes = header(1, tag);
        bytes.extend(0xdead_beef_0000u64.to_be_bytes());
        bytes.extend(7u32.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        bytes
    };

    // Buffers: one tag, one byte of the tag, any.
    for (mask, mask_name) in [(0x00, "tag"), (0x10, "byte"), (0x20, "any")] {
        let add = short_step(mask, 65, &0x77u64.to_be_bytes());
        let fits = |message: &[u8], what| [add.clone(), short_step(what, 1, message)].concat();
        let eager = [header(3, 0x77), b"payload".to_vec()].concat();
        seeds.insert(format!("{mask_name}-eager"), fits(&eager, 4));
        seeds.insert(format!("{mask_name}-eager-first"), fits(&eager, 0x84));
        for len in [0, 1, 65 * 17, 65 * 17 + 1] {
            let seed = fits(&announcement(0x77, len), 4);
            seeds.insert(format!("{mask_name}-announced-{len}"), seed);
        }

        // A message that comes before its buffer, what the program then says, and the next.
        let late = [
            short_step(4, 1, &header(3, 0x77)),
            short_step(mask, 64, &0x77u64.to_be_bytes()),
            short_step(3, 1, &[]),
            short_step(4, 1, &header(3, 0x77)),
        ];
        seeds.insert(format!("{mask_name}-late"), late.concat());
        let removed = [
            &add[..],
            &add,
            &short_step(2, 1, &[]),
            &short_step(4, 1, &eager),
        ];
        seeds.insert(format!("{mask_name}-removed"), removed.concat());
    }

    seeds
}

/// How many steps a queue pair knows.
const STEPS: u32 = 7;

/// A packet that the target makes: its PSN is the tester's next (`true`) or the tested one's.
fn hostile(
    wanted: Wanted,
    opcode: u8,
    (own, psn): (bool, u8),
    payload: u16,
    syndrome: u8,
) -> Wanted {
    let wanted = wanted.variant(0, STEPS).byte(opcode).flag(own).byte(psn);
    let wanted = wanted.flag(true).flag(true).number(payload.to_le_bytes());
    // To the buffer that is open, from its start.
    let wanted = wanted.byte(0).number([0; 2]).number(payload.to_le_bytes());
    wanted
        .byte(syndrome)
        .number([1, 0, 0, 0])
        .number([0; 8])
        .flag(false)
}

pub(crate) fn transport() -> Seeds {
    let mut seeds = Seeds::new();
    let begin = |service: u8| Wanted::new().byte(service).byte(0).flag(false).byte(4);
    let receive = |wanted: Wanted| wanted.variant(3, STEPS).variant(3, STEPS);
    let transmit = |wanted: Wanted| wanted.variant(4, STEPS).number([0xff, 0xff]);
    let requests = [
        (0u8, vec![0x00u8, 0x01, 0x02, 0x03, 0x04, 0x05, 0x16, 0x17]),
        (
            0,
            vec![
                0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x13, 0x14, 0x1c, 0x1d,
            ],
        ),
        (1, vec![0x24, 0x25, 0x2b]),
        (2, vec![0x64, 0x65]),
        (4, vec![0xa4, 0xa5, 0xaa, 0xac, 0xb3, 0xb4]),
    ];

    for (service, opcodes) in requests {
        for opcode in opcodes {
            let payload = if opcode & 0x1f < 2 { 256 } else { 8 };
            let wanted = hostile(receive(begin(service)), opcode, (true, 0), payload, 0);
            let wanted = transmit(hostile(transmit(wanted), opcode, (true, 1), payload, 0));
            seeds.insert(format!("request-{opcode:02x}"), wanted.done());
        }
    }

    // A message in three packets.
    let wanted = hostile(receive(begin(0)), 0x00, (true, 0), 256, 0);
    let wanted = hostile(
        hostile(wanted, 0x01, (true, 1), 256, 0),
        0x02,
        (true, 2),
        5,
        0,
    );
    seeds.insert("message".to_owned(), transmit(wanted).done());

    // Requests of its own, and what the peer answers: SEND, WRITE, READ, FETCH ADD, CMP SWAP.
    let answers = [(0u8, 0x11u8), (1, 0x11), (2, 0x10), (3, 0x12), (4, 0x12)];
    for (op, answer) in answers {
        // The buffer has 2,000 bytes: the READ's response of one packet is too short for it, and
        // NAKs are answers, too.
        for (name, syndrome) in [("ack", 0x1f), ("rnr", 0x21), ("nak", 0x62)] {
            let post = begin(0).variant(2, STEPS).byte(op).flag(false);
            let last = if op < 2 { 7 } else { 0 };
            let wanted = hostile(transmit(post), answer, (false, last), 8, syndrome);
            // A request of the peer's shows that it is still there.
            let wanted = hostile(receive(wanted), 0x04, (true, 0), 8, 0);
            let seed = transmit(wanted.variant(5, STEPS).byte(30).variant(6, STEPS)).done();
            seeds.insert(format!("post-{op}-{name}"), seed);
        }
    }

    // Between two that understand selective acknowledgements: requests that come early, of its own
    // that the peer lacks, and of a READ the second response.
    let speaking = |service: u8| begin(service + 65);
    for (service, send) in [(0, 0x04), (4, 0xa4)] {
        let mut wanted = receive(receive(speaking(service)));
        for psn in [1, 3, 0, 2] {
            wanted = transmit(hostile(wanted, send, (true, psn), 8, 0));
        }
        seeds.insert(format!("early-{send:02x}"), wanted.done());
    }
    let mut wanted = speaking(0);
    for _ in 0..12 {
        wanted = wanted.variant(2, STEPS).byte(0).flag(false);
    }
    let wanted = hostile(transmit(wanted), 0x11, (false, 0), 0, 0x1f);
    let wanted = transmit(hostile(transmit(wanted), 0xd1, (false, 0), 4, 0x1f));
    let wanted = transmit(hostile(wanted, 0x11, (false, 11), 0, 0x1f));
    seeds.insert("told".to_owned(), wanted.done());
    let post = speaking(0).variant(2, STEPS).byte(2).flag(false);
    let mut wanted = transmit(post);
    for (opcode, psn, payload) in [(0x0d, 0, 256), (0x0e, 2, 256), (0x10, 1, 256)] {
        wanted = transmit(hostile(wanted, opcode, (false, psn), payload, 0x1f));
    }
    for psn in 3..8 {
        let payload = if psn == 7 { 208 } else { 256 };
        let opcode = if psn == 7 { 0x0f } else { 0x0e };
        wanted = hostile(wanted, opcode, (false, psn), payload, 0x1f);
    }
    seeds.insert("parts".to_owned(), transmit(wanted).done());

    for (n, (_, packet)) in captured().into_iter().enumerate().step_by(11) {
        let wanted = receive(begin(0)).variant(1, STEPS).vector(&packet);
        let wanted = hostile(wanted, 0x04, (true, 0), 8, 0);
        seeds.insert(format!("rxe-{n:02}"), transmit(wanted).done());
    }

    seeds
}
