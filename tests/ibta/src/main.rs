//! `ferroce-ibta`: lists and runs the conformance suite.

mod agent;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};
use ferroce_ibta::catalog::{self, Body, Test};
use ferroce_ibta::execute::execute;
use ferroce_ibta::real::{self, RealBackend};
use ferroce_ibta::rig::Backend;
use ferroce_ibta::run::Verdict;
use ferroce_ibta::sim::SimBackend;
use std::net::SocketAddr;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "ferroce-ibta",
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
        /// Only those of a family, C09-060
        #[arg(long)]
        family: Option<String>,
    },
    /// Run tests
    Run(RunArgs),
    /// Be the device's side of a test: do with a device what a tester says
    Agent(AgentArgs),
}

#[derive(Args)]
struct AgentArgs {
    /// The device, as `ibv_devices` lists it
    #[arg(long)]
    device: String,
    /// Serve testers that connect to this address and port, one after the other, until killed. Whoever can connect may
    /// use the device [default: one tester, at standard input and output]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

#[derive(Args)]
struct RunArgs {
    /// Tests by name
    #[arg(required_unless_present_any = ["family", "all"])]
    ids: Vec<String>,
    /// All tests of a family
    #[arg(long)]
    family: Option<String>,
    /// All tests
    #[arg(long)]
    all: bool,
    /// On a simulated device in virtual time
    #[arg(long, conflicts_with_all = ["device", "agent", "tester"])]
    sim: bool,
    #[command(flatten)]
    real: real::Options,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::List { family } => list(family.as_deref()),
        Command::Run(args) => run(&args),
        Command::Agent(args) => agent(&args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("ferroce-ibta: {error:#}");
        ExitCode::from(2)
    })
}

fn agent(args: &AgentArgs) -> Result<ExitCode> {
    match args.listen {
        None => agent::serve_stdio(&args.device)?,
        Some(listen) => agent::serve_tcp(&args.device, listen)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(family: Option<&str>) -> Result<ExitCode> {
    for test in select(&[], family, family.is_none())? {
        println!("{}  {}  {}", test.id, test.family, test.title);
    }
    Ok(ExitCode::SUCCESS)
}

fn run(args: &RunArgs) -> Result<ExitCode> {
    let tests = select(&args.ids, args.family.as_deref(), args.all)?;
    let mut backend: Box<dyn Backend> = match args.sim {
        true => Box::new(SimBackend::default()),
        false => {
            let mut backend = RealBackend::new(args.real.clone());
            if (tests.iter()).any(|test| matches!(test.body, Body::Transport(_))) {
                backend.prepare_transport()?;
            }
            Box::new(backend)
        }
    };
    let mut code = 0;
    for test in &tests {
        let (result, _) = execute(test, &mut *backend, Box::new(|_| {}));
        println!(
            "{:5}  {}  {}",
            result.result.name(),
            result.id,
            result.reason
        );
        code = code.max(match result.result {
            Verdict::Pass | Verdict::NotApplicable => 0,
            Verdict::Fail => 1,
            Verdict::Error => 2,
        });
    }
    Ok(ExitCode::from(code))
}

fn select(ids: &[String], family: Option<&str>, all: bool) -> Result<Vec<Test>> {
    let tests = catalog::all();
    for id in ids {
        if !tests.iter().any(|test| test.id == *id) {
            unknown("test", id, tests.iter().map(|test| test.id.as_str()))?;
        }
    }
    if let Some(family) = family
        && !tests.iter().any(|test| test.family == family)
    {
        unknown("family", family, tests.iter().map(|test| test.family))?;
    }
    let chosen = |test: &Test| all || family == Some(test.family) || ids.contains(&test.id);
    Ok(tests.into_iter().filter(chosen).collect())
}

fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Result<()> {
    match catalog::nearest(name, known) {
        Some(near) => bail!("no {kind} is named {name}; did you mean {near}?"),
        None => bail!("no {kind} is named {name}; `ferroce-ibta list` lists them"),
    }
}
