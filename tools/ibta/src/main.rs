//! `ferroce-ibta`: lists and runs the conformance suite.

mod agent;
mod mutants;
mod select;
mod session;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory, Parser, Subcommand};
use ferroce_control::addr_spec::endpoint;
use ferroce_ibta::catalog::Test;
use ferroce_ibta::real::{self, RealBackend};
use ferroce_ibta::report;
use ferroce_ibta::report::about::{About, Tested};
use ferroce_ibta::rig::Backend;
use ferroce_ibta::sim::SimBackend;
use ferroce_ibta::suite;
use select::{Shard, catalogue, select};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "ferroce-ibta",
    version,
    about = "The InfiniBand conformance suite, without InfiniBand hardware"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the tests
    List {
        /// Only those of the transport tester, which need no InfiniBand ports
        #[arg(long)]
        transport: bool,
        /// Only these: tests by name, or all about a statement or section: C14-27, v1c14-027,
        /// o14-13, 9.7.6
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Only those of a family, C09-060, or about a statement or section
        #[arg(long)]
        family: Option<String>,
        /// The documents' tests as they are written, in place of the suite's
        #[arg(long)]
        as_written: bool,
    },
    /// Run tests
    Run(Box<RunArgs>),
    /// Run tests on simulated devices that break one rule each: every one must be caught
    Mutants {
        /// Tests by name, or all about a statement or section: C14-27, v1c14-027, o14-13, 9.7.6
        /// [default: all]
        #[arg(value_name = "NAME")]
        ids: Vec<String>,
        /// All tests of a family, C09-060, or about a statement or section
        #[arg(long)]
        family: Option<String>,
        /// Of the documents' tests as they are written, in place of the suite's
        #[arg(long)]
        as_written: bool,
        /// Try the generic mutants on all tests, and put those that pass into this file,
        /// tools/ibta/src/generic/survivors.toml
        #[arg(long, value_name = "FILE", conflicts_with_all = ["ids", "family", "as_written"])]
        write: Option<PathBuf>,
    },
    /// Print the list of tests and statements as it stands in docs/conformance/suite.md
    Conformance {
        /// Put it into this file, between its markers
        #[arg(long, value_name = "FILE", conflicts_with = "check")]
        write: Option<PathBuf>,
        /// Say whether it is what stands in this file
        #[arg(long, value_name = "FILE")]
        check: Option<PathBuf>,
    },
    /// Make the page for a browser from results that `run --json` has written
    Report {
        /// The results
        #[arg(value_name = "RESULTS")]
        json: PathBuf,
        /// The page
        #[arg(long, value_name = "FILE")]
        html: PathBuf,
    },
    /// Print the matrix of compliance statements, with their tests, as it stands in
    /// docs/conformance/statements.md
    Statements {
        /// Put it into this file, between its markers; what rdma_rxe does is read from rxe-suite.md
        /// beside it
        #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "json"])]
        write: Option<PathBuf>,
        /// Say whether it is what stands in this file
        #[arg(long, value_name = "FILE", conflicts_with = "json")]
        check: Option<PathBuf>,
        /// As JSON
        #[arg(long)]
        json: bool,
        /// With --json: what rdma_rxe does, from this page of `cargo xtask ibta-rxe`
        #[arg(long, value_name = "FILE", requires = "json")]
        rxe: Option<PathBuf>,
    },
    /// Be the device's side of a test: do with a device what a tester says
    Agent(AgentArgs),
    /// Write manual pages and completions of this command below a directory
    #[command(hide = true)]
    Manual {
        /// Where to
        dir: PathBuf,
    },
}

#[derive(Args)]
struct AgentArgs {
    /// The device, as `ibv_devices` lists it
    #[arg(long)]
    device: String,
    /// Serve testers that connect to this address and port, one after the other, until killed.
    /// Whoever can connect may use the device [default: one tester, at standard input and output]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = endpoint)]
    listen: Option<SocketAddr>,
}

#[derive(Args)]
struct RunArgs {
    /// Tests by name, or all about a statement or section: C14-27, v1c14-027, o14-13, 9.7.6
    #[arg(value_name = "NAME", required_unless_present_any = ["family", "all"])]
    ids: Vec<String>,
    /// All tests of a family, C09-060, or about a statement or section
    #[arg(long)]
    family: Option<String>,
    /// All tests
    #[arg(long)]
    all: bool,
    /// The documents' tests as they are written, step by step, in place of the suite's, which read
    /// them by the specification
    #[arg(long)]
    as_written: bool,
    /// Only a part of these tests, for several testers beside each other: 1/3 is every third, from
    /// the first on
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// On a simulated device in virtual time
    #[arg(long, conflicts_with_all = ["device", "agent", "tester"])]
    sim: bool,
    /// Break the simulated device as a mutant of the test does (`ferroce-ibta mutants ID` names
    /// them), to see a failure
    #[arg(long, requires = "sim", value_name = "NAME", conflicts_with_all = ["family", "all"])]
    mutant: Option<String>,
    #[command(flatten)]
    real: real::Options,
    #[command(flatten)]
    output: session::Output,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::List {
            transport,
            names,
            family,
            as_written,
        } => list(&names, family.as_deref(), transport, as_written),
        Command::Run(args) => run(&args),
        Command::Mutants {
            write: Some(path), ..
        } => mutants::write(&path),
        Command::Mutants {
            ids,
            family,
            as_written,
            ..
        } => mutants::run(&ids, family.as_deref(), as_written),
        Command::Conformance { write, check } => conformance(write, check),
        Command::Statements {
            write,
            check,
            json,
            rxe,
        } => statements(write, check, json, rxe),
        Command::Report { json, html } => session::page(&json, &html).map(|()| ExitCode::SUCCESS),
        Command::Agent(args) => agent(&args),
        Command::Manual { dir } => manual(&dir),
    };

    done.unwrap_or_else(|error| {
        eprintln!("ferroce-ibta: {error:#}");
        ExitCode::from(2)
    })
}

/// Prints a line. A reader that has had enough (`| head`) is no error: the rest is run, and the
/// exit status says how it went.
fn say(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// For who packages them.
fn manual(dir: &Path) -> Result<ExitCode> {
    ferroce_manual::write(Cli::command(), 1, dir).with_context(|| dir.display().to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn agent(args: &AgentArgs) -> Result<ExitCode> {
    match args.listen {
        None => agent::serve_stdio(&args.device)?,
        Some(listen) => agent::serve_tcp(&args.device, listen)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(
    names: &[String],
    family: Option<&str>,
    transport: bool,
    as_written: bool,
) -> Result<ExitCode> {
    let all = names.is_empty() && family.is_none();
    for test in select(catalogue(as_written), names, family, all)? {
        if transport && test.is_of_management() {
            continue;
        }
        say(format_args!("{}  {}  {}", test.id, test.family, test.title));
    }
    Ok(ExitCode::SUCCESS)
}

fn run(args: &RunArgs) -> Result<ExitCode> {
    let tests = catalogue(args.as_written);
    let chosen = select(tests, &args.ids, args.family.as_deref(), args.all)?;
    let cables_alone = chosen.iter().all(Test::is_of_management);
    let tests = match args.shard {
        Some(shard) => shard.of(chosen)?,
        None => chosen,
    };

    let mut devices = vec![Tested::simulated()];
    let mut backend: Box<dyn Backend> = match (args.sim, &args.mutant) {
        (true, Some(name)) => Box::new(mutants::broken(&tests, name)?),
        (true, None) => Box::new(SimBackend::default()),
        (false, _) => {
            let mut backend = RealBackend::new(args.real.clone());
            backend.prepare(&tests)?;
            if backend.mad_ports() == 0 {
                select::without_cables(&tests, &args.ids, cables_alone)?;
            }
            devices = backend.devices();
            Box::new(backend)
        }
    };

    let about = About::now(devices);
    let code = session::run(&tests, &mut *backend, &about, &args.output)?;
    Ok(ExitCode::from(code))
}

fn conformance(write: Option<PathBuf>, check: Option<PathBuf>) -> Result<ExitCode> {
    let tests = suite::all();
    match (write, check) {
        (Some(path), _) => report::conformance::write(&path, &tests)?,
        (_, Some(path)) => report::conformance::check(&path, &tests)?,
        _ => say(report::conformance::list(&tests).trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

fn statements(
    write: Option<PathBuf>,
    check: Option<PathBuf>,
    json: bool,
    rxe: Option<PathBuf>,
) -> Result<ExitCode> {
    use report::statements::{self, matrix, page};
    let tests = suite::all();
    match (write, check) {
        (Some(path), _) => statements::write(&path, &tests)?,
        (_, Some(path)) => statements::check(&path, &tests)?,
        _ if json => say(statements::json(&tests, rxe.as_deref())?),
        _ => say(page(&matrix(&tests, None)).trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}
