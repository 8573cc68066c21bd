//! Group `robust`, continued: what daemons are started amid. Networks without a loopback interface,
//! interfaces with strange names.

use crate::groups::robust::trust::{SOON, only_root, refused};
use crate::harness::case::{Case, Ending, expect};
use crate::harness::process;
use crate::lab::Lab;
use crate::lab::host::Host;
use crate::lab::netns::{Enter, Namespace, done};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("robust/no loopback interface", no_loopback),
        Case::new("robust/an interface that begins with a dash", dashed),
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
