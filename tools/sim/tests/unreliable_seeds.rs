//! Many seeds of UC and UD through a bad network.
//!
//! `FERROCE_SIM_SEEDS` says how many, `FERROCE_SIM_SEED` replays one and prints its packets.

use ferroce_sim::unreliable::{Outcome, run};
use ferroce_transport::QpType;

fn env(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|v| v.parse().unwrap_or_else(|e| panic!("{name}={v}: {e}")))
}

/// Says which seed it was, should its world panic.
struct Announce(QpType, u64);

impl Drop for Announce {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "{:?}, seed {1} failed; replay: FERROCE_SIM_SEED={1} cargo test -p ferroce-sim --release --test unreliable_seeds -- --nocapture",
                self.0, self.1
            );
        }
    }
}

fn seeds(service: QpType) {
    if let Some(seed) = env("FERROCE_SIM_SEED") {
        let _announce = Announce(service, seed);
        println!("{:#?}", run(service, seed, true));
        return;
    }

    let mut sum = Outcome::default();
    let seeds = env("FERROCE_SIM_SEEDS").unwrap_or(5_000);
    for seed in 0..seeds {
        let _announce = Announce(service, seed);
        let o = run(service, seed, false);
        sum.packets[0] += o.packets[0];
        sum.packets[1] += o.packets[1];
        sum.sent += o.sent;
        sum.whole += o.whole;
        sum.flushed += o.flushed;
    }

    println!("{service:?}, {seeds} seeds: {sum:?}");

    // The scenarios are worth something: much comes through, much is lost, and some requests fail.
    let lost = sum.sent.saturating_sub(sum.whole);
    assert!(sum.whole > sum.sent / 3 && sum.flushed > 0);
    assert!(lost > sum.sent / 20 || service == QpType::Ud);
}

#[test]
fn loss_on_unreliable_connections_is_loss_and_nothing_else() {
    seeds(QpType::Uc);
}

#[test]
fn datagrams_come_as_the_network_brings_them() {
    seeds(QpType::Ud);
}
