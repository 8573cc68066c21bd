//! What is kept in `seeds` is replayed, and so are inputs made of it: every target takes all of it
//! without a panic. And it is worth keeping: there is enough of it, and the seeds that are made
//! (`made`) get past the first check. After a change of format they would not, and whatever is made
//! of them would try nothing.

use std::fs;
use std::path::{Path, PathBuf};

use ferroce_fuzz::{TARGETS, Target};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The least that a target has: seeds, and those of them that get past the first check.
const LEAST: usize = 20;
const LEAST_TAKEN: usize = 10;
/// The most that they take in the repository, in bytes.
const MOST: usize = 200_000;
/// What the names of those begin with that are made.
const MADE: &str = "made-";
/// Inputs that are made of each seed.
const MUTANTS: u64 = 64;
/// Inputs that are made of nothing.
const RANDOM: u64 = 256;

fn seeds(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("seeds")
        .join(target.name);
    let entries = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap();
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}

/// Some bytes changed, taken out or put in.
fn mutate(rng: &mut SmallRng, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..bytes.len() + 1);
        match rng.random_range(0..4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, rng.random()),
            _ if at < bytes.len() => bytes[at] = rng.random(),
            _ => bytes.extend(rng.random::<[u8; 8]>()),
        }
    }
    bytes
}

fn replay(target: &Target) {
    let seeds = seeds(target);
    let bytes: usize = seeds.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(seeds.len() >= LEAST, "only {} seeds", seeds.len());
    assert!(bytes <= MOST, "{bytes} bytes of seeds");

    let mut taken = 0;
    for (path, bytes) in &seeds {
        // On standard error, which the harness shows of a test that fails.
        eprintln!("{}", path.display());
        let good = (target.run)(bytes);
        taken += usize::from(good);
        let made = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(MADE));
        assert!(
            good || !made,
            "nothing in {} gets past the first check",
            path.display()
        );

        for n in 0..MUTANTS {
            (target.run)(&mutate(&mut SmallRng::seed_from_u64(n), bytes));
        }
    }

    assert!(
        taken >= LEAST_TAKEN,
        "only {taken} of {} seeds get past the first check",
        seeds.len()
    );

    for n in 0..RANDOM {
        let mut rng = SmallRng::seed_from_u64(n);
        let len = rng.random_range(0..600);
        let bytes: Vec<u8> = (0..len).map(|_| rng.random()).collect();
        (target.run)(&bytes);
    }
}

macro_rules! replays {
    ($($name:ident),*) => {
        $(
            #[test]
            fn $name() {
                replay(by_name(stringify!($name)));
            }
        )*

        #[test]
        fn all_are_replayed() {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

fn by_name(name: &str) -> &'static Target {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("no target {name}"))
}

replays!(
    agent,
    capture,
    cm,
    control,
    exs,
    exs_hello,
    icrc,
    identification,
    link,
    netlink,
    packet,
    rdma_cm,
    rdma_cm_frames,
    replay_file,
    ring,
    rmpp,
    sa,
    tag_matching,
    transport,
    umad,
    umad_frames
);
