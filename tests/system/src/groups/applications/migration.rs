//! QEMU: live migration over `rdma:` of a machine that goes on writing to its memory, which is
//! compared.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::running::{LIMIT, Meter, command, name};
use crate::groups::cm::sockets::content;
use crate::groups::cm::{TCP, wait_for_listener};
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Running};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};

/// The machine's memory.
const MEMORY: u64 = 64 << 20;
/// Where in it there is something that is not zero.
const AT: usize = 16 << 20;
/// Where the machine's program writes: a number of 16 bits, again and again in the half megabyte
/// from here on, then the next number.
const COUNTER: u64 = 0x10000;
/// How fast the migration may be, in bytes per second, so that the machine writes to what has gone
/// over already.
const BANDWIDTH: u64 = 8 << 20;

/// A disk with nothing but a boot sector.
const DISK: usize = 1 << 20;
const PROGRAM: &[u8] = &[
    0xfa, // cli
    0x31, 0xdb, // xor bx, bx
    0xb8, 0x00, 0x10, // next: mov ax, 0x1000
    0x8e, 0xc0, // segment: mov es, ax
    0x31, 0xff, // xor di, di
    0xb9, 0x00, 0x80, // mov cx, 0x8000
    0x93, // xchg ax, bx
    0xf3, 0xab, // rep stosw
    0x93, // xchg ax, bx
    0x05, 0x00, 0x10, // add ax, 0x1000
    0x3d, 0x00, 0x90, // cmp ax, 0x9000
    0x75, 0xed, // jne segment
    0x43, // inc bx
    0xeb, 0xe7, // jmp next
];

pub(crate) fn cases(place: Place) -> Vec<Case> {
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

    // Paused when all of it has arrived.
    let words = ["-S", "-incoming", &address];
    let target = machine(site.server(), &dir, sockets.path(), "target", &words)?;
    let mut target_process = process::spawn(target, &dir, "target")?;
    if !wait_for_listener(&mut target_process, site.server(), TCP, port) {
        let target = target_process.kill();
        return Err(Stop::with("the target does not come to listen", &[&target]));
    }

    let load = format!(
        "loader,file={},addr={AT:#x},force-raw=on",
        dir.join("content").display()
    );
    let words = ["-device", &load];
    let source = machine(site.client(), &dir, sockets.path(), "source", &words)?;
    let mut source_process = process::spawn(source, &dir, "source")?;

    let moved = (|| -> Result<[Vec<u8>; 2]> {
        let mut source = Monitor::of(&mut source_process, &sockets.path().join("source"))?;
        let mut target = Monitor::of(&mut target_process, &sockets.path().join("target"))?;
        let number = dir.join("number");
        source.counts_on(0, &number)?;
        source.call(
            "migrate-set-parameters",
            json!({ "max-bandwidth": BANDWIDTH }),
        )?;

        let before = source.counter(&number)?;
        source.call("migrate", json!({ "uri": address }))?;
        let state = source.migrated()?;
        target.paused()?;

        // It ran meanwhile, and what it wrote was looked for more than once.
        let after = source.counter(&number)?;
        let rounds = state["ram"]["dirty-sync-count"].as_u64();
        if before == after || rounds.is_none_or(|rounds| rounds < 2) {
            bail!("counted from {before} to {after}, {state}");
        }

        let memory = [
            source.memory(0, MEMORY, &dir.join("before"))?,
            target.memory(0, MEMORY, &dir.join("after"))?,
        ];

        // And goes on at the other end.
        target.call("cont", json!({}))?;
        target.counts_on(after, &number)?;
        Ok(memory)
    })();

    let ends = [&source_process.kill(), &target_process.kill()];

    let [before, after] = moved.map_err(|error| Stop::with(format!("{error:#}"), &ends))?;
    let loaded = before.get(AT..AT + bytes.len()) == Some(&bytes[..]);
    if !loaded || before != after {
        return Err(Stop::with("the memory is not what it was", &ends));
    }

    meter.expect(bytes.len() as u64, &ends)
}

/// A machine that runs [`PROGRAM`], its monitor at the socket of its name.
fn machine(host: &Host, dir: &Path, sockets: &Path, name: &str, more: &[&str]) -> Result<Command> {
    let mut disk = vec![0; DISK];
    disk[..PROGRAM.len()].copy_from_slice(PROGRAM);
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    // Each has a file of its own, since one that runs locks it.
    let image = dir.join(format!("{name}.disk"));
    fs::write(&image, disk)?;
    let drive = format!("file={},format=raw,if=ide", image.display());
    let memory = format!("{}M", MEMORY >> 20);
    let monitor = format!("unix:{},server=on,wait=off", sockets.join(name).display());
    let mut words = vec!["-accel", "tcg", "-display", "none", "-nodefaults"];
    words.extend(["-no-user-config", "-m", &memory, "-qmp", &monitor]);
    words.extend(["-drive", &drive]);
    words.extend(more);
    Ok(command(host, "qemu-system-x86_64", &words))
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

    /// Waits until the migration is over, and tells what is said of it.
    fn migrated(&mut self) -> Result<Value> {
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            let state = self.call("query-migrate", json!({}))?;
            match state["status"].as_str() {
                Some("completed") => return Ok(state),
                Some("failed" | "cancelled") => bail!("the migration: {state}"),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        bail!("the migration does not end")
    }

    /// Waits until the machine has come here and stands still.
    fn paused(&mut self) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            let state = self.call("query-status", json!({}))?;
            match state["status"].as_str() {
                Some("inmigrate") => std::thread::sleep(Duration::from_millis(20)),
                Some("paused") => return Ok(()),
                _ => bail!("the target's machine: {state}"),
            }
        }
        bail!("the machine does not come")
    }

    /// The number that the machine's program has come to.
    fn counter(&mut self, file: &Path) -> Result<u16> {
        let bytes = self.memory(COUNTER, 2, file)?;
        let bytes = bytes.try_into().ok().context("two bytes of memory")?;
        Ok(u16::from_le_bytes(bytes))
    }

    /// Waits until that is another number.
    fn counts_on(&mut self, from: u16, file: &Path) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            if self.counter(file)? != from {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the machine's program does not run")
    }

    /// A part of the machine's memory.
    fn memory(&mut self, from: u64, size: u64, file: &Path) -> Result<Vec<u8>> {
        let arguments = json!({ "val": from, "size": size, "filename": file });
        self.call("pmemsave", arguments)?;
        let memory = fs::read(file)?;
        fs::remove_file(file)?;
        Ok(memory)
    }
}
