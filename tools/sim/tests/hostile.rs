//! Anything may come from the network: random packets at a live queue pair never panic it, never
//! reach memory outside what they may reach, and never make it talk without end.

use ferroce_sim::tester::{DUT, DUT_PSN, QKEY, TT_PSN, Tester, usual};
use ferroce_sim::{Buffer, Rng};
use ferroce_transport::{
    Access, Datagram, Dest, Duration, QpAttr, QpState, QpType, RecvWqe, SendFlags, SendOp,
};
use ferroce_wire::{
    Aeth, AtomicEth, Bth, Deth, Ext, Feth, Filler, Header, HeaderSet, MAX_HEADER, Packet, Reth,
    opcode,
};

struct Buffers {
    /// The peer may do everything.
    open: Buffer,
    /// Receives and READs go here.
    local: Buffer,
    /// Nobody may write here.
    closed: Buffer,
}

fn psn(rng: &mut Rng) -> u32 {
    let near = rng.pick(&[TT_PSN, TT_PSN, DUT_PSN]);
    let psn = match rng.below(10) {
        0 => rng.next() as u32,
        1..=3 => near.wrapping_sub(rng.below(6) as u32),
        _ => near.wrapping_add(rng.below(40) as u32),
    };
    psn & 0xff_ffff
}

fn place(rng: &mut Rng, b: &Buffers) -> (u64, u32, u32) {
    let buffer = if rng.percent(80) {
        b.open
    } else {
        rng.pick(&[b.local, b.closed])
    };

    let len = match rng.below(8) {
        0 => 0,
        1 => rng.next() as u32,
        2 => buffer.len + 1,
        _ => rng.below(u64::from(buffer.len) + 1) as u32,
    };

    let va = match rng.below(6) {
        0 => rng.next(),
        1 => buffer.va.wrapping_sub(1),
        2 => buffer.va + u64::from(buffer.len),
        _ => buffer.va + (rng.below(u64::from(buffer.len)) & !7),
    };

    (
        va,
        if rng.percent(90) {
            buffer.key
        } else {
            rng.next() as u32
        },
        len,
    )
}

/// Headers for an opcode, random but for what makes them get far.
fn headers(rng: &mut Rng, set: HeaderSet, b: &Buffers) -> Ext {
    let (va, rkey, len) = place(rng, b);
    let has = |h| set.contains(h);
    let word = |rng: &mut Rng| rng.next() as u32;
    Ext {
        feth: has(HeaderSet::FETH).then(|| Feth {
            placement: rng.pick(&[1, 2, 3, 0, 4, 15]),
            selectivity: rng.below(4) as u8,
        }),
        reth: has(HeaderSet::RETH).then_some(Reth { va, rkey, len }),
        aeth: has(HeaderSet::AETH).then(|| Aeth {
            syndrome: rng.pick(&[
                0x1f, 0x1f, 0, 5, 0x60, 0x20, 0x61, 0x62, 0x63, 0x64, 0x80, 0xff,
            ]),
            msn: word(rng) & 0xff_ffff,
        }),
        atomic: has(HeaderSet::ATOMIC).then(|| AtomicEth {
            va,
            rkey,
            swap_add: rng.next(),
            compare: rng.next(),
        }),
        atomic_ack: has(HeaderSet::ATOMIC_ACK).then(|| rng.next()),
        imm: has(HeaderSet::IMM).then(|| word(rng).to_le_bytes()),
        ieth: has(HeaderSet::IETH).then(|| word(rng)),
        deth: has(HeaderSet::DETH).then(|| Deth {
            qkey: if rng.percent(80) { QKEY } else { word(rng) },
            src_qp: word(rng) & 0xff_ffff,
        }),
        xrceth: has(HeaderSet::XRCETH).then(|| rng.pick(&[5, 5, 5, 5, 5, 5, 5, 5, 5, 6, 7])),
    }
}

/// Where a service's opcodes begin.
fn base(service: QpType) -> u8 {
    match service {
        QpType::Rc => 0,
        QpType::Uc => 0x20,
        QpType::Ud => 0x60,
        QpType::XrcSend | QpType::XrcRecv => 0xa0,
    }
}

/// A datagram that often parses, mostly one of the service's.
fn datagram(rng: &mut Rng, b: &Buffers, mtu: u64, service: QpType) -> Vec<u8> {
    if rng.percent(3) {
        let len = rng.below(200) as usize;
        return rng.bytes(len);
    }

    let rows: Vec<_> = opcode::all().collect();
    let row = rng.pick(&rows);
    let row = if rng.percent(90) {
        opcode::info(row.opcode & 0x1f | base(service)).unwrap_or(row)
    } else {
        row
    };

    let payload = match rng.below(5) {
        0 => 0,
        1 | 2 => mtu,
        _ => rng.below(mtu + 9),
    } as usize;

    let payload = match (row.payload, row.filler) {
        (ferroce_wire::PayloadRule::None, _) => 0,
        (_, Filler::Counted(shorter)) if rng.percent(50) => {
            (mtu as usize).saturating_add_signed(shorter.into())
        }
        _ => payload,
    };

    let header = Header {
        bth: Bth {
            opcode: row.opcode,
            solicited: rng.percent(50),
            migreq: true,
            pad: Bth::pad_for(payload),
            pkey: 0xffff,
            dest_qp: DUT,
            ack_req: rng.percent(50),
            psn: psn(rng),
            ..Bth::default()
        },
        ext: headers(rng, row.headers, b),
    };

    let mut bytes = vec![0; MAX_HEADER];
    let n = header.emit(&mut bytes);
    bytes.truncate(n);
    bytes.extend(rng.bytes(payload));
    if payload > 2 && rng.percent(50) {
        // As many as may fill it, and a few more.
        let count = rng.below(payload as u64 + 3) as u16;
        bytes[n..n + 2].copy_from_slice(&count.to_be_bytes());
    }
    bytes.resize(bytes.len() + usize::from(header.bth.pad) + 4, 0);
    if rng.percent(5) {
        let at = rng.below(bytes.len() as u64) as usize;
        bytes[at] = rng.next() as u8;
    }

    bytes
}

/// One queue pair under fire until it breaks or `packets` have come. Returns how many reached it.
/// `selective`: both understand selective acknowledgements and filled packets.
fn fire(service: QpType, selective: bool, seed: u64, packets: u32) -> u32 {
    let mut rng = Rng::new(seed);
    let mtu = rng.pick(&[256, 1024]);
    let attr = QpAttr {
        path_mtu: mtu,
        max_dest_rd_atomic: rng.pick(&[0, 1, 4, 16]),
        max_rd_atomic: rng.pick(&[1, 4]),
        ..usual()
    };

    let state = rng.pick(&[
        QpState::Rts,
        QpState::Rts,
        QpState::Rts,
        QpState::Rtr,
        QpState::Init,
    ]);
    let mut t = match selective {
        true => Tester::selective(attr).filling(),
        false => Tester::of(service, attr, state, rng.percent(30)),
    };
    t.opts.budget = rng.pick(&[1, 4096, 1 << 20]);
    t.opts.window = rng.pick(&[1, 4096, 1 << 20]);
    let all = Access::REMOTE_READ
        | Access::REMOTE_WRITE
        | Access::REMOTE_ATOMIC
        | Access::FLUSH_GLOBAL
        | Access::FLUSH_PERSISTENT;

    let b = Buffers {
        open: t.buffer(9_000, all | Access::LOCAL_WRITE),
        local: t.buffer(9_000, Access::LOCAL_WRITE),
        closed: t.buffer(9_000, Access::REMOTE_READ),
    };

    // A target's queue is of the protection domain that the buffers are of; another queue is not.
    for (srq, pd) in [(5, 0), (6, 60)] {
        t.memory().borrow_mut().srqs.insert(srq, pd);
        t.host.xrc.borrow_mut().insert(srq, Default::default());
    }

    let guard = t.buffer(100, Access::empty());
    let before = t.memory().borrow().bytes.clone();
    let mut reached = 0;
    for n in 0..packets {
        if state == QpState::Rts && rng.percent(30) && t.qp.state() == QpState::Rts {
            post_any(&mut t, &mut rng, &b, service);
        }

        if rng.percent(50) {
            let _ = t.qp.post_recv(0, &[b.local.sge()]);
            let wqe = RecvWqe {
                wr_id: 0,
                sges: [b.local.sge()].into_iter().collect(),
                skip: 0,
            };
            t.host.srq.borrow_mut().push_back(wqe.clone());
            t.host.xrc.borrow()[&5].borrow_mut().push_back(wqe);
        }

        let bytes = datagram(&mut rng, &b, u64::from(mtu), service);
        if let Ok(mut packet) = Packet::parse(&bytes) {
            packet.bth.selective = selective && rng.percent(95);
            packet.bth.filled = selective && rng.percent(50);
            let grh = [0; 40];
            t.host.selected = None;
            // Either way in, whatever the packet is.
            if rng.percent(if service == QpType::Ud { 90 } else { 10 }) {
                t.qp.receive_datagram(t.now, &packet, &grh, &mut t.host);
            } else {
                t.qp.receive(t.now, &packet, &mut t.host);
            }
            reached += 1;
        }

        t.now += rng.span_below(Duration::from_millis(1));
        if rng.percent(5) || t.qp.next_timeout().is_some_and(|at| at <= t.now) {
            t.expire();
        }

        if rng.percent(60) {
            let sent = t.sent();
            assert!(
                sent.len() < 2_000,
                "{} packets in answer to few",
                sent.len()
            );
        }

        if t.qp.state() == QpState::Err && n % 16 == 0 {
            break;
        }
    }

    t.sent();
    unharmed(&t, &b, guard, &before);
    reached
}

/// Posts a request whose success does not matter.
fn post_any(t: &mut Tester, rng: &mut Rng, b: &Buffers, service: QpType) {
    let op = match rng.below(4) {
        0 => SendOp::Send,
        1 => SendOp::Write { va: 1, rkey: 1 },
        2 => SendOp::Read { va: 1, rkey: 1 },
        _ => SendOp::FetchAdd {
            va: 8,
            rkey: 1,
            add: 1,
        },
    };

    let data = ferroce_transport::SendData::Sges(&[b.local.sge()]);
    let flags = SendFlags::SIGNALED;
    let _ = t.qp.post_send(&ferroce_transport::SendRequest {
        wr_id: 0,
        op,
        flags,
        data,
        dest: match service {
            QpType::Ud => Dest::Datagram(Datagram::default()),
            QpType::XrcSend => Dest::XrcSrq(9),
            _ => Dest::Connected,
        },
    });
}

/// Nothing has changed but what may be written to.
fn unharmed(t: &Tester, b: &Buffers, guard: Buffer, before: &[u8]) {
    let memory = t.memory();
    let after = &memory.borrow().bytes;
    let start =
        |x: Buffer| (x.va - b.open.va) as usize + (b.open.va - ferroce_sim::memory::BASE) as usize;
    let writable = |i: usize| {
        [b.open, b.local]
            .iter()
            .any(|x| (start(*x)..start(*x) + x.len as usize).contains(&i))
    };

    for (i, (old, new)) in before.iter().zip(after).enumerate() {
        assert!(
            old == new || writable(i),
            "byte {i} was changed (guard at {})",
            start(guard)
        );
    }
}

fn fire_at(service: QpType, selective: bool) {
    let seeds = if cfg!(debug_assertions) {
        2_000
    } else {
        10_000
    };

    let mut reached = 0u64;
    for seed in 0..seeds {
        struct Announce(QpType, u64);
        impl Drop for Announce {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    eprintln!("hostile to {:?}, seed {}", self.0, self.1);
                }
            }
        }
        let _announce = Announce(service, seed);
        reached += u64::from(fire(service, selective, seed, 200));
    }

    assert!(reached > seeds * 10, "only {reached} packets parsed");
}

#[test]
fn random_packets_do_no_harm() {
    fire_at(QpType::Rc, false);
}

#[test]
fn random_packets_do_selective_recovery_no_harm() {
    fire_at(QpType::Rc, true);
}

#[test]
fn random_packets_do_unreliable_services_no_harm() {
    fire_at(QpType::Uc, false);
    fire_at(QpType::Ud, false);
}

#[test]
fn random_packets_do_extended_connections_no_harm() {
    fire_at(QpType::XrcSend, false);
    fire_at(QpType::XrcRecv, false);
}
