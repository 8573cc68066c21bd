//! Group `robust`, continued: what daemons are started amid. Networks without a loopback interface.

use crate::groups::robust::trust::{SOON, only_root, refused};
use crate::harness::case::{Case, Ending};
use crate::harness::process;
use crate::lab::Lab;
use crate::lab::host::Host;
use crate::lab::netns::Namespace;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("robust/no loopback interface", no_loopback)]
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
