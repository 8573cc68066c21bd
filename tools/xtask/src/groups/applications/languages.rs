//! Other languages: what crates.io has for verbs, by the examples that its crates bring along, and Go by cgo.
//!
//! The crates are built by `cargo install`, in fixed versions and with their own lock files, into the user's directory for what is worth keeping. Where the registry cannot be
//! reached they are skipped, aloud.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::{LIMIT, Meter, command, expect_success, name};
use crate::build;
use crate::case::{Case, Ending, Stop};
use crate::groups::cm::{TCP, wait_for_listener};
use crate::host::Host;
use crate::lab::{Lab, Place};
use crate::packages;
use crate::process;

/// How long a crate may take to build, on a machine that does other things as well.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);

/// A crate with an example.
struct Crate {
    name: &'static str,
    version: &'static str,
    example: &'static str,
}

const IBVERBS: Crate = Crate {
    name: "ibverbs",
    version: "0.9.2",
    example: "loopback",
};

const ASYNC_RDMA: Crate = Crate {
    name: "async-rdma",
    version: "0.5.0",
    example: "rpc",
};

/// What the program in Go says of each size.
const SIZES: [&str; 5] = ["1", "64", "4096", "65536", "1048576"];

pub(super) fn cases(place: Place) -> Vec<Case> {
    let mut cases = vec![Case::new(name(place, "Go, by cgo"), move |lab| {
        go(lab, place)
    })];
    if place == Place::OneDaemon {
        cases.push(Case::new(name(place, "crate ibverbs, loopback"), ibverbs));
        cases.push(Case::new(name(place, "crate async-rdma, rpc"), async_rdma));
    }
    cases
}

/// A queue pair that is connected to itself sends a word.
fn ibverbs(lab: &mut Lab) -> Ending {
    example(lab, &IBVERBS, &["sent", "received"])
}

/// A client and a server in one process, which meet over TCP: requests and answers by messages, and by reads and writes.
fn async_rdma(lab: &mut Lab) -> Ending {
    example(lab, &ASYNC_RDMA, &["response: hello", "response: world"])
}

/// Runs a crate's example, which ends by itself and says all of this. These take the GID of index 1, so their device has two.
fn example(lab: &mut Lab, wanted: &Crate, words: &[&str]) -> Ending {
    let dir = lab.case_dir()?;
    let program = built(wanted, &dir)?;
    lab.vacate();
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    host.up_with(&["--addr", "127.0.0.1", "--addr", "127.0.0.2"])?;

    let ran = process::run(host.run(&program), &dir, wanted.example, LIMIT)?;
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
    let (address, port_word) = (site.server().address.as_str(), port.to_string());
    let server = command(site.server(), &program, &["serve", address, &port_word]);
    let mut server = process::spawn(server, &dir, "server")?;
    if !wait_for_listener(&mut server, site.server(), TCP, port) {
        let server = server.kill();
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }
    let words = ["ask", address, &port_word];
    let client = process::run(
        command(site.client(), &program, &words),
        &dir,
        "client",
        LIMIT,
    )?;
    let server = server.finish_after(&client, Duration::from_secs(30));

    expect_success(&[&client, &server])?;
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

/// A crate's example, built if it has not been yet.
fn built(wanted: &Crate, dir: &Path) -> Result<PathBuf, Stop> {
    let root = build::cache()?
        .join("crates")
        .join(format!("{}-{}", wanted.name, wanted.version));
    let program = root.join("bin").join(wanted.example);
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
    cargo
        .args(["--example", wanted.example, "--root"])
        .arg(&root);
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
