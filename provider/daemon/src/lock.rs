//! The lock by which only one daemon runs on a runtime directory. The kernel releases it when the
//! daemon dies in whatever way.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use ferroce_control::RuntimeDir;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::DaemonError;

/// The held lock. When it is released, its file goes, the log, and the directory too if
/// nothing else is in it.
#[derive(Debug)]
pub struct Lock {
    _file: File,
    dir: RuntimeDir,
    keep_log: bool,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While the lock is still held: afterwards the file may be another daemon's.
        if !self.keep_log {
            let _ = fs::remove_file(self.dir.log());
        }
        let _ = fs::remove_file(self.dir.lock());
        let _ = fs::remove_dir(self.dir.path());
    }
}

impl Lock {
    /// Says that the log tells of something that ought to be read.
    pub fn keep_log(&mut self) {
        self.keep_log = true;
    }

    /// Takes the lock or says who has it.
    pub fn take(dir: &RuntimeDir) -> Result<Self, DaemonError> {
        let path = dir.lock();
        // A daemon that leaves removes the file while it holds the lock: what was locked may be gone.
        for _ in 0..100 {
            dir.prepare()?;
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&path)
                .map_err(DaemonError::file(&path))?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let mut pid = String::new();
                    let _ = file.read_to_string(&mut pid);
                    let pid = match pid.trim().parse::<u32>() {
                        Ok(pid) => format!(" (process {pid})"),
                        Err(_) => String::new(),
                    };
                    return Err(DaemonError::AlreadyRunning {
                        path: dir.path().to_path_buf(),
                        pid,
                    });
                }
                Err(errno) => return Err(DaemonError::file(path)(errno.into())),
            }
            let same = match (file.metadata(), fs::symlink_metadata(&path)) {
                (Ok(ours), Ok(there)) => ours.ino() == there.ino() && ours.dev() == there.dev(),
                _ => false,
            };
            if same {
                file.set_len(0).map_err(DaemonError::file(&path))?;
                writeln!(file, "{}", std::process::id()).map_err(DaemonError::file(&path))?;
                return Ok(Self {
                    _file: file,
                    dir: dir.clone(),
                    keep_log: false,
                });
            }
        }
        Err(DaemonError::Setting(format!(
            "{} keeps changing",
            path.display()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_the_other_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
        let lock = Lock::take(&dir).unwrap();
        let message = Lock::take(&dir).unwrap_err().to_string();
        assert!(
            message.contains(&format!("process {}", std::process::id())),
            "{message}"
        );
        assert!(message.contains("ferroce down"), "{message}");
        drop(lock);
        assert!(!dir.path().exists());
        Lock::take(&dir).unwrap();
    }
}
