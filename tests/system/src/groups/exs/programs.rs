//! Group `exs`, continued: the library as it is installed, and its example programs.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use crate::build;
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::install;
use crate::lab::host::Host;
use crate::lab::{Lab, Place};
use crate::programs::exs;

const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("exs/installed below a prefix", installed),
        Case::new("exs/options of the example programs", options),
    ];
    for place in [Place::OneDaemon, Place::TwoDaemons] {
        let name = |what: &str| format!("exs/{}/{what}", place.name());
        cases.push(Case::new(name("exs_echo"), move |lab| echo(lab, place)));
        cases.push(Case::new(name("exs_copy"), move |lab| copy(lab, place)));
        cases.push(Case::new(name("exs_bw"), move |lab| bandwidth(lab, place)));
    }
    cases
}

/// Header, library, pkg-config file and manual pages are where they are looked for, and work from
/// there.
fn installed(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let host = lab.site(Place::OneDaemon)?.client();
    let prefix = tempfile::tempdir().map_err(anyhow::Error::from)?;
    install::copy_exs(&build::exs()?, prefix.path())?;
    for function in functions()? {
        let page = prefix.path().join(format!("share/man/man3/{function}.3"));
        expect(page.exists(), || format!("{function} has no manual page"))?;
    }

    let mut ask = Command::new("pkg-config");
    ask.args(["--cflags", "--libs", "exs"])
        .env("PKG_CONFIG_PATH", prefix.path().join("lib/pkgconfig"));
    let asked = process::run(ask, &dir, "pkg-config", LIMIT)?;
    if !asked.success() {
        return Err(Stop::with("pkg-config does not know exs", &[&asked]));
    }

    let program = prefix.path().join("exs_echo");
    exs::compile(&program, "exs_echo", asked.out.split_whitespace())?;
    let lib = prefix.path().join("lib");
    converse(host, host, &program, &dir, port, Some(&lib))
}

/// What is no number, or one out of range, is refused in words and not cut to one that fits; so is
/// what cannot be printed.
fn options(lab: &mut Lab) -> Ending {
    let (dir, library) = (lab.case_dir()?, build::exs()?);
    for name in ["exs_echo", "exs_copy", "exs_bw"] {
        let program = exs::example(&library, name)?;
        let ports = [
            "-p99999", "-p65536", "-p0", "-p-1", "-p+80", "-p 80", "-p80x", "-phttp",
        ];
        let numbers = ["--size=0", "--size=8388609", "--depth=129", "--iters=1e3"];
        let numbers = numbers.iter().filter(|_| name == "exs_bw");
        for option in ports.iter().chain(numbers) {
            let mut command = Command::new(&program);
            command.arg(option).args(["a", "b"]);
            let ended = process::run(command, &dir, name, LIMIT)?;
            if ended.code() != Some(1) || !ended.err.contains("must be a number between") {
                return Err(Stop::with(format!("{name} takes {option}"), &[&ended]));
            }
        }

        let mut help = Command::new("sh");
        help.args(["-c", "exec \"$0\" -h >/dev/full"]).arg(&program);
        let ended = process::run(help, &dir, name, LIMIT)?;
        if ended.code() != Some(1) {
            return Err(Stop::with("help that was not printed", &[&ended]));
        }
    }

    Ok(())
}

/// What the library exports, by its version script.
fn functions() -> Result<Vec<String>, Stop> {
    let map = build::workspace().join("exs/libexs.map");
    let text = fs::read_to_string(&map).with_context(|| format!("{}", map.display()))?;
    let names: Vec<String> = text
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';'))
        .filter(|name| name.starts_with("exs_"))
        .map(str::to_owned)
        .collect();
    expect(!names.is_empty(), || {
        "the version script names no function".to_owned()
    })?;
    Ok(names)
}

fn echo(lab: &mut Lab, place: Place) -> Ending {
    let program = exs::example(&build::exs()?, "exs_echo")?;
    let (dir, port) = (lab.case_dir()?, lab.port());
    let site = lab.site(place)?;
    converse(site.server(), site.client(), &program, &dir, port, None)
}

/// Three clients, one after the other, get their lines back from one server.
fn converse(
    server: &Host,
    client: &Host,
    program: &Path,
    dir: &Path,
    port: u16,
    library: Option<&Path>,
) -> Ending {
    let port = port.to_string();
    let command = |host: &Host, arguments: &[&str]| {
        let mut command = host.run(program);
        command.args(["-p", &port]).args(arguments);
        if let Some(library) = library {
            command.env("LD_LIBRARY_PATH", library);
        }
        command
    };

    let serve = command(server, &["-b", &server.address, "-l"]);
    let running = process::spawn(serve, dir, "server")?;
    let input = dir.join("input");
    let mut lines: String = (0..200).map(|i| format!("line {i} of 200\n")).collect();
    lines.push_str("\0 in it\n\nno end");
    fs::write(&input, &lines).context("input")?;
    let mut clients = Vec::new();
    for i in 0..3 {
        let stdin = Stdio::from(File::open(&input).context("input")?);
        let call = command(client, &[&server.address]);
        clients.push(process::spawn_with(call, stdin, dir, &format!("client{i}"))?.finish(LIMIT));
    }

    let server = running.kill();
    for client in &clients {
        if !client.success() || client.out != lines {
            return Err(Stop::with(
                "the lines did not come back",
                &[client, &server],
            ));
        }
    }

    Ok(())
}

/// A file that does not end with a page, and an empty one, arrive whole.
fn copy(lab: &mut Lab, place: Place) -> Ending {
    let program = exs::example(&build::exs()?, "exs_copy")?;
    let dir = lab.case_dir()?;
    for size in [3_000_017u32, 0] {
        let port = lab.port().to_string();
        let site = lab.site(place)?;
        let (source, target) = (dir.join("source"), dir.join("target"));
        let bytes: Vec<u8> = (0..size).map(|i| (i * 7 % 251) as u8).collect();
        fs::write(&source, &bytes).context("source")?;
        let mut server = site.server().run(&program);
        server
            .args(["-p", &port, "-b", &site.server().address, "-l"])
            .arg(&target);
        let mut client = site.client().run(&program);
        client
            .args(["-p", &port])
            .arg(&source)
            .arg(&site.server().address);

        let ends = both(server, client, &dir)?;
        let arrived = fs::read(&target).context("target")?;
        if arrived != bytes {
            return Err(Stop::with(
                format!("{size} bytes were sent, others arrived"),
                &[&ends.0, &ends.1],
            ));
        }
    }

    Ok(())
}

/// The table has a row for every size, with a figure in it; the program compares the bytes at its
/// two ends itself.
fn bandwidth(lab: &mut Lab, place: Place) -> Ending {
    let program = exs::example(&build::exs()?, "exs_bw")?;
    let dir = lab.case_dir()?;
    for option in ["--own", "--unregistered"] {
        let port = lab.port().to_string();
        let site = lab.site(place)?;
        let mut server = site.server().run(&program);
        server.args(["-p", &port, "-b", &site.server().address]);
        let mut client = site.client().run(&program);
        client
            .args(["-p", &port, "-a", "-n", "40", option])
            .arg(&site.server().address);
        let (client, server) = both(server, client, &dir)?;
        let rows = client.out.lines().skip(1).filter(|row| {
            let figure = row.split_whitespace().nth(2).map(str::parse::<f64>);
            matches!(figure, Some(Ok(gigabits)) if gigabits >= 0.0)
        });
        let rows = rows.count();
        if rows != 23 {
            return Err(Stop::with(
                format!("{rows} rows instead of 23"),
                &[&client, &server],
            ));
        }
    }

    Ok(())
}

/// Runs a server and a client that waits for it by itself; both must succeed.
fn both(server: Command, client: Command, dir: &Path) -> Result<(Finished, Finished), Stop> {
    let server = process::spawn(server, dir, "server")?;
    let client = process::run(client, dir, "client", LIMIT)?;
    let server = server.finish_after(&client, LIMIT);
    if !client.success() || !server.success() {
        return Err(Stop::with("an end failed", &[&client, &server]));
    }
    Ok((client, server))
}
