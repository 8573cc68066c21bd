//! Goodput against loss and delay, as tables that are compared to the digit: virtual time makes
//! them exact.
//!
//! `FERROCE_SIM_BLESS=1` writes the tables anew; look at the difference before committing it.

use ferroce_sim::bulk::{self, Kind, Way};
use ferroce_sim::paced::{self, Pace, Receiver};
use ferroce_transport::Duration;
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
/// Nanoseconds in one direction, and the attribute `timeout`, which is longer than a round trip.
const DELAYS: [(&str, Duration, u8); 4] = [
    ("10 us", Duration::from_micros(10), 8),
    ("100 us", Duration::from_micros(100), 8),
    ("1 ms", Duration::from_millis(1), 11),
    ("10 ms", Duration::from_millis(10), 14),
];

/// The mean of five seeds, and how many of them ran out of retries.
fn mean(run: impl Fn(u64) -> Option<f64>) -> String {
    let runs = [1, 2, 3, 4, 5].map(run);
    let whole: Vec<f64> = runs.iter().flatten().copied().collect();
    let broken = runs.len() - whole.len();
    let mean = whole.iter().sum::<f64>() / whole.len().max(1) as f64;
    let note = if broken > 0 {
        format!("({broken})")
    } else {
        String::new()
    };
    format!("{mean:>10.3}{note:<4}")
}

/// A row for each loss.
fn table<C>(
    head: &str,
    columns: &[C],
    name: impl Fn(&C) -> &str,
    cell: impl Fn(&C, u32) -> String,
) -> String {
    let mut out = format!("{head}\n\n  loss %");
    for column in columns {
        let _ = write!(out, "{:>14}", name(column));
    }
    out.push('\n');

    for loss in LOSSES {
        let _ = write!(out, "{:>8}", f64::from(loss) / 10_000.0);
        for column in columns {
            out += &cell(column, loss);
        }
        while out.ends_with(' ') {
            out.pop();
        }
        out.push('\n');
    }

    out
}

fn compare(file: &str, now: &str) {
    let path = format!("{}/tests/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("FERROCE_SIM_BLESS").is_some() {
        std::fs::write(&path, now).expect("writing the table");
    }
    let then = std::fs::read_to_string(&path).expect("reading the table");
    assert!(
        now == then,
        "the table has changed; FERROCE_SIM_BLESS=1 writes it anew\n{now}"
    );
}

#[test]
fn goodput_against_loss() {
    let head = "Goodput in Gb/s of one queue pair over a 25 Gb/s link with a delay of 10 us, MTU 4096, window 256 KiB,\n\
        Local ACK Timeout 8 (1.05 ms), retry_cnt 7; the mean of five seeds. In brackets: seeds that ran out of retries.";
    let cell = |(_, kind, len, count): &(&str, Kind, u32, usize), loss| {
        let way = Way {
            loss,
            delay: Duration::from_micros(10),
            timeout: 8,
            window: 256 << 10,
            controlled: false,
            selective: false,
        };
        mean(|seed| bulk::run(seed, *kind, *len, *count, way))
    };
    compare("goodput.txt", &table(head, &KINDS, |kind| kind.0, cell));
}

#[test]
fn goodput_with_congestion_control_against_loss_and_delay() {
    let head = "Goodput in Gb/s of 32 RDMA WRITEs of 1 MiB by one queue pair over a 25 Gb/s link, MTU 4096, its window the AIMD\n\
        controller's of at most 3 MiB, against the delay in one direction; Local ACK Timeout 8 (1.05 ms) to 100 us, 11 (8.4 ms)\n\
        at 1 ms, 14 (67 ms) at 10 ms, retry_cnt 7; the mean of five seeds. In brackets: seeds that ran out of retries.";
    let cell = |(_, delay, timeout): &(&str, Duration, u8), loss| {
        let way = Way {
            loss,
            delay: *delay,
            timeout: *timeout,
            window: 3 << 20,
            controlled: true,
            selective: false,
        };
        mean(|seed| bulk::run(seed, Kind::Write, 1 << 20, 32, way))
    };

    compare(
        "goodput_aimd.txt",
        &table(head, &DELAYS, |delay| delay.0, cell),
    );
}

/// What a receiver is like, microseconds, and the name of it.
const RECEIVERS: [(&str, Receiver); 4] = [
    ("fast", receiver(160, 1_000, 1_000)),
    ("half as fast", receiver(640, 1_000, 1_000)),
    ("naps", receiver(160, 1_000, 300)),
    ("stopped", receiver(160, 10_000_000, 5_000)),
];

/// A receiver with the default buffer of a user.
const fn receiver(byte_time: u64, cycle: u64, awake: u64) -> Receiver {
    Receiver {
        buffer: 425_984,
        byte_time,
        cycle: Duration::from_micros(cycle),
        awake: Duration::from_micros(awake),
    }
}

#[test]
fn goodput_of_what_nobody_acknowledges() {
    const DURATION: Duration = Duration::from_millis(500);

    let head = "Goodput in Gb/s of SENDs of 4096 bytes by UC over a 25 Gb/s link with a delay of 10 us into a receive buffer of 416 KiB,\n\
        and in brackets what was lost, in percent, over 500 ms. The receiver is twice as fast as the link, half as fast, fast but\n\
        awake for 300 us of each ms, or stops for good after 5 ms. The sender goes by what the receiver has taken (counted), by\n\
        time (unknown), or by nothing.";
    let mut out = format!("{head}\n\n          ");
    for (name, _) in RECEIVERS {
        let _ = write!(out, "{name:>18}");
    }

    for (name, pace) in [
        ("counted", Pace::Counted),
        ("unknown", Pace::Unknown),
        ("nothing", Pace::None),
    ] {
        let _ = write!(out, "\n{name:<10}");
        for (_, receiver) in RECEIVERS {
            let all = paced::run(pace, receiver, DURATION);
            let goodput = all.taken as f64 * 8.0 / DURATION.as_nanos() as f64;
            let lost = all.lost as f64 * 100.0 / all.sent as f64;
            let _ = write!(out, "{goodput:>9.3} ({lost:>6.2})");
        }
    }

    out.push('\n');
    compare("goodput_paced.txt", &out);
}
