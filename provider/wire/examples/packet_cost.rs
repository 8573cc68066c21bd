//! Prints what a packet costs here: nanoseconds to parse and verify, and to emit with its ICRC.

use ferroce_wire::icrc::{Flow, Verdict};
use ferroce_wire::{Bth, Ext, Header, ICRC_LEN, Packet, ROCE_V2_PORT, opcode};
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

/// The best of several runs, in nanoseconds a call.
fn nanos(mut f: impl FnMut()) -> f64 {
    const CALLS: u32 = 200_000;
    let runs = (0..7).map(|_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| f());
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    });
    runs.fold(f64::INFINITY, f64::min)
}

fn emit(flow: &Flow, ip_id: u16, header: &Header, payload: &[u8], out: &mut [u8]) {
    let n = header.emit(out);
    let end = n + payload.len();
    let mut icrc = flow.start(end + ICRC_LEN, ip_id);
    icrc.header(&out[..n]);
    icrc.payload(payload);
    out[end..end + ICRC_LEN].copy_from_slice(&icrc.finish());
}

fn main() {
    let flow = Flow::v4(
        Ipv4Addr::new(127, 0, 0, 1),
        Ipv4Addr::new(127, 0, 0, 2),
        50_000,
        ROCE_V2_PORT,
    );

    let header = Header {
        bth: Bth {
            opcode: opcode::RC_SEND_ONLY,
            ..Bth::default()
        },
        ext: Ext::default(),
    };

    println!(
        "{:>12} {:>8} {:>8} {:>14} {:>8} {:>10} {:>10}",
        "UDP payload", "parse", "+verify", "+verify, odd ID", "emit", "+ICRC", "bare CRC"
    );

    for size in [16, 64, 256, 1040, 4112] {
        let payload: Vec<u8> = (0..size - 16).map(|i| (i * 7) as u8).collect();
        let mut bytes = vec![0; size];
        bytes[12..size - 4].copy_from_slice(&payload);
        emit(&flow, 0, &header, &payload, &mut bytes);
        let parse = nanos(|| {
            black_box(Packet::parse(black_box(&bytes)).is_ok());
        });
        let verify = nanos(|| {
            let bytes = black_box(&bytes[..]);
            black_box(Packet::parse(bytes).is_ok() && flow.verify(bytes, 0) == Verdict::Exact);
        });

        let odd = nanos(|| {
            let bytes = black_box(&bytes[..]);
            black_box(Packet::parse(bytes).is_ok() && flow.verify(bytes, 77) == Verdict::WithId(0));
        });

        let mut out = vec![0; size];
        let emit = nanos(|| emit(&flow, 3, &header, black_box(&payload), black_box(&mut out)));
        let header_only = nanos(|| {
            black_box(black_box(&header).emit(black_box(&mut out)));
        });
        let bare = nanos(|| {
            black_box(crc32fast::hash(black_box(&bytes)));
        });
        println!(
            "{size:>12} {parse:>8.1} {verify:>8.1} {odd:>14.1} {header_only:>8.1} {emit:>10.1} {bare:>10.1}"
        );
    }
}
