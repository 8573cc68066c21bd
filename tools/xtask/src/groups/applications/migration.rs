//! QEMU: live migration of a machine over `rdma:`, its memory compared.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{LIMIT, Meter, command, name};
use crate::case::{Case, Ending, Stop};
use crate::groups::cm::{TCP, wait_for_listener};
use crate::groups::cm_sockets::content;
use crate::host::Host;
use crate::lab::{Lab, Place};
use crate::process::{self, Running};

/// The machine's memory.
const MEMORY: u64 = 64 << 20;
/// Where in it there is something that is not zero.
const AT: usize = 16 << 20;

pub(super) fn cases(place: Place) -> Vec<Case> {
    // QEMU refuses RoCE over IPv6.
    if place.is_ipv6() {
        return Vec::new();
    }
    let what = "QEMU migrates over rdma:";
    vec![Case::new(name(place, what), move |lab| migrate(lab, place))]
}

fn migrate(lab: &mut Lab, place: Place) -> Ending {
    let (dir, port) = (lab.case_dir()?, lab.port());
    // The path of a Unix socket is short.
    let sockets = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let bytes = content();
    fs::write(dir.join("content"), &bytes).map_err(anyhow::Error::from)?;
    let site = lab.site(place)?;
    let meter = Meter::start(site)?;
    let address = format!("rdma:{}:{port}", site.server().address);

    let target = machine(
        site.server(),
        &sockets.path().join("target"),
        &["-incoming", &address],
    );
    let mut target_process = process::spawn(target, &dir, "target")?;
    if !wait_for_listener(&mut target_process, site.server(), TCP, port) {
        let target = target_process.kill();
        return Err(Stop::with("the target does not come to listen", &[&target]));
    }
    let load = format!(
        "loader,file={},addr={AT:#x},force-raw=on",
        dir.join("content").display()
    );
    let source = machine(
        site.client(),
        &sockets.path().join("source"),
        &["-device", &load],
    );
    let mut source_process = process::spawn(source, &dir, "source")?;

    let moved = (|| -> Result<[Vec<u8>; 2]> {
        let mut source = Monitor::of(&mut source_process, &sockets.path().join("source"))?;
        let mut target = Monitor::of(&mut target_process, &sockets.path().join("target"))?;
        source.call("migrate", json!({ "uri": address }))?;
        source.migrated()?;
        Ok([
            source.memory(&dir.join("before"))?,
            target.memory(&dir.join("after"))?,
        ])
    })();
    let ends = [&source_process.kill(), &target_process.kill()];

    let [before, after] = moved.map_err(|error| Stop::with(format!("{error:#}"), &ends))?;
    let loaded = before.get(AT..AT + bytes.len()) == Some(&bytes[..]);
    if !loaded || before != after {
        return Err(Stop::with("the memory is not what it was", &ends));
    }
    meter.expect(bytes.len() as u64, &ends)
}

/// A machine that is set up and does not run.
fn machine(host: &Host, monitor: &Path, more: &[&str]) -> Command {
    let memory = format!("{}M", MEMORY >> 20);
    let monitor = format!("unix:{},server=on,wait=off", monitor.display());
    let mut words = vec!["-S", "-accel", "tcg", "-display", "none", "-nodefaults"];
    words.extend(["-no-user-config", "-m", &memory, "-qmp", &monitor]);
    words.extend(more);
    command(host, "qemu-system-x86_64", &words)
}

/// QEMU's machine protocol: a line of JSON each way.
struct Monitor {
    lines: BufReader<UnixStream>,
}

impl Monitor {
    /// That of a machine, as soon as it listens there.
    fn of(process: &mut Running, path: &Path) -> Result<Monitor> {
        let mut stream = None;
        process.wait_until(Duration::from_secs(30), |_| {
            stream = UnixStream::connect(path).ok();
            stream.is_some()
        });
        let stream = stream.context("no machine at its monitor")?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut monitor = Monitor {
            lines: BufReader::new(stream),
        };
        monitor.line()?;
        monitor.call("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        serde_json::from_str(&line).context("the monitor's answer")
    }

    /// A command and its answer; events are passed over.
    fn call(&mut self, execute: &str, arguments: Value) -> Result<Value> {
        let request = json!({ "execute": execute, "arguments": arguments });
        writeln!(self.lines.get_mut(), "{request}")?;
        loop {
            let answer = self.line()?;
            if let Some(error) = answer.get("error") {
                bail!("{execute}: {error}");
            }
            if let Some(value) = answer.get("return") {
                return Ok(value.clone());
            }
        }
    }

    /// Waits until the migration is over.
    fn migrated(&mut self) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            let state = self.call("query-migrate", json!({}))?;
            match state["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => bail!("the migration: {state}"),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        bail!("the migration does not end")
    }

    /// All of the machine's memory.
    fn memory(&mut self, to: &Path) -> Result<Vec<u8>> {
        let arguments = json!({ "val": 0, "size": MEMORY, "filename": to });
        self.call("pmemsave", arguments)?;
        let memory = fs::read(to)?;
        fs::remove_file(to)?;
        Ok(memory)
    }
}
