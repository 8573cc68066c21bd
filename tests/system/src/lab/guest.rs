//! Commands inside a throw-away guest with Debian's own kernel, for what needs rdma_rxe
//! (`tests/interop/guest`).
//!
//! The guest has this machine's files at the same paths, and what it writes is gone afterwards but
//! below the shared directory.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::build;
use crate::harness::case::Stop;
use crate::harness::process::{self, Finished};
use crate::packages;

/// The exit code of the script where there is no guest; why is on its standard error.
const NO_GUEST: i32 = 125;
/// What the guest's own time-out comes before ours by, so that it is the one that tells.
const LEEWAY: Duration = Duration::from_secs(20);

/// Runs a command as root in a guest that may write below `share`; skips, with the reason, where no
/// guest can be had. A guest that was started and ends without the command's exit code, as when its
/// kernel crashes, is a command that failed.
///
/// `share/NAME.out` grows while the command writes, to standard output or error;
/// `share/console.log` is what the kernel had to say.
pub fn run(command: &[&str], share: &Path, name: &str, limit: Duration) -> Result<Finished, Stop> {
    run_under(None, command, share, name, limit)
}

/// The same under the kernel of one of Debian's suites, if one is named.
pub(crate) fn run_under(
    suite: Option<&str>,
    command: &[&str],
    share: &Path,
    name: &str,
    limit: Duration,
) -> Result<Finished, Stop> {
    packages::ensure(packages::GUEST)
        .map_err(|error| Stop::Skip(format!("no guest: {error:#}")))?;
    let mut guest = Command::new(build::workspace().join("tests/interop/guest"));
    guest
        .args(command)
        .env("GUEST_SHARE", share)
        .env("GUEST_TIMEOUT", limit.as_secs().to_string());
    if let Some(suite) = suite {
        guest.env("GUEST_SUITE", suite);
    }
    let finished = process::run(guest, share, name, limit + LEEWAY)?;
    there_was_one(finished)
}

/// What the script answered, if there was a guest at all. The exit code may be the command's: the
/// script's own last word tells.
fn there_was_one(finished: Finished) -> Result<Finished, Stop> {
    let last = finished.err.lines().last().unwrap_or_default();
    match last.strip_prefix("guest: ") {
        Some(why) if finished.code() == Some(NO_GUEST) => {
            Err(Stop::Skip(format!("no guest: {why}")))
        }
        _ => Ok(finished),
    }
}

/// Runs a command and prints what it wrote; whether it ended well.
pub fn show(command: &[String]) -> Result<bool> {
    const LIMIT: Duration = Duration::from_secs(3600);
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let finished =
        run(&words, &build::scratch("guest")?, "output", LIMIT).map_err(Stop::into_error)?;
    print!("{}", finished.out);
    eprint!("{}", finished.err);
    if !finished.success() {
        eprintln!("xtask: {}", finished.ending());
    }
    Ok(finished.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts programs where the script finds them first: the last argument is what QEMU is, the
    /// others do nothing. The kernel is there.
    const STAGE: &str = r#"
        set -e
        cd "$0"
        mkdir -p bin cache/linux-image-0
        for name in busybox depmod cpio xz zstd apt-get; do printf '#!/bin/sh\n' >bin/$name; done
        printf '#!/bin/sh\necho x86_64\n' >bin/uname
        printf '%s\n' "$1" >bin/qemu-system-x86_64
        chmod +x bin/*
        cd cache/linux-image-0
        touch unpacked initramfs vmlinux
    "#;
    /// Finds the directory through which guest and script talk.
    const QEMU: &str = r#"#!/bin/sh
        for word; do case $word in file:*/console) control=${word#file:}; control=${control%/console} ;; esac; done
    "#;

    /// The script, with a QEMU that does this once `control` is known.
    fn script(does: &str, seconds: u32) -> Result<Finished, Stop> {
        let dir = tempfile::tempdir().unwrap();
        let stage = Command::new("sh")
            .args(["-c", STAGE])
            .arg(dir.path())
            .arg(format!("{QEMU}\n{does}"))
            .status()
            .unwrap();
        assert!(stage.success());
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(build::workspace().join("tests/interop/guest"));
        command
            .arg("true")
            .env("PATH", format!("{}/bin:{path}", dir.path().display()))
            .env("GUEST_CACHE", dir.path().join("cache"))
            .env("GUEST_KERNEL", "linux-image-0")
            .env("GUEST_START", "2")
            .env("GUEST_TIMEOUT", seconds.to_string());

        let finished = process::run(command, dir.path(), "script", Duration::from_secs(60));
        there_was_one(finished.unwrap())
    }

    #[test]
    fn a_guest_that_was_there_is_no_skip() {
        const CRASH: &str = "echo 'Kernel panic - not syncing: sysrq triggered crash' >$control/console; seq 50 >>$control/console";
        let crash = script(CRASH, 60).ok().expect("a crash is skipped");
        assert!(!crash.success());
        assert!(crash.err.contains("sysrq triggered crash"), "{}", crash.err);
        // QEMU itself may fail in the middle.
        let gone = script("touch $control/started; exit 1", 60);
        assert!(!gone.ok().expect("QEMU's end is skipped").success());
        let killed = script("kill -ABRT $$", 60);
        assert!(!killed.ok().expect("QEMU's crash is skipped").success());
        let late = script("exec sleep 50", 1);
        assert_eq!(late.ok().expect("no time is skipped").code(), Some(124));
    }

    #[test]
    fn one_that_does_not_start_is_started_again() {
        const SECOND: &str = "[ -e $control/first ] && { echo 0 >$control/status; exit; }; touch $control/first; exec sleep 50";

        let finished = script(SECOND, 60).ok().expect("a second start is skipped");
        assert!(finished.success(), "{}", finished.err);
        assert!(
            finished.err.contains("not started after"),
            "{}",
            finished.err
        );

        let never = script("exec sleep 50", 60)
            .ok()
            .expect("a guest that hangs is skipped");
        assert!(!never.success());
        assert!(
            never.err.ends_with("it did not start, three times\n"),
            "{}",
            never.err
        );

        // What runs already is not begun twice.
        let slow = script(
            "touch $control/started; sleep 4; echo 7 >$control/status",
            60,
        );
        assert_eq!(slow.ok().expect("a slow one is skipped").code(), Some(7));
    }

    #[test]
    fn exit_codes_are_the_commands() {
        for code in [0, 3, NO_GUEST] {
            let ended = script(&format!("echo {code} >$control/status"), 60);
            assert_eq!(ended.ok().expect("skipped").code(), Some(code));
        }
    }

    #[test]
    fn no_guest_is_a_skip() {
        let refused = script("echo 'no such machine' >&2; exit 1", 60);
        assert!(matches!(refused, Err(Stop::Skip(why)) if why.contains("QEMU starts none")));
    }
}
