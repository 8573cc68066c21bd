//! Many seeds, each a world of its own.
//!
//! `FERROCE_SIM_SEEDS` says how many, `FERROCE_SIM_SEED` replays one and prints its trace.

use ferroce_cmsim::{Outcome, Plan, World};
use ferroce_sim::Rng;

fn env(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|v| v.parse().unwrap_or_else(|e| panic!("{name}={v}: {e}")))
}

/// Says which seed it was, should its world panic.
struct Announce(u64);

impl Drop for Announce {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "seed {0} failed; replay: FERROCE_SIM_SEED={0} cargo test -p ferroce-cmsim --release --test seeds -- --nocapture",
                self.0
            );
        }
    }
}

fn run(seed: u64, trace: bool) -> Outcome {
    let _announce = Announce(seed);
    let plan = Plan::random(&mut Rng::new(seed ^ 0x636d));
    if trace {
        println!("{plan:#?}");
    }
    World::new(seed, plan, trace).run()
}

#[test]
fn nobody_is_left_half_connected() {
    if let Some(seed) = env("FERROCE_SIM_SEED") {
        println!("{:#?}", run(seed, true));
        return;
    }

    let first = env("FERROCE_SIM_FIRST").unwrap_or(0);
    let seeds = env("FERROCE_SIM_SEEDS").unwrap_or(20_000);
    let mut sum = Outcome::default();
    for seed in first..first + seeds {
        let outcome = run(seed, false);
        sum.messages += outcome.messages;
        sum.established += outcome.established;
        sum.rejected += outcome.rejected;
        sum.timed_out += outcome.timed_out;
        sum.left += outcome.left;
        sum.resolved += outcome.resolved;
        sum.unheard += outcome.unheard;
    }

    println!("{seeds} seeds: {sum:?}");

    // The worlds must not be so bad, or so good, that nothing is tried.
    let each = |n: u64| n * 10 >= seeds;
    assert!(each(sum.established) && each(sum.rejected) && each(sum.left) && each(sum.resolved));
    assert!(sum.timed_out > 0 || seeds < 1000);
    assert!(sum.unheard * 100 < sum.left, "{sum:?}");
}

#[test]
fn a_seed_gives_the_same_world_again() {
    for seed in 0..20 {
        assert_eq!(run(seed, false), run(seed, false));
    }
}
