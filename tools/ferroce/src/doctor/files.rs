//! Files without which no program gets far, and which containers and filters of system calls may
//! lack: what the image's device files lead to, and memory that processes share.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use ferroce_control::{ControlError, CounterPage, FlowFile};

use super::Check;

pub(super) fn checks() -> Vec<Check> {
    let shared = CounterPage::create().map(drop);
    vec![
        null(Path::new("/dev/null")),
        memory(shared),
        pace(FlowFile::check()),
    ]
}

/// By its number the provider knows the device, and libibverbs and librdmacm open it to read and to
/// write.
fn null(path: &Path) -> Check {
    const NAME: &str = "/dev/null";
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let found = opened.and_then(|file| file.metadata());
    let what = match found {
        Ok(meta)
            if meta.file_type().is_char_device() && meta.rdev() == rustix::fs::makedev(1, 3) =>
        {
            return Check::ok(NAME, "can be read and written");
        }
        Ok(_) => "is something else than the device".to_owned(),
        Err(error) => error.to_string(),
    };
    Check::bad(
        NAME,
        what,
        "what programs open as the device's file is a link to it: as root `rm -f /dev/null` and \
         `mknod -m 666 /dev/null c 1 3`, or let the container have a /dev of its own",
    )
}

/// As the daemon makes what it shares with each program.
fn memory(made: Result<(), ControlError>) -> Check {
    const NAME: &str = "shared memory";
    match made {
        Ok(()) => Check::ok(NAME, "memfd_create, with seals"),
        Err(error) => Check::bad(
            NAME,
            error.to_string(),
            "no program can attach without: let the filter of system calls (seccomp) pass \
             memfd_create and fcntl's F_ADD_SEALS",
        ),
    }
}

/// Where the daemon of an address and programs count what is on its way.
fn pace(made: Result<(), ControlError>) -> Check {
    const NAME: &str = "/dev/shm";
    match made {
        Ok(()) => Check::ok(NAME, "has room for the counters of UC and UD"),
        Err(error) => Check::note(
            NAME,
            error.to_string(),
            "UC and UD are paced by the clock without: see `df /dev/shm`; containers get more by \
             --shm-size",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;
    use std::io;

    #[test]
    fn null_is_the_device_and_nothing_else() {
        assert_eq!(null(Path::new("/dev/null")).state, State::Ok);
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("null");
        let missing = null(&file);
        assert_eq!(missing.state, State::Bad);
        std::fs::write(&file, "").unwrap();
        for other in [&*file, Path::new("/dev/zero")] {
            let check = null(other);
            assert_eq!(check.state, State::Bad, "{other:?}");
            assert!(check.found.contains("something else"), "{check:?}");
        }
    }

    #[test]
    fn a_filter_that_refuses_memory_is_told() {
        assert_eq!(memory(Ok(())).state, State::Ok);
        let refused = ControlError::Io {
            what: "creating the page of counters",
            source: io::Error::from_raw_os_error(libc::EPERM),
        };
        let check = memory(Err(refused));
        assert_eq!(check.state, State::Bad);
        assert!(check.advice.contains("memfd_create"), "{check:?}");
    }

    #[test]
    fn shared_memory_that_is_full_is_told() {
        assert_eq!(pace(Ok(())).state, State::Ok);
        let full = ControlError::Io {
            what: "creating the counters of an address",
            source: io::Error::from_raw_os_error(libc::ENOSPC),
        };
        let check = pace(Err(full));
        assert_eq!(check.state, State::Note);
        assert!(check.found.contains("No space left"), "{check:?}");
    }
}
