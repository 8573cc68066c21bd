//! Goodput against loss, as a table that is compared to the digit: virtual time makes it exact.
//!
//! `FERROCE_SIM_BLESS=1` writes the table anew; look at the difference before committing it.

use ferroce_sim::bulk::{self, Kind};
use std::fmt::Write as _;

const LOSSES: [u32; 9] = [
    0, 100, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
];
const KINDS: [(&str, Kind, u32, usize); 5] = [
    ("WRITE 64K", Kind::Write, 65_536, 64),
    ("SEND 64K", Kind::Send, 65_536, 64),
    ("READ 64K", Kind::Read, 65_536, 64),
    ("WRITE 1M", Kind::Write, 1 << 20, 8),
    ("WRITE 512", Kind::Write, 512, 1000),
];

fn table() -> String {
    let mut out = String::from(
        "Goodput in Gb/s of one queue pair over a 25 Gb/s link with a delay of 10 us, MTU 4096, window 256 KiB,\n\
         Local ACK Timeout 8 (1.05 ms), retry_cnt 7; the mean of five seeds. In brackets: seeds that ran out of retries.\n\n  loss %",
    );
    for (name, ..) in KINDS {
        let _ = write!(out, "{name:>14}");
    }
    out.push('\n');
    for loss in LOSSES {
        let _ = write!(out, "{:>8}", f64::from(loss) / 10_000.0);
        for (_, kind, len, count) in KINDS {
            let runs = [1, 2, 3, 4, 5].map(|seed| bulk::run(seed, kind, len, count, loss));
            let whole: Vec<f64> = runs.iter().flatten().copied().collect();
            let broken = runs.len() - whole.len();
            let mean = whole.iter().sum::<f64>() / whole.len().max(1) as f64;
            let note = if broken > 0 {
                format!("({broken})")
            } else {
                String::new()
            };
            let _ = write!(out, "{mean:>10.3}{note:<4}");
        }
        while out.ends_with(' ') {
            out.pop();
        }
        out.push('\n');
    }
    out
}

#[test]
fn goodput_against_loss() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goodput.txt");
    let now = table();
    if std::env::var_os("FERROCE_SIM_BLESS").is_some() {
        std::fs::write(path, &now).expect("writing the table");
    }
    let then = std::fs::read_to_string(path).expect("reading the table");
    assert!(
        now == then,
        "the table has changed; FERROCE_SIM_BLESS=1 writes it anew\n{now}"
    );
}
