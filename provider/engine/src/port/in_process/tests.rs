//! The engine end to end, over a way that loses, changes, repeats and delays packets as a seed
//! says.

mod backlog;
mod company;
mod ending;
mod many;
mod marks;
mod numbers;

use std::sync::Arc;
use std::time::Duration;

use ferroce_control::Counter;
use ferroce_transport::{
    Access, Datagram, Dest, QpAttr, QpAttrMask as M, QpCap, QpState, SendData, SendFlags, SendOp,
    SendRequest, Sge,
};

use super::faults::Fate;
use super::queue::ROOM;
use super::{Faults, Side};
use crate::hca::Hca;
use crate::progress::timers;
use crate::progress::virtual_time::VirtualTime;
use crate::verbs::cq::Cq;
use crate::verbs::mr::Mr;
use crate::verbs::wc::Wc;

/// Of virtual time.
const PATIENCE: Duration = Duration::from_secs(20);
/// `enum ibv_qp_type`.
const RC: u32 = 2;
const UC: u32 = 3;
const UD: u32 = 4;
const QKEY: u32 = 0x1111_1111;

/// Room in each queue.
const CAP: QpCap = QpCap {
    max_send_wr: 2048,
    max_recv_wr: 2048,
    max_send_sge: 1,
    max_recv_sge: 1,
    max_inline_data: 64,
};

impl Side {
    fn of(hca: Arc<Hca>, qp_type: u32) -> Side {
        assert!(VirtualTime::now().is_some(), "a loaded machine is late");
        Side::new(hca, qp_type, CAP, 4096).unwrap()
    }

    fn register(&self, bytes: &mut [u8]) -> (Arc<Mr>, Sge) {
        let addr = bytes.as_mut_ptr() as u64;
        let mr = (self.pd).reg_mr(addr, bytes.len() as u64, addr, 0xf);
        let mr = mr.unwrap();
        let all = Sge {
            addr,
            length: bytes.len() as u32,
            lkey: mr.lkey(),
        };
        (mr, all)
    }

    fn post(&self, op: SendOp, data: SendData<'_>, dest: Dest) {
        let request = SendRequest {
            wr_id: 1,
            op,
            flags: SendFlags::SIGNALED,
            data,
            dest,
        };
        self.qp.post_send(&request).unwrap();
    }

    fn count(&self, counter: Counter) -> u64 {
        self.hca.counters().read(counter)
    }
}

/// Two sides with connected queue pairs.
fn connected(faults: Faults) -> [Side; 2] {
    let sides = Hca::tied(faults).unwrap().map(|hca| Side::of(hca, RC));

    for (me, peer) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])] {
        let attr = QpAttr {
            qp_access_flags: Access::from_bits_retain(0xf),
            path_mtu: 1024,
            min_rnr_timer: 1,
            timeout: 9,
            ..QpAttr::default()
        };
        me.connect(peer, attr).unwrap();
    }

    sides
}

/// Two sides with queue pairs for datagrams.
fn for_datagrams(faults: Faults) -> [Side; 2] {
    let sides = Hca::tied(faults).unwrap().map(|hca| Side::of(hca, UD));
    for side in &sides {
        let attr = |qp_state| QpAttr {
            qp_state,
            port_num: 1,
            qkey: QKEY,
            ..QpAttr::default()
        };

        let init = M::STATE | M::PORT | M::PKEY_INDEX | M::QKEY;
        let (rtr, rts) = (M::STATE, M::STATE | M::SQ_PSN);
        for (state, mask) in [
            (QpState::Init, init),
            (QpState::Rtr, rtr),
            (QpState::Rts, rts),
        ] {
            side.qp.modify(&attr(state), mask).unwrap();
        }
    }

    sides
}

fn poll(cq: &Cq) -> Vec<Wc> {
    let mut wc = [Wc::default(); 16];
    let n = cq.poll(&mut wc).unwrap();
    wc[..n].to_vec()
}

/// Polls both until there are as many completions of each.
fn wait([a, b]: &[Side; 2], wanted: [usize; 2]) -> [Vec<Wc>; 2] {
    let end = timers::now() + PATIENCE;
    let mut got = [Vec::new(), Vec::new()];
    while got[0].len() < wanted[0] || got[1].len() < wanted[1] {
        got[0].extend(poll(&a.cq));
        got[1].extend(poll(&b.cq));
        let have = got.each_ref().map(Vec::len);
        assert!(timers::now() < end, "{have:?} of {wanted:?} completions");
    }
    got
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (i.wrapping_mul(seed | 1) >> 5) as u8)
        .collect()
}

const FAULTS: Faults = Faults {
    seed: 0,
    lost: 10,
    changed: 10,
    repeated: 10,
    late: 10,
};

#[test]
fn every_byte_arrives_whatever_happens_on_the_way() {
    let _time = VirtualTime::begin();
    let mut mended = 0;
    for seed in 0..8 {
        let sides = connected(Faults { seed, ..FAULTS });
        let [a, b] = &sides;
        let len = 300_001;
        let (mut here, mut there) = (pattern(len, seed), vec![0; len]);
        let ((_ma, s), (mb, d)) = (a.register(&mut here), b.register(&mut there));
        let (va, rkey) = (d.addr, mb.rkey());
        let ok = |wcs: &[Wc]| assert!(wcs.iter().all(|wc| wc.status == 0), "{seed}: {wcs:?}");

        a.post(
            SendOp::Write { va, rkey },
            SendData::Sges(&[s]),
            Dest::Connected,
        );

        ok(&wait(&sides, [1, 0])[0]);
        assert!(here == there, "{seed}: WRITE");

        here.fill(0);
        a.post(
            SendOp::Read { va, rkey },
            SendData::Sges(&[s]),
            Dest::Connected,
        );

        ok(&wait(&sides, [1, 0])[0]);
        assert!(here == pattern(len, seed), "{seed}: READ");

        there.fill(0);
        b.qp.post_recv(9, &[d]).unwrap();
        a.post(SendOp::Send, SendData::Sges(&[s]), Dest::Connected);
        let [sent, received] = wait(&sides, [1, 1]);
        ok(&sent);
        ok(&received);
        assert_eq!((received[0].wr_id, received[0].byte_len), (9, len as u32));
        assert!(here == there, "{seed}: SEND");

        let wrong = a.count(Counter::RxIcrcErrors) + b.count(Counter::RxIcrcErrors);
        assert!(wrong > 0, "{seed}: nothing was changed on the way");
        mended += a.count(Counter::RetransmittedPackets) + b.count(Counter::RetransmittedPackets);
    }

    assert!(mended > 100, "{mended} packets were sent again");
}

#[test]
fn an_atomic_is_done_once_however_often_it_comes() {
    let _time = VirtualTime::begin();
    let faults = Faults {
        seed: 77,
        lost: 50,
        changed: 0,
        repeated: 100,
        late: 50,
    };
    let sides = connected(faults);
    let [a, b] = &sides;
    let (mut cell, mut answer) = ([0u64], [0u64]);

    // SAFETY: any bytes are integers, and nobody else uses the cells but the engine.
    let bytes = |cell: &mut [u64; 1]| unsafe {
        std::slice::from_raw_parts_mut(cell.as_mut_ptr().cast::<u8>(), 8)
    };
    let (mc, c) = b.register(bytes(&mut cell));
    let (_ma, to) = a.register(bytes(&mut answer));
    for n in 0..500 {
        let (va, rkey) = (c.addr, mc.rkey());
        let op = SendOp::FetchAdd { va, rkey, add: 3 };
        a.post(op, SendData::Sges(&[to]), Dest::Connected);
        assert_eq!(wait(&sides, [1, 0])[0][0].status, 0);
        assert_eq!(answer, [3 * n]);
    }

    assert_eq!(cell, [1500]);
    assert!(b.count(Counter::DuplicateRequest) > 20);
}

#[test]
fn without_faults_each_packet_is_sent_once() {
    let _time = VirtualTime::begin();
    let sides = connected(Faults::default());
    let [a, b] = &sides;
    let (mut here, mut there) = (pattern(1 << 20, 5), vec![0; 1 << 20]);
    let ((_ma, s), (mb, d)) = (a.register(&mut here), b.register(&mut there));
    let (va, rkey) = (d.addr, mb.rkey());
    a.post(
        SendOp::Write { va, rkey },
        SendData::Sges(&[s]),
        Dest::Connected,
    );

    wait(&sides, [1, 0]);
    assert!(here == there);
    assert_eq!(a.count(Counter::TxPackets), 1024);
    assert_eq!(b.count(Counter::RxPackets), 1024);
    assert_eq!(a.count(Counter::RetransmittedPackets), 0);
    for counter in [Counter::RxIcrcErrors, Counter::RxParseErrors] {
        assert_eq!(b.count(counter), 0, "{}", counter.name());
    }
}

#[test]
fn a_peer_that_hears_nothing_is_given_up() {
    let _time = VirtualTime::begin();
    let lost = Faults {
        lost: 1000,
        ..Faults::default()
    };
    let sides = connected(lost);
    let (va, rkey) = (0, 0);
    let data = SendData::Inline(&[1; 8]);
    sides[0].post(SendOp::Write { va, rkey }, data, Dest::Connected);
    // `IBV_WC_RETRY_EXC_ERR`
    assert_eq!(wait(&sides, [1, 0])[0][0].status, 12);
    assert_eq!(sides[0].count(Counter::TxPackets), 8);
    assert_eq!(sides[0].qp.state(), QpState::Err);
}

#[test]
fn of_datagrams_what_comes_is_as_it_was_sent() {
    const MANY: u64 = 1000;

    let _time = VirtualTime::begin();
    let faults = Faults {
        seed: 3,
        lost: 100,
        changed: 100,
        repeated: 0,
        late: 0,
    };
    let sides = for_datagrams(faults);
    let [a, b] = &sides;
    let mut places = vec![0; MANY as usize * 100];
    let (_mr, all) = b.register(&mut places);
    for n in 0..MANY {
        let place = Sge {
            addr: all.addr + n * 100,
            length: 100,
            ..all
        };
        b.qp.post_recv(n, &[place]).unwrap();
    }

    let ah = a.pd.create_ah(&b.address(), 0).unwrap();
    for n in 0..MANY {
        let to = Datagram {
            ah: ah.handle(),
            cookie: 0,
            qpn: b.qp.qp_num(),
            qkey: QKEY,
        };
        let bytes = pattern(60, n);
        a.post(SendOp::Send, SendData::Inline(&bytes), Dest::Datagram(to));
    }

    let [_, mut completions] = wait(&sides, [MANY as usize, 0]);

    // Each poll takes a packet or more.
    (0..MANY).for_each(|_| completions.extend(poll(&b.cq)));
    let dropped = b.count(Counter::RxIcrcErrors);
    assert!(
        (600..900).contains(&completions.len()),
        "{} arrived",
        completions.len()
    );

    assert!((50..200).contains(&dropped), "{dropped} had wrong ICRCs");
    let mut n = 0;
    for wc in &completions {
        assert_eq!((wc.status, wc.byte_len), (0, 100));
        let bytes = &places[wc.wr_id as usize * 100 + 40..][..60];
        // In order, with gaps.
        n = (n..MANY)
            .find(|n| pattern(60, *n) == bytes)
            .expect("a datagram that was sent, behind the one before")
            + 1;
    }
}

#[test]
fn who_sends_without_acknowledgement_waits_for_room() {
    let _time = VirtualTime::begin();
    let sides = for_datagrams(Faults::default());
    let [a, b] = &sides;
    let mut memory = pattern(4096, 1);
    let (_mr, all) = a.register(&mut memory);
    let ah = a.pd.create_ah(&b.address(), 0).unwrap();
    let to = Datagram {
        ah: ah.handle(),
        cookie: 0,
        qpn: b.qp.qp_num(),
        qkey: QKEY,
    };

    let many = ROOM / 4096 + 500;
    for _ in 0..many {
        a.post(SendOp::Send, SendData::Sges(&[all]), Dest::Datagram(to));
    }
    let mut sent = poll(&a.cq).len();
    for _ in 0..1000 {
        sent += poll(&a.cq).len();
    }

    // What is on its way is half of what there is room for, and a run more.
    assert!((400..700).contains(&sent), "{sent} were sent");
    assert_eq!(a.count(Counter::TxErrors), 0);
    wait(&sides, [many - sent, 0]);
    assert_eq!(a.count(Counter::TxPackets), many as u64);
    while b.count(Counter::RxPackets) < many as u64 {
        poll(&b.cq);
    }
    assert_eq!(b.count(Counter::RxNoReceive), many as u64);
}

#[test]
fn a_seed_says_all() {
    let fates = |seed| {
        let mut faults = Faults { seed, ..FAULTS }.of_way(1);
        std::array::from_fn::<_, 2000, _>(|_| faults.next_fate())
    };
    assert_eq!(fates(5), fates(5));
    assert_ne!(fates(5), fates(6));
    let lost = fates(5).iter().filter(|fate| **fate == Fate::Lost).count();
    assert!((5..40).contains(&lost), "{lost}");
}
