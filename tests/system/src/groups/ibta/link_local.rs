//! Group `ibta`, continued: a device and a tester at link-local addresses.

use super::around::{BOUND, QUICK, passed, refused};
use crate::groups::cm::changes::pair;
use crate::groups::verbs::watch::ip;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process;
use crate::lab::Lab;
use crate::lab::host::Host;
use crate::lab::netns::INTERFACES;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("ibta/around/link-local addresses", link_local)]
}

/// Device and tester know each other by addresses that say nothing without their interfaces.
fn link_local(lab: &mut Lab) -> Ending {
    const ENDS: [&str; 2] = ["fe80::77:1", "fe80::77:2"];
    let [device, tester] = [0, 1].map(|end| format!("{}%{}", ENDS[end], INTERFACES[end]));
    let dir = lab.case_dir()?;
    let pair = pair()?;
    let host = |address, namespace| Host::new(lab.programs(), address, Some(namespace));
    let mut far = host(ENDS[0], pair.a)?;
    let near = host(ENDS[1], pair.b)?;
    for (host, interface) in [&far, &near].into_iter().zip(INTERFACES) {
        let prefix = format!("{}/64", host.address);
        ip(host, &["addr", "add", &prefix, "dev", interface, "nodad"])?;
    }
    far.up_with(&["--addr", &device])?;

    let suite = lab.programs().join("ferroce-ibta");
    let port = lab.port();
    let mut agent = far.run(&suite);
    let listen = format!("[{device}]:{port}");
    agent.args(["agent", "--device", "ferroce0", "--listen", &listen]);
    let mut agent = process::spawn(agent, &dir, "agent")?;
    if !agent.listens(port, BOUND) {
        return Err(Stop::with("the agent does not listen", &[&agent.kill()]));
    }

    let run = |more: &[&str], name: &str| {
        let mut command = near.plain(&suite);
        let at = format!("[{}%{}]:{port}", ENDS[0], INTERFACES[1]);
        command.args(["run", QUICK, "--agent", &at]).args(more);
        command.current_dir(&dir);
        process::run(command, &dir, name, BOUND)
    };
    passed(&run(&["--tester", &tester], "with-its-interface")?)?;
    passed(&run(&[], "by-the-agent")?)?;
    let bare = run(&["--tester", ENDS[1]], "without")?;
    refused(&bare, &["needs its interface", "fe80::77:2%eth0"])
}
