//! What programs say to the daemon in its own words, and over netlink.

use ferroce_cabi::rdma_netlink::*;
use ferroce_control::capture::{CaptureSource, CaptureWish};
use ferroce_control::faults::{
    Action, Fault, FaultList, Given, GivenFaults, Often, QpNumber, Whom,
};
use ferroce_control::protocol::{
    ClientMessage, Event, Reply, Request as Asked, ServerMessage, VERSION as PROTOCOL,
};
use zerocopy::IntoBytes;

use super::Seeds;
use super::steps::step;

/// A fault with a little of everything.
fn fault() -> Box<Fault> {
    Box::new(Fault {
        action: Action::Delay {
            by: "1ms±200us".parse().unwrap(),
        },
        whom: Whom {
            qp: Some(QpNumber(0x2aa3b)),
            program: Some("ib_write_bw".to_owned()),
            packets: Some("opcode=ACK and psn%64=3".parse().unwrap()),
            ..Whom::default()
        },
        often: Often {
            rate: "1%".parse().unwrap(),
            count: Some(2),
            ..Often::default()
        },
        lasts: Some("10s".parse().unwrap()),
        seed: 7,
    })
}

fn asked() -> Vec<(&'static str, Asked)> {
    let at = ([127, 0, 0, 1], 4791).into();
    vec![
        (
            "attach",
            Asked::Attach {
                name: "ib_write_bw".to_owned(),
                pid: 4711,
            },
        ),
        ("gids", Asked::Gids),
        ("ports", Asked::Ports),
        ("receive-socket", Asked::ReceiveSocket { gid_index: 1 }),
        (
            "leave-socket",
            Asked::LeaveSocket {
                addr: [10, 0, 0, 9].into(),
                scope_id: 0,
            },
        ),
        (
            "send-socket",
            Asked::SendSocket {
                gid_index: 1,
                to: [10, 0, 0, 9].into(),
                first: 77,
            },
        ),
        (
            "group-socket",
            Asked::GroupSocket {
                group: "ff0e::9".parse().unwrap(),
                interfaces: vec![1],
            },
        ),
        (
            "way-out",
            Asked::WayOut {
                gid_index: 1,
                to: [10, 0, 0, 9].into(),
            },
        ),
        ("inbox", Asked::Inbox { slot: 3 }),
        ("objects", Asked::Objects { slot: 3 }),
        (
            "join",
            Asked::JoinGroup {
                port: 1,
                mgid: [0xff; 16],
                at,
            },
        ),
        (
            "host",
            Asked::Host {
                gid_index: 3,
                gid: [0xfe; 16],
            },
        ),
        ("leave", Asked::LeaveGroup { at }),
        (
            "capture",
            Asked::Capture(CaptureWish {
                room: 1 << 24,
                snap: 64,
                verbs: true,
            }),
        ),
        ("capture-ring", Asked::CaptureRing),
        ("hold", Asked::Hold),
        ("stay", Asked::Stay),
        ("status", Asked::Status),
        ("add-fault", Asked::AddFault { fault: fault() }),
        ("faults", Asked::Faults),
        ("clear-faults", Asked::ClearFaults { id: Some(3) }),
        ("my-faults", Asked::MyFaults),
        ("shutdown", Asked::Shutdown),
    ]
}

fn replies() -> Vec<(&'static str, Reply)> {
    vec![
        ("busy", Reply::Busy { retry_ms: 20 }),
        ("gids", Reply::Gids(Vec::new())),
        ("ports", Reply::Ports(Vec::new())),
        ("receive-socket", Reply::ReceiveSocket),
        ("send-socket", Reply::SendSocket),
        ("group-socket", Reply::GroupSocket),
        ("way-out", Reply::WayOut(Some(7))),
        ("inbox", Reply::Inbox),
        (
            "capture-ring",
            Reply::CaptureRing(Some(CaptureSource {
                slot: 3,
                pid: 4711,
                name: "rping".to_owned(),
            })),
        ),
        ("host", Reply::Host { selective: true }),
        ("objects", Reply::Objects),
        ("held", Reply::Held),
        ("fault-added", Reply::FaultAdded { id: 3 }),
        ("faults", Reply::Faults(FaultList::default())),
        (
            "my-faults",
            Reply::MyFaults(GivenFaults {
                generation: 4,
                faults: vec![Given {
                    id: 3,
                    place: 0,
                    fault: *fault(),
                    left_ns: Some(1_000_000),
                }],
            }),
        ),
        ("ok", Reply::Ok),
        (
            "error",
            Reply::Error {
                errno: 2,
                message: "no such \"slot\"".to_owned(),
            },
        ),
    ]
}

pub(crate) fn control() -> Seeds {
    let mut seeds = Seeds::new();
    for (name, request) in asked() {
        let message = ClientMessage {
            v: PROTOCOL,
            id: 7,
            request,
        };
        seeds.insert(format!("ask-{name}"), message.encode().unwrap());
    }

    for (name, reply) in replies() {
        let message = ServerMessage::reply(7, reply);
        seeds.insert(format!("tell-{name}"), message.encode().unwrap());
    }

    let link = Event::Link {
        active_mtu: 4096,
        speed_mbps: 10_000,
    };
    let events = [
        ("gid-change", Event::GidChange),
        ("link", link),
        ("port-state", Event::PortState { active: true }),
        ("port", Event::Port { port: 1, event: 9 }),
        ("faults", Event::Faults),
        ("hosts", Event::Hosts),
        ("captures", Event::Captures),
        ("shutdown", Event::Shutdown),
    ];

    for (name, event) in events {
        let message = ServerMessage::event(event);
        seeds.insert(format!("event-{name}"), message.encode().unwrap());
    }

    seeds
}

/// A netlink request with attributes of 32 bits, and bytes behind them.
fn netlink_request(command: u16, flags: u16, numbers: &[(u16, u32)], rest: &[u8]) -> Vec<u8> {
    let len = 16 + 8 * numbers.len() + rest.len();
    let mut bytes = (len as u32).to_ne_bytes().to_vec();
    bytes.extend(message_type(command).to_ne_bytes());
    bytes.extend((flags | 1).to_ne_bytes());
    bytes.extend([9, 0, 0, 0, 0, 0, 0, 0]);
    for (kind, value) in numbers {
        bytes.extend(8u16.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
    }
    bytes.extend(rest);
    bytes
}

pub(crate) fn netlink() -> Seeds {
    const DUMP: u16 = 0x300;
    const ACK: u16 = 4;

    let mut seeds = Seeds::new();
    let ours = (RDMA_NLDEV_ATTR_DEV_INDEX, 10_000);
    let port = (RDMA_NLDEV_ATTR_PORT_INDEX, 1);
    let listings = [
        ("devices", RDMA_NLDEV_CMD_GET, vec![]),
        ("ports", RDMA_NLDEV_CMD_PORT_GET, vec![ours]),
        ("resources", RDMA_NLDEV_CMD_RES_GET, vec![]),
        ("qps", RDMA_NLDEV_CMD_RES_QP_GET, vec![ours]),
        ("cqs", RDMA_NLDEV_CMD_RES_CQ_GET, vec![ours]),
        ("mrs", RDMA_NLDEV_CMD_RES_MR_GET, vec![ours]),
        ("pds", RDMA_NLDEV_CMD_RES_PD_GET, vec![ours]),
        ("ids", RDMA_NLDEV_CMD_RES_CM_ID_GET, vec![ours]),
        ("contexts", RDMA_NLDEV_CMD_RES_CTX_GET, vec![ours]),
        ("srqs", RDMA_NLDEV_CMD_RES_SRQ_GET, vec![ours]),
    ];

    for (name, command, numbers) in listings {
        let request = netlink_request(command, DUMP, &numbers, &[]);
        seeds.insert(format!("all-{name}"), step(0, 0, &request));
    }

    let singles = [
        ("device", RDMA_NLDEV_CMD_GET, vec![ours]),
        ("port", RDMA_NLDEV_CMD_PORT_GET, vec![ours, port]),
        ("system", RDMA_NLDEV_CMD_SYS_GET, vec![]),
        ("summary", RDMA_NLDEV_CMD_RES_GET, vec![ours]),
        (
            "qp",
            RDMA_NLDEV_CMD_RES_QP_GET,
            vec![ours, port, (RDMA_NLDEV_ATTR_RES_LQPN, 0x02_0100)],
        ),
        ("counters", RDMA_NLDEV_CMD_STAT_GET, vec![ours, port]),
    ];

    for (name, command, numbers) in singles {
        let request = netlink_request(command, ACK, &numbers, &[]);
        seeds.insert(format!("one-{name}"), step(0, 0, &request));
    }

    // What the shim says first, and two requests in one datagram.
    let hello = Control::new(HELLO, 1);
    for (name, seed) in seeds.clone() {
        let option = Control::new(if name.starts_with("all") { 10 } else { 11 }, 1);
        let first = [step(0, 0, hello.as_bytes()), step(0, 0, option.as_bytes())];
        seeds.insert(format!("{name}-told"), [first.concat(), seed].concat());
    }

    let file = [
        &[
            12u16.to_ne_bytes(),
            RDMA_NLDEV_ATTR_CHARDEV_TYPE.to_ne_bytes(),
        ]
        .concat()[..],
        b"rdma_cm\0",
    ];

    let file = netlink_request(RDMA_NLDEV_CMD_GET_CHARDEV, 0, &[], &file.concat());
    let both = [file, netlink_request(RDMA_NLDEV_CMD_GET, DUMP, &[], &[])].concat();
    seeds.insert(
        "hello".to_owned(),
        [step(0, 0, hello.as_bytes()), step(0, 0, &both)].concat(),
    );

    seeds
}
