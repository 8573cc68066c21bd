//! `ferroce top`: what it tells programs of queue pairs is what happened to them, what is wrong is
//! named, and on a terminal it is a screen.

mod screen;
mod trouble;

use std::io::{PipeWriter, Write};
use std::path::Path;
use std::process::Stdio;

use anyhow::Context;
use serde_json::Value;

use super::{LIMIT, PYTHON};
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished, Running};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};
use crate::programs::perftest::Pair;

/// A sender whose peer has no receive request posted.
const RNR: &str = include_str!("rnr.py");

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("instrument/top: a transfer in numbers", transfer),
        Case::new("instrument/top: no receive is posted", no_receive),
        Case::new("instrument/top: a peer that is stopped", trouble::stopped),
        Case::new("instrument/top: a queue pair in error", trouble::in_error),
        Case::new("instrument/top: tables, and what is refused", tables),
        Case::new("instrument/top: on a terminal", screen::on_a_terminal),
        Case::new("instrument/top: ended by a signal", screen::ended),
        Case::new("instrument/top: stopped for a while", screen::suspended),
        Case::new("instrument/top: its terminal closed", screen::closed),
    ]
}

/// `ferroce top --batch` on a host.
fn batch(host: &Host, dir: &Path, name: &str, options: &[&str]) -> Result<Running, Stop> {
    let mut command = host.ferroce();
    command.args(["top", "--batch"]).args(options);
    Ok(process::spawn(command, dir, name)?)
}

/// One sample of a host.
fn sample(host: &Host, dir: &Path) -> Result<Value, Stop> {
    let finished = batch(host, dir, "sample", &["--json", "-n", "1"])?.finish(LIMIT);
    let value = serde_json::from_str(&finished.out).ok();
    value.ok_or_else(|| Stop::with("no sample", &[&finished]))
}

/// The samples that a process has printed.
fn samples(printed: &Finished) -> Result<Vec<Value>, Stop> {
    let lines = printed.out.lines().map(serde_json::from_str);
    let all: Result<Vec<Value>, _> = lines.collect();
    all.map_err(|error| Stop::with(format!("no JSON: {error}"), &[printed]))
}

/// The queue pairs of a sample that are in a state, which are those at work.
fn in_state<'a>(sample: &'a Value, state: &str) -> Vec<&'a Value> {
    let all = sample["queue_pairs"].as_array().into_iter().flatten();
    all.filter(|qp| qp["state"] == state).collect()
}

fn number(of: &Value, at: &str) -> Result<u64, Stop> {
    let found = of.pointer(at).and_then(Value::as_u64);
    found.ok_or_else(|| Stop::fail(format!("no number {at} in {of}")))
}

/// The names of the hints of a queue pair.
fn hints(qp: &Value) -> Vec<&str> {
    let all = qp["hints"].as_array().into_iter().flatten();
    all.filter_map(|hint| hint["name"].as_str()).collect()
}

/// Waits for a sample in which a queue pair has a hint, and the other one what it is to have.
fn wait_for(
    host: &Host,
    dir: &Path,
    process: &mut Running,
    holds: impl Fn(&Value) -> bool,
) -> Result<Value, Stop> {
    let mut last = Err(Stop::fail("no sample".to_owned()));
    let found = process.wait_until(LIMIT, |_| {
        last = sample(host, dir);
        last.as_ref().is_ok_and(&holds)
    });
    match (found, last) {
        (true, sample) => sample,
        (false, Ok(sample)) => Err(Stop::fail(format!("not to be seen: {sample}"))),
        (false, Err(stop)) => Err(stop),
    }
}

/// Each packet and byte, and each request, of a transfer that is looked at while it runs.
fn transfer(lab: &mut Lab) -> Ending {
    const MESSAGES: u64 = 5000;
    const SIZE: u64 = 65_536;
    const MTU: u64 = 4096;

    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    let top = batch(host, &dir, "top", &["--json", "--interval", "50ms"])?;
    let options = ["-F", "-n", "5000", "-m", "4096", "--wait_destroy=1"];
    let pair = Pair {
        tool: "ib_write_bw".to_owned(),
        options: options.map(str::to_owned).to_vec(),
        port,
        limit: LIMIT,
    };
    let ends = pair.run(host, site.client(), &dir)?;
    let printed = top.kill();
    if !ends.client.success() || !ends.server.success() {
        return Err(Stop::with(
            "ib_write_bw fails",
            &[&ends.client, &ends.server],
        ));
    }

    let samples = samples(&printed)?;
    // The server of a WRITE sends nothing, and stays in RTR.
    let connected = |sample: &'_ Value| -> Vec<Value> {
        let all = sample["queue_pairs"].as_array().into_iter().flatten();
        all.filter(|qp| qp["state"] == "RTS" || qp["state"] == "RTR")
            .cloned()
            .collect()
    };
    let both: Vec<[Value; 2]> = samples
        .iter()
        .filter_map(|sample| connected(sample).try_into().ok())
        .collect();

    // The one that has posted something is the client.
    let posted = |qp: &Value| qp["sends"]["posted"].as_u64() > Some(0);
    let working: Vec<(&Value, &Value)> = both
        .iter()
        .filter_map(|[a, b]| match (posted(a), posted(b)) {
            (true, false) => Some((a, b)),
            (false, true) => Some((b, a)),
            _ => None,
        })
        .collect();
    let moving = working.iter().any(|(client, server)| {
        let rate = |qp: &Value, name: &str| qp["rates"][name].as_f64() > Some(0.0);
        rate(client, "sent_bytes") && rate(server, "rcvd_bytes") && rate(server, "sent_pkts")
    });
    let Some((client, server)) = working.last() else {
        return Err(Stop::with("no two queue pairs", &[&printed]));
    };
    if !moving {
        return Err(Stop::with("no rates", &[&printed]));
    }

    let packets = MESSAGES * SIZE / MTU;
    // BTH and ICRC of each packet, and a RETH of each message.
    let bytes = MESSAGES * SIZE + packets * 16 + MESSAGES * 16;
    let again = number(client, "/counters/roce_retransmits")?;
    for (qp, at, wanted) in [
        (client, "/sends/posted", MESSAGES),
        (client, "/sends/completed", MESSAGES),
        (client, "/sends/outstanding", 0),
        (client, "/in_flight_bytes", 0),
        (client, "/counters/req_cqe_error", 0),
        (client, "/counters/sent_pkts", packets + again),
        (server, "/sends/posted", 0),
    ] {
        if number(qp, at)? != wanted {
            return Err(Stop::fail(format!("{at} is not {wanted}: {qp}")));
        }
    }

    // What was sent again, if anything, is more of both.
    if again == 0 {
        for (qp, at, wanted) in [
            (client, "/counters/sent_bytes", bytes),
            (server, "/counters/rcvd_bytes", bytes),
            (server, "/counters/rcvd_pkts", packets),
        ] {
            if number(qp, at)? != wanted {
                return Err(Stop::fail(format!("{at} is not {wanted}: {qp}")));
            }
        }
    }

    know_each_other(client, server)?;
    if client["state"] != "RTS" || server["state"] != "RTR" {
        return Err(Stop::fail(format!("other states: {client} {server}")));
    }
    let psn = |qp: &Value, name: &str| qp["psn"][name].as_u64();
    match psn(client, "next") == psn(server, "expected") {
        true => Ok(()),
        false => Err(Stop::fail(format!("PSNs differ: {client} {server}"))),
    }
}

/// The peer of each is the other one.
fn know_each_other(one: &Value, other: &Value) -> Ending {
    for (of, peer) in [(one, other), (other, one)] {
        let known = &of["peer"];
        if known["number"] != peer["number"] || known["program"]["pid"] != peer["pid"] {
            return Err(Stop::fail(format!("{known} is not {peer}")));
        }
    }
    Ok(())
}

/// The script on a host, with its retries, and the end by which it is told to go on.
pub(super) fn rnr(
    host: &Host,
    dir: &Path,
    retries: u8,
) -> Result<(Running, PipeWriter, [u64; 2]), Stop> {
    let script = dir.join("rnr.py");
    std::fs::write(&script, RNR).context("the script")?;
    let (input, tell) = std::io::pipe().context("a pipe")?;
    let mut command = host.run(PYTHON);
    command.arg(&script).arg(retries.to_string());
    let mut running = process::spawn_with(command, Stdio::from(input), dir, "rnr")?;

    let said = running.wait_until(LIMIT, |running| running.output().ends_with('\n'));
    let numbers: Vec<u64> = running
        .output()
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    match (said, numbers.try_into()) {
        (true, Ok(numbers)) => Ok((running, tell, numbers)),
        _ => Err(Stop::with("no queue pairs", &[&running.kill()])),
    }
}

/// A sender who waits for a receive request, and the receiver who has to post it, are marked as
/// long as that is so.
fn no_receive(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    let (mut running, mut tell, [sender, receiver]) = rnr(host, &dir, 7)?;
    let of = |sample: &Value, wanted: u64| {
        let qps = in_state(sample, "RTS");
        let found = qps.into_iter().find(|qp| qp["number"] == wanted);
        found.cloned().unwrap_or_default()
    };

    let marked = |sample: &Value| {
        hints(&of(sample, sender)).contains(&"rnr")
            && hints(&of(sample, receiver)).contains(&"no-receive")
    };
    let seen = wait_for(host, &dir, &mut running, marked)?;
    let (from, to) = (of(&seen, sender), of(&seen, receiver));
    for (qp, at, least) in [
        (&from, "/sends/outstanding", 1),
        (&from, "/counters/rnr_nak_retry_err", 1),
        (&to, "/counters/out_of_buffer", 1),
    ] {
        if number(qp, at)? < least {
            return Err(Stop::fail(format!("{at} is not {least}: {qp}")));
        }
    }
    let program = &seen["programs"][0]["hints"];
    if *program != serde_json::json!(["no-receive", "rnr"]) {
        return Err(Stop::fail(format!("the program has {program}")));
    }

    tell.write_all(b"\n").context("telling the script")?;
    let settled = |sample: &Value| {
        let (from, to) = (of(sample, sender), of(sample, receiver));
        let empty = hints(&from).is_empty() && hints(&to).is_empty();
        empty && from["sends"]["completed"] == 1 && to["receives"]["completed"] == 1
    };
    wait_for(host, &dir, &mut running, settled)?;
    drop(tell);
    let ended = running.finish(LIMIT);
    match ended.success() {
        true => Ok(()),
        false => Err(Stop::with("the script fails", &[&ended])),
    }
}

/// Tables for people; two samples and no more where two are asked for; what makes no sense is
/// refused.
fn tables(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    let (running, tell, [sender, _]) = rnr(host, &dir, 7)?;
    let two = batch(host, &dir, "two", &["-n", "2", "--interval", "100ms"])?.finish(LIMIT);
    let json = batch(
        host,
        &dir,
        "json",
        &["-n", "2", "--interval", "0.1", "--json"],
    )?;
    let json = json.finish(LIMIT);
    drop(tell);
    drop(running);

    let number = format!("0x{sender:06x}");
    let rows: Vec<&str> = two
        .out
        .lines()
        .filter(|line| line.contains(&number))
        .collect();
    let told = rows
        .iter()
        .any(|row| row.contains("RTS") && row.contains(&host.address));
    if !two.success() || !told || two.out.matches("\nQPs:\n").count() != 2 {
        return Err(Stop::with("no two tables", &[&two]));
    }
    let samples = samples(&json)?;
    let intervals: Vec<bool> = samples
        .iter()
        .map(|one| one["interval"].is_null())
        .collect();
    if !json.success() || intervals != [true, false] {
        return Err(Stop::with("no two samples", &[&json]));
    }

    for (options, code, why) in [
        (&["--interval", "1ms"][..], 2, "50ms"),
        (&["--interval", "soon"], 2, "no unit of time"),
        (&["--json"], 2, "--batch"),
        (&["-n", "0", "--batch"], 2, "1.."),
        (&[], 1, "`ferroce top --batch`"),
    ] {
        let mut command = host.ferroce();
        command.arg("top").args(options);
        let refused = process::run(command, &dir, "refused", LIMIT)?;
        if refused.code() != Some(code) || !refused.err.contains(why) {
            return Err(Stop::with(format!("{options:?}: not {why}"), &[&refused]));
        }
    }
    Ok(())
}
