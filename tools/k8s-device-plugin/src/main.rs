//! `ferroce-k8s-device-plugin`, which `ferroce k8s-device-plugin` executes: offers the device of
//! this node to pods as `ferroce.dev/rdma`, by the kubelet's device plugin API. It never touches
//! packets, and what a container gets is what `ferroce cdi generate` says.

mod allocation;
mod api;
mod health;
mod kubelet;
mod plugin;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use ferroce_control::RuntimeDir;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::health::Up;
use crate::kubelet::{Kubelet, KubeletError};
use crate::plugin::Offer;

const AFTER_HELP: &str = "\
EXAMPLES:
  ferroce k8s-device-plugin
  ferroce k8s-device-plugin --up -- --netdev eth0

A container gets the device by `resources: {limits: {ferroce.dev/rdma: 1}}`. It has to run as the
daemon's user, which is root unless the daemon was started otherwise.";

/// Offer ferroce's device to the pods of this Kubernetes node.
///
/// Registers with the kubelet, again whenever that starts anew, and answers what it asks: as many
/// devices as containers may have the one device at a time, healthy as long as ferroced is there;
/// and for a container that gets one, the variables and mounts that `ferroce cdi generate` says.
///
/// Ends with exit status 0 at SIGTERM and SIGINT, and with 1 if the kubelet's directory is missing.
#[derive(Debug, Parser)]
#[command(name = "ferroce k8s-device-plugin", version, max_term_width = 100, after_long_help = AFTER_HELP)]
struct Arguments {
    /// The runtime directory of the daemon [default: as of `ferroce`]
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,

    /// Where the kubelet and its plugins meet
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/lib/kubelet/device-plugins"
    )]
    kubelet_dir: PathBuf,

    /// What pods ask for
    #[arg(long, value_name = "NAME", default_value = "ferroce.dev/rdma")]
    resource: String,

    /// How many containers may have the device at a time; a device has slots for 255 processes
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    devices: u32,

    /// Answer with the name of the CDI device instead, for a container runtime that has the
    /// specification (`ferroce cdi generate`) and a Kubernetes of 1.29 or later
    #[arg(long)]
    cdi: bool,

    /// Start the daemon if there is none, also one that has died; options after `--` are those of
    /// `ferroce up`
    #[arg(long)]
    up: bool,

    /// Options of `ferroce up`
    #[arg(last = true, requires = "up", value_name = "OPTION")]
    up_options: Vec<OsString>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let wanted = env::var("FERROCE_LOG").unwrap_or_else(|_| "info".to_owned());
    let (filter, refused) = match EnvFilter::try_new(&wanted) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    if let Some(error) = refused {
        tracing::warn!("FERROCE_LOG={wanted}: {error}; what is logged is `info`");
    }

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(run(arguments)).map_err(|e| e.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ferroce: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Until a signal comes.
async fn run(arguments: Arguments) -> Result<(), Error> {
    let ferroce = env::current_exe()?.with_file_name("ferroce");
    let dir = RuntimeDir::resolve(arguments.runtime_dir.as_deref());
    let mut kubelet = Kubelet::watch(&arguments.kubelet_dir, &arguments.resource)?;
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );

    let up = arguments.up.then_some(Up {
        ferroce: ferroce.clone(),
        options: arguments.up_options,
    });
    let offer = Arc::new(Offer {
        ferroce,
        runtime: dir.path().to_path_buf(),
        devices: arguments.devices,
        cdi: arguments.cdi,
        health: health::watch(dir, up),
    });

    tokio::select! {
        ended = kubelet.attend(offer) => ended?,
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// What ends the plugin.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Kubelet(#[from] KubeletError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

#[cfg(test)]
mod manifest;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
        let line = ["x", "--up", "--", "--netdev", "eth0"];
        let arguments = Arguments::try_parse_from(line).unwrap();
        assert_eq!(arguments.up_options, ["--netdev", "eth0"]);
        assert!(Arguments::try_parse_from(["x", "--", "--netdev", "eth0"]).is_err());
        assert!(Arguments::try_parse_from(["x", "--devices", "0"]).is_err());
    }
}
