//! Why a daemon could not start or had to stop, in words that a user can act on.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use ferroce_control::ControlError;
use rustix::io::Errno;

/// Why `ferroced` could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The runtime directory cannot be used.
    #[error(transparent)]
    Directory(#[from] ControlError),
    /// Another daemon holds the runtime directory.
    #[error(
        "another ferroced{pid} is running with runtime directory {}: stop it with `ferroce down`, or \
         choose another directory with --runtime-dir",
        .path.display()
    )]
    AlreadyRunning {
        /// The directory.
        path: PathBuf,
        /// ` (process N)` if known, else empty.
        pid: String,
    },
    /// Somebody else receives on the port of an address.
    #[error(
        "UDP port {} of {} is taken{holder}: end that program or choose another address with --addr",
        .address.port(), .address.ip()
    )]
    PortTaken {
        /// The address.
        address: SocketAddr,
        /// ` by …` where it is known, or empty.
        holder: String,
    },
    /// Somebody else has the UDP endpoint at which a cable is to end.
    #[error(
        "a cable cannot end at {end}: that UDP endpoint is taken{holder}; end that program, or name another endpoint, in --cable \
         here and where the cable's other end is"
    )]
    EndTaken {
        /// The cable's own end.
        end: SocketAddr,
        /// ` by …` where it is known, or empty.
        holder: String,
    },
    /// An address that was asked for is not this host's.
    #[error("{address} is not an address of this host ({})", where_to_look(.address))]
    NoSuchAddress {
        /// The address.
        address: String,
    },
    /// An interface that was asked for does not exist.
    #[error("there is no network interface `{name}` (`ip link` lists them)")]
    NoSuchInterface {
        /// Its name.
        name: String,
    },
    /// No address is left to serve.
    #[error(
        "interface {name} has no address: give it one, or choose others with --addr or --netdev"
    )]
    NoAddress {
        /// The interface's name.
        name: String,
    },
    /// The kernel, or what emulates it, cannot give packets to the process that they are for.
    #[error(
        "packets at {address} cannot be steered to the processes that they are for: there is no SO_ATTACH_REUSEPORT_CBPF here \
         (Linux 4.5 has it, emulators of user programs do not); run ferroced on the machine itself, and programs here with its \
         --runtime-dir"
    )]
    NoSteering {
        /// The address.
        address: SocketAddr,
    },
    /// Somebody has a file where one of the image belongs.
    #[error(
        "{} is in the way, and not known to be ferroce's: remove it, or choose another directory with --runtime-dir",
        .path.display()
    )]
    InTheWay {
        /// The file.
        path: PathBuf,
    },
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(String),
    /// A file could not be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    Os {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl DaemonError {
    pub(crate) fn os<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::Os {
            what,
            source: source.into(),
        }
    }

    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

/// What to do about an address that this host does not have.
fn where_to_look(address: &str) -> &'static str {
    match address.parse::<Ipv4Addr>() {
        // As long as that interface is up it has all of them.
        Ok(ip) if ip.is_loopback() => {
            "the loopback interface is down, as in a new network namespace: `ip link set lo up`"
        }
        _ => "`ip address` lists them",
    }
}

/// The errno as a program is told it: descriptors of this process that have run out are not the
/// program's, which has its own.
pub(crate) fn for_programs(errno: Errno) -> Errno {
    match errno {
        Errno::MFILE => Errno::NFILE,
        errno => errno,
    }
}
