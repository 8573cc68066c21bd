//! Sockets that clients in another network namespace send by, and those of groups.

mod common;

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use common::TestDaemon;
use ferroce_control::outlet::FIRST_PORT;
use ferroce_control::{Client, Network};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 7, 99));

fn bound(socket: OwnedFd) -> SocketAddr {
    UdpSocket::from(socket).local_addr().unwrap()
}

/// A client with a slot.
fn attached(daemon: &TestDaemon) -> Client {
    let mut client = daemon.connect();
    client.attach("x").unwrap();
    client
}

#[test]
fn the_daemon_says_which_network_is_its_own() {
    let daemon = TestDaemon::start(&["127.0.7.40"]);
    let network = daemon.connect().attach("x").unwrap().network;
    assert!(!network.differs(Network::here()), "{network:?}");
}

#[test]
fn a_socket_to_send_by_is_bound_and_stays_so() {
    let daemon = TestDaemon::start(&["127.0.7.41", "127.0.7.42"]);
    let mut client = attached(&daemon);
    for gid in client.gids().unwrap() {
        let socket = client.send_socket(gid.index, PEER, 77).unwrap();
        let next = client.send_socket(gid.index, PEER, 77).unwrap();
        let socket = UdpSocket::from(socket);
        let at = |port| SocketAddr::new(gid.addr, port);
        assert_eq!(socket.local_addr().unwrap(), at(FIRST_PORT + 77));
        assert_eq!(bound(next), at(FIRST_PORT + 78));
        let elsewhere = SocketAddr::new(PEER, 0);
        let again = rustix::net::bind(&socket, &elsewhere);
        assert_eq!(again, Err(rustix::io::Errno::INVAL));
        // A closed one's port is free.
        let last = client.send_socket(gid.index, PEER, u16::MAX).unwrap();
        assert_eq!(bound(last), at(u16::MAX));
    }
}

/// The one that stands in for a group of IPv6, of which Linux's loopback knows nothing.
#[test]
fn a_group_of_ipv4_is_reached_from_either_loopback_address() {
    if UdpSocket::bind("[::1]:0").is_err() {
        return;
    }
    let daemon = TestDaemon::start(&["::1"]);
    let group = Ipv4Addr::new(239, 192, 0, 1).into();
    let socket = attached(&daemon).send_socket(0, group, 0).unwrap();
    assert_eq!(bound(socket).ip(), IpAddr::from([127, 0, 0, 1]));
}

#[test]
fn what_is_none_of_the_devices_is_refused() {
    let daemon = TestDaemon::start(&["127.0.7.43"]);
    let group = IpAddr::V4(Ipv4Addr::new(239, 77, 3, 1));
    let mut stranger = daemon.connect();
    for refused in [
        stranger.send_socket(0, PEER, 0).unwrap_err(),
        stranger.group_socket(group, &[1]).unwrap_err(),
    ] {
        assert_eq!(refused.errno(), libc::EINVAL, "{refused}");
    }
    let mut client = attached(&daemon);
    for index in [1, u16::MAX] {
        let refused = client.send_socket(index, PEER, 0).unwrap_err();
        assert_eq!(refused.errno(), libc::ENOENT);
        let refused = client.way_out(index, PEER).unwrap_err();
        assert_eq!(refused.errno(), libc::ENOENT);
    }
    let v6 = "::1".parse().unwrap();
    let refused = client.send_socket(0, v6, 0).unwrap_err();
    assert_eq!(refused.errno(), libc::EAFNOSUPPORT);
    for (no_group, interfaces, errno) in [
        (PEER, &[1][..], libc::EINVAL),
        (group, &[u32::MAX], libc::ENODEV),
        (group, &[], libc::ENODEV),
    ] {
        let refused = client.group_socket(no_group, interfaces).unwrap_err();
        assert_eq!(refused.errno(), errno, "{refused}");
    }
    assert_eq!(client.way_out(0, PEER).unwrap(), None);
}

#[test]
fn a_groups_socket_takes_what_comes_for_the_group() {
    let daemon = TestDaemon::start(&["127.0.7.44"]);
    let group = Ipv4Addr::new(239, 77, 3, 2);
    let mut client = attached(&daemon);
    let gids = client.gids().unwrap();
    let by: Vec<u32> = gids.iter().map(|gid| gid.ifindex).collect();
    let member = UdpSocket::from(client.group_socket(group.into(), &by).unwrap());
    assert_eq!(member.local_addr().unwrap(), (group, 4791).into());
    member.set_nonblocking(true).unwrap();
    let sender = client.send_socket(0, group.into(), 0).unwrap();
    let sender = UdpSocket::from(sender);
    sender.send_to(b"all", (group, 4791)).unwrap();
    let mut buffer = [0; 9];
    let (len, from) = match member.recv_from(&mut buffer) {
        // A host whose loopback takes no groups.
        Err(error) if error.kind() == ErrorKind::WouldBlock => return,
        received => received.unwrap(),
    };
    assert_eq!(&buffer[..len], b"all");
    assert_eq!(from, sender.local_addr().unwrap());
}
