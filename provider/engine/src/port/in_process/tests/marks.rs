//! Marks of congestion on the way: whoever sends is told, and held to a rate where the device has
//! DCQCN.

use super::*;
use ferroce_control::CongestionControl;
use ferroce_transport::AddressVector;

/// TOS of a packet that the network has marked.
const CE: u8 = 3;
const UC: u32 = 3;

/// Two sides, of which the first's packets all come marked.
fn marked(control: CongestionControl, qp_type: u32) -> [Side; 2] {
    let sides = Hca::tied_with(Faults::default(), control).unwrap();
    let sides = sides.map(|hca| Side::of(hca, qp_type));
    for (me, peer, traffic_class) in [(&sides[0], &sides[1], CE), (&sides[1], &sides[0], 0)] {
        let attr = |qp_state| QpAttr {
            qp_state,
            port_num: 1,
            dest_qp_num: peer.qp.qp_num(),
            av: AddressVector {
                traffic_class,
                ..peer.address()
            },
            qp_access_flags: Access::from_bits_retain(0xf),
            path_mtu: 4096,
            min_rnr_timer: 1,
            timeout: 20,
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            retry_cnt: 7,
            rnr_retry: 7,
            ..QpAttr::default()
        };
        let init = M::STATE | M::PORT | M::PKEY_INDEX | M::ACCESS_FLAGS;
        let mut rtr = M::STATE | M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        let mut rts = M::STATE | M::SQ_PSN;
        if qp_type == RC {
            rtr |= M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
            rts |= M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
        }
        me.qp.modify(&attr(QpState::Init), init).unwrap();
        me.qp.modify(&attr(QpState::Rtr), rtr).unwrap();
        me.qp.modify(&attr(QpState::Rts), rts).unwrap();
    }
    sides
}

fn pace(side: &Side) -> Option<u64> {
    let numbers = side.qp.insight().unwrap().numbers;
    numbers.pace.map(|pace| pace.rate)
}

/// WRITEs again and again; returns in how many of them it was held to a rate, and the least.
fn writes(sides: &[Side; 2], len: usize, times: usize) -> (usize, u64) {
    let [a, b] = sides;
    let (mut here, mut there) = (pattern(len, 5), vec![0; len]);
    let ((_ma, s), (mb, d)) = (a.register(&mut here), b.register(&mut there));
    let (va, rkey) = (d.addr, mb.rkey());
    let (mut held, mut least) = (0, u64::MAX);
    for _ in 0..times {
        let op = SendOp::Write { va, rkey };
        a.post(op, SendData::Sges(&[s]), Dest::Connected);
        let [sent, _] = wait(sides, [1, 0]);
        assert_eq!(sent[0].status, 0);
        if let Some(rate) = pace(a) {
            held += 1;
            least = least.min(rate);
        }
    }
    // Of what nobody acknowledges some is still on its way, and so are CNPs.
    let end = timers::now() + PATIENCE;
    while b.count(Counter::RxPackets) < a.count(Counter::TxPackets)
        || a.count(Counter::RxPackets) < b.count(Counter::TxPackets)
    {
        assert!(poll(&a.cq).is_empty() && poll(&b.cq).is_empty());
        assert!(timers::now() < end, "packets are on their way for ever");
    }
    assert!(here == there);
    (held, least)
}

#[test]
fn a_mark_brings_a_cnp_and_the_rate_falls() {
    let _time = VirtualTime::begin();
    let sides = marked(CongestionControl::Dcqcn, RC);
    let [a, b] = &sides;
    let (held, least) = writes(&sides, 200_000, 100);
    assert!(held > 50, "held to a rate after {held} of 100 WRITEs");
    // As low as it goes: all was marked, and each CNP takes a part of what there is.
    assert!(least < 50_000_000, "{least} bytes a second at least");

    let packets = 100 * 200_000_u64.div_ceil(4096);
    assert!(b.count(Counter::EcnMarked) >= packets);
    let told = b.count(Counter::CnpSent);
    assert!((10..packets).contains(&told), "{told} CNPs");
    assert_eq!(a.count(Counter::CnpHandled), told);
    assert_eq!(a.count(Counter::CnpSent), 0);
    assert_eq!(pace(b), None, "nobody marks what it sends");
    assert_eq!(a.count(Counter::RetransmittedPackets), 0);
}

#[test]
fn with_a_window_alone_the_peer_is_told_all_the_same() {
    let _time = VirtualTime::begin();
    let sides = marked(CongestionControl::Aimd, RC);
    let [a, b] = &sides;
    assert_eq!(writes(&sides, 200_000, 20).0, 0, "no rate");
    assert!(b.count(Counter::CnpSent) > 0);
    assert_eq!(a.count(Counter::CnpHandled), b.count(Counter::CnpSent));
}

#[test]
fn answers_are_held_to_the_rate_too() {
    let _time = VirtualTime::begin();
    let sides = marked(CongestionControl::Dcqcn, RC);
    let [a, b] = &sides;
    let len = 400_000;
    let (mut here, mut there) = (pattern(len, 9), vec![0; len]);
    let ((ma, s), (_mb, d)) = (a.register(&mut here), b.register(&mut there));
    let (va, rkey) = (s.addr, ma.rkey());
    for _ in 0..10 {
        b.post(
            SendOp::Read { va, rkey },
            SendData::Sges(&[d]),
            Dest::Connected,
        );
        let [_, read] = wait(&sides, [0, 1]);
        assert_eq!(read[0].status, 0);
    }
    assert!(here == there);
    assert!(a.count(Counter::CnpHandled) > 0);
    assert!(pace(a).is_some());
}

#[test]
fn what_nobody_acknowledges_has_a_rate_too() {
    let _time = VirtualTime::begin();
    let sides = marked(CongestionControl::Dcqcn, UC);
    let [a, b] = &sides;
    let (held, least) = writes(&sides, 200_000, 100);
    assert!(
        held > 50 && least < 100_000_000,
        "{held} of 100, {least} B/s"
    );
    assert_eq!(a.count(Counter::CnpHandled), b.count(Counter::CnpSent));
    assert!(b.count(Counter::CnpSent) > 0);
}
