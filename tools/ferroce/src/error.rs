//! What can go wrong with the command, and the exit status for it.

use std::io;
use std::path::PathBuf;

use ferroce_control::ControlError;

use crate::libibverbs::Libibverbs;

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The daemon, or the way to it.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The daemon's program is not where it should be.
    #[error("cannot find the program ferroced beside {}: build or install it", .0.display())]
    NoDaemon(PathBuf),
    /// A shared object is not where it should be.
    #[error(
        "cannot find {name} in {}: build it (`cargo build --release`) or install it \
         (`cargo xtask install`)",
        .looked.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(" or ")
    )]
    NoLibrary {
        /// What was looked for.
        name: String,
        /// Where.
        looked: Vec<PathBuf>,
    },
    /// The dynamic linker could not take the path apart.
    #[error("{}: a path with spaces, colons or semicolons cannot be in LD_PRELOAD", .0.display())]
    Separator(PathBuf),
    /// There is no libibverbs, as the dynamic linker says.
    #[error("no libibverbs: {0}")]
    NoLibibverbs(String),
    /// There is no driver for this libibverbs.
    #[error("no device for programs: {0}")]
    Unserved(Libibverbs),
    /// The daemon did not start; it has said why.
    #[error("the daemon did not start")]
    NotStarted,
    /// The daemon took its leave but did not go.
    #[error("{who} does not stop")]
    DoesNotStop {
        /// The daemon.
        who: String,
    },
    /// A daemon that died could not be started as it was; it has said why.
    #[error(
        "the daemon has died, and did not start again as it was configured ({}): `ferroce up` configures it anew, \
         `ferroce down` forgets it",
        .0.display()
    )]
    NotRestarted(PathBuf),
    /// Another process has been starting a daemon for long.
    #[error("{who} has been starting a daemon in {} for more than {seconds} s: end it, or let it go on", .path.display())]
    Waiting {
        /// That process.
        who: String,
        /// The runtime directory.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A variable's value does not fit into a form.
    #[error("{name} {why}, which this form cannot hold")]
    Unwritable {
        /// The variable.
        name: String,
        /// What is wrong with its value.
        why: &'static str,
    },
    /// The program to run does not exist.
    #[error("{program}: {source}")]
    Exec {
        /// Its name.
        program: String,
        /// Why it was not run.
        source: io::Error,
    },
    /// Of the machine's device; what, and what to do.
    #[error("{0}")]
    System(String),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// 127 and 126 as shells and env(1) have them for programs that cannot be run, else 1.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Exec { .. } => 126,
            _ => 1,
        }
    }
}
