//! Group `robust`, continued: what daemons are started amid. Networks without a loopback interface,
//! interfaces with strange names, users with strange masks, file systems without room.

use crate::groups::robust::trust::{SOON, only_root, refused, settle, well};
use crate::harness::case::{Case, Ending, Stop, expect};
use crate::harness::process;
use crate::lab::Lab;
use crate::lab::host::Host;
use crate::lab::netns::{Enter, Namespace, done};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("robust/no loopback interface", no_loopback),
        Case::new("robust/an interface that begins with a dash", dashed),
        Case::new("robust/a user whose files nobody may read", masked),
        Case::new("robust/no room for the image", no_room),
    ]
}

/// Whoever has no loopback addresses yet is told why.
fn no_loopback(lab: &mut Lab) -> Ending {
    only_root()?;
    let dir = lab.case_dir()?;
    let host = Host::new(lab.programs(), "127.0.0.1", Some(Namespace::new()?))?;
    for (name, up) in [
        ("anywhere", &["up", "--config", "/dev/null"][..]),
        ("there", &["up", "--addr", "127.0.0.1"]),
    ] {
        let mut command = host.ferroce();
        command.args(up);
        let up = process::run(command, &dir, name, SOON)?;
        refused(&up, &["127.0.0.1", "ip link set lo up"])?;
    }
    Ok(())
}

/// An interface may be called anything without blanks and slashes.
fn dashed(lab: &mut Lab) -> Ending {
    only_root()?;
    let space = Namespace::new()?;
    let line = "ip link set lo up && ip link add name -dash type veth";
    done(space.enter().args(["sh", "-c", line]))?;
    let mut host = Host::new(lab.programs(), "127.0.0.1", Some(space))?;
    host.up_with(&["--netdev=-dash"])?;
    let device = host.status()?["device"].clone();
    host.down()?;
    expect(device["netdev"] == "-dash", || device.to_string())
}

/// What the daemon makes its user can use, though not even he could use what others make for him
/// (`umask`).
fn masked(lab: &mut Lab) -> Ending {
    only_root()?;
    lab.vacate();
    let dir = lab.case_dir()?;
    let host = Host::new(lab.programs(), "127.0.0.1", None)?;
    let [prefix, home] = settle(lab)?;

    let script =
        "umask 777; \"$0\" up --addr 127.0.0.1 && \"$0\" run -- ibv_devinfo && \"$0\" down";
    let mut command = host.plain("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["bash", "-c", script])
        .arg(prefix.path().join("bin/ferroce"))
        .env("HOME", home.path())
        .env("FERROCE_RUNTIME_DIR", home.path().join("on/the/way"));
    let finished = process::run(command, &dir, "masked", SOON)?;
    well(&finished)?;
    let left = home.path().join("on/the/way").exists();
    expect(!left && finished.out.contains("PORT_ACTIVE"), || {
        format!("left behind: {left}\n{}", finished.out)
    })
}

/// A daemon that finds no room for its files says so, and leaves none of them behind.
fn no_room(lab: &mut Lab) -> Ending {
    only_root()?;
    lab.vacate();
    let dir = lab.case_dir()?;
    let host = Host::new(lab.programs(), "127.0.0.1", None)?;
    let script = r#"
        for room in size=4k size=16k size=64k size=200k size=600k nr_inodes=6 nr_inodes=9 nr_inodes=20; do
            mount -t tmpfs -o $room,mode=700 room "$1" || exit 77
            "$0" --runtime-dir "$1/run" up --addr 127.0.0.1 && echo "starts with $room"
            find "$1" -mindepth 1 -printf "$room leaves %p\n"
            umount -l "$1"
        done"#;
    let mut command = host.plain("unshare");
    command
        .args(["-m", "sh", "-c", script])
        .arg(host.programs().join("ferroce"))
        .arg(host.runtime_dir());
    let finished = process::run(command, &dir, "rooms", 4 * SOON)?;
    match (finished.code(), finished.out.is_empty()) {
        (Some(77), _) => Err(Stop::Skip("mounts are not allowed here".to_owned())),
        (Some(0), true) => refused_each_time(&finished.err),
        _ => Err(Stop::with("something is left behind", &[&finished])),
    }
}

fn refused_each_time(said: &str) -> Ending {
    let count = said.matches("No space left").count();
    expect(count >= 8, || {
        format!("{count} refusals for want of room:\n{said}")
    })
}
