use super::*;
use crate::steering::DEST_QP_OFFSET;
use std::net::UdpSocket;

const BUFFER: usize = 1 << 20;

fn packet(slot: u8) -> [u8; 16] {
    let mut packet = [0; 16];
    packet[DEST_QP_OFFSET as usize] = slot;
    packet
}

/// `None`: the host has no IPv6.
fn open(ip: IpAddr) -> Option<Group> {
    match Group::open(ip, 0, BUFFER) {
        Ok(group) => Some(group),
        Err(error) if ip.is_ipv6() => {
            eprintln!("skipped for {ip}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn waiting(group: &Group, slot: u8) -> u64 {
    drain(group.existing(slot).unwrap(), 1000).0
}

#[test]
fn packets_go_to_the_slot_of_their_destination() {
    for ip in ["127.0.7.1", "::1"] {
        let ip: IpAddr = ip.parse().unwrap();
        let Some(mut group) = open(ip) else { continue };
        group.socket(5, None).unwrap();
        assert_eq!(group.len(), 6);
        let sender = UdpSocket::bind((ip, 0)).unwrap();
        for slot in 0..=5 {
            for _ in 0..=slot {
                sender.send_to(&packet(slot), group.address()).unwrap();
            }
        }
        // No such slot, and too short to name one.
        sender.send_to(&packet(6), group.address()).unwrap();
        sender.send_to(&packet(255), group.address()).unwrap();
        sender.send_to(&[1, 2, 3, 4, 5], group.address()).unwrap();
        sender.send_to(&[], group.address()).unwrap();
        for slot in 1..=5 {
            assert_eq!(
                waiting(&group, slot),
                u64::from(slot) + 1,
                "slot {slot} of {ip}"
            );
        }
        assert_eq!(waiting(&group, 0), 5);

        group.socket(255, None).unwrap();
        for slot in [0, 3, 6, 200, 255] {
            sender.send_to(&packet(slot), group.address()).unwrap();
            assert_eq!(waiting(&group, slot), 1, "slot {slot} of {ip}");
        }
    }
}

#[test]
fn packets_of_a_cable_go_to_the_slot_of_their_destination() {
    let end: SocketAddr = "127.0.7.4:7101".parse().unwrap();
    let mut group = Group::open_cable(end, BUFFER).unwrap();
    group.socket(5, None).unwrap();
    let sender = UdpSocket::bind("127.0.7.4:0").unwrap();
    let send = |next: u8, at: usize, slot: u8, len: usize| {
        let mut packet = vec![0xff; len];
        packet[1] = 0xf0 | next;
        if let Some(byte) = packet.get_mut(at) {
            *byte = slot;
        }
        sender.send_to(&packet, end).unwrap();
    };
    for slot in 1..=5 {
        send(2, 13, slot, 60);
        send(3, 53, slot, 60);
        assert_eq!(waiting(&group, slot), 2, "slot {slot}");
    }
    // No such slot, no such header, too short; management.
    send(2, 13, 6, 60);
    send(1, 13, 5, 60);
    send(0, 13, 5, 60);
    send(3, 53, 5, 53);
    send(2, 13, 0, 60);
    assert_eq!(waiting(&group, 0), 5);
    // Multicast, whoever has the last slot.
    group.socket(255, None).unwrap();
    send(2, 13, 255, 60);
    send(3, 53, 255, 60);
    assert_eq!((waiting(&group, 0), waiting(&group, 255)), (2, 0));
    send(2, 15, 0xfe, 60);
    assert_eq!((waiting(&group, 0), waiting(&group, 255)), (0, 1));
}

#[test]
fn a_taken_port_is_told_with_its_address() {
    let other = UdpSocket::bind("127.0.7.2:4791").unwrap();
    let ip = "127.0.7.2".parse().unwrap();
    let message = Group::open(ip, 0, BUFFER).unwrap_err().to_string();
    assert!(message.contains("4791 of 127.0.7.2 is taken"), "{message}");
    drop(other);
    let group = Group::open(ip, 0, BUFFER).unwrap();
    let message = Group::open(ip, 0, BUFFER).unwrap_err().to_string();
    assert!(message.contains("by another ferroced"), "{message}");
    drop(group);
    Group::open(ip, 0, BUFFER).unwrap();
}

#[test]
fn a_kernel_that_cannot_steer_is_told_apart() {
    let address = "127.0.7.5:4791".parse().unwrap();
    let said = |errno| not_steered(address, errno).to_string();
    assert!(said(Errno::NOPROTOOPT).contains("SO_ATTACH_REUSEPORT_CBPF"));
    assert!(!said(Errno::NOMEM).contains("SO_ATTACH_REUSEPORT_CBPF"));
}

#[test]
fn an_address_of_another_host_is_told() {
    let error = Group::open("203.0.113.77".parse().unwrap(), 0, BUFFER).unwrap_err();
    assert!(
        matches!(error, DaemonError::NoSuchAddress { .. }),
        "{error}"
    );
}

#[test]
fn receive_buffers_are_as_large_as_allowed() {
    let group = Group::open("127.0.7.3".parse().unwrap(), 0, BUFFER).unwrap();
    assert!(group.granted_receive_buffer() >= 200_000);
}

/// Each slot's packets come to the socket that it has, and to no other.
fn all_are_steered(group: &Group, sender: &UdpSocket) {
    for slot in (0..=255).take(group.len()) {
        sender.send_to(&packet(slot), group.address()).unwrap();
        assert_eq!(waiting(group, slot), 1, "slot {slot}");
    }
}

#[test]
fn a_slot_that_passes_from_user_to_user_has_a_socket_for_each() {
    if !crate::udp_sockets::can_be_silenced() {
        eprintln!("skipped: sockets cannot be taken from users here");
        return;
    }
    let mut group = Group::open("127.0.7.6".parse().unwrap(), 0, BUFFER).unwrap();
    let sender = UdpSocket::bind("127.0.7.6:0").unwrap();
    let (a, b) = (Some(1), Some(2));
    // More than are looked for one after the other.
    let slots = [1, 2, 3].into_iter().chain(10..60).chain([200, 255]);
    group.socket(255, a).unwrap();
    let mut kept = Vec::new();
    for slot in slots.clone() {
        group.hand_out(slot, a).unwrap();
        kept.push(group.existing(slot).unwrap().try_clone().unwrap());
        assert!(!group.is_anothers(slot, a) && group.is_anothers(slot, b));
    }
    all_are_steered(&group, &sender);

    for slot in slots.clone() {
        group.vacate(slot).unwrap();
        assert!(group.existing(slot).is_none() && !group.is_anothers(slot, b));
        sender.send_to(&packet(slot), group.address()).unwrap();
        assert_eq!(waiting(&group, 0), 1);
        group.socket(slot, b).unwrap();
        group.hand_out(slot, b).unwrap();
    }
    all_are_steered(&group, &sender);
    // Not even if the kernel prefers them.
    for socket in &kept {
        rustix::net::connect(socket, &sender.local_addr().unwrap()).unwrap();
    }
    for slot in slots.clone() {
        sender.send_to(&packet(slot), group.address()).unwrap();
    }
    assert!(kept.iter().all(|socket| drain(socket, 1000).0 == 0));
}

#[test]
fn a_user_who_comes_again_has_his_own_sockets() {
    if !crate::udp_sockets::can_be_silenced() {
        eprintln!("skipped: sockets cannot be taken from users here");
        return;
    }
    for ip in ["127.0.7.8", "::1"] {
        let ip: IpAddr = ip.parse().unwrap();
        let Some(mut group) = open(ip) else { continue };
        let sender = UdpSocket::bind((ip, 0)).unwrap();
        for round in 0..3 {
            for user in [Some(1), Some(2)] {
                if group.is_anothers(2, user) {
                    group.vacate(2).unwrap();
                }
                group.socket(2, user).unwrap();
                group.hand_out(2, user).unwrap();
                all_are_steered(&group, &sender);
            }
            assert_eq!(group.members.len(), 4, "round {round}");
        }
    }
}

#[test]
fn what_is_for_others_is_kept_from_a_users_socket() {
    let own = |slot: u8| packet(slot).to_vec();
    let lrh = |next: u8, at: usize, slot: u8| {
        let mut packet = vec![0; 60];
        packet[1] = next;
        packet[at] = slot;
        packet
    };
    let end: SocketAddr = "127.0.7.9:7102".parse().unwrap();
    let roce = Group::open("127.0.7.9".parse().unwrap(), 0, BUFFER).unwrap();
    let cable = Group::open_cable(end, BUFFER).unwrap();
    let packets = |slot| [lrh(2, 13, slot), lrh(3, 53, slot)];
    let cases = [
        (roce, vec![own(3)], vec![own(2), own(4), vec![0; 5]]),
        (
            cable,
            packets(3).to_vec(),
            [packets(2), packets(0xff), [lrh(1, 13, 3), vec![3; 9]]].concat(),
        ),
    ];
    for (mut group, own, others) in cases {
        group.socket(4, Some(1)).unwrap();
        group.hand_out(3, Some(1)).unwrap();
        let sender = UdpSocket::bind((group.ip(), 0)).unwrap();
        let socket = group.existing(3).unwrap();
        // The kernel prefers it to all others.
        rustix::net::connect(socket, &sender.local_addr().unwrap()).unwrap();
        for packet in &others {
            sender.send_to(packet, group.address()).unwrap();
        }
        assert_eq!(waiting(&group, 3), 0);
        for packet in &own {
            sender.send_to(packet, group.address()).unwrap();
        }
        assert_eq!(waiting(&group, 3), own.len() as u64);
    }
}
