//! Many queue pairs of one path: they send in turn, nobody waits for ever, and each gets its share.

use std::net::IpAddr;

use ferroce_wire::ROCE_V2_PORT;
use ferroce_wire::icrc::{Flow, Verdict};

use super::*;
use crate::datapath::path::Path;
use crate::port::{Medium, Ports};
use crate::tuning::{DATAGRAMS_PER_ROUND, TURN_BYTES, TURN_WINDOW};
use crate::verbs::qp_init::QpInit;

/// Many more than the window has turns.
const QPS: usize = 64;
/// Bytes of a message, in packets of 1024.
const MESSAGE: usize = 64 << 10;
/// Messages that each queue pair sends.
const MESSAGES: usize = 12;

/// Another queue pair of a device.
fn another(side: &Side) -> Side {
    let Side { hca, pd, cq, .. } = side;
    let init = QpInit {
        qp_type: RC,
        send_cq: Some(cq.clone()),
        recv_cq: Some(cq.clone()),
        cap: QpCap {
            max_send_wr: MESSAGES as u32,
            ..CAP
        },
        sq_sig_all: true,
        ..QpInit::default()
    };
    let qp = pd.create_qp(init).unwrap();
    let (hca, pd, cq) = (hca.clone(), pd.clone(), cq.clone());
    Side { hca, pd, cq, qp }
}

/// Connects them. `timeout` as in the attributes of a queue pair: 0 is never.
fn connect(a: &Side, b: &Side, timeout: u8) {
    let attr = QpAttr {
        qp_access_flags: Access::from_bits_retain(0xf),
        path_mtu: 1024,
        timeout,
        ..QpAttr::default()
    };
    a.connect(b, attr).unwrap();
}

/// Pairs of queue pairs of two devices.
pub(super) fn pairs(timeout: u8) -> Vec<[Side; 2]> {
    let tied = Hca::tied(Faults::default()).unwrap();
    let [a, b] = tied.map(|hca| Side::of(hca, RC));
    let pair = |_| {
        let pair = [another(&a), another(&b)];
        connect(&pair[0], &pair[1], timeout);
        connect(&pair[1], &pair[0], timeout);
        pair
    };
    (0..QPS).map(pair).collect()
}

/// Bytes that a queue pair has in flight, as others are told.
fn in_flight(side: &Side) -> u32 {
    let numbers = side.hca.objects.numbers(side.qp.row.place());
    numbers.progress.in_flight
}

/// The path of the first of two queue pairs.
fn path_of([from, _]: &[Side; 2]) -> Arc<Path> {
    from.qp.inner.lock().path.clone().unwrap()
}

/// What polling brings until `done`, which is shown each completion.
fn poll_until(pair: &[Side; 2], mut done: impl FnMut(Option<&Wc>) -> bool) {
    let end = timers::now() + PATIENCE;
    while !done(None) {
        let mut ended = false;
        for wc in poll(&pair[0].cq) {
            ended = done(Some(&wc));
        }
        poll(&pair[1].cq);
        assert!(ended || timers::now() < end, "completions are missing");
    }
}

#[test]
fn each_gets_its_share_and_a_message_is_a_few_packets_there_and_one_back() {
    let _time = VirtualTime::begin();
    let pairs = pairs(20);
    let [a, b] = &pairs[0];
    let (mut here, mut there) = (pattern(MESSAGE, 1), vec![0; MESSAGE]);
    let ((_ma, s), (mb, d)) = (a.register(&mut here), b.register(&mut there));
    let (va, rkey) = (d.addr, mb.rkey());
    for [from, _] in &pairs {
        for _ in 0..MESSAGES {
            let op = SendOp::Write { va, rkey };
            from.post(op, SendData::Sges(&[s]), Dest::Connected);
        }
    }

    // Nothing has been answered. Those that have sent have sent a run's worth, the others nothing.
    // The first, who was alone then, has sent the most.
    let sent: Vec<_> = pairs.iter().map(|[from, _]| in_flight(from)).collect();
    let (some, none): (Vec<u32>, Vec<u32>) = sent.iter().partition(|bytes| **bytes > 0);
    assert!(none.len() > QPS / 2, "{} wait", none.len());
    assert!(some.iter().all(|bytes| *bytes >= TURN_WINDOW), "{some:?}");
    assert!(some.iter().sum::<u32>() as usize <= ROOM / 2, "{some:?}");

    let mut ended = vec![0_usize; QPS];
    poll_until(&pairs[0], |wc| {
        let Some(wc) = wc else {
            return ended.iter().sum::<usize>() == QPS * MESSAGES;
        };
        assert_eq!(wc.status, 0);
        let of = pairs
            .iter()
            .position(|[from, _]| from.qp.qp_num() == wc.qp_num);
        ended[of.unwrap()] += 1;

        // All of them have had as many turns, but for one.
        let (least, most) = (ended.iter().min().unwrap(), ended.iter().max().unwrap());
        let even = (most - least) * MESSAGE <= 2 * TURN_BYTES as usize;
        assert!(even, "{ended:?}");
        true
    });
    assert!(here == there);

    // No packet was sent twice, and no more than two acknowledgements came for a message.
    let messages = (QPS * MESSAGES) as u64;
    assert_eq!(
        a.count(Counter::TxPackets),
        messages * (MESSAGE / 1024) as u64
    );
    assert!(b.count(Counter::TxPackets) <= 2 * messages);
}

#[test]
fn answers_of_several_queue_pairs_share_a_send() {
    let _time = VirtualTime::begin();
    let pairs = pairs(20);
    let few = &pairs[..DATAGRAMS_PER_ROUND];
    let [a, b] = &pairs[0];
    let (mut here, mut there) = (pattern(64, 1), vec![0; 64]);
    let ((_ma, s), (mb, d)) = (a.register(&mut here), b.register(&mut there));
    let (va, rkey) = (d.addr, mb.rkey());
    for [from, _] in few {
        let op = SendOp::Write { va, rkey };
        from.post(op, SendData::Sges(&[s]), Dest::Connected);
    }

    // All have come before anything is answered.
    {
        let mut rx = b.hca.rx.lock();
        assert_eq!(b.hca.receive_a_round(&mut rx), few.len());
        b.hca.answer(&mut rx);
    }
    let sent = |side: &Side| side.hca.objects.numbers(side.qp.row.place());
    for [_, to] in few {
        assert_eq!(sent(to).counter(Counter::TxPackets), 1);
        assert!(to.qp.try_lock().is_some());
    }
    assert_eq!(b.count(Counter::TxPackets), few.len() as u64);

    // One run, each packet as whole as if it had come alone: the ICRC covers its place.
    let Ports::Ethernet(Medium::InProcess(end)) = a.hca.ports() else {
        unreachable!("there is no other port");
    };
    let frame = end.take().unwrap();
    assert!(end.take().is_none());
    let label = frame.label;
    let (IpAddr::V4(from), IpAddr::V4(to)) = (label.from, label.to) else {
        unreachable!("the ends have addresses of IPv4");
    };
    let flow = Flow::v4(from, to, label.port, ROCE_V2_PORT);
    let packets: Vec<&[u8]> = frame.bytes.chunks(frame.segment).collect();
    assert_eq!(packets.len(), few.len());
    for (place, (packet, [from, _])) in packets.into_iter().zip(few).enumerate() {
        assert_eq!(flow.verify(packet, place as u16), Verdict::Exact);
        let dest = u32::from_be_bytes([0, packet[5], packet[6], packet[7]]);
        assert_eq!(dest, from.qp.qp_num());
    }
}

#[test]
fn nobody_waits_for_those_whose_peers_are_silent() {
    let _time = VirtualTime::begin();
    // Without a Local ACK Timeout they are in the middle of their turn for ever.
    let pairs = pairs(0);
    let (silent, heard) = pairs.split_at(QPS / 2);
    let [a, b] = &pairs[0];
    let (mut here, mut there) = (pattern(MESSAGE, 1), vec![0; MESSAGE]);
    let ((_ma, s), (mb, d)) = (a.register(&mut here), b.register(&mut there));
    let (va, rkey) = (d.addr, mb.rkey());
    for [_, to] in silent {
        let reset = QpAttr::default();
        to.qp.modify(&reset, M::STATE).unwrap();
    }
    for [from, _] in &pairs {
        let op = SendOp::Write { va, rkey };
        from.post(op, SendData::Sges(&[s]), Dest::Connected);
    }

    let mut ended = 0;
    poll_until(&pairs[0], |wc| {
        ended += usize::from(wc.is_some_and(|wc| wc.status == 0));
        ended == heard.len()
    });
    assert!(here == there);
}

#[test]
fn whoever_leaves_the_queue_leaves_no_gap() {
    let _time = VirtualTime::begin();
    let pairs = pairs(20);
    let [a, b] = &pairs[0];
    let (mut here, mut there) = (pattern(MESSAGE, 1), vec![0; MESSAGE]);
    let ((_ma, s), (mb, d)) = (a.register(&mut here), b.register(&mut there));
    let (va, rkey) = (d.addr, mb.rkey());
    let write = |side: &Side| {
        let op = SendOp::Write { va, rkey };
        side.post(op, SendData::Sges(&[s]), Dest::Connected);
    };
    pairs.iter().for_each(|[from, _]| write(from));

    // Of three, one fails, one is destroyed, and one begins anew.
    let mut wanted = QPS;
    for (n, [from, to]) in pairs.iter().enumerate() {
        match n % 3 {
            0 => {
                let end = QpAttr {
                    qp_state: QpState::Err,
                    ..QpAttr::default()
                };
                from.qp.modify(&end, M::STATE).unwrap();
            }
            1 => {
                from.qp.end();
                wanted -= 1;
            }
            _ => {
                let reset = QpAttr::default();
                from.qp.modify(&reset, M::STATE).unwrap();
                to.qp.modify(&reset, M::STATE).unwrap();
                connect(from, to, 20);
                connect(to, from, 20);
                write(from);
            }
        }
    }

    let mut ended = 0;
    poll_until(&pairs[0], |wc| {
        ended += usize::from(wc.is_some());
        ended == wanted
    });
    let path = path_of(&pairs[2]);
    let turns = &path.congestion.turns;
    assert_eq!((turns.taken(), turns.are_wanted()), (0, false));
}
