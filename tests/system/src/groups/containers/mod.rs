//! Group `containers`: stock programs in containers of a stock image, which see the device by what
//! `ferroce cdi generate` and the device plugin of Kubernetes say. The two ends of a run have
//! networks, processes and shared memory of their own. And programs that have no more of a
//! container than a network of their own.

mod kubernetes;
mod networks;
mod place;

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::build;
use crate::groups::cm;
use crate::groups::verbs::traffic::{judge_perftest, judge_pingpong, pair_of};
use crate::harness::case::{Case, Ending, Parts, Stop};
use crate::harness::process;
use crate::install;
use crate::lab::Lab;
use crate::portable::{self, Target};

use place::{Container, Engine, Place};

/// How long a program may take, and a container live.
const LIMIT: Duration = Duration::from_secs(60);
const PATH_MTU: u32 = 4096;
/// `RDMA_PS_TCP`.
const TCP: u64 = 0x106;
/// Builds for musl, which takes minutes: only where it is named.
const MUSL_LIBRARIES: &str = "containers/musl with its libraries";

/// podman's own seccomp profile, of which Docker's is a copy but for what it answers.
const PROFILE: &str = "/usr/share/containers/seccomp.json";
/// musl's dynamic linker, as Debian has it, and as programs ask for it.
const MUSL: [&str; 2] = [
    "/usr/lib/x86_64-linux-musl/libc.so",
    "lib/ld-musl-x86_64.so.1",
];

/// perftest and a pingpong; every service, and each way of posting.
const PERFTEST: [&str; 4] = [
    "ib_write_bw -n 500",
    "ib_send_bw -c UD -s 1024 -n 1000",
    "ib_read_lat -n 500",
    "ib_atomic_bw -n 200",
];
const PINGPONG: &str = "ibv_rc_pingpong -c -n 200";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::many("containers/podman", podman),
        Case::many("containers/bubblewrap", bubblewrap),
        Case::many("containers/networks of their own", networks::exchanges),
        Case::new("containers/kubernetes", kubernetes::allocated),
        Case::new("containers/musl without libraries", |lab| musl(lab, false)),
        Case::new(MUSL_LIBRARIES, |lab| musl(lab, true)),
    ]
}

/// Whether a case is run: what takes long only where it is named.
pub(crate) fn belongs(filters: &[String], name: &str) -> bool {
    let named = |filter: &String| filter.contains("musl with");
    name != MUSL_LIBRARIES || filters.iter().any(named)
}

/// By the specification, which podman reads itself, with its own seccomp profile and with Docker's
/// answer to what that does not allow.
fn podman(lab: &mut Lab) -> Parts {
    let place = Place::new(lab)?;
    place.generate(lab, "all")?;
    let none = Engine::Podman(Vec::new());
    let tried = process::run(
        place.containers(&none)[0].command("true"),
        &lab.case_dir()?,
        "podman",
        LIMIT,
    )?;
    if !tried.success() {
        let why = tried.err.trim();
        return Err(Stop::Skip(format!("podman runs no container here: {why}")));
    }

    let device = |name: &str| vec![format!("--device=ferroce.dev/rdma={name}")];
    let mut endings = exchanges(lab, &place, &Engine::Podman(device("all")))?;
    endings.push((
        "by the device's name".to_owned(),
        seen(lab, &place, &Engine::Podman(device("ferroce0")), "ferroce0"),
    ));
    endings.push(("without it".to_owned(), seen(lab, &place, &none, "none")));

    let profile = refusing_profile(lab)?;
    let mut options = device("all");
    options.push(format!("--security-opt=seccomp={profile}"));
    let line = PERFTEST[0];
    let ending = perftest(lab, &place, &Engine::Podman(options), line);
    endings.push((format!("{line}, io_uring refused with EPERM"), ending));
    Ok(endings)
}

/// By the same variables and mounts where there is no podman, and the container has users of its
/// own.
fn bubblewrap(lab: &mut Lab) -> Parts {
    let place = Place::new(lab)?;
    let edits = place.generate(lab, "all")?;
    exchanges(lab, &place, &Engine::Bubblewrap(edits))
}

/// perftest, a pingpong and rping between two containers.
fn exchanges(lab: &mut Lab, place: &Place, engine: &Engine) -> Parts {
    let mut endings = Vec::new();
    for line in PERFTEST {
        endings.push((line.to_owned(), perftest(lab, place, engine, line)));
    }

    let dir = lab.case_dir()?;
    let [server, client] = place.containers(engine);
    let ends = pair_of(PINGPONG, &["-g", "0"], lab.port()).run(&server, &client, &dir);
    let ending = ends.and_then(|ends| judge_pingpong(&ends));
    endings.push((PINGPONG.to_owned(), ending));
    endings.push(("rping".to_owned(), rping(lab, place, [&server, &client])));
    Ok(endings)
}

fn perftest(lab: &mut Lab, place: &Place, engine: &Engine, line: &str) -> Ending {
    let dir = lab.case_dir()?;
    let [server, client] = place.containers(engine);
    let ends = pair_of(line, &["-F"], lab.port()).run(&server, &client, &dir)?;
    judge_perftest(&ends, line, PATH_MTU)
}

/// A connection at the device's address, which neither container's network has.
fn rping(lab: &mut Lab, place: &Place, [server, client]: [&Container<'_>; 2]) -> Ending {
    let (dir, port) = (lab.case_dir()?, lab.port());
    let command = |container: &Container<'_>, end: &str| {
        let mut command = container.command("rping");
        command
            .args([end, "-v", "-C", "3", "-a", &place.host.address])
            .args(["-p", &port.to_string()]);
        command
    };

    let mut server = process::spawn(command(server, "-s"), &dir, "server")?;
    if !server.wait_until(LIMIT, |_| cm::listens(&place.host, TCP, port)) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }
    let client = process::run(command(client, "-c"), &dir, "client", LIMIT)?;
    let server = server.finish_after(&client, LIMIT);
    // It tells of the end of the connection on standard error.
    let ends = [&client, &server];
    let sound = ends
        .iter()
        .all(|end| end.success() && !end.err.contains("ferroce"));
    match sound && client.out.contains("rdma-ping-2:") {
        true => Ok(()),
        false => Err(Stop::with("no three round trips", &[&client, &server])),
    }
}

/// Which devices there are, as a program of libibverbs sees it.
fn seen(lab: &mut Lab, place: &Place, engine: &Engine, device: &str) -> Ending {
    let [container, _] = place.containers(engine);
    let listed = container.command("ibv_devices");
    let listed = process::run(listed, &lab.case_dir()?, "devices", LIMIT)?;
    let found = listed.out.contains("ferroce0");
    match found == (device == "ferroce0") {
        true => Ok(()),
        false => Err(Stop::with(format!("not {device}"), &[&listed])),
    }
}

/// podman's profile with io_uring neither known nor allowed, and EPERM for what is not allowed.
fn refusing_profile(lab: &mut Lab) -> Result<String, Stop> {
    let text = fs::read_to_string(PROFILE).context(PROFILE)?;
    let mut profile: Value = serde_json::from_str(&text).context(PROFILE)?;
    profile["defaultErrnoRet"] = 1.into();
    for rule in profile["syscalls"].as_array_mut().into_iter().flatten() {
        if let Some(names) = rule["names"].as_array_mut() {
            names.retain(|name| !name.as_str().unwrap_or_default().starts_with("io_uring"));
        }
    }
    let file = lab.case_dir()?.join("seccomp.json");
    fs::write(&file, profile.to_string()).map_err(anyhow::Error::from)?;
    Ok(file.display().to_string())
}

/// A program of musl among the libraries of glibc: it is left alone, or finds its own.
fn musl(lab: &mut Lab, libraries: bool) -> Ending {
    let dir = lab.case_dir()?;
    let program = dir.join("devices");
    let mut compile = Command::new("musl-gcc");
    let source = build::workspace().join("tests/containers/devices.c");
    compile.arg("-o").arg(&program).arg(source);
    let compiled = process::run(compile, &dir, "musl-gcc", LIMIT)?;
    if !compiled.success() {
        return Err(Stop::with("musl-gcc", &[&compiled]));
    }

    let place = Place::new(lab)?;
    if libraries {
        install::copy_musl(&portable::prefix(Target::X86_64Musl)?, &place.prefix)?;
    }
    let edits = place.generate(lab, "all")?;
    place.add(MUSL[0].as_ref(), MUSL[1])?;
    place.add(&program, "usr/bin/devices")?;
    let [container, _] = place.containers(&Engine::Bubblewrap(edits));
    let ran = container.command("devices");
    let ran = process::run(ran, &lab.case_dir()?, "devices", LIMIT);

    // Other cases use the same installation.
    let _ = fs::remove_dir_all(place.prefix.join("lib/ferroce").join(install::MUSL));
    let ran = ran?;
    let expected = if libraries { "ferroce0\n" } else { "none\n" };
    match ran.success() && ran.out == expected && ran.err.is_empty() {
        true => Ok(()),
        false => Err(Stop::with(format!("not {expected:?}"), &[&ran])),
    }
}
