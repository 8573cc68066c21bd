#![allow(missing_docs)]
#[path = "../tests/common/mod.rs"]
mod common;
use common::*;
use ferroce_engine::*;
use std::time::Instant;
fn main() {
    let (a, b) = (Host::new("127.0.30.1"), Host::new("127.0.30.2"));
    let (cq_a, cq_b) = (a.cq(1024), b.cq(1024));
    let (qa, qb) = (a.qp(&cq_a, CAP), b.qp(&cq_b, CAP));
    connect((&a, &qa), (&b, &qb));
    let size: usize = std::env::args()
        .nth(1)
        .map_or(65536, |s| s.parse().unwrap());
    let n: usize = (20usize << 30) / size.max(4096);
    let (mut src, mut dst) = (vec![1u8; size], vec![0u8; size]);
    let (ms, md) = (a.mr(&mut src), b.mr(&mut dst));
    let sge = [Sge {
        addr: src.as_ptr() as u64,
        length: size as u32,
        lkey: ms.lkey(),
    }];
    let t = Instant::now();
    let (mut posted, mut done) = (0, 0);
    while done < n {
        while posted < n && posted - done < 100 {
            let op = SendOp::Write {
                va: dst.as_ptr() as u64,
                rkey: md.rkey(),
            };
            qa.send_queue()
                .post(&SendRequest {
                    wr_id: 1,
                    op,
                    flags: SendFlags::SIGNALED,
                    data: SendData::Sges(&sge),
                })
                .unwrap();
            posted += 1;
        }
        let mut wc = [Wc::default(); 16];
        let k = cq_a.poll(&mut wc).unwrap();
        assert!(wc[..k].iter().all(|w| w.status == 0));
        done += k;
    }
    let s = t.elapsed().as_secs_f64();
    println!(
        "write {size} B x {n}: {:.2} Gb/s, {:.0} k/s",
        n as f64 * size as f64 * 8.0 / s / 1e9,
        n as f64 / s / 1e3
    );
    for h in [&a, &b] {
        h.print_counters();
    }
    // ping-pong by polling memory
    let rounds = 100_000u32;
    let run =
        |qp: &Qp, cq: &Cq, h: &Host, peer: u64, rkey: u32, mine: u64, mr: &Mr, first: bool| {
            let _ = h;
            let flag = unsafe { &*((mine + 32) as *const std::sync::atomic::AtomicU8) };
            for i in 1..=rounds {
                if !first || i > 1 {
                    let want = if first { i - 1 } else { i } as u8;
                    while flag.load(std::sync::atomic::Ordering::Acquire) != want {
                        std::hint::spin_loop()
                    }
                }
                let v = [i as u8];
                let op = SendOp::Write {
                    va: peer + 32,
                    rkey,
                };
                let _ = mr;
                qp.send_queue()
                    .post(&SendRequest {
                        wr_id: 1,
                        op,
                        flags: SendFlags::SIGNALED | SendFlags::INLINE,
                        data: SendData::Inline(&v),
                    })
                    .unwrap();
                wait(cq, 1);
            }
        };
    if size < 64 {
        return;
    }
    src.fill(0);
    dst.fill(0);
    let t = Instant::now();
    std::thread::scope(|s| {
        let (pa, pb) = (src.as_ptr() as u64, dst.as_ptr() as u64);
        let (cq_a, cq_b, a, b, qa, qb, ms, md) = (&cq_a, &cq_b, &a, &b, &qa, &qb, &ms, &md);
        s.spawn(move || run(qa, cq_a, a, pb, md.rkey(), pa, ms, true));
        s.spawn(move || run(qb, cq_b, b, pa, ms.rkey(), pb, md, false));
    });
    println!(
        "write latency one way: {:.2} us",
        t.elapsed().as_secs_f64() * 1e6 / f64::from(rounds) / 2.0
    );
}
