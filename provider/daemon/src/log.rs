//! The log of a daemon in the background: a file that does not grow for ever. When it is long it
//! gets another name, in place of the one before it, and a new one is begun.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// How long a log may become, in bytes; there are two.
const LONGEST: u64 = 4 << 20;

/// Writes to a log. What else is written to standard error goes to the same file.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    length: u64,
    longest: u64,
    /// Whether standard error is the log.
    stderr: bool,
}

impl Log {
    /// Goes on with the log at a path.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        Self::with_bound(path, LONGEST, true)
    }

    fn with_bound(path: PathBuf, longest: u64, stderr: bool) -> io::Result<Self> {
        let file = append(&path)?;
        Ok(Self {
            length: file.metadata()?.len(),
            path,
            file,
            longest,
            stderr,
        })
    }

    fn begin_anew(&mut self) -> io::Result<()> {
        let mut old = self.path.clone().into_os_string();
        old.push(".1");
        fs::rename(&self.path, old)?;
        self.file = append(&self.path)?;
        if self.stderr {
            rustix::stdio::dup2_stderr(&self.file)?;
        }
        Ok(())
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.length >= self.longest {
            // If it cannot be done, there is nobody to tell; it is tried again when as much has
            // come once more.
            let _ = self.begin_anew();
            self.length = 0;
        }
        let written = self.file.write(bytes)?;
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Opens a file that only this user can read, to append to it.
fn append(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_bounded_and_keeps_what_came_last() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("log");
        for round in 0..2 {
            let mut log = Log::with_bound(path.clone(), 1_000, false).unwrap();
            for n in 0..500 {
                writeln!(log, "{round} line {n}").unwrap();
            }
        }

        let names: Vec<_> = fs::read_dir(temp.path()).unwrap().flatten().collect();
        assert_eq!(names.len(), 2);
        for entry in names {
            assert!(entry.metadata().unwrap().len() < 1_020);
        }
        let (old, new) = (temp.path().join("log.1"), &path);
        let text = fs::read_to_string(old).unwrap() + &fs::read_to_string(new).unwrap();
        let last: Vec<&str> = text.lines().rev().take(50).collect();
        assert_eq!(last[0], "1 line 499");
        assert_eq!(last[49], "1 line 450");
    }
}
