//! Child processes of the tests: output kept in files, bounded in time, killed by their id and by
//! nothing else.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde::{Deserialize, Serialize};

use crate::interrupt;

/// A process that runs.
pub struct Running {
    child: Child,
    line: String,
    out: PathBuf,
    err: PathBuf,
    started: Instant,
}

/// A process that has ended, or was ended.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Finished {
    /// The command line.
    pub line: String,
    /// How it ended; none if it ran out of time and was killed.
    #[serde(with = "raw_status")]
    pub status: Option<ExitStatus>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
    /// How long it ran.
    pub elapsed: Duration,
}

/// A status as wait(2) gives it, for the way from one process of the tests to another.
mod raw_status {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        status: &Option<ExitStatus>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        status.map(ExitStatus::into_raw).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<ExitStatus>, D::Error> {
        Ok(Option::deserialize(from)?.map(ExitStatus::from_raw))
    }
}

/// Starts `command`, without input, with output to `DIR/NAME.out` and `DIR/NAME.err`.
pub fn spawn(command: Command, dir: &Path, name: &str) -> Result<Running> {
    spawn_with(command, Stdio::null(), dir, name)
}

/// Starts `command` with this input.
pub fn spawn_with(mut command: Command, input: Stdio, dir: &Path, name: &str) -> Result<Running> {
    interrupt::none_yet()?;
    let out = dir.join(format!("{name}.out"));
    let err = dir.join(format!("{name}.err"));
    let line = line_of(&command);
    let child = command
        .stdin(input)
        .stdout(File::create(&out).with_context(|| format!("{}", out.display()))?)
        .stderr(File::create(&err).with_context(|| format!("{}", err.display()))?)
        .spawn()
        .with_context(|| line.clone())?;

    Ok(Running {
        child,
        line,
        out,
        err,
        started: Instant::now(),
    })
}

/// Runs `command` to its end, for at most `limit`.
pub fn run(command: Command, dir: &Path, name: &str, limit: Duration) -> Result<Finished> {
    Ok(spawn(command, dir, name)?.finish(limit))
}

impl Running {
    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end, at most `limit` from now; then kills.
    pub fn finish(mut self, limit: Duration) -> Finished {
        let status = if self.ended_within(limit) {
            self.child.wait().ok()
        } else {
            None
        };
        self.finished(status)
    }

    /// Waits for the end of a server whose client has ended: at most `limit`, or a moment to say
    /// why if the client failed.
    pub fn finish_after(self, client: &Finished, limit: Duration) -> Finished {
        self.finish(if client.success() {
            limit
        } else {
            Duration::from_secs(5)
        })
    }

    /// Sends SIGKILL and collects.
    pub fn kill(mut self) -> Finished {
        let _ = self.child.kill();
        let status = self.child.wait().ok();
        self.finished(status)
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Whether the process ends within `limit`, and before an interruption.
    pub fn ended_within(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let pidfd = Pid::from_raw(self.child.id() as i32)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        loop {
            match self.child.try_wait() {
                Ok(None) => {}
                _ => return true,
            }

            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || interrupt::has_come() {
                return false;
            }

            // Without a pidfd (kernels before 5.3) look often instead.
            let slice = if pidfd.is_some() {
                left.min(interrupt::GLANCE)
            } else {
                left.min(Duration::from_millis(5))
            };

            let timeout = Timespec {
                tv_sec: slice.as_secs() as i64,
                tv_nsec: slice.subsec_nanos().into(),
            };

            let _ = match &pidfd {
                Some(fd) => poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)),
                None => poll(&mut [], Some(&timeout)),
            };
        }
    }

    /// What the process has written to standard output so far.
    pub fn output(&self) -> String {
        text(&self.out)
    }

    /// What it has written to standard error so far.
    pub fn errors(&self) -> String {
        text(&self.err)
    }

    /// Waits until `ready` holds; false if the process ends or `limit` passes first.
    pub fn wait_until(&mut self, limit: Duration, mut ready: impl FnMut(&Running) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            if ready(self) {
                return true;
            }
            if Instant::now() >= deadline || self.ended_within(Duration::from_millis(2)) {
                return ready(self);
            }
        }
    }

    /// Waits until the process listens on a TCP port (in its own network namespace).
    pub fn listens(&mut self, port: u16, limit: Duration) -> bool {
        self.wait_until(limit, |running| listening(running.id(), port))
    }

    fn finished(&mut self, status: Option<ExitStatus>) -> Finished {
        if status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        Finished {
            line: self.line.clone(),
            status,
            out: text(&self.out),
            err: text(&self.err),
            elapsed: self.started.elapsed(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Finished {
    /// Its exit code, if it ended by itself.
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    /// Whether it ended by itself with exit code 0.
    pub fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// How it ended, in words.
    pub fn ending(&self) -> String {
        match self.status {
            None => format!(
                "killed after {:.1} s: out of time",
                self.elapsed.as_secs_f64()
            ),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => format!("died of signal {signal}"),
                _ => "ended in an unknown way".to_owned(),
            },
        }
    }
}

/// A command as one would type it.
pub fn line_of(command: &Command) -> String {
    let mut line = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            line += &format!(
                "{}={} ",
                name.to_string_lossy(),
                quoted(&value.to_string_lossy())
            );
        }
    }

    line += &quoted(&command.get_program().to_string_lossy());
    for argument in command.get_args() {
        line.push(' ');
        line += &quoted(&argument.to_string_lossy());
    }

    line
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// Looks the port up in the process's socket table: unlike a trial connection, this leaves the
/// server (which takes one connection only) as it is.
fn listening(pid: u32, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    ["tcp", "tcp6"].iter().any(|table| {
        text(Path::new(&format!("/proc/{pid}/net/{table}")))
            .lines()
            .skip(1)
            .any(|row| {
                let mut fields = row.split_whitespace();
                let local = fields.nth(1).unwrap_or_default();
                local.ends_with(&suffix) && fields.nth(1) == Some(LISTEN)
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_typed() {
        let mut command = Command::new("ferroce");
        command
            .args(["run", "--", "echo", "two words", ""])
            .env("A", "it's");
        assert_eq!(
            line_of(&command),
            r"A='it'\''s' ferroce run -- echo 'two words' ''"
        );
    }

    #[test]
    fn time_runs_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sleep");
        command.arg("60");
        let finished = run(command, dir.path(), "sleep", Duration::from_millis(30)).unwrap();
        assert!(finished.status.is_none() && finished.elapsed < Duration::from_secs(30));
    }

    #[test]
    fn output_and_exit_code_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let finished = run(command, dir.path(), "sh", Duration::from_secs(10)).unwrap();
        assert_eq!(
            (finished.out.as_str(), finished.err.as_str()),
            ("out\n", "err\n")
        );
        assert_eq!(finished.ending(), "exit code 3");
    }
}
