//! Group `robust`, continued: what daemons are started amid. Networks without a loopback interface,
//! interfaces with strange names, users with strange masks.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::groups::robust::trust::{NOBODY, SOON, only_root, refused, well};
use crate::harness::case::{Case, Ending, expect};
use crate::harness::process;
use crate::lab::Lab;
use crate::lab::host::Host;
use crate::lab::netns::{Enter, Namespace, done};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("robust/no loopback interface", no_loopback),
        Case::new("robust/an interface that begins with a dash", dashed),
        Case::new("robust/a user whose files nobody may read", masked),
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
    let prefix = tempfile::tempdir().map_err(anyhow::Error::from)?;
    fs::set_permissions(prefix.path(), Permissions::from_mode(0o755))
        .map_err(anyhow::Error::from)?;
    crate::install::copy(lab.programs(), prefix.path())?;
    let home = tempfile::tempdir().map_err(anyhow::Error::from)?;
    std::os::unix::fs::chown(home.path(), Some(NOBODY), Some(NOBODY))
        .map_err(anyhow::Error::from)?;

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
