//! Tests of the messages: round trips, other versions, nonsense.

use super::*;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence::WithSource;

#[test]
fn requests_survive_the_round_trip() {
    for request in [
        Request::Attach {
            name: "ib_write_bw \"x\"\n".into(),
            pid: 7,
        },
        Request::Gids,
        Request::ReceiveSocket { gid_index: 65_535 },
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
        ServerMessage::reply(
            4,
            Reply::Error {
                errno: 22,
                message: "no".into(),
            },
        ),
        ServerMessage::event(Event::PortState { active: false }),
        ServerMessage::event(Event::GidChange),
        ServerMessage::event(Event::Shutdown),
    ] {
        assert_eq!(
            ServerMessage::decode(&message.encode().unwrap()),
            Ok(message)
        );
    }
}

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
