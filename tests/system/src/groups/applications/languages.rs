//! Other languages: what crates.io has for verbs, by the examples that its crates bring along, and
//! Go by cgo.
//!
//! The crates are built by `cargo install`, in fixed versions and with their own lock files, into
//! the user's directory for what is worth keeping. Where the registry cannot be reached they are
//! skipped, aloud.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::running::{LIMIT, Listens, Meter, command, expect_success, name, serve_and_ask};
use crate::build;
use crate::groups::cm::{TCP, wait_for_listener};
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process;
use crate::lab::host::Host;
use crate::lab::{Lab, Place};
use crate::packages;
use crate::programs::perftest::Pair;

/// How long a crate may take to build, on a machine that does other things as well.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);

/// A crate with examples.
struct Crate {
    name: &'static str,
    version: &'static str,
    examples: &'static [&'static str],
}

const IBVERBS: Crate = Crate {
    name: "ibverbs",
    version: "0.9.2",
    examples: &["loopback"],
};

const ASYNC_RDMA: Crate = Crate {
    name: "async-rdma",
    version: "0.5.0",
    examples: &["rpc"],
};

const SIDEWAY: Crate = Crate {
    name: "sideway",
    version: "0.4.3",
    examples: &["show_gids", "rc_pingpong", "rc_pingpong_split", "cmtime"],
};
/// How its pingpongs are called.
const PINGPONG: &str = "-d ferroce0 -g 0 -s 65536 -n 500";
/// What each of their ends sends, in bytes.
const SENT: u64 = 500 * 65_536;
/// How many connections its cmtime makes.
const CONNECTIONS: &str = "200";

/// What the program in Go says of each size.
const SIZES: [&str; 5] = ["1", "64", "4096", "65536", "1048576"];

pub(crate) fn cases(place: Place) -> Vec<Case> {
    let mut cases = vec![Case::new(name(place, "Go, by cgo"), move |lab| {
        go(lab, place)
    })];
    if place == Place::OneDaemon {
        cases.push(Case::new(name(place, "crate ibverbs, loopback"), ibverbs));
        cases.push(Case::new(name(place, "crate async-rdma, rpc"), async_rdma));
        cases.push(Case::new(name(place, "crate sideway, show_gids"), gids));
    }

    if matches!(place, Place::OneDaemon | Place::Sockets | Place::Veth(_)) {
        for example in ["rc_pingpong", "rc_pingpong_split"] {
            let name = name(place, &format!("crate sideway, {example}"));
            cases.push(Case::new(name, move |lab| pingpong(lab, place, example)));
        }
        let name = name(place, "crate sideway, cmtime");
        cases.push(Case::new(name, move |lab| cmtime(lab, place)));
    }

    cases
}

/// A queue pair that is connected to itself sends a word.
fn ibverbs(lab: &mut Lab) -> Ending {
    example(lab, &IBVERBS, "loopback", &["sent", "received"])
}

/// A client and a server in one process, which meet over TCP: requests and answers by messages, and
/// by reads and writes.
fn async_rdma(lab: &mut Lab) -> Ending {
    let words = ["response: hello", "response: world"];
    example(lab, &ASYNC_RDMA, "rpc", &words)
}

/// The device's GIDs, their kind and interface.
fn gids(lab: &mut Lab) -> Ending {
    let gid = |host: u8| format!("0000:0000:0000:0000:0000:ffff:7f00:{host:04x}");
    example(lab, &SIDEWAY, "show_gids", &[&gid(1), &gid(2), "RoCEv2"])
}

/// Both ends, by the extended interfaces for posting and polling.
fn pingpong(lab: &mut Lab, place: Place, example: &str) -> Ending {
    let (dir, port) = (lab.case_dir()?, lab.port());
    let pair = Pair {
        tool: built(&SIDEWAY, example, &dir)?.to_string_lossy().into(),
        options: PINGPONG.split(' ').map(str::to_owned).collect(),
        port,
        limit: LIMIT,
    };

    let site = lab.site(place)?;
    let meter = Meter::start(site)?;
    let ends = pair.run(site.server(), site.client(), &dir)?;

    ends.clean()?;
    for end in [&ends.client, &ends.server] {
        expect_words(end, &["500 iters in"])?;
    }
    meter.expect(2 * SENT, &[&ends.client, &ends.server])
}

/// Many connections at a time, by librdmacm. It is not told what to bind to: with `-b` it hands
/// over an address that it has dropped.
fn cmtime(lab: &mut Lab, place: Place) -> Ending {
    let (dir, port) = (lab.case_dir()?, lab.port());
    let program = built(&SIDEWAY, "cmtime", &dir)?;
    let program = program.to_string_lossy();
    let site = lab.site(place)?;
    let port_word = port.to_string();
    let words = ["-p", &port_word, "-c", CONNECTIONS];
    let mut server = process::spawn(command(site.server(), &program, &words), &dir, "server")?;
    if !wait_for_listener(&mut server, site.server(), TCP, port) {
        let server = server.kill();
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }

    let mut client = command(site.client(), &program, &words);
    client.args(["-s", &site.server().address]);
    let client = process::run(client, &dir, "client", LIMIT)?;
    let server = server.finish_after(&client, Duration::from_secs(30));

    expect_success(&[&client, &server])?;
    expect_words(&client, &["Connect", "Disconnect"])
}

/// Runs a crate's example, which ends by itself and says all of this. Some take the GID of index 1,
/// so the device has two.
fn example(lab: &mut Lab, wanted: &Crate, example: &str, words: &[&str]) -> Ending {
    let dir = lab.case_dir()?;
    let program = built(wanted, example, &dir)?;
    lab.vacate();
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    host.up_with(&["--addr", "127.0.0.1", "--addr", "127.0.0.2"])?;

    let ran = process::run(host.run(&program), &dir, example, LIMIT)?;
    expect_success(&[&ran])?;
    expect_words(&ran, words)
}

/// Messages there and back by librdmacm, each byte compared.
fn go(lab: &mut Lab, place: Place) -> Ending {
    packages::ensure(packages::LANGUAGES)?;
    let (dir, port) = (lab.case_dir()?, lab.port());
    let program = build::scratch("go")?.join("pingpong");
    let source = build::workspace().join("tests/applications/pingpong.go");
    let mut compiler = Command::new("go");
    compiler.args(["build", "-o"]).arg(&program).arg(source);
    let compiled = process::run(compiler, &dir, "go", BUILD_LIMIT)?;
    expect_success(&[&compiled])?;

    let program = program.to_string_lossy();
    let site = lab.site(place)?;
    let meter = Meter::start(site)?;
    let [client, server] = serve_and_ask(site, &[&program], (port, Listens::RdmaCm), &dir)?;
    let said = SIZES.map(|size| format!("ok {size} bytes"));
    expect_words(&client, &said)?;
    meter.expect(2 << 20, &[&client, &server])
}

/// A failure unless a program has said all of this.
fn expect_words(ran: &process::Finished, words: &[impl AsRef<str>]) -> Ending {
    let missing = words
        .iter()
        .map(AsRef::as_ref)
        .find(|word| !ran.out.contains(word));
    match missing {
        None => Ok(()),
        Some(word) => Err(Stop::with(format!("no {word:?}"), &[ran])),
    }
}

/// An example of a crate, built with the crate's others if it has not been yet.
fn built(wanted: &Crate, example: &str, dir: &Path) -> Result<PathBuf, Stop> {
    let root = build::cache()?
        .join("crates")
        .join(format!("{}-{}", wanted.name, wanted.version));
    let program = root.join("bin").join(example);
    if program.exists() {
        return Ok(program);
    }

    packages::ensure(packages::LANGUAGES)?;
    fs::create_dir_all(&root).with_context(|| format!("{}", root.display()))?;
    println!(
        "xtask: building {} {} from crates.io",
        wanted.name, wanted.version
    );

    let mut cargo = build::cargo();
    cargo.args([
        "install",
        "--quiet",
        "--locked",
        wanted.name,
        "--version",
        wanted.version,
    ]);

    for example in wanted.examples {
        cargo.args(["--example", example]);
    }
    cargo.arg("--root").arg(&root);
    let ran = process::run(cargo, dir, "cargo", BUILD_LIMIT)?;
    if ran.success() {
        return Ok(program);
    }

    match ["resolve host", "network"]
        .iter()
        .any(|word| ran.err.contains(word))
    {
        true => Err(Stop::Skip("crates.io cannot be reached".to_owned())),
        false => Err(Stop::with(ran.ending(), &[&ran])),
    }
}
