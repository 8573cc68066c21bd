//! A peer that is stopped, and a queue pair that has failed.

use rustix::process::Signal;
use serde_json::Value;

use super::{hints, in_state, rnr, wait_for};
use crate::groups::instrument::LIMIT;
use crate::harness::case::{Ending, Stop};
use crate::harness::process;
use crate::lab::{Lab, Place};

/// A peer that answers nothing for longer than its timeout is marked at the end that waits, and no
/// more when it goes on.
pub(super) fn stopped(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port().to_string();
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    // A timeout of 1.07 s, seven times.
    let command = || {
        let mut command = host.run("ib_write_bw");
        command.args(["-F", "-u", "18", "-D", "60", "-p", &port]);
        command
    };
    let mut server = process::spawn(command(), &dir, "server")?;
    if !server.listens(port.parse().unwrap_or_default(), LIMIT) {
        return Err(Stop::with("no server", &[&server.kill()]));
    }
    let mut client = command();
    client.arg(&host.address);
    let mut client = process::spawn(client, &dir, "client")?;

    let of_client = |sample: &Value, pid: u32| {
        let qps = in_state(sample, "RTS");
        qps.into_iter().find(|qp| qp["pid"] == pid).cloned()
    };
    let pid = client.id();
    let at_work = |sample: &Value| {
        let qp = of_client(sample, pid).unwrap_or_default();
        qp["sends"]["completed"].as_u64() > Some(0)
    };
    let silent = |sample: &Value| {
        let qp = of_client(sample, pid).unwrap_or_default();
        hints(&qp).contains(&"silent")
    };

    let seen = wait_for(host, &dir, &mut client, at_work).and_then(|_| {
        server.signal(Signal::STOP);
        let marked = wait_for(host, &dir, &mut client, silent);
        server.signal(Signal::CONT);
        marked?;
        let again = |sample: &Value| at_work(sample) && !silent(sample);
        wait_for(host, &dir, &mut client, again)
    });
    let ended = [client.kill(), server.kill()];
    seen.map(drop).map_err(|stop| match stop {
        Stop::Fail(failure) => Stop::with(failure.what, &ended.each_ref()),
        skip => skip,
    })
}

/// A queue pair in error is marked, with the status of the request that failed.
pub(super) fn in_error(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    let (mut running, tell, [sender, _]) = rnr(host, &dir, 1)?;
    let failed = |sample: &Value| {
        let qps = in_state(sample, "ERR");
        qps.iter().any(|qp| {
            let error = &qp["last_error"];
            qp["number"] == sender
                && hints(qp) == ["error"]
                && error["status"] == "RNR_RETRY_EXC_ERR"
                && error["queue"] == "send"
        })
    };
    let seen = wait_for(host, &dir, &mut running, failed);
    drop(tell);
    running.kill();
    seen.map(drop)
}
