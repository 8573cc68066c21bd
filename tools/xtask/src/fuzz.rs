//! `cargo xtask fuzz`: the targets of `tests/fuzz` under libFuzzer and AddressSanitizer, for some
//! minutes each, as many side by side as there are processors. What libFuzzer says of a target goes
//! into a file in `target/xtask/fuzz-logs`.
//!
//! What is found while it runs is kept in `tests/fuzz/corpus`, which is this machine's own; an
//! input that breaks a promise is kept in `tests/fuzz/artifacts`. `cargo test` replays what is in
//! `tests/fuzz/seeds`: `--keep` puts there the few inputs that cover what the corpus covers.

use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};

use ferroce_system::build;
use ferroce_system::cargo_tool;
use ferroce_system::packages;

/// The largest input worth keeping, in bytes.
const KEPT: usize = 1024;
/// What the inputs of a target that are kept may take, all in all: their number and their bytes.
const FILES: usize = 150;
const BYTES: u64 = 190_000;
/// What names of seeds begin with that are made, and stay (`tests/fuzz/tests/made`).
const MADE: &str = "made-";

/// What is to be done.
#[derive(clap::Args)]
pub(crate) struct Scope {
    /// The targets; none: all
    targets: Vec<String>,
    /// How long each runs
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    minutes: u32,
    /// How many run side by side; without: as many as there are processors
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Then keep the inputs that cover something new as seeds
    #[arg(long)]
    keep: bool,
}

/// Runs the targets one after the other; true if none found anything.
pub(crate) fn run(scope: &Scope) -> Result<bool> {
    packages::ensure(packages::FUZZ)?;
    cargo_tool::ensure("fuzz")?;
    let known = targets()?;
    if let Some(unknown) = scope.targets.iter().find(|name| !known.contains(name)) {
        bail!(
            "no fuzz target {unknown:?}; there are: {}",
            known.join(", ")
        );
    }

    let chosen: Vec<&str> = known
        .iter()
        .filter(|name| scope.targets.is_empty() || scope.targets.contains(name))
        .map(String::as_str)
        .collect();
    println!("xtask: building {} targets", chosen.len());
    for name in &chosen {
        if !done(&mut cargo_fuzz("build", name)?)? {
            bail!("the target {name} does not compile");
        }
    }

    let logs = build::scratch("fuzz-logs")?;
    let queue = Mutex::new(chosen.iter().copied());
    let next = || queue.lock().unwrap_or_else(|held| held.into_inner()).next();
    let tried = AtomicU64::new(0);
    let broken = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        while let Some(name) = next() {
            let log = logs.join(format!("{name}.log"));
            let well = fuzz(name, scope.minutes, &log)?;
            let said = fs::read_to_string(&log).unwrap_or_default();
            match executions(&said) {
                Some(n) if well => {
                    println!("xtask: {name}: {n} inputs, nothing found");
                    tried.fetch_add(n, Ordering::Relaxed);
                }
                _ => {
                    println!("xtask: {name}: broken, see {}", log.display());
                    let mut broken = broken.lock().unwrap_or_else(|held| held.into_inner());
                    broken.push(name);
                }
            }
        }

        Ok(())
    };

    let jobs = scope.jobs.map_or_else(
        || thread::available_parallelism().map_or(1, NonZeroUsize::get),
        NonZeroUsize::get,
    );

    thread::scope(|threads| {
        let workers: Vec<_> = (0..jobs).map(|_| threads.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;

    let broken = broken.into_inner().unwrap_or_else(|held| held.into_inner());
    if scope.keep {
        for name in chosen.iter().filter(|name| !broken.contains(name)) {
            keep(name)?;
        }
    }

    let tried = tried.into_inner();
    match broken.as_slice() {
        [] => println!(
            "xtask: {} targets, {} min each: {tried} inputs, nothing found",
            chosen.len(),
            scope.minutes
        ),
        broken => println!(
            "xtask: broken: {}; the inputs are in tests/fuzz/artifacts",
            broken.join(", ")
        ),
    }

    Ok(broken.is_empty())
}

/// How many inputs libFuzzer says that it tried.
fn executions(said: &str) -> Option<u64> {
    let count = said
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))?;
    count.trim().parse().ok()
}

fn home() -> PathBuf {
    build::workspace().join("tests/fuzz")
}

/// The targets are the programs of the package.
fn targets() -> Result<Vec<String>> {
    let dir = home().join("targets");
    let entries = dir
        .read_dir()
        .with_context(|| format!("{}", dir.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some(path.file_stem()?.to_str()?.to_owned())
        })
        .collect();
    names.sort();
    Ok(names)
}

/// `cargo fuzz` with a word of its own. The instrumentation is one of the compiler's unstable
/// flags, which a stable compiler has too.
fn cargo_fuzz(word: &str, name: &str) -> Result<Command> {
    let mut command = build::cargo();
    command
        .args(["fuzz", word, name, "--fuzz-dir"])
        .arg(home())
        .args(["--features", "libfuzzer", "--target-dir"])
        .arg(build::scratch("fuzz")?)
        .env("RUSTC_BOOTSTRAP", "1")
        // It would be done again for each target, three minutes a time.
        .env("CARGO_PROFILE_RELEASE_LTO", "off");
    Ok(command)
}

fn fuzz(name: &str, minutes: u32, log: &Path) -> Result<bool> {
    let corpus = home().join("corpus").join(name);
    std::fs::create_dir_all(&corpus).with_context(|| format!("{}", corpus.display()))?;
    let mut command = cargo_fuzz("run", name)?;
    command.arg(&corpus).arg(home().join("seeds").join(name));
    command.arg("--");
    command.arg(format!("-max_total_time={}", u64::from(minutes) * 60));
    command.args(["-max_len=4096", "-timeout=10", "-rss_limit_mb=4096"]);
    command.args(["-print_final_stats=1", "-verbosity=1"]);
    let file = File::create(log).with_context(|| format!("{}", log.display()))?;
    command.stdin(Stdio::null());
    command.stderr(file.try_clone()?).stdout(file);
    done(&mut command)
}

/// Adds to the seeds what the corpus covers beyond them.
fn keep(name: &str) -> Result<()> {
    let seeds = home().join("seeds").join(name);
    let mut command = cargo_fuzz("run", name)?;
    command.arg(&seeds).arg(home().join("corpus").join(name));
    command.args(["--", "-merge=1"]);
    command.arg(format!("-max_len={KEPT}"));
    if !done(&mut command)? {
        bail!("the corpus of {name} could not be merged");
    }

    let entries = fs::read_dir(&seeds)?.map(|entry| {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        Ok((entry.metadata()?.len(), name))
    });
    for surplus in surplus(entries.collect::<Result<_>>()?) {
        fs::remove_file(seeds.join(surplus))?;
    }
    println!("xtask: {} seeds of {name}", count(&seeds)?);
    Ok(())
}

/// Which inputs, by size and name, are too many: the largest of those that were found.
fn surplus(mut inputs: Vec<(u64, String)>) -> Vec<String> {
    inputs.sort_by_key(|(size, name)| (!name.starts_with(MADE), *size));
    let mut bytes = 0;
    let kept = inputs.iter().take(FILES).take_while(|(size, _)| {
        bytes += size;
        bytes <= BYTES
    });
    let kept = kept.count();
    let rest = inputs.into_iter().skip(kept).map(|(_, name)| name);
    rest.filter(|name| !name.starts_with(MADE)).collect()
}

fn count(dir: &Path) -> Result<usize> {
    Ok(dir.read_dir()?.count())
}

fn done(command: &mut Command) -> Result<bool> {
    let line = ferroce_system::harness::process::line_of(command);
    let status = command.status().with_context(|| line)?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_inputs_is_read() {
        let said = "#12 DONE\nstat::number_of_executed_units: 4242\nstat::peak_rss_mb: 77\n";
        assert_eq!(executions(said), Some(4242));
        assert_eq!(executions("==7== ERROR: libFuzzer: deadly signal"), None);
    }

    #[test]
    fn the_largest_that_were_found_are_too_many() {
        let input = |size, name: &str| (size, name.to_owned());
        let few = vec![input(9, "made-a"), input(1, "b")];
        assert!(surplus(few).is_empty());
        let large = vec![input(BYTES, "c"), input(9, "made-a"), input(1, "b")];
        assert_eq!(surplus(large), ["c"]);
        let many = (0..=FILES as u64).map(|n| input(n, &format!("found-{n}")));
        assert_eq!(surplus(many.collect()), [format!("found-{FILES}")]);
    }
}
