//! What the state machine itself costs: two queue pairs joined without memory, copies or
//! serialization.
//!
//! Prints nanoseconds a packet (requester's and responder's work together) for some kinds of
//! traffic. The argument `selective` has both ends understand selective acknowledgements, though
//! nothing is lost; a number is how many packets of each kind there are, for tools that count
//! instructions and take long.

use ferroce_sim::Nothing;
use ferroce_transport::Time;
use ferroce_transport::*;
use ferroce_wire::{Packet, opcode};
use std::time::Instant;

/// Where both keep what comes early, which nothing does here.
static EARLY: EarlyMemory = EarlyMemory::new(1 << 20);

/// How it is measured.
#[derive(Clone, Copy)]
struct Way {
    packets: u64,
    selective: bool,
}

/// Delivers each packet to the peer at once.
struct Direct<'a> {
    peer: &'a mut Qp,
    host: &'a mut Nothing,
    packets: u64,
}

static PAYLOAD: [u8; 4096] = [0; 4096];

impl Sink for Direct<'_> {
    fn packet(&mut self, p: &TxPacket<'_>) -> Result<(), MemoryError> {
        let len = match p.payload {
            Gather::None => 0,
            Gather::Bytes(b) => b.len(),
            Gather::Sges { len, .. } | Gather::Remote { len, .. } => len as usize,
        };

        let Some(info) = opcode::info(p.bth.opcode) else {
            return Ok(());
        };

        let packet = Packet {
            bth: p.bth,
            info,
            ext: p.ext,
            payload: PAYLOAD[..len].into(),
        };
        self.peer.receive(Time::ZERO, &packet, self.host);
        self.packets += 1;
        Ok(())
    }
}

fn connect(qpn: u32, peer: u32, selective: bool) -> (Qp, Nothing) {
    use QpAttrMask as M;

    let cap = QpCap {
        max_send_wr: 128,
        max_recv_wr: 512,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 64,
    };

    let mut qp = Qp::new(QpConfig {
        qpn,
        cap,
        selective: selective.then_some(&EARLY),
        introduced: true,
        ..QpConfig::default()
    });

    let mut host = Nothing::default();
    let attr = QpAttr {
        path_mtu: 4096,
        dest_qp_num: peer,
        qp_access_flags: Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC,
        max_rd_atomic: 16,
        max_dest_rd_atomic: 16,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        port_num: 1,
        ..QpAttr::default()
    };

    for (state, mask) in [
        (QpState::Init, M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS),
        (
            QpState::Rtr,
            M::AV
                | M::PATH_MTU
                | M::DEST_QPN
                | M::RQ_PSN
                | M::MAX_DEST_RD_ATOMIC
                | M::MIN_RNR_TIMER,
        ),
        (
            QpState::Rts,
            M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::SQ_PSN | M::MAX_QP_RD_ATOMIC,
        ),
    ] {
        qp.modify(
            &QpAttr {
                qp_state: state,
                ..attr
            },
            mask | M::STATE,
            Time::ZERO,
            &mut host,
        )
        .unwrap();
    }

    (qp, host)
}

fn run(way: Way, name: &str, len: u32, op: SendOp, inline: bool) {
    let (mut a, mut ha) = connect(1, 2, way.selective);
    let (mut b, mut hb) = connect(2, 1, way.selective);
    let opts = TransmitOpts {
        window: 1 << 20,
        budget: 1 << 16,
        flush_acks: true,
        fill: false,
        stretch: 0,
    };

    let sges = [Sge {
        addr: 0,
        length: len,
        lkey: 1,
    }];

    let data = if inline {
        SendData::Inline(&PAYLOAD[..len as usize])
    } else {
        SendData::Sges(&sges)
    };

    let req = SendRequest {
        wr_id: 1,
        op,
        flags: SendFlags::SIGNALED,
        data,
        dest: Dest::Connected,
    };

    let mut packets = 0;
    let start = Instant::now();
    while packets < way.packets {
        while b.post_recv(1, &sges).is_ok() {}
        while a.post_send(&req).is_ok() {}
        let mut sink = Direct {
            peer: &mut b,
            host: &mut hb,
            packets: 0,
        };
        a.transmit(Time::ZERO, opts, &mut ha, &mut sink);
        packets += sink.packets;
        let mut sink = Direct {
            peer: &mut a,
            host: &mut ha,
            packets: 0,
        };
        while b.transmit(Time::ZERO, opts, &mut hb, &mut sink) {}
        packets += sink.packets;
    }

    let ns = start.elapsed().as_nanos() as f64 / packets as f64;
    println!(
        "{name:<28} {ns:6.1} ns/packet  ({} completions, {:?})",
        ha.completions,
        a.state()
    );
}

fn main() {
    println!("an idle queue pair takes {} bytes", size_of::<Qp>());
    let number = std::env::args().find_map(|word| word.parse().ok());
    let way = Way {
        packets: number.unwrap_or(4_000_000),
        selective: std::env::args().any(|word| word == "selective"),
    };

    let (va, rkey) = (0, 1);
    run(
        way,
        "WRITE 64 KiB",
        1 << 16,
        SendOp::Write { va, rkey },
        false,
    );
    run(
        way,
        "WRITE 1 MiB",
        1 << 20,
        SendOp::Write { va, rkey },
        false,
    );
    run(way, "WRITE 2 B inline", 2, SendOp::Write { va, rkey }, true);
    run(way, "SEND 64 KiB", 1 << 16, SendOp::Send, false);
    run(way, "SEND 2 B", 2, SendOp::Send, false);
    run(
        way,
        "READ 64 KiB",
        1 << 16,
        SendOp::Read { va, rkey },
        false,
    );
    run(way, "READ 8 B", 8, SendOp::Read { va, rkey }, false);
    run(
        way,
        "FETCH & ADD",
        8,
        SendOp::FetchAdd { va, rkey, add: 1 },
        false,
    );
}
