//! The command line of `ferroce system`, and its help.

use clap::{Args, Subcommand};

/// `ferroce system`.
#[derive(Debug, Subcommand)]
pub(crate) enum System {
    /// Give the machine a device, now and whenever it starts
    ///
    /// Programs of all who may use it see it without `ferroce run`: libibverbs is told of the
    /// driver in /etc/libibverbs.d, and of the device by SYSFS_PATH, which PAM and systemd set for
    /// whoever logs in and for services. Shells that are open go on without it, until they say
    /// `export SYSFS_PATH=/run/ferroce/sys`. Needs root, and an installed ferroce that nobody else
    /// can change.
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
