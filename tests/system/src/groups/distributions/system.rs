//! A device of the machine's (`ferroce system`) in another distribution: its own libibverbs and
//! librdmacm, of which no program has the shim preloaded.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{ARCHITECTURE, LIMIT};
use crate::distro::{Archive, Distribution, PROGRAMS, Root};
use crate::harness::case::{Ending, Parts, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::Lab;
use crate::lab::host::{self, TCP};
use crate::lab::netns::Enter;

const FERROCE: &str = "/opt/ferroce/bin/ferroce";

/// Programs with two ends, and by what the client finds the server.
const LINES: &[(&str, &str, By)] = &[
    (
        "ib_write_bw -F -n 200 -p 18700",
        "127.0.0.1",
        By::Tcp(18_700),
    ),
    (
        "ib_send_lat -e -F -n 200 -p 18701",
        "127.0.0.1",
        By::Tcp(18_701),
    ),
    (
        "ib_write_bw -R -F -n 200 -p 18702",
        "127.0.0.1",
        By::RdmaCm(18_702),
    ),
    (
        "ibv_rc_pingpong -e -g 0 -n 200 -p 18703",
        "127.0.0.1",
        By::Tcp(18_703),
    ),
];

#[derive(Clone, Copy)]
enum By {
    Tcp(u16),
    RdmaCm(u16),
}

/// All of it, in a root of the distribution over the installed product.
pub(super) fn parts(lab: &mut Lab, distribution: Distribution, product: PathBuf) -> Parts {
    let dir = lab.case_dir()?;
    let archive = Archive::of(distribution, ARCHITECTURE, &PROGRAMS, &dir)?;
    let root = Root::unpack(&archive, &product)?;
    let enable = [
        FERROCE,
        "system",
        "enable",
        "--group",
        "everyone",
        "--no-systemd",
    ];
    well(&run(&root, &enable, &dir, "enable")?)?;

    let shown = run(&root, &["env", SYSFS, "ibv_devinfo"], &dir, "devinfo")?;
    let seen = match shown.out.contains("PORT_ACTIVE") {
        true => Ok(()),
        false => Err(Stop::with("no device is seen", &[&shown])),
    };
    let mut endings = vec![("system ibv_devinfo".to_owned(), seen)];
    for (line, address, by) in LINES {
        let ending = pair(&root, &dir, line, address, *by);
        endings.push((format!("system {line}"), ending));
    }
    let disabled = run(&root, &[FERROCE, "system", "disable"], &dir, "disable")?;
    endings.push(("system disable".to_owned(), well(&disabled)));
    Ok(endings)
}

/// What programs find in their environment, and nothing else of ferroce's.
const SYSFS: &str = "SYSFS_PATH=/run/ferroce/sys";

fn command(root: &Root, words: &[&str]) -> Command {
    let mut command = root.enter();
    command.args(words);
    command
}

fn run(root: &Root, words: &[&str], dir: &Path, name: &str) -> Result<Finished, Stop> {
    Ok(process::run(command(root, words), dir, name, LIMIT)?)
}

fn well(finished: &Finished) -> Ending {
    match finished.success() {
        true => Ok(()),
        false => Err(Stop::with(finished.ending(), &[finished])),
    }
}

fn pair(root: &Root, dir: &Path, line: &str, address: &str, by: By) -> Ending {
    let mut words = vec!["env", SYSFS];
    words.extend(line.split(' '));
    let mut server = process::spawn(command(root, &words), dir, "server")?;
    let listens = match by {
        By::Tcp(port) => server.listens(port, LIMIT),
        By::RdmaCm(port) => server.wait_until(LIMIT, |_| serves(root, dir, port)),
    };
    if !listens {
        let server = server.kill();
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }

    words.push(address);
    let client = run(root, &words, dir, "client")?;
    let server = server.finish_after(&client, LIMIT);
    match client.success() && server.success() {
        true => Ok(()),
        false => Err(Stop::with("does not end well", &[&client, &server])),
    }
}

fn serves(root: &Root, dir: &Path, port: u16) -> bool {
    let words = [FERROCE, "--runtime-dir", "/run/ferroce", "status", "--json"];
    let status = run(root, &words, dir, "status").map(|status| status.out);
    let status = serde_json::from_str(&status.unwrap_or_default()).unwrap_or_default();
    host::serves(&status, TCP, port)
}
