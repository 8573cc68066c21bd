//! The command `ferroce`: starts and stops the daemon, runs programs so that they see its device,
//! and shows how it fares. It never touches packets.

mod arguments;
mod capture;
mod cdi;
mod daemon;
mod doctor;
mod env;
mod error;
mod fault;
mod libibverbs;
mod libraries;
mod manual;
mod metrics;
mod part;
mod ports;
mod program;
mod replay;
mod run;
mod sanitizer;
mod show;
mod system;
mod top;
mod turn;
mod wait;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::Parser;
use ferroce_control::{RuntimeDir, children};

fn main() -> ExitCode {
    children::are_waited_for();
    let arguments = Arguments::parse();
    let dir = RuntimeDir::resolve(arguments.runtime_dir.as_deref());
    let result = match arguments.command {
        Command::Up(up) => daemon::up(&dir, &up),
        Command::Down => daemon::down(&dir),
        Command::Switch(switch) => daemon::switch(&dir, &switch),
        Command::Run(run) => run::run(&dir, &run),
        Command::Env(env) => env::env(&dir, &env),
        Command::Wait(wait) => wait::wait(&dir, &wait),
        Command::System(what) => system::system(&what, arguments.runtime_dir.as_deref()),
        Command::Doctor { json } => doctor::doctor(&dir, json),
        Command::Fault(what) => fault::fault(&dir, &what),
        Command::Cdi(cdi) => cdi::cdi(&dir, &cdi),
        Command::K8sDevicePlugin { options } => {
            part::become_part("k8s-device-plugin", &dir, &options)
        }
        Command::Status { json } => show::status(&dir, json),
        Command::Top(top) => top::top(&dir, &top),
        Command::Metrics { listen } => metrics::metrics(&dir, listen),
        Command::Capture(options) => capture::capture(&dir, &options),
        Command::Replay(options) => replay::replay(&options),
        Command::Devices { check: false, json } => show::devices(&dir, json),
        Command::Devices { check: true, .. } => show::check(&dir),
        Command::Completions { shell } => manual::completions(shell),
        Command::Manual { dir } => manual::write(&dir),
    };

    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ferroce: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
