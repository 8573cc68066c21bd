//! UD over real sockets: address handles, the GRH, Q_Keys, multicast, and the pace of sending.

mod common;
#[path = "datagrams/end.rs"]
mod end;

use std::time::{Duration, Instant};

use common::*;
use end::*;
use ferroce_engine::*;

#[test]
fn the_grh_says_where_a_datagram_came_from() {
    let (a, b) = (end("127.0.40.1"), end("127.0.40.2"));
    b.receive(&b.qp, 1);
    let ah = a.host.ah(b.gid());
    send(&a.qp, &ah, b.qp.qp_num(), QKEY, b"hello").unwrap();
    let sent = wait(&a.cq, 1)[0];
    assert_eq!((sent.status, sent.opcode, sent.wr_id), (0, 0, 9));
    let got = wait(&b.cq, 1)[0];
    assert_eq!((got.status, got.opcode, got.byte_len), (0, 128, 45));

    // IBV_WC_GRH and IBV_WC_WITH_IMM
    assert_eq!((got.wc_flags, got.imm_data), (3, [4, 3, 2, 1]));
    assert_eq!((got.src_qp, got.qp_num), (a.qp.qp_num(), b.qp.qp_num()));
    assert_eq!(b.buffer[40..45], *b"hello");
    let ip = &b.buffer[20..40];
    assert_eq!(b.buffer[..20], [0; 20]);

    // version, length of all, TTL, UDP, addresses
    assert_eq!((ip[0], ip[9]), (0x45, 17));
    assert_eq!(ip[8], 64);
    let total = u16::from_be_bytes([ip[2], ip[3]]);

    // IP, UDP, BTH, DETH, immediate, payload and pad, ICRC
    assert_eq!(total, 20 + 8 + 12 + 8 + 4 + 8 + 4);
    assert_eq!(ip[12..], [127, 0, 40, 1, 127, 0, 40, 2]);
}

#[test]
fn traffic_class_and_hop_limit_arrive() {
    let (a, b) = (end("127.0.41.1"), end("127.0.41.2"));
    b.receive(&b.qp, 1);
    let av = AddressVector {
        traffic_class: 0x20,
        hop_limit: 7,
        ..address(b.gid())
    };
    let ah = a.host.pd.create_ah(&av, COOKIE).unwrap();
    send(&a.qp, &ah, b.qp.qp_num(), QKEY, b"x").unwrap();
    wait(&b.cq, 1);
    assert_eq!((b.buffer[21], b.buffer[28]), (0x20, 7));
}

#[test]
fn a_wrong_qkey_is_dropped_and_counted() {
    let (a, b) = (end("127.0.42.1"), end("127.0.42.2"));
    b.receive(&b.qp, 1);
    let ah = a.host.ah(b.gid());
    let before = b.host.hca.port_attr(1).unwrap().qkey_viol_cntr;
    send(&a.qp, &ah, b.qp.qp_num(), QKEY + 1, b"no").unwrap();
    // With the top bit the queue pair's own is sent.
    send(&a.qp, &ah, b.qp.qp_num(), 1 << 31, b"yes").unwrap();
    let got = wait(&b.cq, 1)[0];
    assert_eq!((got.status, got.byte_len), (0, 43));
    quiet(&b.cq);
    assert_eq!(b.host.hca.port_attr(1).unwrap().qkey_viol_cntr, before + 1);
    assert_eq!(wait(&a.cq, 2).iter().map(|wc| wc.status).sum::<u32>(), 0);
}

#[test]
fn address_handles_of_others_and_of_the_past_are_refused() {
    let a = end("127.0.43.1");
    let invalid = |r: Result<()>| assert_eq!(r.unwrap_err().errno(), libc::EINVAL);
    let other = a.host.context.alloc_pd().unwrap();
    let foreign = other.create_ah(&address(a.gid()), COOKIE).unwrap();
    invalid(send(&a.qp, &foreign, 5, QKEY, b"x"));
    assert_eq!(other.dealloc().unwrap_err().errno(), libc::EBUSY);
    drop(foreign);
    other.dealloc().unwrap();

    let ah = a.host.ah(a.gid());
    let number = ah.handle();
    drop(ah);

    // Most likely the next one takes the same place: its number is another all the same.
    let next = a.host.ah(a.gid());
    assert_ne!(next.handle(), number);
    let stale = Datagram {
        ah: number,
        cookie: next.cookie(),
        qpn: a.qp.qp_num(),
        qkey: QKEY,
    };

    let request = |dest| SendRequest {
        wr_id: 1,
        op: SendOp::Send,
        flags: SendFlags::SIGNALED,
        data: SendData::Inline(b"x"),
        dest: Dest::Datagram(dest),
    };
    invalid(a.qp.post_send(&request(stale)));

    // Nor is the number of a handle that lives that handle, without what that was made with.
    let overwritten = Datagram {
        ah: next.handle(),
        cookie: !next.cookie(),
        ..stale
    };
    invalid(a.qp.post_send(&request(overwritten)));

    let refused = |av: &AddressVector| a.host.pd.create_ah(av, COOKIE).err().map(|e| e.errno());
    let good = address(a.gid());
    let bad = [
        AddressVector {
            port_num: 2,
            ..good
        },
        AddressVector {
            is_global: false,
            dlid: 7,
            ..good
        },
        AddressVector {
            sgid_index: 63,
            ..good
        },
        // an IPv6 destination from an IPv4 source, and nowhere
        AddressVector {
            dgid: [0xfe; 16],
            ..good
        },
        AddressVector {
            dgid: [0; 16],
            ..good
        },
    ];

    for av in &bad {
        assert_eq!(refused(av), Some(libc::EINVAL), "{av:?}");
    }

    // Without a GRH a handle leads back to the port, for a domain that has datagrams of its own.
    let back = AddressVector {
        is_global: false,
        ..good
    };

    let without = a.host.context.alloc_pd().unwrap();
    assert_eq!(refused(&back), None);
    assert_eq!(
        without.create_ah(&back, COOKIE).err().map(|e| e.errno()),
        Some(libc::EINVAL)
    );

    quiet(&a.cq);
}

#[test]
fn every_attached_queue_pair_gets_its_copy() {
    let (a, b) = (end("127.0.44.1"), end("127.0.44.2"));
    let (second_cq, one) = (b.host.cq(64), group(1));
    let second = b.host.datagrams(&second_cq, CAP, QKEY);
    for qp in [&b.qp, &second, &a.qp] {
        qp.attach_mcast(one, 0).unwrap();
    }

    // Once more changes nothing, and with another LID it is a second attachment, but no second
    // copy.
    second.attach_mcast(one, 0).unwrap();
    second.attach_mcast(one, 1).unwrap();
    second.detach_mcast(one, 0).unwrap();
    b.receive(&b.qp, 4);
    b.receive(&second, 4);
    a.receive(&a.qp, 4);
    let ah = a.host.ah(one);
    send(&a.qp, &ah, 0xff_ffff, QKEY, b"all").unwrap();
    for (cq, n) in [(&b.cq, 1), (&second_cq, 1), (&a.cq, 2)] {
        let got = wait(cq, n);
        let copy = got.iter().find(|wc| wc.opcode == 128).unwrap();
        assert_eq!((copy.status, copy.byte_len), (0, 43));
        assert_eq!((copy.src_qp, copy.wc_flags & 1), (a.qp.qp_num(), 1));
        quiet(cq);
    }

    // The group is the destination in the GRH.
    assert_eq!(b.buffer[36..40], [239, 40, 0, 1]);

    assert_eq!(second.close(0).unwrap_err().errno(), libc::EBUSY);
    second.detach_mcast(one, 1).unwrap();
    assert_eq!(
        second.detach_mcast(one, 1).unwrap_err().errno(),
        libc::EINVAL
    );

    send(&a.qp, &ah, 0xff_ffff, QKEY, b"few").unwrap();
    wait(&b.cq, 1);
    wait(&a.cq, 2);
    quiet(&second_cq);
    second.close(0).unwrap();

    // Another group does not reach them.
    let other = a.host.ah(group(2));
    send(&a.qp, &other, 0xff_ffff, QKEY, b"none").unwrap();
    wait(&a.cq, 1);
    quiet(&b.cq);

    b.qp.detach_mcast(one, 0).unwrap();
    a.qp.detach_mcast(one, 0).unwrap();
    send(&a.qp, &ah, 0xff_ffff, QKEY, b"gone").unwrap();
    wait(&a.cq, 1);
    quiet(&b.cq);

    // And again.
    b.qp.attach_mcast(one, 0).unwrap();
    send(&a.qp, &ah, 0xff_ffff, QKEY, b"back").unwrap();
    wait(&b.cq, 1);
    b.qp.detach_mcast(one, 0).unwrap();

    // A packet is counted once for all members, among all packets and among those of groups.
    let counted = |host: &Host| {
        let names = [
            "sent_pkts",
            "sent_mcast_pkts",
            "rcvd_pkts",
            "rcvd_mcast_pkts",
        ];
        names.map(|name| host.counter(name))
    };

    assert_eq!(counted(&a.host), [5, 5, 2, 2]);
    assert_eq!(counted(&b.host), [0, 0, 3, 3]);
    b.receive(&b.qp, 1);
    let to_one = a.host.ah(b.gid());
    send(&a.qp, &to_one, b.qp.qp_num(), QKEY, b"one").unwrap();
    wait(&b.cq, 1);
    assert_eq!(counted(&a.host)[..2], [6, 5]);
    assert_eq!(counted(&b.host)[2..], [4, 3]);
}

#[test]
fn a_sender_can_be_spared_its_own_copies() {
    let a = end("127.0.45.1");
    let cq = a.host.cq(16);
    let init = QpInit {
        qp_type: 4,
        send_cq: Some(cq.clone()),
        recv_cq: Some(cq.clone()),
        cap: CAP,
        block_loopback: true,
        ..QpInit::default()
    };

    let qp = a.host.pd.create_qp(init).unwrap();
    start_datagrams(&qp, QKEY);
    for member in [&qp, &a.qp] {
        member.attach_mcast(group(3), 0).unwrap();
        a.receive(member, 1);
    }

    send(&qp, &a.host.ah(group(3)), 0xff_ffff, QKEY, b"others").unwrap();
    wait(&a.cq, 1);
    assert_eq!(wait(&cq, 1)[0].opcode, 0, "the send, and no copy");
    quiet(&cq);
    for member in [&qp, &a.qp] {
        member.detach_mcast(group(3), 0).unwrap();
    }
}

#[test]
fn an_ipv6_group_reaches_senders_of_either_family() {
    // ff01:0:2:c985::40, as perftest's: IPv4 senders use the group that stands in for it, and so do
    // those at ::1.
    let mut gid = [0; 16];
    (gid[0], gid[1], gid[5], gid[15]) = (0xff, 1, 2, 0x40);
    let a = end("127.0.46.1");
    a.qp.attach_mcast(gid, 0).unwrap();
    a.receive(&a.qp, 2);
    send(&a.qp, &a.host.ah(gid), 0xff_ffff, QKEY, b"four").unwrap();
    wait(&a.cq, 2);
    let b = end("::1");
    send(&b.qp, &b.host.ah(gid), 0xff_ffff, QKEY, b"six").unwrap();
    let got = wait(&a.cq, 1)[0];
    assert_eq!((got.opcode, got.byte_len), (128, 43));
    a.qp.detach_mcast(gid, 0).unwrap();
}

#[test]
fn as_many_groups_as_promised_and_no_more() {
    let a = end("127.0.47.1");
    let promised = a.host.hca.device_attr().max_mcast_grp as u8;
    let other = |n| {
        let mut gid = group(n);
        gid[14] = 47;
        gid
    };
    for n in 0..promised {
        a.qp.attach_mcast(other(n), 0).unwrap();
    }
    let full = a.qp.attach_mcast(other(promised), 0).unwrap_err();
    assert_eq!(full.errno(), libc::ENOMEM);
    a.qp.detach_mcast(other(0), 0).unwrap();
    a.qp.attach_mcast(other(promised), 0).unwrap();
    for n in 1..=promised {
        a.qp.detach_mcast(other(n), 0).unwrap();
    }
    let not_multicast = a.qp.attach_mcast(a.gid(), 0).unwrap_err();
    assert_eq!(not_multicast.errno(), libc::EINVAL);
    let rc = a.host.qp(&a.cq, CAP);
    let not_ud = rc.attach_mcast(group(1), 0).unwrap_err();
    assert_eq!(not_ud.errno(), libc::EINVAL);
}

/// More than the receive buffer of an unprivileged user holds, many times over, while the receiver
/// takes its time.
#[test]
fn a_receiver_on_this_machine_is_not_run_over() {
    const N: usize = 6_000;
    const DEPTH: u32 = 512;

    let cap = QpCap {
        max_send_wr: DEPTH,
        // What the sender may have outstanding and what it adds between two looks of the receiver.
        max_recv_wr: 2 * DEPTH,
        ..CAP
    };

    let hosts = ["127.0.48.1", "127.0.48.2"].map(|ip| Host::with_buffer(ip, Some(106_496)));
    let [(a, cq_a), (b, cq_b)] = hosts.each_ref().map(|h| (h, h.cq(4 * DEPTH)));
    let (qa, qb) = (a.datagrams(&cq_a, cap, QKEY), b.datagrams(&cq_b, cap, QKEY));
    let mut source = vec![7u8; 4096];
    let mut target = vec![0u8; 4136];
    let (ms, mt) = (a.mr(&mut source), b.mr(&mut target));
    let sge = |bytes: &[u8], mr: &Mr| Sge {
        addr: bytes.as_ptr() as u64,
        length: bytes.len() as u32,
        lkey: mr.lkey(),
    };
    let (from, to) = (sge(&source, &ms), sge(&target, &mt));
    for _ in 0..2 * DEPTH {
        qb.post_recv(0, &[to]).unwrap();
    }
    let ah = a.ah(b.hca.gids()[0].gid);
    let dest = Dest::Datagram(Datagram {
        ah: ah.handle(),
        cookie: ah.cookie(),
        qpn: qb.qp_num(),
        qkey: QKEY,
    });

    let (mut posted, mut sent, mut received) = (0, 0, 0);
    let end = Instant::now() + Duration::from_secs(30);
    while sent < N || received < N {
        if posted < N && posted - sent < DEPTH as usize {
            let request = SendRequest {
                wr_id: 0,
                op: SendOp::Send,
                flags: SendFlags::SIGNALED,
                data: SendData::Sges(&[from]),
                dest,
            };
            qa.post_send(&request).unwrap();
            posted += 1;
        }

        let mut wc = [Wc::default(); 16];
        sent += cq_a.poll(&mut wc).unwrap();

        // The receiver takes nothing for a while, and then all that there is.
        if posted % 64 == 0 || posted == N {
            loop {
                let n = cq_b.poll(&mut wc).unwrap();
                for _ in 0..n {
                    qb.post_recv(0, &[to]).unwrap();
                }
                received += n;
                if n == 0 {
                    break;
                }
            }
        }

        assert!(Instant::now() < end, "{sent} sent, {received} received");
    }
}
