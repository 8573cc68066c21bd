//! Group `robust`, continued: other users, and what is left of a daemon that died. Directories that
//! are somebody's are in `owners`, limits in `limits`.

use std::fs::{self, Permissions};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::Lab;
use crate::lab::host::Host;
use crate::programs::cprogram;

const LIMIT: Duration = Duration::from_secs(30);
/// Long enough for all that is done here beside the programs.
pub(super) const SOON: Duration = Duration::from_secs(20);
/// A user that is not this one.
pub(super) const NOBODY: u32 = 65_534;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "robust/what programs inherit is no way to the daemon",
            inherited,
        ),
        Case::new("robust/a daemon that died is started as it was", as_it_was),
        Case::new("robust/two devices without a word of where", anywhere),
        Case::new("robust/two users without a word of where", two_users),
        Case::new("robust/the demo beside another device", demo),
        Case::new("robust/a stopped program is named", stopped),
    ]
}

/// What ended with a status other than 0 and said something.
pub(crate) fn refused(finished: &Finished, words: &[&str]) -> Ending {
    let missing = words.iter().find(|word| !finished.err.contains(**word));
    match (finished.code(), missing) {
        (Some(code), None) if code != 0 => Ok(()),
        (_, missing) => Err(Stop::with(
            format!(
                "is not refused with a word of {}",
                missing.unwrap_or(&"why")
            ),
            &[finished],
        )),
    }
}

pub(crate) fn well(finished: &Finished) -> Ending {
    match finished.success() {
        true => Ok(()),
        false => Err(Stop::with(finished.ending(), &[finished])),
    }
}

pub(super) fn only_root() -> Ending {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(Stop::Skip("only root can be another user".to_owned())),
    }
}

/// Asks for the daemon's end through the descriptor that programs inherit.
const ASK: &str = "import json, socket\n\
    for fd in range(3, 256):\n\
    \x20   try: socket.socket(fileno=fd).send(json.dumps({'v': 4, 'id': 1, 'request': 'shutdown'}).encode())\n\
    \x20   except OSError: continue\n\
    \x20   print('sent to', fd)\n";

/// Connects to sockets, and says of each how that ended. Who is not let in sees the end of the
/// connection; who is sees nothing, as he does not ask anything.
const KNOCK: &str = "import os, socket, sys\n\
    for path in sys.argv[1:]:\n\
    \x20   s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
    \x20   s.settimeout(20)\n\
    \x20   s.connect(path)\n\
    \x20   try: got = s.recv(1)\n\
    \x20   except ConnectionResetError: got = b''\n\
    \x20   print(os.path.basename(path), 'is at its end' if got == b'' else got)\n";

/// Where programs knock.
const DOORS: [&str; 4] = ["ferroced.sock", "rdma_cm.sock", "umad.sock", "netlink.sock"];

/// Another user's program, not one of a home directory that this user cannot enter.
fn another_users(command: &mut Command, script: &str) {
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args(["/usr/bin/python3", "-c", script]);
}

/// A program that has become another user has nothing by which it can ask the daemon anything; nor
/// has one that can reach the daemon's sockets, since the daemon looks at who connects.
fn inherited(lab: &mut Lab) -> Ending {
    only_root()?;
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    host.up()?;
    let mut command = host.run("setpriv");
    another_users(&mut command, ASK);
    let asked = process::run(command, &dir, "asked", SOON)?;
    well(&asked)?;
    expect(asked.out.is_empty(), || {
        format!("there is something to ask: {}", asked.out)
    })?;

    let runtime = host.runtime_dir().to_path_buf();
    open_to_all(&runtime, 0o755)?;
    let doors = DOORS.map(|door| runtime.join(door));
    for door in &doors {
        open_to_all(door, 0o666)?;
    }
    let mut command = host.plain("setpriv");
    another_users(&mut command, KNOCK);
    command.args(&doors);
    let knocked = process::run(command, &dir, "knocked", LIMIT)?;
    open_to_all(&runtime, 0o700)?;
    let ended = DOORS.map(|door| format!("{door} is at its end\n")).concat();
    expect(knocked.success() && knocked.out == ended, || {
        format!("another user is let in:\n{}{}", knocked.out, knocked.err)
    })?;
    let shown = process::run(host.run("ibv_devinfo"), &dir, "devinfo", SOON)?;
    well(&shown)?;
    host.status()?;
    host.down()?;
    Ok(())
}

/// Lets others at a file or directory, or no longer.
fn open_to_all(path: &Path, mode: u32) -> Ending {
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(anyhow::Error::from)?;
    Ok(())
}

/// `ferroce run` brings back the device that there was, or says why it cannot.
fn as_it_was(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.9", None)?;
    host.up_with(&["--addr", "127.0.0.9", "--name", "soft9"])?;
    let before = host.status()?;
    host.kill_daemon()?;
    let devinfo = |host: &Host, name: &str| process::run(host.run("ibv_devinfo"), &dir, name, SOON);
    let shown = devinfo(&host, "again")?;
    well(&shown)?;
    let clear = shown.err.contains("soft9 is up again at 127.0.0.9");
    let after = host.status()?;
    let same = ["name", "node_guid"]
        .iter()
        .all(|what| before["device"][what] == after["device"][what])
        && before["gids"] == after["gids"];
    if !clear || !same || !shown.out.contains("soft9") {
        return Err(Stop::with("is not the device that died", &[&shown]));
    }

    host.kill_daemon()?;
    let taken = UdpSocket::bind(("127.0.0.9", crate::attack::pcap::ROCE_V2))
        .map_err(anyhow::Error::from)?;
    for name in ["refused", "refused-again"] {
        refused(
            &devinfo(&host, name)?,
            &["127.0.0.9 is taken by", "ferroce down"],
        )?;
    }

    drop(taken);
    let mut command = host.ferroce();
    command.arg("down");
    let forgotten = process::run(command, &dir, "forgotten", SOON)?;
    well(&forgotten)?;
    let shown = devinfo(&host, "new")?;
    let other = shown.success() && shown.out.contains("ferroce0") && shown.err.is_empty();
    host.down()?;
    match other {
        true => Ok(()),
        false => Err(Stop::with("a forgotten device is remembered", &[&shown])),
    }
}

/// Who says nothing of addresses gets a device all the same, and is told where.
fn anywhere(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut first = Host::new(lab.programs(), "", None)?;
    let mut second = Host::new(lab.programs(), "", None)?;
    first.up_anywhere()?;

    // Settings that say nothing, in place of what this machine may have.
    let settings = dir.join("config/ferroce");
    fs::create_dir_all(&settings).map_err(anyhow::Error::from)?;
    fs::write(settings.join("ferroce.toml"), "").map_err(anyhow::Error::from)?;
    let mut command = second.ferroce();
    command.arg("up").env("XDG_CONFIG_HOME", dir.join("config"));
    let up = process::run(command, &dir, "up", SOON)?;
    well(&up)?;
    let where_it_is = second.status()?["gids"][0]["addr"].clone();
    let address = where_it_is.as_str().unwrap_or_default().to_owned();
    second.address.clone_from(&address);
    let loopback = [&first.address, &address]
        .iter()
        .all(|address| address.starts_with("127."));
    let said = up.out.contains(&format!(
        "is up at {address}, for programs of this machine (--netdev or --addr puts it on a network)"
    ));
    let ending = match loopback && said && address != first.address {
        true => {
            let options = ["-F", "-n", "200"].map(str::to_owned).to_vec();
            let pair = crate::programs::perftest::Pair {
                tool: "ib_send_bw".to_owned(),
                options,
                port: lab.port(),
                limit: LIMIT,
            };
            pair.run(&first, &second, &dir)?.clean()
        }
        false => Err(Stop::with(
            format!("{} and {address}", first.address),
            &[&up],
        )),
    };

    first.down()?;
    second.down()?;
    ending
}

/// A prefix with what is built, where any user can get at it, and the home of [`NOBODY`].
pub(super) fn settle(lab: &Lab) -> anyhow::Result<[TempDir; 2]> {
    let prefix = tempfile::tempdir()?;
    fs::set_permissions(prefix.path(), Permissions::from_mode(0o755))?;
    crate::install::copy(lab.programs(), prefix.path())?;
    let home = tempfile::tempdir()?;
    std::os::unix::fs::chown(home.path(), Some(NOBODY), Some(NOBODY))?;
    Ok([prefix, home])
}

/// Another user's first program finds a device too.
fn two_users(lab: &mut Lab) -> Ending {
    only_root()?;
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut root = Host::new(lab.programs(), "127.0.0.1", None)?;
    root.up()?;

    let [prefix, home] = settle(lab)?;
    let user = |words: &[&str], name: &str| {
        let mut command = root.plain("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(prefix.path().join("bin/ferroce")).args(words);
        command.env("HOME", home.path());
        command.env("FERROCE_RUNTIME_DIR", home.path().join("run"));
        process::run(command, &dir, name, SOON)
    };

    let shown = user(&["run", "--", "ibv_devinfo"], "user")?;
    let down = user(&["down"], "user-down")?;
    root.down()?;
    let said = shown.err.contains("is up at 127.47.91.");
    match shown.success() && shown.out.contains("PORT_ACTIVE") && said && down.success() {
        true => Ok(()),
        false => Err(Stop::with("another user has no device", &[&shown, &down])),
    }
}

/// The demonstration needs nothing of its own: not the usual address, and no port that another one
/// has.
fn demo(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let _taken = UdpSocket::bind(("127.0.0.1", crate::attack::pcap::ROCE_V2))
        .map_err(anyhow::Error::from)?;
    let mut demos = Vec::new();
    for name in ["one", "other"] {
        let mut command = Command::new(std::env::current_exe().map_err(anyhow::Error::from)?);
        command.arg("demo");
        demos.push(process::spawn(command, &dir, name)?);
    }

    for demo in demos {
        let demo = demo.finish(4 * LIMIT);
        well(&demo)?;
        let elsewhere = demo.out.contains("ferroced is up at 127.47.91.");
        if !elsewhere || crate::programs::perftest::rows_of(&demo.out).len() != 1 {
            return Err(Stop::with("no table, or of another's device", &[&demo]));
        }
    }

    Ok(())
}

/// A stopped program that has outlived its daemon keeps the address. Who wants it learns who that
/// is.
fn stopped(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let port = lab.port();
    let stream = cprogram::compile("stream")?;
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    host.up()?;
    let mut command = host.run(&stream);
    command.args(["server", &port.to_string()]);
    let mut server = process::spawn(command, &dir, "server")?;
    if !server.listens(port, LIMIT) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }

    // It has the socket once it is connected.
    let mut command = host.run(&stream);
    command.args(["client", &port.to_string(), &host.address]);
    let mut client = process::spawn(command, &dir, "client")?;
    let streams = client.wait_until(LIMIT, |client| client.output().contains("streaming"));
    server.signal(Signal::STOP);
    let client = client.kill();
    if !streams {
        let server = server.kill();
        return Err(Stop::with(
            "the transfer does not start",
            &[&client, &server],
        ));
    }

    host.down()?;
    let mut command = host.ferroce();
    command.args(["up", "--addr", "127.0.0.1"]);
    let up = process::run(command, &dir, "up", SOON)?;
    let id = server.id();
    let ending = refused(
        &up,
        &[
            "127.0.0.1 is taken by stream",
            &format!("process {id}, which is stopped"),
        ],
    );

    server.kill();
    ending?;
    host.up()?;
    host.down()?;
    Ok(())
}
