//! Goodput with selective acknowledgements beside go-back-N, as a table that is compared to the
//! digit.
//!
//! `FERROCE_SIM_BLESS=1` writes it anew; look at the difference before committing it.

use ferroce_sim::bulk::{self, Kind, Way};
use ferroce_transport::Duration;
use std::fmt::Write as _;

const LOSSES: [u32; 4] = [0, 1_000, 10_000, 50_000];
const KINDS: [(&str, Kind); 3] = [
    ("WRITE", Kind::Write),
    ("SEND", Kind::Send),
    ("READ", Kind::Read),
];
/// The round trip, half of it in nanoseconds, and the attribute `timeout`.
const DELAYS: [(&str, Duration, u8); 4] = [
    ("20 us", Duration::from_micros(10), 8),
    ("1 ms", Duration::from_micros(500), 10),
    ("10 ms", Duration::from_millis(5), 13),
    ("50 ms", Duration::from_millis(25), 16),
];

/// The mean of three seeds; one that runs out of retries counts as nothing.
fn goodput(kind: Kind, way: Way) -> f64 {
    let runs = [1, 2, 3].map(|seed| bulk::run(seed, kind, 65_536, 256, way).unwrap_or(0.0));
    runs.iter().sum::<f64>() / runs.len() as f64
}

#[test]
fn selective_acknowledgements_beside_go_back_n() {
    let mut out = "Goodput in Gb/s of 256 messages of 64 KiB by one queue pair over a 25 Gb/s link, MTU 4096, its window the AIMD\n\
        controller's of at most 3 MiB, with selective acknowledgements and with go-back-N, against loss in each direction and\n\
        round trip; Local ACK Timeout 8 (1.05 ms), 10, 13 (34 ms) and 16 (268 ms), retry_cnt 7; the mean of three seeds.\n\n        \
        loss %     round trip     selective     go-back-N\n"
        .to_owned();
    let mut wrong = Vec::new();

    for (name, kind) in KINDS {
        for (trip, delay, timeout) in DELAYS {
            for loss in LOSSES {
                let way = |selective| Way {
                    loss,
                    delay,
                    timeout,
                    window: 3 << 20,
                    controlled: true,
                    selective,
                };
                let [new, old] = [true, false].map(|selective| goodput(kind, way(selective)));
                let percent = f64::from(loss) / 10_000.0;
                let _ = writeln!(out, "{name:<8}{percent:>6}{trip:>15}{new:>14.3}{old:>14.3}");

                // Without a loss there is no difference at all.
                let good = match loss {
                    0 => new == old,
                    10_000.. => new > old,
                    _ => new > 0.0,
                };
                if !good {
                    wrong.push(format!("{name}, {trip}, {percent} %: {new} and {old}"));
                }
            }
        }
    }

    assert!(wrong.is_empty(), "{wrong:#?}\n{out}");
    let path = format!("{}/tests/goodput_selective.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("FERROCE_SIM_BLESS").is_some() {
        std::fs::write(&path, &out).expect("writing the table");
    }
    let then = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        out == then,
        "the table has changed; FERROCE_SIM_BLESS=1 writes it anew\n{out}"
    );
}

/// Before a round trip has been measured, what is acknowledged may be the packet or the one that
/// was sent after it, too early, in its place. Taken for the latter it has all in between sent
/// again, which is acknowledged in the same way: for a second each packet was sent three or four
/// times (`ib_write_bw` over 10 ms, if one of the first packets was lost).
#[test]
fn a_loss_before_the_first_measured_round_trip_is_not_multiplied() {
    const MESSAGES: usize = 128;

    let needed = MESSAGES as u64 * 16;
    for loss in [1_000, 10_000, 50_000] {
        for seed in 0..30 {
            let way = Way {
                loss,
                delay: Duration::from_millis(5),
                timeout: 14,
                window: 3 << 20,
                controlled: true,
                selective: true,
            };
            let done = bulk::transfer(seed, Kind::Write, 65_536, MESSAGES, way).expect("retries");
            // An acknowledgement for each where something is missing, and twice what is lost.
            let most = 2 * needed + 2 * needed * u64::from(loss) / 1_000_000 + 20;
            assert!(done.packets <= most, "{loss}, {seed}: {done:?}");
        }
    }
}
