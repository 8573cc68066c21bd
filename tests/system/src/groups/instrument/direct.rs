//! `<ferroce_dv.h>` and `libferroce.so.1`: what a C program finds out by them, in memory and over
//! sockets, and how they are made and installed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::capture::read;
use crate::build;
use crate::harness::case::{Case, Ending, Parts, Stop, expect};
use crate::harness::process::{self, Finished};
use crate::install;
use crate::lab::{Lab, Place};
use crate::programs::cprogram;

const LIMIT: Duration = Duration::from_secs(120);
const SONAME: &str = "libferroce.so.1";
/// The version of all symbols.
const VERSION: &str = "FERROCE_1.0";
/// What the provider exports for it.
const DIRECT: &str = "ferroce_direct_1";
/// A way to recover losses.
const GO_BACK_N: &str = "go-back-n";
/// RC's SEND Only and Acknowledge.
const SEND_ONLY: &str = "4";
const ACKNOWLEDGE: &str = "17";

/// Compilers and standards that take the header without a word.
const STANDARDS: [(&str, &str); 6] = [
    ("cc", "-std=c99"),
    ("cc", "-std=c11"),
    ("cc", "-std=c17"),
    ("c++", "-std=c++11"),
    ("c++", "-std=c++17"),
    ("c++", "-std=c++20"),
];

/// A program that uses a name of each kind, and needs no device.
const PLAIN: &str = r#"
#include <ferroce_dv.h>
#include <errno.h>

static void called(const struct ferroce_dv_completion *completion, void *arg)
{
    *(uint64_t *)arg = completion->sequence + completion->wc.wr_id;
}

int main(void)
{
    struct ferroce_dv_qp_attr attr;
    ferroce_dv_completion_fn function = called;

    if (ferroce_dv_is_supported(NULL) || *ferroce_dv_error() != '\0')
        return 1;
    if (ferroce_dv_query_qp(NULL, &attr, sizeof(attr)) != EINVAL || errno != EINVAL)
        return 2;
    if (ferroce_dv_completion_callback(NULL, function, &attr) != EINVAL || *ferroce_dv_error() == '\0')
        return 3;
    return ferroce_dv_histogram_floor(FERROCE_DV_BUCKETS) == UINT64_MAX ? 0 : 4;
}
"#;

pub(super) fn cases() -> Vec<Case> {
    let ways = [
        (Place::OneDaemon, GO_BACK_N),
        (Place::TwoDaemons, GO_BACK_N),
        (Place::TwoDaemons, "selective"),
    ];
    let programs = ways.map(|(place, recovery)| {
        let name = format!("instrument/direct/{}/direct.c, {recovery}", place.name());
        Case::many(name, move |lab| program(lab, place, recovery))
    });
    let others = [
        Case::new("instrument/direct/a capture that tshark reads", captured),
        Case::new("instrument/direct/the header by every standard", standards),
        Case::new("instrument/direct/symbols and their version", symbols),
        Case::new("instrument/direct/installed below a prefix", installed),
        Case::new("instrument/direct/a program in Rust", in_rust),
    ];
    programs.into_iter().chain(others).collect()
}

/// Compiles `tests/verbs/direct.c` against the library.
fn compiled() -> anyhow::Result<PathBuf> {
    let library = build::direct()?;
    let include = build::workspace().join("rdma-core-plugin/direct/include");
    let program = build::scratch("direct")?.join("direct");
    let files = [
        "direct.c",
        "harness.c",
        "device.c",
        "endpoint.c",
        "remote.c",
    ];
    let files = files.map(|file| cprogram::sources().join(file).display().to_string());
    let flags = [
        format!("-I{}", include.display()),
        format!("-L{}", library.display()),
        format!("-Wl,-rpath,{}", library.display()),
    ];
    let libraries = ["-pthread", "-lferroce", "-libverbs"].map(str::to_owned);
    cprogram::compile_with(&program, files.into_iter().chain(flags).chain(libraries))?;
    Ok(program)
}

/// All of its tests. Which packets a loss costs depends on how it is recovered.
fn program(lab: &mut Lab, place: Place, recovery: &str) -> Parts {
    let finished = run(lab, place, recovery, &[], None)?;
    Ok(cprogram::endings(&finished))
}

fn run(
    lab: &mut Lab,
    place: Place,
    recovery: &str,
    arguments: &[&str],
    capture: Option<&Path>,
) -> Result<Finished, Stop> {
    let program = compiled()?;
    let dir = lab.case_dir()?;
    let site = lab.site(place)?;
    let mut command = site.client().run(&program);
    command.args(arguments).env("FERROCE_RECOVERY", recovery);
    if let Some(file) = capture {
        command.env("CAPTURE_FILE", file);
    }
    if let Some(other) = site.other() {
        command.env("PEER_COMMAND", other.prefix().join(OsStr::new("\n")));
    }
    Ok(process::run(command, &dir, "direct", LIMIT)?)
}

/// The five messages are in the file that the program has written, each once, and their
/// acknowledgements; and so are its verbs, as entries of a journal.
fn captured(lab: &mut Lab) -> Ending {
    let file = lab.case_dir()?.join("own.pcapng");
    let finished = run(lab, Place::OneDaemon, GO_BACK_N, &["capture"], Some(&file))?;
    if !finished.success() {
        return Err(Stop::with("the program fails", &[&finished]));
    }

    let fields = ["infiniband.bth.opcode", "infiniband.bth.psn"];
    let rows = read::fields(&file, "infiniband", &fields)?;
    let of = |opcode: &str| rows.iter().filter(|row| row[0] == opcode).count();
    let numbers: BTreeSet<&str> = rows.iter().map(|row| row[1].as_str()).collect();
    let (sent, acknowledged) = (of(SEND_ONLY), of(ACKNOWLEDGE));
    expect(
        sent == 5 && (1..=5).contains(&acknowledged) && numbers.len() == 5,
        || format!("tshark sees {rows:?}"),
    )?;

    let verbs = read::fields(&file, "!infiniband", &["systemd_journal.message"])?;
    let posted = verbs.iter().filter(|row| row[0].contains("post_send"));
    let posted = posted.count();
    expect(posted == 5, || format!("{posted} posts among {verbs:?}"))
}

/// In C and C++, with nothing else included before it.
fn standards(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let library = build::direct()?;
    let include = build::workspace().join("rdma-core-plugin/direct/include");
    for (compiler, standard) in STANDARDS {
        let suffix = if compiler == "cc" { "c" } else { "cc" };
        let source = dir.join(format!("plain.{suffix}"));
        fs::write(&source, PLAIN).context("plain")?;
        let program = dir.join("plain");
        let mut compile = Command::new(compiler);
        compile
            .args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
            .arg(&program)
            .arg(&source)
            .arg(format!("-I{}", include.display()))
            .arg(format!("-L{}", library.display()))
            .args(["-lferroce", "-libverbs"]);
        said(compile, &dir, "compile")?;

        let mut run = Command::new(&program);
        run.env("LD_LIBRARY_PATH", &library);
        said(run, &dir, "plain")?;
    }
    Ok(())
}

/// What the library exports is what its script says, all of one version; the provider exports the
/// table alone; and neither is linked with rdma-core's libraries.
fn symbols(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let library = build::direct()?.join(SONAME);
    let exported = exports(&library, &dir)?;
    let map = build::workspace().join("rdma-core-plugin/direct/libferroce.map");
    let map = fs::read_to_string(&map).context("the version script")?;
    let wanted: BTreeSet<String> = map
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';'))
        .filter(|name| name.starts_with("ferroce_"))
        .map(|name| format!("{name}@@{VERSION}"))
        .collect();
    expect(exported == wanted && wanted.len() > 10, || {
        format!("it exports {exported:?}, not {wanted:?}")
    })?;

    let provider = lab.programs().join("libferroce_provider.so");
    let exported = exports(&provider, &dir)?;
    expect(exported == BTreeSet::from([DIRECT.to_owned()]), || {
        format!("the provider exports {exported:?}")
    })?;

    let mut read = Command::new("readelf");
    read.arg("-dW").arg(&library);
    let dynamic = said(read, &dir, "readelf")?;
    expect(
        dynamic.contains(&format!("[{SONAME}]")) && !dynamic.contains("ibverbs"),
        || format!("linked otherwise: {dynamic}"),
    )
}

/// The functions and tables that a shared object exports, with their versions.
fn exports(object: &Path, dir: &Path) -> Result<BTreeSet<String>, Stop> {
    let mut read = Command::new("readelf");
    read.args(["--dyn-syms", "-W"]).arg(object);
    let table = said(read, dir, "readelf")?;
    let row = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        // Number, value, size, type, binding, visibility, section, name.
        let [_, _, _, kind, binding, _, section, name, ..] = <[String; 8]>::try_from(words).ok()?;
        let defined = section != "UND" && binding != "LOCAL";
        (defined && (kind == "FUNC" || kind == "OBJECT") && section != "ABS").then_some(name)
    };
    Ok(table.lines().filter_map(row).collect())
}

/// Header, library, pkg-config file and manual pages are where they are looked for, and work from
/// there, without a device.
fn installed(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let prefix = tempfile::tempdir().map_err(anyhow::Error::from)?;
    install::copy_direct(&build::direct()?, prefix.path())?;
    let pages = build::workspace().join("rdma-core-plugin/direct/man");
    for page in fs::read_dir(pages).context("pages")? {
        let name = page.context("pages")?.file_name();
        let name = name.to_string_lossy();
        let (topic, section) = name.rsplit_once('.').unwrap_or_default();
        let mut render = Command::new("man");
        render
            .arg("-M")
            .arg(prefix.path().join("share/man"))
            .args(["--warnings", section, topic])
            .env("MANPAGER", "cat");
        let finished = process::run(render, &dir, "man", LIMIT)?;
        if !finished.success() || !finished.err.is_empty() {
            return Err(Stop::with(format!("man {section} {topic}"), &[&finished]));
        }
    }

    let mut ask = Command::new("pkg-config");
    ask.args(["--cflags", "--libs", "libferroce"])
        .env("PKG_CONFIG_PATH", prefix.path().join("lib/pkgconfig"));
    let flags = said(ask, &dir, "pkg-config")?;
    let source = dir.join("plain.c");
    fs::write(&source, PLAIN).context("plain")?;
    let program = prefix.path().join("plain");
    let flags = flags.split_whitespace().map(str::to_owned);
    cprogram::compile_with(
        &program,
        std::iter::once(source.display().to_string()).chain(flags),
    )?;

    let mut run = Command::new(&program);
    run.env("LD_LIBRARY_PATH", prefix.path().join("lib"));
    said(run, &dir, "plain").map(drop)
}

/// The crate's example, which says itself whether all is as it must be.
fn in_rust(lab: &mut Lab) -> Ending {
    let program = build::example(build::DIRECT.package, "inside")?;
    let dir = lab.case_dir()?;
    let command = lab.site(Place::OneDaemon)?.client().run(&program);
    said(command, &dir, "inside").map(drop)
}

/// What a command prints, which must succeed.
fn said(command: Command, dir: &Path, name: &str) -> Result<String, Stop> {
    let line = process::line_of(&command);
    let finished = process::run(command, dir, name, LIMIT)?;
    match finished.success() {
        true => Ok(finished.out),
        false => Err(Stop::with(line, &[&finished])),
    }
}
