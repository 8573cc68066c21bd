//! Ceph over its RDMA messenger: a monitor and an OSD on one host, and a client that stores an
//! object and many, reads them back and compares. The messenger makes its queue pairs by itself and
//! connects them over TCP, or has rdma_cm do it where it is told that the adapter is iWARP's.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::running::{LIMIT, Meter, command, content, expect_success, in_url, name};
use crate::groups::cm::{TCP, wait_for_listener};
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished, Running};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};
use crate::packages;

/// Of the monitor, for clients of the messenger's second version.
const PORT: u16 = 3300;
const CLUSTER: &str = "5eed5eed-2222-3333-4444-555555555555";
const OSD: &str = "5eed5eed-0000-0000-0000-000000000000";
/// The object's size: a message of the messenger's is cut into pieces of 128 KiB.
const BYTES: usize = 9 << 20;
/// How long daemons may take to start and to find each other.
const STARTS: Duration = Duration::from_secs(60);

/// How the messenger connects.
#[derive(Clone, Copy)]
enum Connects {
    Tcp,
    RdmaCm,
}

pub(crate) fn cases(place: Place) -> Vec<Case> {
    let case = |what: &str, connects| {
        let what = format!("Ceph, connected by {what}");
        Case::new(name(place, &what), move |lab| store(lab, place, connects))
    };
    let mut cases = vec![case("TCP", Connects::Tcp)];
    if let Place::OneDaemon | Place::Veth(_) = place {
        cases.push(case("rdma_cm", Connects::RdmaCm));
    }
    cases
}

fn store(lab: &mut Lab, place: Place, connects: Connects) -> Ending {
    packages::ensure(packages::CEPH)?;
    let dir = lab.case_dir()?;
    let site = lab.site(place)?;
    // The paths of admin sockets are short.
    let sockets = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let settings = settings(site.server(), place, connects, &dir, sockets.path())?;

    let meter = Meter::start(site)?;
    let mut cluster = Cluster {
        server: site.server(),
        client: site.client(),
        connects,
        settings,
        dir: dir.clone(),
        count: 0,
    };
    let daemons = cluster.start()?;
    let stored = cluster.store_and_load();
    let ended = daemons.map(|daemon| {
        daemon.signal(Signal::TERM);
        daemon.finish(STARTS)
    });
    let client = stored?;
    let ends: Vec<&Finished> = ended.iter().chain(&client).collect();
    expect_success(&ends)?;
    // The object there and back; what the benchmark moves depends on the machine.
    meter.expect(2 * BYTES as u64, &ends)
}

/// Where the monitor is.
fn monitor(server: &Host) -> String {
    format!("v2:{}:{PORT}", in_url(&server.address))
}

/// What all programs of the cluster are told.
fn settings(
    server: &Host,
    place: Place,
    connects: Connects,
    dir: &Path,
    sockets: &Path,
) -> Result<PathBuf, Stop> {
    let mut text = "[global]\n".to_owned();
    let mut set = |key: &str, value: &str| {
        let _ = writeln!(text, "{key} = {value}");
    };

    set("fsid", CLUSTER);
    set("mon host", &monitor(server));
    set("public addr", &server.address);
    set("ms bind ipv4", &(!place.is_ipv6()).to_string());
    set("ms bind ipv6", &place.is_ipv6().to_string());
    set("ms type", "async+rdma");
    set("ms async rdma device name", "ferroce0");
    if let Connects::RdmaCm = connects {
        set("ms async rdma cm", "true");
        set("ms async rdma type", "iwarp");
    }
    // Each program registers a gigabyte otherwise.
    set("ms async rdma receive buffers", "1024");
    set("ms async rdma send buffers", "256");
    set("ms async rdma receive queue len", "1024");

    for key in ["auth cluster", "auth service", "auth client"] {
        set(&format!("{key} required"), "none");
    }
    set("osd objectstore", "memstore");
    set("osd pool default size", "1");
    set("osd crush chooseleaf type", "0");
    set("mon allow pool size one", "true");
    for part in ["mon", "osd"] {
        let data = dir.join(part);
        fs::create_dir_all(&data).map_err(anyhow::Error::from)?;
        set(&format!("{part} data"), &data.display().to_string());
    }
    set("run dir", &sockets.display().to_string());
    set("admin socket", &format!("{}/$name.$pid", sockets.display()));
    set("log file", &format!("{}/$name.log", dir.display()));

    let file = dir.join("ceph.conf");
    fs::write(&file, text).map_err(anyhow::Error::from)?;
    Ok(file)
}

struct Cluster<'a> {
    server: &'a Host,
    client: &'a Host,
    connects: Connects,
    settings: PathBuf,
    dir: PathBuf,
    count: usize,
}

impl Cluster<'_> {
    /// Starts monitor and OSD, and makes a pool.
    fn start(&mut self) -> Result<[Running; 2], Stop> {
        let map = self.dir.join("monmap").display().to_string();
        let vector = format!("[{}]", monitor(self.server));
        let server = self.server;
        for line in [
            &[
                "monmaptool",
                "--create",
                "--addv",
                "a",
                &vector,
                "--fsid",
                CLUSTER,
                &map,
            ][..],
            &["ceph-mon", "--mkfs", "-i", "a", "--monmap", &map],
        ] {
            self.run(server, line)?;
        }
        let mut monitor = self.spawn(&["ceph-mon", "-f", "-i", "a"])?;
        let listens = match self.connects {
            Connects::Tcp => monitor.listens(PORT, STARTS),
            Connects::RdmaCm => wait_for_listener(&mut monitor, server, TCP, PORT),
        };
        if !listens {
            let monitor = monitor.kill();
            return Err(Stop::with("the monitor does not listen", &[&monitor]));
        }

        for line in [
            &["ceph", "osd", "new", OSD][..],
            &[
                "ceph-osd",
                "--mkfs",
                "-i",
                "0",
                "--osd-uuid",
                OSD,
                "--fsid",
                CLUSTER,
            ],
        ] {
            self.run(server, line)?;
        }
        let osd = self.spawn(&["ceph-osd", "-f", "-i", "0"])?;
        self.run(server, &["ceph", "osd", "pool", "create", "data", "8"])?;
        let deadline = Instant::now() + STARTS;
        loop {
            let state = self.run(server, &["ceph", "osd", "stat"])?;
            if state.out.contains(" 1 up") {
                return Ok([monitor, osd]);
            }
            if Instant::now() > deadline {
                let daemons = [monitor.kill(), osd.kill()];
                let [monitor, osd] = daemons.each_ref();
                return Err(Stop::with("the OSD does not join", &[&state, monitor, osd]));
            }
        }
    }

    /// An object that is compared here, and many that `rados bench` compares when it reads them.
    fn store_and_load(&mut self) -> Result<Vec<Finished>, Stop> {
        let content = content(BYTES);
        let [given, back] = ["given", "back"].map(|file| self.dir.join(file));
        fs::write(&given, &content).map_err(anyhow::Error::from)?;
        let (from, to) = (given.display().to_string(), back.display().to_string());

        let mut ends = Vec::new();
        for line in [
            &["put", "object", &from][..],
            &["get", "object", &to],
            &[
                "bench",
                "2",
                "write",
                "-t",
                "8",
                "-b",
                "1048576",
                "--no-cleanup",
            ],
            &["bench", "2", "seq", "-t", "8"],
        ] {
            let line = [&["rados", "-p", "data"], line].concat();
            ends.push(self.run(self.client, &line)?);
        }
        match fs::read(&back).map_err(anyhow::Error::from)? == content {
            true => Ok(ends),
            false => Err(Stop::with("the object is not what was stored", &[&ends[1]])),
        }
    }

    /// Runs a program to its end, which must be good.
    fn run(&mut self, host: &Host, line: &[&str]) -> Result<Finished, Stop> {
        let name = self.label(line[0]);
        let ended = process::run(self.command(host, line), &self.dir, &name, LIMIT)?;
        expect_success(&[&ended])?;
        Ok(ended)
    }

    fn spawn(&mut self, line: &[&str]) -> Result<Running, Stop> {
        let name = self.label(line[0]);
        Ok(process::spawn(
            self.command(self.server, line),
            &self.dir,
            &name,
        )?)
    }

    fn command(&self, host: &Host, line: &[&str]) -> Command {
        let mut command = command(host, line[0], &line[1..]);
        command.env("CEPH_CONF", &self.settings);
        command
    }

    /// What a program's output is kept as.
    fn label(&mut self, program: &str) -> String {
        self.count += 1;
        format!("{}-{program}", self.count)
    }
}
