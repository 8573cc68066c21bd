//! `ferroce system`: a device of the machine's, which all programs see without any word of
//! ferroce's in how they are started. Root enables it; what was made for that is written down, and
//! `disable` removes that and nothing else.

mod disable;
mod enable;
mod files;
mod links;
mod manifest;
mod service;
mod start;
mod status;

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::error::Error;

/// Where the machine's device has its runtime directory.
const RUNTIME: &str = "/run/ferroce";
/// Where libibverbs finds it: the image of `/sys` there.
const SYSFS: &str = "/run/ferroce/sys";

/// `ferroce system`.
#[derive(Debug, Subcommand)]
pub(crate) enum System {
    /// Give the machine a device, now and whenever it starts
    ///
    /// Programs of all who may use it see it without `ferroce run`: libibverbs is told of the driver
    /// in /etc/libibverbs.d, and of the device by SYSFS_PATH, which PAM and systemd set for whoever
    /// logs in and for services. Shells that are open go on without it, until they say `export
    /// SYSFS_PATH=/run/ferroce/sys`. Needs root, and an installed ferroce that nobody else can
    /// change.
    Enable(Enable),
    /// Undo `enable`: stop the device, and remove what was made for it and nothing else
    Disable,
    /// Say whether the machine has a device, for whom, and what stands in the way
    ///
    /// The exit status is 1 where a program of this user would not see it.
    Status,
    /// Start the device that was enabled: for where there is no systemd, as from /etc/rc.local
    Start(Start),
    /// Stop it until it is started again
    Stop,
}

/// `ferroce system enable`.
#[derive(Debug, Args)]
pub(crate) struct Enable {
    /// Whose members may use the device; `everyone`: all users of this machine
    #[arg(long, value_name = "NAME", default_value = "rdma")]
    pub group: String,

    /// An address to serve, as of `ferroce up`
    #[arg(long, value_name = "IP")]
    pub addr: Vec<String>,

    /// The interface whose addresses to serve, as of `ferroce up`
    #[arg(long, value_name = "IF")]
    pub netdev: Option<String>,

    /// Make no service of systemd's, though it may run here
    #[arg(long)]
    pub no_systemd: bool,
}

/// `ferroce system start`.
#[derive(Debug, Args)]
pub(crate) struct Start {
    /// Become the daemon, as under a service manager
    #[arg(long)]
    pub foreground: bool,
}

/// Carries it out.
pub(crate) fn system(what: &System, runtime_dir: Option<&Path>) -> Result<ExitCode, Error> {
    if let Some(dir) = runtime_dir.filter(|dir| *dir != Path::new(RUNTIME)) {
        return Err(Error::System(format!(
            "the machine's device is at {RUNTIME}, not at {}: leave out --runtime-dir",
            dir.display()
        )));
    }
    if !matches!(what, System::Status) && !rustix::process::geteuid().is_root() {
        return Err(Error::System(
            "only root can give the machine a device, or take it away; `ferroce run` and `ferroce up` need no root"
                .to_owned(),
        ));
    }

    // What is made here is for all to read.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    match what {
        System::Enable(enable) => enable::enable(enable),
        System::Disable => disable::disable(),
        System::Status => status::status(),
        System::Start(start) => start::start(start),
        System::Stop => start::stop(),
    }
}

/// Why netlink keeps programs from seeing the device, if it does.
fn in_the_way() -> Option<&'static str> {
    Path::new("/sys/module/ib_core").exists().then_some(
        "the kernel module ib_core is loaded: libibverbs asks it for devices, and does not look at SYSFS_PATH, so programs do \
         not see the machine's ferroce device (`ferroce run` shows it all the same); unload it (`modprobe -r ib_core`, and what uses it)",
    )
}
