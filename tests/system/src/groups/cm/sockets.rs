//! Group `cm`, continued: programs of sockets over rsockets, most of them unmodified ones for TCP
//! under `librspreload.so`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::groups::cm::{LIMIT, NONE, TCP, judge, stock, wait_for_listener};
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished, Running};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};
use crate::packages;
use crate::programs::cprogram;

const LIBRARY: &str = crate::groups::cm::RSOCKETS;

pub(crate) fn cases(place: Place) -> Vec<Case> {
    let name = |what: &str| format!("cm/{}/{what}", place.name());
    let mut cases = vec![
        Case::new(name("a TCP program over rsockets"), move |lab| {
            plain(lab, place)
        }),
        Case::new(name("nc over rsockets"), move |lab| netcat(lab, place)),
        Case::new(name("mbuffer over rsockets"), move |lab| pipe(lab, place)),
        Case::new(name("datagram rsockets"), move |lab| datagrams(lab, place)),
    ];

    if place == Place::TwoDaemons {
        cases.push(Case::new(
            name("udpong from an address of another device"),
            move |lab| elsewhere(lab, place),
        ));
    }

    cases
}

/// A server and a client, each with its host, and where the case writes.
struct Scene<'a> {
    server: &'a Host,
    client: &'a Host,
    port: u16,
    dir: PathBuf,
}

impl Scene<'_> {
    /// The scene of a case at a place.
    fn set(lab: &mut Lab, place: Place) -> Result<Scene<'_>, Stop> {
        let (dir, port) = (lab.case_dir()?, lab.port());
        let site = lab.site(place)?;
        let (server, client) = (site.server(), site.client());
        Ok(Scene {
            server,
            client,
            port,
            dir,
        })
    }

    /// Runs both; a server that `stays` is killed when the client has ended. `space`: as of
    /// [`wait_for_listener`].
    fn play(
        &self,
        server: impl Into<Part>,
        client: impl Into<Part>,
        space: u64,
        stays: bool,
    ) -> Result<(Finished, Finished), Stop> {
        let mut server = server.into().start(&self.dir, "server")?;
        if !wait_for_listener(&mut server, self.server, space, self.port) {
            let server = server.finish(Duration::ZERO);
            return Err(Stop::with("the server does not come to listen", &[&server]));
        }
        let client = client.into().start(&self.dir, "client")?.finish(LIMIT);
        let server = match (stays, client.success()) {
            (true, _) => server.kill(),
            (false, true) => server.finish(LIMIT),
            (false, false) => server.finish(Duration::ZERO),
        };
        Ok((client, server))
    }

    fn address(&self) -> String {
        self.server.address.clone()
    }

    fn port(&self) -> String {
        self.port.to_string()
    }
}

/// A program of a scene and what it reads.
struct Part {
    command: Command,
    input: Stdio,
}

impl From<Command> for Part {
    fn from(command: Command) -> Part {
        let input = Stdio::null();
        Part { command, input }
    }
}

impl Part {
    fn start(self, dir: &Path, name: &str) -> anyhow::Result<Running> {
        process::spawn_with(self.command, self.input, dir, name)
    }
}

/// A program whose TCP sockets become rsockets.
pub(crate) fn preloaded(
    host: &Host,
    program: impl AsRef<std::ffi::OsStr>,
) -> Result<Command, Stop> {
    if !Path::new(LIBRARY).exists() {
        return Err(Stop::Skip(format!("there is no {LIBRARY}")));
    }
    let mut command = host.run(program);
    command.env("LD_PRELOAD", LIBRARY);
    Ok(command)
}

/// Our own plain program, which compares what comes back.
fn plain(lab: &mut Lab, place: Place) -> Ending {
    let program = cprogram::compile_plain("plain_tcp", &[] as &[&str])?;
    let scene = Scene::set(lab, place)?;
    let command = |host: &Host, word: &str| {
        let mut command = preloaded(host, &program)?;
        command.args([word, &scene.address(), &scene.port()]);
        Ok::<_, Stop>(command)
    };
    let (server, client) = (
        command(scene.server, "serve")?,
        command(scene.client, "call")?,
    );
    let (client, server) = scene.play(server, client, TCP, false)?;
    let stock = stock("", "plain_tcp", "plain_tcp", "2000000 bytes");
    judge(&client, &server, &stock)
}

/// What a case sends: nothing that repeats with the length of a packet.
pub(crate) fn content() -> Vec<u8> {
    (0..3_000_000u32).map(|i| (i * 7 % 251) as u8).collect()
}

/// Whether what was to arrive in a file did.
fn arrived(file: &Path, programs: [&Finished; 2]) -> Ending {
    let arrived = std::fs::read(file).unwrap_or_default();
    if arrived == content() {
        return Ok(());
    }
    let what = format!(
        "{} bytes arrived, and not those that were sent",
        arrived.len()
    );
    Err(Stop::with(what, &programs))
}

/// Skips where nothing can be preloaded into BusyBox.
pub(crate) fn needs_dynamic_busybox() -> Ending {
    let linked = packages::which("busybox").map(|path| Command::new("ldd").arg(path).output());
    if linked.is_some_and(|output| output.is_ok_and(|output| output.status.success())) {
        return Ok(());
    }
    Err(Stop::Skip(
        "busybox is linked statically, and takes no preloaded library: install the package \
         busybox in place of busybox-static"
            .to_owned(),
    ))
}

/// A file through BusyBox' nc: from the side that listens to the one that connects.
fn netcat(lab: &mut Lab, place: Place) -> Ending {
    needs_dynamic_busybox()?;
    let scene = Scene::set(lab, place)?;
    let offered = scene.dir.join("offered");
    std::fs::write(&offered, content()).map_err(anyhow::Error::from)?;
    let mut server = preloaded(scene.server, "busybox")?;
    server.args(["nc", "-l", "-p", &scene.port()]);
    let server = Part {
        command: server,
        input: File::open(&offered).map_err(anyhow::Error::from)?.into(),
    };

    let mut client = preloaded(scene.client, "busybox")?;
    client.args(["nc", &scene.address(), &scene.port()]);

    // Its input does not end before it does: the server would leave with a client that has nothing
    // more to say.
    let (input, kept) = std::io::pipe().map_err(anyhow::Error::from)?;
    let client = Part {
        command: client,
        input: input.into(),
    };
    let (client, server) = scene.play(server, client, TCP, false)?;
    drop(kept);
    expect_success(&client, &server)?;
    arrived(&scene.dir.join("client.out"), [&client, &server])
}

/// A file through mbuffer's two ends: from the side that connects to the one that listens.
fn pipe(lab: &mut Lab, place: Place) -> Ending {
    let scene = Scene::set(lab, place)?;
    let (offered, got) = (scene.dir.join("offered"), scene.dir.join("got"));
    std::fs::write(&offered, content()).map_err(anyhow::Error::from)?;
    let (address, port) = (scene.address(), scene.port());
    let mut server = preloaded(scene.server, "mbuffer")?;
    server.args(["-q", "-I", &port, "-o"]).arg(&got);
    let mut client = preloaded(scene.client, "mbuffer")?;
    client.args(["-q", "-O", &format!("{address}:{port}"), "-i"]);
    client.arg(&offered);
    let (client, server) = scene.play(server, client, TCP, false)?;
    expect_success(&client, &server)?;
    arrived(&got, [&client, &server])
}

fn expect_success(client: &Finished, server: &Finished) -> Ending {
    if client.success() {
        return Ok(());
    }
    Err(Stop::with(client.ending(), &[client, server]))
}

/// Datagrams between addresses that the programs name.
fn datagrams(lab: &mut Lab, place: Place) -> Ending {
    let program = cprogram::compile_plain("datagram_rsocket", &["-lrdmacm"])?;
    let scene = Scene::set(lab, place)?;
    let (address, port) = (scene.address(), scene.port());
    let mut server = scene.server.run(&program);
    server.args(["serve", &address, &port]);
    let mut client = scene.client.run(&program);
    client.args(["call", &address, &port, &scene.client.address]);
    let (client, server) = scene.play(server, client, NONE, true)?;
    expect_success(&client, &server)?;
    expect(client.out.contains("200 datagrams"), || client.out.clone())
}

/// The host's routes lead to all of loopback from 127.0.0.1, which here is another device's: stock
/// udpong, which cannot be told where to send from, is refused.
fn elsewhere(lab: &mut Lab, place: Place) -> Ending {
    let scene = Scene::set(lab, place)?;
    let (address, port) = (scene.address(), scene.port());
    let mut server = scene.server.run("udpong");
    server.args(["-b", &address, "-p", &port]);
    let mut client = scene.client.run("udpong");
    client.args(["-s", &address, "-p", &port, "-C", "1"]);
    let (client, server) = scene.play(server, client, NONE, true)?;

    // What it makes of ENODEV.
    let refused = client.err.contains("No RDMA devices were detected");
    let exited = client.status.is_some_and(|status| status.code().is_some());
    if refused && exited {
        return Ok(());
    }

    Err(Stop::with(
        format!("not refused: {}", client.ending()),
        &[&client, &server],
    ))
}
