//! The limits of the process (`ulimit`) that decide how many programs a daemon can serve, or
//! whether it can serve any.

use ferroce_control::{ControlError, InboxFds};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};

use crate::DaemonError;

/// Makes the most of the limits: one socket for each slot and address, and one for each client, are
/// more than the usual 1,024. A file that becomes too long is an error from now on, and no longer
/// the end of the process.
pub fn raise() {
    for (resource, what) in [
        (Resource::Nofile, "open files"),
        (Resource::Fsize, "the size of files"),
    ] {
        let limit = rustix::process::getrlimit(resource);
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        if let Err(error) = rustix::process::setrlimit(resource, raised) {
            tracing::warn!(%error, "the limit of {what} stays as it is");
        }
    }

    // SAFETY: no handler is installed, so nothing runs in a signal's context.
    if unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) } == libc::SIG_ERR {
        let error = std::io::Error::last_os_error();
        tracing::warn!(%error, "a file that is too long will end this process");
    }
}

/// Whether a program could be served. What each is given counts as a file of some hundred MiB, of
/// which little is ever used.
pub(crate) fn check() -> Result<(), DaemonError> {
    match InboxFds::create() {
        Ok(_) => Ok(()),
        Err(error) if is(&error, Errno::FBIG) => {
            let limit = rustix::process::getrlimit(Resource::Fsize).maximum;
            Err(DaemonError::Setting(format!(
                "files may have no more than {} bytes here (`ulimit -f`), and the memory through which programs get their packets \
                 counts as one: raise the limit (`ulimit -f unlimited`, LimitFSIZE= of a service)",
                limit.unwrap_or(u64::MAX)
            )))
        }
        Err(error) => Err(error.into()),
    }
}

fn is(error: &ControlError, errno: Errno) -> bool {
    error.errno() == errno.raw_os_error()
}

/// What there is to know about a limit that has kept a daemon from starting, or nothing.
pub fn hint(error: &DaemonError) -> String {
    let source = match error {
        DaemonError::Directory(ControlError::Io { source, .. })
        | DaemonError::File { source, .. }
        | DaemonError::Os { source, .. } => source,
        _ => return String::new(),
    };
    match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => format!(": {}", descriptors()),
        _ => String::new(),
    }
}

/// For messages about descriptors that have run out.
pub(crate) fn descriptors() -> String {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    format!(
        "ferroced may have {} open files, and each program takes some (`ulimit -n`, LimitNOFILE= of a service)",
        limit.map_or("any number of".into(), |limit| limit.to_string())
    )
}
