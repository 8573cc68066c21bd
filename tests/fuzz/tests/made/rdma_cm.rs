//! What programs write to `rdma_cm`: a conversation of two IDs of one program.

use ferroce_cabi::ucma::*;
use ferroce_cabi::ucma_frame::{self, Request};
use zerocopy::IntoBytes;

use super::Seeds;
use super::management::captured;
use super::steps::{frame, step};

/// An address of IPv4, as long as one of IPv6.
fn ip(last: u8, port: u16) -> [u8; SOCKADDR_IN6_LEN] {
    let mut bytes = [0; SOCKADDR_IN6_LEN];
    bytes[..2].copy_from_slice(&2u16.to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes[4..8].copy_from_slice(&[127, 0, 0, last]);
    bytes
}

/// An address of the port that `rdma_cm_frames` has.
fn ib(service: u64) -> [u8; SOCKADDR_STORAGE_LEN] {
    let addr = sockaddr_ib {
        sib_family: AF_IB,
        sib_pkey_be: 0xffff,
        sib_addr: [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1],
        sib_sid_be: service.to_be(),
        sib_sid_mask_be: !0,
        ..sockaddr_ib::default()
    };
    let mut bytes = [0; SOCKADDR_STORAGE_LEN];
    bytes[..size_of::<sockaddr_ib>()].copy_from_slice(addr.as_bytes());
    bytes
}

fn create(ps: u32) -> (u32, Vec<u8>) {
    let command = rdma_ucm_create_id {
        uid: 77,
        ps: ps as u16,
        qp_type: 2,
        ..Default::default()
    };
    (RDMA_USER_CM_CMD_CREATE_ID, command.as_bytes().to_vec())
}

fn parameters() -> rdma_ucm_conn_param {
    rdma_ucm_conn_param {
        qp_num: 0x11,
        private_data_len: 4,
        responder_resources: 1,
        initiator_depth: 1,
        retry_count: 7,
        rnr_retry_count: 7,
        valid: 1,
        ..Default::default()
    }
}

/// What a program writes that listens, connects to itself, asks, and ends. `listen`: how the
/// listener, id 0, gets its address, and the other, id 1, its way to it.
fn conversation(listen: [(u32, Vec<u8>); 2], ps: u32) -> Vec<(&'static str, u32, Vec<u8>)> {
    let [bind, resolve] = listen;
    let query = |id, option| {
        let asked = rdma_ucm_query {
            id,
            option,
            ..Default::default()
        };
        asked.as_bytes().to_vec()
    };

    let connect = rdma_ucm_connect {
        conn_param: parameters(),
        id: 1,
        ..Default::default()
    };

    let accept = rdma_ucm_accept {
        uid: 78,
        conn_param: parameters(),
        id: 2,
        ..Default::default()
    };

    let state = rdma_ucm_init_qp_attr {
        id: 1,
        qp_state: 1,
        ..Default::default()
    };

    let option = rdma_ucm_set_option {
        id: 1,
        level: RDMA_OPTION_ID,
        optname: RDMA_OPTION_ID_TOS,
        optlen: 1,
        ..Default::default()
    };

    let reject = rdma_ucm_reject {
        id: 2,
        private_data_len: 3,
        ..Default::default()
    };

    let destroy = |id| {
        let asked = rdma_ucm_destroy_id {
            id,
            ..Default::default()
        };
        asked.as_bytes().to_vec()
    };

    let listener = rdma_ucm_listen { id: 0, backlog: 4 };
    let route = rdma_ucm_resolve_route {
        id: 1,
        timeout_ms: 2000,
    };

    let said = |name, number, command: &[u8]| (name, number, command.to_vec());
    let asked = |name, what| (name, RDMA_USER_CM_CMD_QUERY, query(1, what));

    vec![
        ("create", create(ps).0, create(ps).1),
        ("bind", bind.0, bind.1),
        said("listen", RDMA_USER_CM_CMD_LISTEN, listener.as_bytes()),
        ("create-other", create(ps).0, create(ps).1),
        said("option", RDMA_USER_CM_CMD_SET_OPTION, option.as_bytes()),
        ("resolve", resolve.0, resolve.1),
        said("route", RDMA_USER_CM_CMD_RESOLVE_ROUTE, route.as_bytes()),
        asked("query-addr", RDMA_USER_CM_QUERY_ADDR),
        asked("query-path", RDMA_USER_CM_QUERY_PATH),
        asked("query-gid", RDMA_USER_CM_QUERY_GID),
        ("query-route", RDMA_USER_CM_CMD_QUERY_ROUTE, query(1, 0)),
        said("state", RDMA_USER_CM_CMD_INIT_QP_ATTR, state.as_bytes()),
        said("connect", RDMA_USER_CM_CMD_CONNECT, connect.as_bytes()),
        said("accept", RDMA_USER_CM_CMD_ACCEPT, accept.as_bytes()),
        said("reject", RDMA_USER_CM_CMD_REJECT, reject.as_bytes()),
        said("disconnect", RDMA_USER_CM_CMD_DISCONNECT, 1u32.as_bytes()),
        ("destroy", RDMA_USER_CM_CMD_DESTROY_ID, destroy(1)),
        ("destroy-listener", RDMA_USER_CM_CMD_DESTROY_ID, destroy(0)),
    ]
}

fn over_ip() -> [(u32, Vec<u8>); 2] {
    let bind = rdma_ucm_bind_ip {
        addr: ip(1, 7000),
        id: 0,
        ..Default::default()
    };

    let resolve = rdma_ucm_resolve_ip {
        dst_addr: ip(1, 7000),
        id: 1,
        timeout_ms: 2000,
        ..Default::default()
    };

    [
        (RDMA_USER_CM_CMD_BIND_IP, bind.as_bytes().to_vec()),
        (RDMA_USER_CM_CMD_RESOLVE_IP, resolve.as_bytes().to_vec()),
    ]
}

fn over_ib() -> [(u32, Vec<u8>); 2] {
    let size = size_of::<sockaddr_ib>() as u16;
    let bind = rdma_ucm_bind {
        id: 0,
        addr_size: size,
        addr: ib(0x0106_1b58),
        ..Default::default()
    };

    let resolve = rdma_ucm_resolve_addr {
        id: 1,
        timeout_ms: 2000,
        src_size: size,
        dst_size: size,
        src_addr: ib(0),
        dst_addr: ib(0x0106_1b58),
        ..Default::default()
    };

    [
        (RDMA_USER_CM_CMD_BIND, bind.as_bytes().to_vec()),
        (RDMA_USER_CM_CMD_RESOLVE_ADDR, resolve.as_bytes().to_vec()),
    ]
}

pub(crate) fn rdma_cm() -> Seeds {
    let mut seeds = Seeds::new();
    for (kind, ps) in [("tcp", RDMA_PS_TCP), ("udp", RDMA_PS_UDP)] {
        let mut so_far = Vec::new();
        for (n, (name, number, command)) in conversation(over_ip(), ps).into_iter().enumerate() {
            so_far.extend(step(number as u8, 0, &command));
            // What is sent comes back, and the program reads its events.
            so_far.extend(step(0xc0, 0, &[]));
            so_far.extend(step(0xf0, 0, &[]));
            seeds.insert(format!("{kind}-{n:02}-{name}"), so_far.clone());
        }
    }
    seeds
}

pub(crate) fn rdma_cm_frames() -> Seeds {
    let mut seeds = Seeds::new();
    let kind = |kind| Request {
        kind,
        ..Request::default()
    };

    for (family, ways, ps) in [
        ("ib", over_ib(), RDMA_PS_IB),
        ("ib-udp", over_ib(), RDMA_PS_UDP),
        ("ip", over_ip(), RDMA_PS_TCP),
    ] {
        let mut so_far = frame(kind(ucma_frame::OPEN), &[], &[]);
        for (n, (name, number, command)) in conversation(ways, ps).into_iter().enumerate() {
            let head = rdma_ucm_cmd_hdr {
                cmd: number,
                r#in: command.len() as u16,
                out: 1024,
            };
            let command = [head.as_bytes(), &command].concat();
            let option: &[u8] = if name == "option" { &[8] } else { &[] };
            so_far.extend(frame(kind(ucma_frame::COMMAND), &command, option));

            // What is sent comes back as an answer, and again; the program reads and says so.
            so_far.extend(step(7, if name == "resolve" { 0x80 } else { 0 }, &[]));
            so_far.extend(step(6, 0, &[]));
            let taken = Request {
                taken: n as u32,
                ..kind(ucma_frame::TAKEN)
            };
            so_far.extend(frame(taken, &[], &[]));
            seeds.insert(format!("{family}-{n:02}-{name}"), so_far.clone());
        }

        let posted = so_far.clone();
        seeds.insert(
            format!("{family}-posted"),
            [posted, frame(kind(ucma_frame::POST), &[0; 8], &[])].concat(),
        );
    }

    // Messages of others to a program that listens.
    let mut listening = frame(kind(ucma_frame::OPEN), &[], &[]);
    for (_, number, command) in conversation(over_ib(), RDMA_PS_IB).into_iter().take(3) {
        let head = rdma_ucm_cmd_hdr {
            cmd: number,
            r#in: command.len() as u16,
            out: 1024,
        };
        let command = [head.as_bytes(), &command].concat();
        listening.extend(frame(kind(ucma_frame::COMMAND), &command, &[]));
    }

    for (name, mad) in captured().into_iter().step_by(4) {
        seeds.insert(
            format!("linux-{name}"),
            [&listening[..], &step(7, 0, &mad)].concat(),
        );
    }

    seeds
}
