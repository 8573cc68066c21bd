//! Tests of the messages: round trips, other versions, nonsense.

use std::collections::VecDeque;

use super::*;
use crate::Counter;
use crate::objects::{Object, QP_COUNTERS, QueuePair};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence::WithSource;

#[test]
fn events_that_say_something_else_do_not_take_each_others_place() {
    let mut queue = VecDeque::new();
    let mut told = |events: &[Event]| {
        for event in events {
            event.join(&mut queue);
        }
        queue.drain(..).collect::<Vec<_>>()
    };

    // As when a subnet manager configures a port: LID, subnet manager, registration.
    let configured = [11, 13, 17].map(|event| Event::Port { port: 1, event });
    assert_eq!(told(&configured), configured);
    let (down, up) = (
        Event::PortState { active: false },
        Event::PortState { active: true },
    );
    let gids = Event::GidChange;
    assert_eq!(told(&[gids, down, up, gids]), [down, up, gids]);
    // However often it goes, there is an end, and the last state is the last.
    assert_eq!(told(&[down, up].repeat(1000)), [down, up]);
    assert_eq!(told(&[up, down, up, down]), [up, down]);
    let links = [1024, 4096, 1024, 2048].map(link);
    assert_eq!(told(&[links[0], down, links[1], up]), [down, links[1], up]);
    assert_eq!(told(&links), [link(2048)]);
}

fn link(active_mtu: u32) -> Event {
    let speed_mbps = 10_000;
    Event::Link {
        active_mtu,
        speed_mbps,
    }
}

#[test]
fn requests_survive_the_round_trip() {
    for request in [
        Request::Attach {
            name: "ib_write_bw \"x\"\n".into(),
            pid: 7,
        },
        Request::Gids,
        Request::Capture(CaptureWish {
            room: 1 << 20,
            snap: u32::MAX,
            verbs: true,
        }),
        Request::CaptureRing,
        Request::ReceiveSocket { gid_index: 65_535 },
        Request::LeaveSocket {
            addr: "fe80::9".parse().unwrap(),
            scope_id: 4,
        },
        Request::SendSocket {
            gid_index: 1,
            to: "ff0e::1".parse().unwrap(),
            first: 65_535,
        },
        Request::GroupSocket {
            group: "239.1.2.3".parse().unwrap(),
            interfaces: vec![2, u32::MAX],
        },
        Request::WayOut {
            gid_index: 2,
            to: "10.0.0.9".parse().unwrap(),
        },
        Request::Objects { slot: 255 },
        Request::Host {
            gid_index: 7,
            gid: [0xfe; 16],
        },
        Request::Status,
        Request::Shutdown,
    ] {
        let message = ClientMessage {
            v: VERSION,
            id: u64::MAX,
            request,
        };
        assert_eq!(
            ClientMessage::decode(&message.encode().unwrap()),
            Ok(message)
        );
    }
}

#[test]
fn replies_and_events_survive_the_round_trip() {
    let gid = GidEntry {
        index: 3,
        gid: [0xfe; 16],
        addr: "fe80::1".parse().unwrap(),
        scope_id: 2,
        ifindex: 2,
        ifname: "eth0".into(),
    };

    for message in [
        ServerMessage::reply(1, Reply::Gids(vec![gid])),
        ServerMessage::reply(2, Reply::Busy { retry_ms: 5 }),
        ServerMessage::reply(3, Reply::ReceiveSocket),
        ServerMessage::reply(3, Reply::SendSocket),
        ServerMessage::reply(3, Reply::WayOut(Some(7))),
        ServerMessage::reply(3, Reply::CaptureRing(None)),
        ServerMessage::reply(
            3,
            Reply::CaptureRing(Some(CaptureSource {
                slot: 7,
                pid: 9,
                name: "rping".into(),
            })),
        ),
        ServerMessage::reply(3, Reply::Host { selective: true }),
        ServerMessage::event(Event::Hosts),
        ServerMessage::event(Event::Captures),
        ServerMessage::reply(5, Reply::Objects),
        ServerMessage::reply(
            4,
            Reply::Error {
                errno: 22,
                message: "no".into(),
            },
        ),
        ServerMessage::event(Event::PortState { active: false }),
        ServerMessage::event(link(4096)),
        ServerMessage::event(Event::GidChange),
        ServerMessage::event(Event::Shutdown),
    ] {
        assert_eq!(
            ServerMessage::decode(&message.encode().unwrap()),
            Ok(message)
        );
    }
}

/// What is shared as memory bears no version of its own: [`VERSION`] stands for it. A change of
/// what is below needs another one.
#[test]
fn shared_memory_is_laid_out_as_this_version_says() {
    let counters: Vec<_> = Counter::ALL.iter().map(|counter| counter.name()).collect();
    let objects = [
        Object::Context,
        Object::Pd {
            context: 1,
            users: 2,
        },
        Object::Cq {
            context: 1,
            cqe: 2,
            users: 3,
        },
        Object::Mr {
            pd: 1,
            key: 2,
            len: 3,
        },
        Object::Srq {
            pd: 1,
            cq: Some(2),
            srq_type: 3,
        },
        Object::Qp(QueuePair {
            number: 1,
            qp_type: 2,
            state: 3,
            port: 4,
            pd: Some(5),
            srq: None,
            remote: 6,
            sq_psn: 7,
            rq_psn: 8,
            row: 9,
        }),
    ];

    let words = |object: &Object| {
        let (kind, [first, second, third, fourth, ..]) = object.words();
        format!("{kind}: {first:x} {second:x} {third:x} {fourth:x}")
    };
    let objects: Vec<_> = objects.iter().map(words).collect();

    let of_qps = QP_COUNTERS.map(|counter| counter as usize);

    assert_eq!(VERSION, 18);
    assert_eq!(counters.join(" "), COUNTERS.join(" "));
    assert_eq!(objects, OBJECTS);
    assert_eq!(of_qps, ROW);
    assert_eq!(crate::objects::PLACES, TABLE);
    assert_eq!(crate::inbox::PLACES, INBOX);
    assert_eq!(crate::capture::PLACES, CAPTURE);
}

/// Where the words of a capture's ring are, where its records begin, and how long their header is.
const CAPTURE: [usize; 9] = [0, 8, 128, 256, 260, 264, 268, 4096, 72];

/// Where the bits of queue pairs begin, where their rows, and where the table ends, in bytes.
const TABLE: [usize; 3] = [0x800_0040, 0x800_2040, 0x980_2040];

/// The counters of a row, by their places in the page.
const ROW: [usize; 24] = [
    2, 3, 31, 13, 11, 12, 14, 21, 0, 1, 9, 10, 15, 16, 22, 37, 23, 24, 29, 30, 25, 27, 36, 38,
];

/// In the order of the page.
const COUNTERS: &[&str] = &[
    "rcvd_pkts",
    "rcvd_bytes",
    "sent_pkts",
    "sent_bytes",
    "rx_icrc_encapsulated",
    "rx_parse_errors",
    "rx_unknown_qp",
    "rx_wrong_pkey",
    "rx_bad_peer",
    "duplicate_request",
    "out_of_sequence",
    "rnr_nak_retry_err",
    "packet_seq_err",
    "local_ack_timeout_err",
    "implied_nak_seq_err",
    "out_of_buffer",
    "send_seq_nak",
    "rx_write_requests",
    "rx_read_requests",
    "rx_atomic_requests",
    "rx_send_requests",
    "req_cqe_error",
    "resp_cqe_error",
    "req_cqe_flush_error",
    "resp_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_remote_access_errors",
    "resp_local_length_error",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "roce_retransmits",
    "send_err",
    "rx_misdirected",
    "ack_deferred",
    "rx_socket_overflow",
    "qkey_viol",
    "rx_no_receive",
    "uc_loss",
    "rcvd_mcast_pkts",
    "sent_mcast_pkts",
    "sent_loopback_pkts",
    "rp_cnp_handled",
    "np_ecn_marked_roce_packets",
    "np_cnp_sent",
];

/// Where the words of an inbox and of its rings are, and how long a ring is.
const INBOX: [usize; 9] = [0, 128, 256, 0, 8, 128, 256, 4096, 2 << 20];

/// An entry of each kind.
const OBJECTS: &[&str] = &[
    "1: 0 0 0 0",
    "2: 2 1 0 0",
    "3: 3 100000002 0 0",
    "4: 3 100000002 0 0",
    "5: 3 100000003 0 0",
    "6: 100020304 600000000 900000006 700000008",
];

#[test]
fn another_version_is_told_apart_from_nonsense() {
    let bytes = br#"{"v":99,"id":4,"request":{"teleport":{}}}"#;
    assert_eq!(
        ClientMessage::decode(bytes),
        Err(DecodeError::Version { theirs: 99, id: 4 })
    );

    for bytes in [
        &b""[..],
        b"{}",
        b"\xff\xfe",
        format!(r#"{{"v":{VERSION},"id":1,"request":"fly"}}"#).as_bytes(),
        format!("[{VERSION}]").as_bytes(),
    ] {
        assert!(matches!(
            ClientMessage::decode(bytes),
            Err(DecodeError::Malformed(_))
        ));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_failure_persistence(WithSource("regressions")))]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = ClientMessage::decode(&bytes);
        let _ = ServerMessage::decode(&bytes);
    }

    #[test]
    fn no_mutation_panics(at in 0usize..60, to in any::<u8>()) {
        let request = Request::Attach { name: "x".into(), pid: 1 };
        let mut bytes = ClientMessage { v: VERSION, id: 1, request }.encode().unwrap();
        let at = at % bytes.len();
        bytes[at] = to;
        let _ = ClientMessage::decode(&bytes);
    }
}
