//! Many seeds, each a scenario of its own.
//!
//! `FERROCE_SIM_SEEDS` says how many, `FERROCE_SIM_SEED` replays one and prints its trace.

use ferroce_sim::scenario;

fn env(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|v| v.parse().unwrap_or_else(|e| panic!("{name}={v}: {e}")))
}

/// Says which seed it was, should its scenario panic.
struct Announce(u64);

impl Drop for Announce {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "seed {0} failed; replay: FERROCE_SIM_SEED={0} cargo test -p ferroce-sim --release --test seeds -- --nocapture",
                self.0
            );
        }
    }
}

#[test]
fn random_scenarios() {
    if let Some(seed) = env("FERROCE_SIM_SEED") {
        let _announce = Announce(seed);
        println!("{:#?}", scenario::run(seed, true));
        return;
    }

    let first = env("FERROCE_SIM_FIRST").unwrap_or(0);
    let seeds = env("FERROCE_SIM_SEEDS").unwrap_or(10_000);
    let (mut packets, mut good, mut broken, mut exhausted) = (0, 0, 0, 0);
    for seed in first..first + seeds {
        let _announce = Announce(seed);
        let outcome = scenario::run(seed, false);
        packets += outcome.packets;
        good += outcome.succeeded;
        broken += usize::from(outcome.broken);
        exhausted += outcome.exhausted;
    }

    println!(
        "{seeds} seeds: {packets} packets, {good} requests succeeded, {broken} ended in ERR, {exhausted} out of retries"
    );
}
