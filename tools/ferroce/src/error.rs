//! What can go wrong with the command, and the exit status for it.

use std::io;
use std::path::PathBuf;

use ferroce_control::ControlError;

use crate::cdi::arguments::Form;
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
    /// Likewise, since it was told something that makes no sense.
    #[error("the daemon did not start: what it complains of came from the command line")]
    Misused,
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
    /// Nobody has come to listen in time.
    #[error(
        "nobody listens at port {port}, neither by TCP nor at the device, after {seconds} s: does \
         the server run, and at this port? `--timeout` waits longer"
    )]
    NoListener {
        /// The port.
        port: u16,
        /// How long it was waited for.
        seconds: u64,
    },
    /// Ports have not become active in time.
    #[error(
        "{ports}, after {seconds} s: an InfiniBand port needs a cable with something at the other \
         end and a subnet manager (`ferroce run -- opensm`), an Ethernet one its interface's link"
    )]
    Inactive {
        /// Which, in words.
        ports: String,
        /// How long they were waited for.
        seconds: u64,
    },
    /// The libraries are not laid out as containers need them.
    #[error(
        "{} is not installed as others need it: install ferroce (`cargo xtask install --prefix /usr/local`, or a \
         package other than a wheel), and use the command that is installed",
        .0.display()
    )]
    NotInstalled(PathBuf),
    /// No runtime would read a file of this name.
    #[error("{}: the name of a CDI specification must end in .json or .yaml", .0.display())]
    NoExtension(PathBuf),
    /// Form and name contradict each other.
    #[error("{}: the name does not end in .{form}, as the form asks for", .file.display())]
    OtherExtension {
        /// The file.
        file: PathBuf,
        /// The form.
        form: Form,
    },
    /// A specification cannot be read.
    #[error("{}: {source}", .file.display())]
    Specification {
        /// Its file.
        file: PathBuf,
        /// Why.
        source: serde_norway::Error,
    },
    /// Nothing is offered to containers.
    #[error(
        "no CDI specification of ferroce's in {}: `ferroce cdi generate --output {}/ferroce.json` writes it",
        .0.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(" or "),
        .0[0].display()
    )]
    NoSpecification(Vec<PathBuf>),
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
    /// Options that make no sense.
    #[error("{0}")]
    Usage(String),
    /// Of a fault.
    #[error("{0}")]
    Fault(String),
    /// What is no text would go to a terminal.
    #[error(
        "standard output is a terminal: give `-w` a file, or a pipe after it, or leave it out for text"
    )]
    Terminal,
    /// A screen was asked for where there is none.
    #[error(
        "no terminal to show a screen on: `ferroce top --batch` prints what it shows, with `--json` for programs"
    )]
    NoTerminal,
    /// Of a file that is to be replayed; which, and what is wrong.
    #[error("{0}")]
    Replay(String),
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

impl From<ferroce_capture::Error> for Error {
    fn from(error: ferroce_capture::Error) -> Error {
        match error {
            ferroce_capture::Error::Control(error) => Error::Control(error),
            ferroce_capture::Error::Write(source) => Error::io("writing packets")(source),
        }
    }
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// 127 and 126 as shells and env(1) have them for programs that cannot be run, 2 as clap has it
    /// for command lines, else 1.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Exec { .. } => 126,
            Self::Misused | Self::Usage(_) | Self::Terminal => 2,
            Self::NoExtension(_) | Self::OtherExtension { .. } => 2,
            _ => 1,
        }
    }
}
