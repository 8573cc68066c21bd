//! Requests as bytes, and the answers that follow, attribute by attribute.

mod objects;
mod statistics;

use super::answers;
use super::example::device;
use super::message::{Asker, HEADER, Request};
use crate::users::Whose;
use ferroce_cabi::rdma_netlink::*;

const ASKER: Asker = Asker {
    port: 77,
    capped: true,
    extended: true,
    net_admin: false,
    whose: Whose::ALL,
};
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;

/// A request with attributes of 32 bits, and bytes behind it.
fn request(command: u16, flags: u16, numbers: &[(u16, u32)], rest: &[u8]) -> Vec<u8> {
    let len = 16 + 8 * numbers.len() + rest.len();
    let mut bytes = (len as u32).to_ne_bytes().to_vec();
    bytes.extend(message_type(command).to_ne_bytes());
    bytes.extend((flags | REQUEST).to_ne_bytes());
    bytes.extend([9, 0, 0, 0, 0, 0, 0, 0]);
    for (kind, value) in numbers {
        bytes.extend(8u16.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
    }
    bytes.extend(rest);
    bytes
}

fn text(kind: u16, value: &str) -> Vec<u8> {
    let mut bytes = (5 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value.as_bytes());
    bytes.resize((bytes.len() + 1).next_multiple_of(4), 0);
    bytes
}

const OURS: (u16, u32) = (RDMA_NLDEV_ATTR_DEV_INDEX, super::example::INDEX);

fn asked_by(to: Asker, datagram: &[u8]) -> Vec<Vec<u8>> {
    let device = device();
    let each = Request::all(datagram).flat_map(|request| answers(&device, to, None, &request));
    each.collect()
}

fn asked(datagram: &[u8]) -> Vec<Vec<u8>> {
    asked_by(ASKER, datagram)
}

/// Type, flags, and for an end the errno that it says.
fn outline(answer: &[u8]) -> (u16, u16, i32) {
    let two = |at: usize| u16::from_ne_bytes([answer[at], answer[at + 1]]);
    let ends = matches!(two(4), 2 | 3);
    let result = match ends {
        true => i32::from_ne_bytes(answer[16..20].try_into().unwrap()),
        false => 0,
    };
    assert_eq!(answer[..4], (answer.len() as u32).to_ne_bytes());
    assert_eq!(answer[8..16], [9, 0, 0, 0, 77, 0, 0, 0]);
    (two(4), two(6), result)
}

/// The value of the first such attribute in some bytes of attributes.
fn value(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    while bytes.len() >= 4 {
        let len = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        if u16::from_ne_bytes([bytes[2], bytes[3]]) & 0x3fff == kind {
            return Some(&bytes[4..len]);
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

fn refused(datagram: &[u8]) -> i32 {
    let answers = asked(datagram);
    assert_eq!(answers.len(), 1, "{answers:x?}");
    let (kind, _, result) = outline(&answers[0]);
    assert!(matches!(kind, 2 | 3) && result < 0);
    -result
}

#[test]
fn a_listing_of_devices_is_byte_for_byte_the_kernels() {
    let answers = asked(&request(RDMA_NLDEV_CMD_GET, DUMP, &[], &[]));
    let device: &[u8] = &[
        0x78, 0, 0, 0, 0x01, 0x14, 2, 0, 9, 0, 0, 0, 77, 0, 0, 0, // header
        8, 0, 1, 0, 0x10, 0x27, 0, 0, // index
        13, 0, 2, 0, b'f', b'e', b'r', b'r', b'o', b'c', b'e', b'0', 0, 0, 0, 0, // name
        8, 0, 3, 0, 1, 0, 0, 0, // ports
        12, 0, 4, 0, 0xc6, 0x3c, 0x32, 0x01, 0xc0, 0x01, 0, 0, // capabilities
        8, 0, 5, 0, b'1', b'.', b'2', 0, // firmware
        12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 0, 2, // node GUID
        12, 0, 7, 0, 1, 0, 0, 0, 0, 0, 0, 2, // system image GUID
        5, 0, 14, 0, 1, 0, 0, 0, // node type
        5, 0, 84, 0, 0, 0, 0, 0, // moderation
        9, 0, 67, 0, b'r', b'o', b'c', b'e', 0, 0, 0, 0, // protocol
    ];

    let end: &[u8] = &[20, 0, 0, 0, 3, 0, 2, 0, 9, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(answers, [device, end]);
}

#[test]
fn one_device_is_confirmed_if_that_is_asked() {
    let confirmed = asked(&request(RDMA_NLDEV_CMD_GET, ACK, &[OURS], &[]));
    assert_eq!(outline(&confirmed[0]), (0x1401, 0, 0));

    // Of a confirmed request only the header comes back.
    assert_eq!(outline(&confirmed[1]), (2, 0x100, 0));
    assert_eq!(confirmed[1].len(), 36);
    assert_eq!(
        asked(&request(RDMA_NLDEV_CMD_GET, 0, &[OURS], &[])).len(),
        1
    );

    let other = (RDMA_NLDEV_ATTR_DEV_INDEX, 0);
    assert_eq!(
        refused(&request(RDMA_NLDEV_CMD_GET, ACK, &[other], &[])),
        22
    );

    assert_eq!(refused(&request(RDMA_NLDEV_CMD_GET, ACK, &[], &[])), 22);
}

#[test]
fn ports_are_told_with_their_interface() {
    let port = |n| (RDMA_NLDEV_ATTR_PORT_INDEX, n);
    let get = RDMA_NLDEV_CMD_PORT_GET;
    let one = asked(&request(get, 0, &[OURS, port(1)], &[]));
    assert_eq!(outline(&one[0]), (0x1401, 0, 0));
    let body = &one[0][HEADER..];
    assert_eq!(value(body, RDMA_NLDEV_ATTR_PORT_STATE), Some(&[4][..]));
    assert_eq!(value(body, RDMA_NLDEV_ATTR_NDEV_NAME), Some(&b"lo\0"[..]));
    assert_eq!(value(body, RDMA_NLDEV_ATTR_LID), None);
    let all = asked(&request(get, DUMP, &[OURS], &[]));
    assert_eq!(outline(&all[0]), (0x1405, 2, 0));
    assert_eq!(all[0][HEADER..], *body);

    for wrong in [
        &[OURS, port(0)][..],
        &[OURS, port(2)],
        &[OURS, port(257)],
        &[OURS],
        &[port(1)],
    ] {
        assert_eq!(refused(&request(get, 0, wrong, &[])), 22);
    }

    // A listing that fails has a failed end.
    let failed = asked(&request(get, DUMP, &[port(1)], &[]));
    assert_eq!(outline(&failed[0]), (3, 2, -22));
}

#[test]
fn files_are_those_of_the_image() {
    let get = RDMA_NLDEV_CMD_GET_CHARDEV;
    let port = (RDMA_NLDEV_ATTR_PORT_INDEX, 1);
    let ask = |numbers: &[(u16, u32)], kind: &str| {
        let kind = text(RDMA_NLDEV_ATTR_CHARDEV_TYPE, kind);
        let mut answers = asked(&request(get, 0, numbers, &kind));
        let answer = answers.pop().unwrap();
        let (_, _, errno) = outline(&answer);
        let named = value(&answer[HEADER..], RDMA_NLDEV_ATTR_CHARDEV_NAME);
        let number = value(&answer[HEADER..], RDMA_NLDEV_ATTR_CHARDEV);
        let number = number.map(|number| u64::from_ne_bytes(number.try_into().unwrap()));
        match errno {
            0 => Ok((named.unwrap().to_vec(), number.unwrap())),
            errno => Err(-errno),
        }
    };

    let file = |name: &str, number| Ok((format!("{name}\0").into_bytes(), number));

    // Major 1, minor 3.
    assert_eq!(ask(&[OURS], "uverbs"), file("uverbs0", 0x103));
    assert_eq!(ask(&[OURS, port], "umad"), file("umad3", 0x103));
    assert_eq!(ask(&[], "rdma_cm"), file("rdma_cm", 0));
    assert_eq!(ask(&[OURS], "umad"), Err(22));
    assert_eq!(ask(&[OURS, port], "issm"), Err(95));
    assert_eq!(ask(&[OURS], "rdma_cm"), Err(95));
    assert_eq!(ask(&[], "uverbs"), Err(95));
    assert_eq!(ask(&[port], "rdma_cm"), Err(22));
    assert_eq!(refused(&request(get, 0, &[OURS], &[])), 22);
}

fn number(bytes: &[u8], kind: u16) -> Option<u32> {
    Some(u32::from_ne_bytes(value(bytes, kind)?.try_into().unwrap()))
}

/// The attributes of each entry in a listing's tables.
fn entries(answers: &[Vec<u8>], table: u16) -> Vec<Vec<u8>> {
    let mut entries = Vec::new();
    for answer in &answers[..answers.len() - 1] {
        assert!(answer.len() <= super::message::ROOM);
        let mut rest = value(&answer[HEADER..], table).unwrap();
        while let Some(entry) = value(rest, table + 1) {
            entries.push(entry.to_vec());
            let len = (4 + entry.len()).next_multiple_of(4);
            rest = rest.get(len..).unwrap_or_default();
        }
    }
    assert_eq!(outline(&answers[answers.len() - 1]), (3, 2, 0));
    entries
}

#[test]
fn what_would_change_the_device_is_refused() {
    let set = request(
        RDMA_NLDEV_CMD_SET,
        ACK,
        &[OURS],
        &text(RDMA_NLDEV_ATTR_DEV_NAME, "x"),
    );
    assert_eq!(refused(&set), 1);
    let admin = Asker {
        net_admin: true,
        ..ASKER
    };
    let answers = asked_by(admin, &set);

    // The words that the program may show are behind the header of what it sent.
    assert_eq!(outline(&answers[0]), (2, 0x300, -95));
    assert!(
        value(&answers[0][36..], 1)
            .unwrap()
            .starts_with(b"a ferroce device")
    );

    let plain = Asker {
        capped: false,
        extended: false,
        ..admin
    };
    let answers = asked_by(plain, &set);
    assert_eq!(outline(&answers[0]), (2, 0, -95));
    assert_eq!(answers[0][20..], set[..]);

    for command in [
        RDMA_NLDEV_CMD_NEWLINK,
        RDMA_NLDEV_CMD_DELLINK,
        RDMA_NLDEV_CMD_RES_QP_GET_RAW,
    ] {
        let request = request(command, ACK, &[OURS], &[]);
        assert_eq!(refused(&request), 1);
        assert_eq!(outline(&asked_by(admin, &request)[0]).2, -22);
    }
}

#[test]
fn a_culprit_is_pointed_at() {
    // An index of two bytes.
    let short = [6, 0, 1, 0, 1, 2, 0, 0];
    let answers = asked(&request(RDMA_NLDEV_CMD_GET, 0, &[], &short));
    assert_eq!(outline(&answers[0]), (2, 0x300, -22));
    assert_eq!(value(&answers[0][36..], 2), Some(&16u32.to_ne_bytes()[..]));
    // A kind of file without its end.
    let endless = [8, 0, 69, 0, b'u', b'm', b'a', b'd'];
    let answers = asked(&request(RDMA_NLDEV_CMD_GET_CHARDEV, 0, &[OURS], &endless));
    assert_eq!(value(&answers[0][36..], 2), Some(&24u32.to_ne_bytes()[..]));
}

#[test]
fn what_makes_no_sense_is_passed_over_or_refused() {
    // Other families, unknown commands, listings of what is not listed.
    assert_eq!(refused(&request(100, 0, &[OURS], &[])), 22);
    assert_eq!(
        refused(&request(RDMA_NLDEV_CMD_SYS_GET, DUMP, &[], &[])),
        22
    );

    let mut other = request(RDMA_NLDEV_CMD_GET, 0, &[OURS], &[]);
    other[5] = 2 << 2;
    assert_eq!(refused(&other), 22);

    // Not a request; one of netlink's own types: confirmed if that is asked.
    let mut not = request(RDMA_NLDEV_CMD_GET, 0, &[OURS], &[]);
    not[6] = 0;
    assert!(asked(&not).is_empty());
    not[6] = 4;
    assert_eq!(outline(&asked(&not)[0]), (2, 0x100, 0));

    // Unknown attributes, of the last of several that counts, and rubbish behind.
    let behind = [
        &text(4000, "what?")[..],
        &[8, 0, 1, 0, 0x10, 0x27, 0, 0],
        &[3, 0, 0],
    ]
    .concat();

    let wrong_first = (RDMA_NLDEV_ATTR_DEV_INDEX, 5);
    let answers = asked(&request(RDMA_NLDEV_CMD_GET, 0, &[wrong_first], &behind));
    assert_eq!(outline(&answers[0]), (0x1401, 0, 0));

    // Several in one datagram, the last of them cut short.
    let one = request(RDMA_NLDEV_CMD_SYS_GET, 0, &[], &[]);
    let mut three = [&one[..], &one, &one].concat();
    three.pop();
    assert_eq!(asked(&three).len(), 2);
}

/// Whatever bytes come: no panic, and answers that are whole messages.
#[test]
fn hostile_bytes_harm_nobody() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };

    let commands = COMMANDS.iter().map(|(_, command)| *command);
    for command in commands.chain([0, 8, 200, 1023]) {
        for _ in 0..400 {
            let kind = text(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "umad");
            let flags = [0, ACK, DUMP][random() as usize % 3];
            let port = (RDMA_NLDEV_ATTR_PORT_INDEX, random() as u32 % 3);
            let mut bytes = request(command, flags, &[OURS, port], &kind);
            for _ in 0..random() % 4 {
                let at = random() as usize % bytes.len();
                bytes[at] = random() as u8;
            }

            bytes.truncate(random() as usize % (bytes.len() + 1));
            let admin = Asker {
                net_admin: random() % 2 == 0,
                ..ASKER
            };
            for answer in asked_by(admin, &bytes) {
                assert_eq!(answer[..4], (answer.len() as u32).to_ne_bytes());
            }
        }
    }
}
