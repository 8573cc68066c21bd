//! Group `robust`, continued: daemon and library of different builds.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use ferroce_cabi::ucma_frame::{OTHER_VERSION, SOCKET};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind,
    listen, recv, send, socket_with,
};

use crate::harness::case::expect;
use crate::harness::case::{Case, Ending};
use crate::harness::process;
use crate::lab::Lab;
use crate::lab::host::Host;

const LIMIT: Duration = Duration::from_secs(20);
/// No version that there will be soon.
const THEIRS: u32 = 4_000_000_099;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "robust/a program of another build is told so",
        other_build,
    )]
}

/// Where ferroced answers that its version is another one, the program gets an errno and its user a
/// line that names both and the remedy.
fn other_build(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    host.up()?;
    let place = host.runtime_dir().join(SOCKET);
    fs::remove_file(&place).map_err(anyhow::Error::from)?;
    let door = door(&place)?;
    let mut command = host.run("rping");
    command.args(["-c", "-a", &host.address, "-C", "1"]);
    let mut program = process::spawn(command, &dir, "rping")?;
    program.wait_until(LIMIT, |_| {
        refuse(&door);
        false
    });

    let finished = program.finish(Duration::ZERO);
    host.down()?;

    let refused = finished
        .status
        .is_some_and(|status| !status.success() && status.code().is_some());
    let lines = finished.err.lines();
    let sentences: Vec<&str> = lines.filter(|line| line.starts_with("ferroce: ")).collect();
    let clear = |line: &&str| line.contains(&THEIRS.to_string()) && line.contains("ferroce down");
    expect(
        refused && sentences.len() == 1 && sentences.iter().all(clear),
        || {
            format!(
                "rping {}, and is told {sentences:?}\n{}",
                finished.ending(),
                finished.err
            )
        },
    )
}

/// What stands where ferroced's socket was.
fn door(place: &Path) -> Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let door = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&door, &SocketAddrUnix::new(place)?).with_context(|| place.display().to_string())?;
    listen(&door, 8)?;
    Ok(door)
}

/// Answers who knocks as a ferroced of another build does, once, and hangs up.
fn refuse(door: &OwnedFd) {
    let Ok(program) = accept(door.as_fd()) else {
        return;
    };
    let mut request = [0; 2048];
    let _ = recv(&program, &mut request[..], RecvFlags::empty());
    let head = [OTHER_VERSION.cast_unsigned(), 0, 0, THEIRS];
    let reply: Vec<u8> = head.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let _ = send(&program, &reply, SendFlags::NOSIGNAL);
}
