//! Storage: fio's engine `rdma`, and the data that it moves.
//!
//! The engine's client only writes, whatever the verb, and its server does nothing but wait while
//! memory is written to or read. So fio's own `verify` has something to look at only where the
//! server receives messages. The buffers of one-sided runs are files, which are compared.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::running::{LIMIT, Meter, command, expect_success, name};
use crate::groups::cm::{TCP, wait_for_listener};
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};

/// The size of a block, and so of a buffer.
const BLOCK: usize = 4096;
/// How many buffers one-sided runs have at either end.
const BUFFERS: usize = 16;
/// What the client's buffers are filled with. Its length and that of a block have no divisor in
/// common.
const PATTERN: &[u8] = b"what the client of fio has in its buffers, again and again: ";

/// A run.
#[derive(Clone, Copy)]
struct Run {
    verb: &'static str,
    /// Buffers of the client, and of the server.
    depths: [usize; 2],
    bytes: u64,
    /// The checksum that the server looks for, where it is sent messages.
    checksum: Option<&'static str>,
}

const WRITE: Run = Run {
    verb: "write",
    depths: [BUFFERS, BUFFERS],
    bytes: 2 << 20,
    checksum: None,
};

const READ: Run = Run {
    verb: "read",
    ..WRITE
};

/// Sends go out whether receives are posted or not, without retries: here all receives are posted
/// before the first.
const SEND: Run = Run {
    verb: "send",
    depths: [1, 128],
    bytes: 100 * BLOCK as u64,
    checksum: Some(SENT),
};

/// The checksum in what the client sends.
const SENT: &str = "crc32c";

pub(crate) fn cases(place: Place) -> Vec<Case> {
    // The engine knows addresses of IPv4 only.
    if place.is_ipv6() {
        return Vec::new();
    }

    let mut cases: Vec<_> = [WRITE, READ, SEND]
        .into_iter()
        .map(|run| {
            let what = format!("fio, verb={}", run.verb);
            Case::new(name(place, &what), move |lab| fio(lab, place, run))
        })
        .collect();
    if place == Place::OneDaemon {
        cases.push(Case::new(name(place, "fio looks at its data"), doubt));
    }

    cases
}

/// Both ends end well, and the data is what it should be.
fn fio(lab: &mut Lab, place: Place, run: Run) -> Ending {
    let dir = lab.case_dir()?;
    let memory = Memory::new(&dir, run)?;
    let (port, site) = (lab.port(), lab.site(place)?);
    let meter = Meter::start(site)?;
    let [client, server] = both_ends(site.client(), site.server(), port, &dir, run)?;

    expect_success(&[&client, &server])?;

    // Messages of the program's own may stand before it.
    let json = client.out.find('{').map_or("", |at| &client.out[at..]);
    let report: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let written = &report["jobs"][0]["write"]["io_bytes"];
    if written.as_u64() != Some(run.bytes) || report["jobs"][0]["error"] != 0 {
        return Err(Stop::with(
            format!("{written} bytes of {}", run.bytes),
            &[&client, &server],
        ));
    }

    if let Some(wrong) = memory.wrong(run)? {
        return Err(Stop::with(wrong, &[&client, &server]));
    }

    meter.expect(run.bytes, &[&client, &server])
}

/// That a server ends well means something: one that looks for another checksum than the client's
/// does not.
fn doubt(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let run = Run {
        checksum: Some("md5"),
        ..SEND
    };
    let (port, site) = (lab.port(), lab.site(Place::OneDaemon)?);
    let [client, server] = both_ends(site.client(), site.server(), port, &dir, run)?;
    match server.success() || !server.err.contains("verify failed") {
        true => Err(Stop::with("the server takes any data", &[&client, &server])),
        false => Ok(()),
    }
}

/// Runs both ends to their end.
fn both_ends(
    client: &Host,
    server: &Host,
    port: u16,
    dir: &Path,
    run: Run,
) -> Result<[Finished; 2], Stop> {
    let listening = end(server, port, dir, run, "server");
    let mut listening = process::spawn(listening, dir, "server")?;
    if !wait_for_listener(&mut listening, server, TCP, port) {
        let server = listening.kill();
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }
    let mut sending = end(client, port, dir, run, "client");
    sending.arg(format!("--hostname={}", server.address));
    let client = process::run(sending, dir, "client", LIMIT)?;
    let server = listening.finish_after(&client, Duration::from_secs(30));
    Ok([client, server])
}

/// One end, `client` or `server`.
fn end(host: &Host, port: u16, dir: &Path, run: Run, which: &str) -> Command {
    let is_server = which == "server";
    let mut words = vec![
        "--name=job".to_owned(),
        "--ioengine=rdma".to_owned(),
        format!("--port={port}"),
        format!("--verb={}", run.verb),
        format!("--rw={}", if is_server { "read" } else { "write" }),
        format!("--bs={BLOCK}"),
        format!("--size={}", run.bytes),
        format!("--iodepth={}", run.depths[usize::from(is_server)]),
        "--output-format=json".to_owned(),
    ];

    match run.checksum {
        Some(checksum) if is_server => words.push(format!("--verify={checksum}")),
        Some(_) => words.extend([
            format!("--verify={SENT}"),
            "--do_verify=0".to_owned(),
            "--verify_state_save=0".to_owned(),
        ]),
        None => words.push(format!("--mem=mmapshared:{}", dir.join(which).display())),
    }

    if run.checksum.is_none() && !is_server {
        let digits: String = PATTERN.iter().map(|byte| format!("{byte:02x}")).collect();
        words.push(format!("--buffer_pattern=0x{digits}"));
    }

    command(host, "fio", &words)
}

/// The buffers of both ends, as files `client` and `server`.
struct Memory<'a> {
    dir: &'a Path,
}

impl<'a> Memory<'a> {
    /// Makes them. What the server has is another byte in each place, more or less; it fills
    /// nothing itself.
    fn new(dir: &'a Path, run: Run) -> Result<Memory<'a>> {
        if run.checksum.is_none() {
            // A page more, which fio asks for to align its buffers.
            let length = (BUFFERS + 1) * BLOCK;
            fs::write(dir.join("client"), vec![0; length])?;
            let content: Vec<u8> = (0..length).map(|at| (at * 167 + at / 256) as u8).collect();
            fs::write(dir.join("server"), content)?;
        }
        Ok(Memory { dir })
    }

    /// What is wrong with the data after a run, if anything: what was written must be in all of the
    /// server's buffers, and each of the client's must be one of the server's if it has read.
    fn wrong(&self, run: Run) -> Result<Option<String>> {
        if run.checksum.is_some() {
            return Ok(None);
        }

        let buffers = |end: &str| -> Result<Vec<u8>> {
            let mut all = fs::read(self.dir.join(end)).context("fio's memory")?;
            all.truncate(BUFFERS * BLOCK);
            Ok(all)
        };
        let (client, server) = (buffers("client")?, buffers("server")?);
        let (end, wrong) = match run.verb {
            "write" => {
                let pattern: Vec<u8> = PATTERN.iter().copied().cycle().take(BLOCK).collect();
                let wrong = server.chunks(BLOCK).position(|block| block != pattern);
                ("server", wrong)
            }
            _ => {
                let is_there = |block| server.chunks(BLOCK).any(|there| there == block);
                let wrong = client.chunks(BLOCK).position(|block| !is_there(block));
                ("client", wrong)
            }
        };

        Ok(wrong.map(|block| {
            format!("block {block} of the {end}'s memory is not what was transferred")
        }))
    }
}
