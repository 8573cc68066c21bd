//! How faults are said, told to programs, and shown.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use rustix::process::Signal;

use super::{LIMIT, Scene};
use crate::harness::case::{Ending, Stop};
use crate::harness::process;

/// A program that runs goes by a fault when the command returns, and one that is stopped is named.
pub(super) fn programs(scene: &Scene<'_>) -> Ending {
    let host = scene.server();
    let command = || {
        let mut command = host.run("ib_write_bw");
        command.args(["-F", "-D", "20", "-p", &scene.port.to_string()]);
        command
    };
    let mut server = process::spawn(command(), scene.dir(), "server")?;
    if !server.listens(scene.port, LIMIT) {
        return Err(Stop::with("the server does not listen", &[&server.kill()]));
    }
    let mut client = command();
    client.arg(&host.address);
    let mut client = process::spawn(client, scene.dir(), "client")?;
    if !client.wait_until(LIMIT, |_| {
        scene.counter("rx_write_requests").is_ok_and(|n| n > 100)
    }) {
        return Err(Stop::with("nothing is written", &[&client.kill()]));
    }

    let words = "add --loss 100% --match opcode=write --count 3";
    let told = scene.try_fault(host, &words.split(' ').collect::<Vec<_>>())?;
    let id = scene.list(host)?[0]["id"].to_string();
    let waited = scene.try_fault(host, &["wait", &id, "--hits", "3", "--timeout", "20"])?;
    client.signal(Signal::STOP);
    let stopped = scene.try_fault(host, &["add", "--reorder"])?;
    client.signal(Signal::CONT);
    let (client, server) = (client.kill(), server.finish(Duration::from_secs(5)));

    let evidence = [&told, &waited, &stopped, &client, &server];
    if !told.err.is_empty() || !waited.success() {
        return Err(Stop::with("programs that run are not told", &evidence));
    }
    match stopped.err.contains("ib_write_bw") && stopped.err.contains("stopped") {
        true => Ok(()),
        false => Err(Stop::with("the stopped program is not named", &evidence)),
    }
}

/// What is listed and cleared; what makes no sense has a clear error and its own exit status.
pub(super) fn listed(scene: &Scene<'_>) -> Ending {
    let host = scene.server();
    let added = scene.fault(
        host,
        &["add", "--loss", "1%", "--qp", "0x2aa3b", "--seed", "7"],
    )?;
    scene.fault(host, &["add", "--delay", "1ms±200us", "--for", "100ms"])?;
    let list = scene.list(host)?;
    let id = list[0]["id"].to_string();
    if !added.contains("loss, queue pair 0x2aa3b, 1%, seed 7") || list.len() != 2 {
        return Err(Stop::fail(format!("{added}: {list:?}")));
    }

    for (words, status, said) in [
        (
            &["add", "--drop", "psn%64 ~ 3"][..],
            2,
            "psn%64 ~ 3\n           ^",
        ),
        (&["add", "--loss", "1"], 2, "`1` is no share"),
        (&["add", "--alloc-fail", "create_pq"], 2, "create_qp"),
        (&["add"], 2, "what is to go wrong?"),
        (&["add", "--rnr", "--reorder"], 2, "two faults"),
        (
            &["add", "--cm-reject", "28", "--qp", "1"],
            2,
            "--qp means nothing",
        ),
        (
            &["add", "--nth", "4", "--every", "2"],
            2,
            "cannot be used with",
        ),
        (&["add", "--loss", "1%", "--qp", "0"], 2, "1 to 0xffffff"),
        (&["add", "--port-down", "2"], 1, "there is no port 2"),
        (&["add", "--gid-remove", "9"], 1, "GID 9 is not in use"),
        (&["clear", "4711"], 1, "there is no fault 4711"),
        (&["wait", &id, "--timeout", "0"], 1, "has hit 0 times"),
    ] {
        let finished = scene.try_fault(host, words)?;
        if finished.code() != Some(status) || !finished.err.contains(said) {
            let what = format!("{words:?}: status {status} and {said:?} are wanted");
            return Err(Stop::with(what, &[&finished]));
        }
    }

    scene.fault(host, &["clear", &id])?;
    // The other is over by now, or soon, and is shown until it is cleared.
    let mut over = scene.list(host)?;
    while over
        .first()
        .is_some_and(|one| one["over"] == false && one["left_ms"] != 0)
    {
        over = scene.list(host)?;
    }
    scene.fault(host, &["clear"])?;
    match over.len() == 1 && scene.list(host)?.is_empty() {
        true => Ok(()),
        false => Err(Stop::fail(format!("{over:?}"))),
    }
}

/// A file of several faults: all or none.
pub(super) fn scenarios(scene: &Scene<'_>) -> Ending {
    let host = scene.server();
    let file = scene.dir().join("scenario.toml");
    let name = file.to_string_lossy().into_owned();
    let write = |text: &str| fs::write(&file, text).context("the scenario");
    write(
        "seed = 7\n[[fault]]\nloss = \"1%\"\n[[fault]]\nduplicate = true\nrate = \"1%\"\nmatch = \"opcode=request\"\n",
    )?;
    scene.fault(host, &["load", &name])?;
    let line = "ibv_rc_pingpong -g 0 -c -s 16384 -n 300";
    scene.run(line)?.clean()?;
    let list = scene.list(host)?;
    let hit = list
        .iter()
        .filter(|one| one["hits"].as_u64() > Some(0))
        .count();
    if hit != 2 {
        return Err(Stop::fail(format!("two of two are to hit: {list:?}")));
    }
    scene.clear()?;

    write("[[fault]]\nrnr = true\n[[fault]]\nport-down = 7\n")?;
    let refused = scene.try_fault(host, &["load", &name])?;
    if refused.code() != Some(1) || !scene.list(host)?.is_empty() {
        return Err(Stop::with("a part of a scenario is there", &[&refused]));
    }
    write("[[fault]]\nlos = \"1%\"\n")?;
    let refused = scene.try_fault(host, &["load", &name])?;
    match refused.code() == Some(2) && refused.err.contains("line 2") {
        true => Ok(()),
        false => Err(Stop::with("the place is not named", &[&refused])),
    }
}
