//! Commands of `rdma_cm` that nobody waits for: a program that speaks the frames itself, two
//! channels of which connect.

mod common;

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use common::{TestDaemon, eventually};
use ferroce_cabi::ucma::*;
use ferroce_cabi::ucma_frame::{
    Answers, COMMAND, CONNECTED, OPEN, POST, Record, Reply, Request, SHORT_RECORD, VERSION, answer,
};
use ferroce_control::random::random;
use ferroce_control::seqpacket::{self, Wait};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// What happens (`enum rdma_cm_event_type`).
const ADDR_RESOLVED: u32 = 0;
const ROUTE_RESOLVED: u32 = 2;
const CONNECT_REQUEST: u32 = 4;
const CONNECT_RESPONSE: u32 = 5;
const CONNECT_ERROR: u32 = 6;
const REJECTED: u32 = 8;
const ESTABLISHED: u32 = 9;
const DISCONNECTED: u32 = 10;

const PORT: u16 = 7001;
/// `IBV_QPS_RTR`.
const RTR: u32 = 2;

/// A program's connection.
struct Program {
    socket: OwnedFd,
}

/// A channel of it.
struct Channel {
    fd: OwnedFd,
    inode: u64,
}

fn channel(program: &Program) -> Channel {
    let open = Request {
        version: VERSION,
        kind: OPEN,
        ..Request::default()
    };
    seqpacket::send(&program.socket, open.as_bytes(), &[], Wait::Block).unwrap();
    let mut buffer = seqpacket::buffer();
    let mut datagram = seqpacket::receive(&program.socket, &mut buffer, Wait::Block).unwrap();
    assert_eq!(datagram.fds.len(), 2);
    let fd = datagram.fds.remove(0);
    let inode = rustix::fs::fstat(&fd).unwrap().st_ino;
    Channel { fd, inode }
}

impl Program {
    fn of(daemon: &TestDaemon) -> Self {
        let socket = seqpacket::connect(&daemon.dir.rdma_cm()).unwrap();
        Self { socket }
    }

    fn send(&self, kind: u32, channel: &Channel, taken: u32, cmd: u32, body: &[u8]) {
        let head = rdma_ucm_cmd_hdr {
            cmd,
            r#in: body.len() as u16,
            out: 512,
        };

        let request = Request {
            version: VERSION,
            kind,
            channel: channel.inode,
            taken,
            command_len: (size_of_val(&head) + body.len()) as u32,
            ..Request::default()
        };

        let whole = [request.as_bytes(), head.as_bytes(), body].concat();
        seqpacket::send(&self.socket, &whole, &[], Wait::Block).unwrap();
    }

    /// The result, and the answer.
    fn ask(&self, channel: &Channel, taken: u32, cmd: u32, body: &[u8]) -> (i32, Vec<u8>) {
        self.send(COMMAND, channel, taken, cmd, body);
        let mut buffer = seqpacket::buffer();
        let datagram = seqpacket::receive(&self.socket, &mut buffer, Wait::Block).unwrap();
        let (reply, answer) = Reply::read_from_prefix(&buffer[..datagram.len]).unwrap();
        (reply.result, answer.to_vec())
    }

    fn good(&self, channel: &Channel, cmd: u32, body: &(impl IntoBytes + Immutable)) -> Vec<u8> {
        let (result, answer) = self.ask(channel, 0, cmd, body.as_bytes());
        assert_eq!(result, 0, "command {cmd}");
        answer
    }

    fn new_id(&self, channel: &Channel, uid: u64) -> u32 {
        let create = rdma_ucm_create_id {
            uid,
            ps: RDMA_PS_TCP as u16,
            ..Default::default()
        };
        let answer = self.good(channel, RDMA_USER_CM_CMD_CREATE_ID, &create);
        u32::from_ne_bytes(answer.try_into().unwrap())
    }

    fn listen(&self, channel: &Channel, uid: u64, address: Ipv4Addr) {
        let id = self.bound(channel, uid, address);
        self.listen_by(channel, id);
    }

    fn listen_by(&self, channel: &Channel, id: u32) {
        let listen = rdma_ucm_listen { id, backlog: 8 };
        self.good(channel, RDMA_USER_CM_CMD_LISTEN, &listen);
    }

    /// An id that has the port and does not listen.
    fn bound(&self, channel: &Channel, uid: u64, address: Ipv4Addr) -> u32 {
        let id = self.new_id(channel, uid);
        let bind = rdma_ucm_bind_ip {
            addr: sockaddr(address),
            id,
            ..FromZeros::new_zeroed()
        };
        self.good(channel, RDMA_USER_CM_CMD_BIND_IP, &bind);
        id
    }

    fn destroy(&self, channel: &Channel, id: u32) {
        let destroy = rdma_ucm_destroy_id {
            id,
            ..FromZeros::new_zeroed()
        };
        self.good(channel, RDMA_USER_CM_CMD_DESTROY_ID, &destroy);
    }

    /// An id that may be connected.
    fn resolved(&self, channel: &Channel, uid: u64, address: Ipv4Addr) -> u32 {
        let id = self.new_id(channel, uid);
        let mut resolve = rdma_ucm_resolve_ip::new_zeroed();
        (resolve.dst_addr, resolve.id) = (sockaddr(address), id);
        resolve.src_addr[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        resolve.timeout_ms = 1000;
        self.good(channel, RDMA_USER_CM_CMD_RESOLVE_IP, &resolve);
        event(channel, ADDR_RESOLVED);
        let resolve = rdma_ucm_resolve_route {
            id,
            timeout_ms: 1000,
        };
        self.good(channel, RDMA_USER_CM_CMD_RESOLVE_ROUTE, &resolve);
        let (record, _) = event(channel, ROUTE_RESOLVED);
        assert_eq!(record.answers & COMMANDS, answer::CONNECT);
        id
    }

    fn post_connect(&self, channel: &Channel, id: u32) {
        let mut connect = rdma_ucm_connect::new_zeroed();
        (connect.id, connect.conn_param) = (id, parameters());
        self.send(
            POST,
            channel,
            0,
            RDMA_USER_CM_CMD_CONNECT,
            connect.as_bytes(),
        );
    }

    fn post_accept(&self, channel: &Channel, id: u32, uid: u64) {
        let mut accept = rdma_ucm_accept::new_zeroed();
        (accept.id, accept.uid, accept.conn_param) = (id, uid, parameters());
        self.send(POST, channel, 1, RDMA_USER_CM_CMD_ACCEPT, accept.as_bytes());
    }

    fn post_establish(&self, channel: &Channel, id: u32) {
        let mut accept = rdma_ucm_accept::new_zeroed();
        accept.id = id;
        self.send(POST, channel, 0, RDMA_USER_CM_CMD_ACCEPT, accept.as_bytes());
    }

    fn post_disconnect(&self, channel: &Channel, id: u32) {
        let disconnect = rdma_ucm_disconnect { id };
        let body = disconnect.as_bytes();
        self.send(POST, channel, 0, RDMA_USER_CM_CMD_DISCONNECT, body);
    }
}

/// What would succeed.
const COMMANDS: u32 = answer::CONNECT | answer::ACCEPT | answer::ESTABLISH;

fn parameters() -> rdma_ucm_conn_param {
    rdma_ucm_conn_param {
        qp_num: random::<u32>() >> 8 | 16,
        valid: 1,
        ..FromZeros::new_zeroed()
    }
}

/// `struct sockaddr_in`.
fn sockaddr<const N: usize>(address: Ipv4Addr) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&PORT.to_be_bytes());
    bytes[4..8].copy_from_slice(&address.octets());
    bytes
}

/// The next event, of that kind.
fn event(channel: &Channel, kind: u32) -> (Record, rdma_ucm_event_resp) {
    let mut buffer = [0; SHORT_RECORD + size_of::<Answers>()];
    assert!(common::readable(&channel.fd, common::PATIENCE));
    let flags = rustix::net::RecvFlags::empty();
    let (len, _) = rustix::net::recv(&channel.fd, &mut buffer[..], flags).unwrap();
    let (record, rest) = Record::read_from_prefix(&buffer[..len]).unwrap();
    let (event, _) = rdma_ucm_event_resp::read_from_prefix(rest).unwrap();
    assert_eq!(
        event.event, kind,
        "of id {}, status {}",
        event.id, event.status
    );
    (record, event)
}

/// A server's and a client's channel of one program, and the client's id, which has asked for a
/// connection; the server's id.
fn requested(program: &Program, address: Ipv4Addr) -> (Channel, Channel, u32, u32) {
    let (server, client) = (channel(program), channel(program));
    program.listen(&server, 70, address);
    let active = program.resolved(&client, 71, address);
    program.post_connect(&client, active);
    let (record, request) = event(&server, CONNECT_REQUEST);
    assert_eq!(
        (record.answers & COMMANDS, request.uid),
        (answer::ACCEPT, 70)
    );
    assert_eq!(record.life & CONNECTED, 0);
    (server, client, active, request.id)
}

/// The same, up to where the client's queue pair may be made ready.
fn accepted(program: &Program, address: Ipv4Addr) -> (Channel, Channel, u32, u32) {
    let (server, client, active, passive) = requested(program, address);
    program.post_accept(&server, passive, 72);
    let (record, _) = event(&client, CONNECT_RESPONSE);
    assert_eq!(record.answers & COMMANDS, answer::ESTABLISH);
    (server, client, active, passive)
}

#[test]
fn a_connection_is_made_and_ended_without_a_reply() {
    let daemon = TestDaemon::start(&["127.0.7.60"]);
    let program = Program::of(&daemon);
    let (server, client, active, passive) = accepted(&program, Ipv4Addr::new(127, 0, 7, 60));
    program.post_establish(&client, active);
    assert_eq!(event(&server, ESTABLISHED).1.uid, 72);
    program.post_disconnect(&client, active);
    assert_eq!(event(&server, DISCONNECTED).1.uid, 72);
    program.post_disconnect(&server, passive);
    assert_eq!(event(&client, DISCONNECTED).1.uid, 71);

    // Nothing but replies to what asked for them has come.
    program.destroy(&client, active);
}

#[test]
fn what_fails_after_all_is_told_by_an_event() {
    let daemon = TestDaemon::start(&["127.0.7.61"]);
    let program = Program::of(&daemon);
    let (server, client, active, passive) = requested(&program, Ipv4Addr::new(127, 0, 7, 61));
    program.post_connect(&client, active);
    let (_, error) = event(&client, CONNECT_ERROR);
    assert_eq!((error.uid, error.status), (71, -libc::EINVAL));

    // The request is taken back before it is accepted.
    program.destroy(&client, active);
    let question = rdma_ucm_init_qp_attr {
        id: passive,
        qp_state: RTR,
        ..FromZeros::new_zeroed()
    };

    eventually("the request is taken back", || {
        let question = question.as_bytes();
        program
            .ask(&server, 1, RDMA_USER_CM_CMD_INIT_QP_ATTR, question)
            .0
            == -libc::EINVAL
    });

    program.post_accept(&server, passive, 72);

    // Reason 4: the peer has waited long enough, as far as it says.
    let (_, refused) = event(&server, REJECTED);
    assert_eq!((refused.uid, refused.id, refused.status), (72, passive, 4));

    // What comes too late for a peer that has refused is no news, either.
    program.post_establish(&server, passive);

    // Ends that come too late, of ids that are nobody's, and nonsense are nobody's business.
    program.post_disconnect(&server, passive);
    program.post_disconnect(&server, 60_000);
    program.send(POST, &server, 1, 1000, b"what?");
    assert!(!common::readable(&server.fd, Duration::ZERO));
    assert_ne!(program.new_id(&server, 73), passive);
}

#[test]
fn what_was_posted_before_a_channel_closed_is_carried_out() {
    let daemon = TestDaemon::start(&["127.0.7.62"]);
    let program = Program::of(&daemon);
    for _ in 0..20 {
        let (server, client, active, _) = accepted(&program, Ipv4Addr::new(127, 0, 7, 62));
        program.post_establish(&client, active);
        drop(client);
        event(&server, ESTABLISHED);
        event(&server, DISCONNECTED);
        drop(server);
        // The next listener has the port to itself.
        eventually("nobody listens", || {
            daemon.connect().status().unwrap().cm.services.is_empty()
        });
    }
}

/// Who has a port may tell its peer so before it listens, and the peer may be quicker. It waits,
/// but not for ever, and not for who has another address or will not listen any more.
#[test]
fn a_request_waits_for_who_has_the_port_and_does_not_listen_yet() {
    const NO_SUCH_SERVICE: i32 = 8;
    let here = Ipv4Addr::new(127, 0, 7, 63);
    let there = Ipv4Addr::new(127, 0, 7, 64);
    let daemon = TestDaemon::start(&["127.0.7.63", "127.0.7.64"]);
    let program = Program::of(&daemon);
    let server = channel(&program);
    let asks = |uid, address| {
        let client = channel(&program);
        let id = program.resolved(&client, uid, address);
        program.post_connect(&client, id);
        client
    };
    let refused = |client: &Channel| {
        assert_eq!(event(client, REJECTED).1.status, NO_SUCH_SERVICE);
    };

    let early = program.bound(&server, 80, here);
    let client = asks(81, here);
    refused(&asks(82, there));
    assert!(!common::readable(&client.fd, Duration::from_millis(100)));
    program.listen_by(&server, early);
    assert_eq!(event(&server, CONNECT_REQUEST).1.uid, 80);

    let never = program.bound(&server, 83, there);
    let began = Instant::now();
    refused(&asks(84, there));
    assert!(began.elapsed() > Duration::from_secs(2));

    let client = asks(86, there);
    assert!(!common::readable(&client.fd, Duration::from_millis(100)));
    let began = Instant::now();
    program.destroy(&server, never);
    refused(&client);
    assert!(began.elapsed() < Duration::from_secs(1));
}

/// An event that a program writes to its own id comes like others; events of the kernel's own it
/// cannot write.
#[test]
fn what_a_program_writes_it_gets() {
    const USER: u32 = 18;
    const RESOLVE_IB_SERVICE: u32 = RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE;

    let daemon = TestDaemon::start(&["127.0.79.5"]);
    let program = Program::of(&daemon);
    let channel = channel(&program);
    let id = program.new_id(&channel, 77);
    let write = |id: u32, event: u32| {
        let mut body = [0; 320];
        body[..4].copy_from_slice(&id.to_ne_bytes());
        body[8..12].copy_from_slice(&event.to_ne_bytes());
        body[12..16].copy_from_slice(&(-5i32).to_ne_bytes());
        body[16..24].copy_from_slice(&0x0123_4567_89ab_cdef_u64.to_ne_bytes());
        program
            .ask(&channel, 0, RDMA_USER_CM_CMD_WRITE_CM_EVENT, &body)
            .0
    };

    assert_eq!(write(id, ESTABLISHED), -22);
    assert_eq!(write(id + 1, USER), -2);
    assert_eq!(write(id, USER), 0);
    let (_, event) = event(&channel, USER);
    assert_eq!((event.uid, event.status), (77, -5));
    assert_eq!(event.param[..8], 0x0123_4567_89ab_cdef_u64.to_ne_bytes());

    let mut service = [0; 88];
    service[..4].copy_from_slice(&id.to_ne_bytes());
    let (early, _) = program.ask(&channel, 1, RESOLVE_IB_SERVICE, &service);
    assert_eq!(early, -22);
}
