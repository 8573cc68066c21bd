//! `cargo xtask`: shows, tests, measures and installs ferroce.
//!
//! Every command installs the Debian packages that it misses, builds what it needs in release mode,
//! and starts and stops daemons, servers and namespaces itself. Traffic stays on loopback addresses
//! and in namespaces made for the purpose; nothing else on the machine is touched.

#[cfg(test)]
mod claims;
mod coverage;
mod fuzz;
mod gates;
mod measurements;
mod miri;
mod models;
mod nightly;
mod nightly_toolchain;
mod tsan;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use ferroce_system::run::{self, Choice, Shard};
use ferroce_system::{
    attack, bench, chaos, compare, demo, groups, guest, ibta_rxe, install, interop, interrupt,
    package, pages, portable,
};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about, long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run ib_write_bw between two processes over ferroce and show its table
    Demo,
    /// Run the tests: all of them, or the groups (or group/part-of-a-name) given
    Test {
        /// Groups such as `unit`, `sim`, `verbs`; `verbs/ib_read` picks cases by a part of their
        /// name
        groups: Vec<String>,
        /// Only list the cases
        #[arg(long)]
        list: bool,
        /// Run them this many times in a row, and say what failed in some rounds only
        #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        repeat: u32,
        /// Only the K-th of N shares: N machines do one run; cases that need each other stay
        /// together
        #[arg(long, value_name = "K/N")]
        shard: Option<Shard>,
        /// Also write the endings to this file, as JUnit's XML
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
        /// How many cases may run beside each other, each in a network namespace of its own, and
        /// one more of those that wait; as many as there are processors unless told
        #[arg(long, value_name = "CASES")]
        jobs: Option<NonZeroUsize>,
    },
    /// The cases of one such namespace
    #[command(hide = true)]
    Worker {
        /// Where the built product is
        programs: PathBuf,
        /// Where the cases' output goes
        logs: PathBuf,
    },
    /// What every change must pass, in minutes: format, clippy, documents, unit tests, the declared
    /// Rust version, other targets
    Check,
    /// Feed everything that others feed at will: the targets of tests/fuzz, some minutes each
    Fuzz(fuzz::Scope),
    /// Kill, stop, starve and flood programs with checked data and their daemons, as a seed says,
    /// and judge how they end
    Chaos(chaos::Scope),
    /// Run the engine's tests under ThreadSanitizer (needs a nightly toolchain with rust-src)
    Tsan,
    /// Run the tests of parsers and state machines in Miri (needs a nightly toolchain with miri)
    Miri,
    /// Try what threads agree on in every order of events (loom), beyond what `cargo test` has time
    /// for
    Models,
    /// Break the sources on purpose, in a copy, one thing at a time, and see that each gate of
    /// `lint` and `unit` says so
    Gates {
        /// Parts of the gates' names; none: all
        gates: Vec<String>,
    },
    /// Write the tables of docs that are made from what programs read (skips, counts, differences
    /// of rdma_rxe)
    Pages,
    /// Try every mutant of the Extended Sockets library with all tests of its function, and write
    /// which test catches it
    ExsMutants,
    /// Show which lines the tests of `cargo test` reach, crate by crate (installs cargo-llvm-cov)
    Coverage,
    /// What takes hours: sanitizers, models, Miri, coverage, the long groups, chaos, fuzzing; how
    /// each ended goes to docs/nightly.md
    Nightly(nightly::Scope),
    /// Measure ferroce against raw UDP and TCP, as ratios taken in one run
    Bench(measurements::Scope),
    /// Run the conformance suite against rdma_rxe in an emulated guest, and write
    /// docs/conformance/rxe-suite.md
    IbtaRxe {
        /// Inside the guest: where the results go
        #[arg(long, hide = true)]
        results: Option<PathBuf>,
        /// Inside the guest: tests that ended the kernel
        #[arg(long, hide = true, value_delimiter = ',', requires = "results")]
        without: Vec<String>,
    },
    /// Run rdma-core's suite over rdma_rxe and over ferroce in an emulated guest, and write
    /// docs/pyverbs-rxe.md
    PyverbsRxe {
        /// Inside the guest: where the suite is
        #[arg(long, hide = true, requires = "results")]
        tests: Option<PathBuf>,
        /// Inside the guest: where the results go
        #[arg(long, hide = true, requires = "tests")]
        results: Option<PathBuf>,
    },
    /// The part of `bench --rxe --html` that runs in the guest
    #[command(hide = true)]
    RaceCurves {
        /// Where the figures go
        results: PathBuf,
        #[arg(long)]
        quick: bool,
    },
    /// The part of `bench --delays` that runs in the guest
    #[command(hide = true)]
    RaceDelays {
        /// Where the figures go
        results: PathBuf,
        #[arg(long)]
        quick: bool,
    },
    /// The part of `bench --rxe` that runs in the guest
    #[command(hide = true)]
    RaceRxe {
        /// Where the figures go
        results: PathBuf,
        #[arg(long)]
        quick: bool,
    },
    /// Run a command as root in a throw-away guest with Debian's own kernel; it may write below
    /// target/xtask/guest only
    Guest {
        /// The command, with its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Run programs between ferroce and the kernel's soft-RoCE, in a guest, and show the table
    Interop {
        #[command(flatten)]
        scope: interop::Scope,
        /// Also write the table to this file
        #[arg(long, value_name = "FILE")]
        table: Option<PathBuf>,
        #[arg(long, hide = true, value_name = "DIR")]
        inside: Option<PathBuf>,
    },
    /// What the tests have sent from inside a network namespace, which no honest host sends
    #[command(hide = true)]
    Attack {
        #[command(subcommand)]
        attack: attack::Attack,
    },
    /// Build programs and libraries that run on every distribution with glibc 2.17 or later, and
    /// check that they need none newer
    Portable {
        /// Where to: DIR/bin and DIR/lib/ferroce
        #[arg(long, value_name = "DIR", default_value = "target/portable")]
        prefix: PathBuf,
        /// What to build for
        #[arg(long, value_enum, default_value_t = portable::Target::X86_64)]
        target: portable::Target,
        /// Also build for musl, and put the libraries for containers of it to lib/ferroce/musl
        #[arg(long)]
        musl: bool,
    },
    /// Make packages of such a build: .deb, .rpm, a wheel for pip and a tarball, with the debug
    /// symbols apart
    Package {
        /// Which kinds; none: all
        #[arg(value_enum)]
        formats: Vec<package::Format>,
        /// Where to
        #[arg(long, value_name = "DIR", default_value = "target/package")]
        out: PathBuf,
    },
    /// Copy programs, libraries, manual pages and completions below a prefix
    Install {
        /// Where to: DIR/bin, DIR/lib/ferroce, DIR/share and so on
        #[arg(long, value_name = "DIR")]
        prefix: PathBuf,
    },
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let done = interrupt::watch().and_then(|()| run_command(command));
    if let Err(error) = &done {
        eprintln!("xtask: {error:#}");
    }
    interrupt::end_if_come();
    match done {
        Ok(true) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Whether what was asked for holds.
fn run_command(command: Command) -> Result<bool> {
    match command {
        Command::Demo => demo::run().map(|()| true),
        Command::Test {
            groups, list: true, ..
        } => groups::list(&groups).map(|()| true),
        Command::Test {
            groups,
            repeat,
            shard,
            junit,
            jobs,
            ..
        } => run::run(&Choice {
            filters: groups,
            rounds: repeat,
            shard,
            junit,
            jobs,
        }),
        Command::Worker { programs, logs } => run::work(programs, logs).map(|()| true),
        Command::Check => run::run(&Choice::of(&groups::CHECK)),
        Command::Fuzz(scope) => fuzz::run(&scope),
        Command::Chaos(scope) => chaos::run(&scope),
        Command::Tsan => tsan::run(),
        Command::Miri => miri::run(),
        Command::Models => models::run(),
        Command::Gates { gates } => gates::run(&gates),
        Command::Pages => pages::renew().map(|()| true),
        Command::ExsMutants => groups::exs_mutants(),
        Command::Coverage => coverage::run(),
        Command::Nightly(scope) => nightly::run(&scope),
        Command::Bench(scope) => measurements::run(&scope),
        Command::IbtaRxe {
            results: Some(results),
            without,
        } => ibta_rxe::inside(&results, &without).map(|()| true),
        Command::IbtaRxe { results: None, .. } => ibta_rxe::run(),
        Command::PyverbsRxe {
            tests: Some(tests),
            results: Some(results),
        } => compare::inside(&tests, &results).map(|()| true),
        Command::PyverbsRxe { .. } => compare::run(),
        Command::RaceCurves { results, quick } => {
            bench::curves_inside(&results, quick).map(|()| true)
        }
        Command::RaceDelays { results, quick } => {
            bench::delays_inside(&results, quick).map(|()| true)
        }
        Command::RaceRxe { results, quick } => bench::race_inside(&results, quick).map(|()| true),
        Command::Guest { command } => guest::show(&command),
        Command::Interop {
            scope,
            table,
            inside,
        } => interop::command(&scope, inside.as_deref(), table.as_deref()),
        Command::Attack { attack } => attack::run(&attack).map(|()| true),
        Command::Package { formats, out } => package::run(&formats, &out).map(|()| true),
        Command::Portable {
            prefix,
            target,
            musl,
        } => portable::run(target, &prefix, musl).map(|()| true),
        Command::Install { prefix } => install::run(&prefix).map(|()| true),
    }
}
