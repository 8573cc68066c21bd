//! The device plugin of Kubernetes, before a stand-in for the kubelet that gRPC's own library is
//! behind, and two containers that get what it answers.

use rustix::process::Signal;
use serde_json::Value;

use crate::build;
use crate::harness::case::{Ending, Stop};
use crate::harness::process;
use crate::lab::Lab;
use crate::packages::PYTHON;

use super::place::{Edits, Engine, Place};
use super::{LIMIT, PERFTEST, perftest};

const DEVICES: u64 = 4;

/// Allocates, and runs ib_write_bw between two containers.
pub(super) fn allocated(lab: &mut Lab) -> Ending {
    let place = Place::new(lab)?;
    let dir = lab.case_dir()?;
    let meeting = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let mut plugin = place.host.ferroce();
    plugin
        .args(["k8s-device-plugin", "--devices", &DEVICES.to_string()])
        .arg("--kubelet-dir")
        .arg(meeting.path());
    let plugin = process::spawn(plugin, &dir, "plugin")?;

    let mut kubelet = std::process::Command::new(PYTHON);
    let script = build::workspace().join("tests/containers/kubelet.py");
    kubelet.arg(script).arg(meeting.path());
    let kubelet = process::run(kubelet, &dir, "kubelet", LIMIT)?;
    plugin.signal(Signal::TERM);
    let plugin = plugin.finish(LIMIT);
    if !kubelet.success() || !plugin.success() {
        return Err(Stop::with("no allocation", &[&kubelet, &plugin]));
    }

    let said: Value = serde_json::from_str(&kubelet.out).unwrap_or_default();
    let offered = said["resource"] == "ferroce.dev/rdma" && said["devices"] == DEVICES;
    match Edits::read(&said).filter(|_| offered) {
        Some(edits) => perftest(lab, &place, &Engine::Bubblewrap(edits), PERFTEST[0]),
        None => Err(Stop::with("another answer", &[&kubelet, &plugin])),
    }
}
