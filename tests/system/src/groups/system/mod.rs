//! Group `system`: a device of the machine's, without a preloaded library, for several users. It is
//! enabled and disabled on a machine of the test's own; what users may and may not do with it is in
//! `users` and `slots`, what libraries it works with in `programs`.

mod programs;
mod slots;
mod users;

use std::time::Duration;

use serde_json::Value;

use crate::harness::case::{Case, Ending, Parts, Stop, expect};
use crate::harness::process::{self, Finished};
use crate::lab::Lab;
use crate::lab::machine::{Machine, PRODUCT};

/// For what is done in a moment where nothing else goes on.
const SOON: Duration = Duration::from_secs(30);
/// For programs that carry data.
const LIMIT: Duration = Duration::from_secs(60);
/// What users have in their environment, and who has not logged in since must set.
const SYSFS: &str = "SYSFS_PATH=/run/ferroce/sys";

/// A service manager, as far as a daemon sees one.
const MANAGER: &str = include_str!("manager.py");

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::many("system/device", device),
        Case::new("system/slots pass from user to user", slots::passed_on),
        Case::new("system/half an enable is undone", half),
        Case::new("system/what is in the way is named", in_the_way),
        Case::new("system/the unit is one that systemd takes", unit),
    ]
}

/// A machine with ferroce installed, where all is tried, and where output goes.
struct Site {
    machine: Machine,
    dir: std::path::PathBuf,
}

impl Site {
    fn new(lab: &mut Lab) -> Result<Self, Stop> {
        let dir = lab.case_dir()?;
        let product = tempfile::tempdir().map_err(anyhow::Error::from)?;
        crate::install::copy(lab.programs(), product.path())?;
        let machine = Machine::new(product.path())?;
        Ok(Self { machine, dir })
    }

    /// Runs a command of root's.
    fn root(&self, name: &str, words: &[&str]) -> Result<Finished, Stop> {
        Ok(process::run(
            self.machine.root(words),
            &self.dir,
            name,
            SOON,
        )?)
    }

    /// Runs the `ferroce` command as root.
    fn ferroce(&self, name: &str, words: &[&str]) -> Result<Finished, Stop> {
        let program = format!("{PRODUCT}/bin/ferroce");
        let mut line = vec![program.as_str()];
        line.extend(words);
        self.root(name, &line)
    }

    /// The daemon's account of itself, as root is given it.
    fn daemon(&self, name: &str) -> Result<Value, Stop> {
        let line = ["--runtime-dir", "/run/ferroce", "status", "--json"];
        let status = self.ferroce(name, &line)?;
        match serde_json::from_str(&status.out) {
            Ok(status) => Ok(status),
            Err(_) => Err(Stop::with("the daemon says nothing of itself", &[&status])),
        }
    }

    /// Runs a line of a user's who has logged in.
    fn login(&self, name: &str, user: &str, line: &str) -> Result<Finished, Stop> {
        let command = self.machine.login(user, line);
        Ok(process::run(command, &self.dir, name, LIMIT)?)
    }

    /// All files that `enable` could have anything to do with, and what is in them.
    fn listing(&self, name: &str) -> Result<String, Stop> {
        let listed = self.root(
            name,
            &[
                "sh",
                "-c",
                "find /etc /dev /run /var /opt -xdev ! -path '/dev/shm/*' -printf '%p %y %m %u %g %l\\n' | sort; \
                 find /etc /var /opt -xdev -type f -print0 | sort -z | xargs -0 sha256sum",
            ],
        )?;
        match listed.success() {
            true => Ok(listed.out),
            false => Err(Stop::with("files are not listed", &[&listed])),
        }
    }
}

/// What ended well, and said something.
fn said(finished: &Finished, words: &[&str]) -> Ending {
    let missing = words.iter().find(|word| !finished.out.contains(**word));
    match (finished.success(), missing) {
        (true, None) => Ok(()),
        (false, _) => Err(Stop::with(finished.ending(), &[finished])),
        (true, Some(word)) => Err(Stop::with(format!("says nothing of {word}"), &[finished])),
    }
}

/// What ended with status 1, and said why.
fn refused(finished: &Finished, words: &[&str]) -> Ending {
    let missing = words.iter().find(|word| !finished.err.contains(**word));
    match (finished.code(), missing) {
        (Some(1), None) => Ok(()),
        (_, missing) => Err(Stop::with(
            format!(
                "is not refused with a word of {}",
                missing.unwrap_or(&"why")
            ),
            &[finished],
        )),
    }
}

/// What was added to a listing, or has gone from it.
fn difference(before: &str, after: &str) -> String {
    let lines = |from: &str, of: &str| -> Vec<String> {
        let of: std::collections::HashSet<&str> = of.lines().collect();
        let gone = from.lines().filter(|line| !of.contains(line));
        gone.map(str::to_owned).collect()
    };
    [lines(before, after), lines(after, before)]
        .concat()
        .join("\n")
}

/// The device comes, is used by users of all kinds, and goes without a trace.
fn device(lab: &mut Lab) -> Parts {
    let site = Site::new(lab)?;
    settings(&site)?;
    let before = site.listing("before")?;
    let enabled = site.ferroce("enable", &["system", "enable"])?;
    said(&enabled, &["members of rdma", "/etc/rc.local"])?;

    let mut endings = vec![("stays without programs".to_owned(), stays(&site))];
    for (name, part) in programs::parts().into_iter().chain(users::parts()) {
        endings.push((name.to_owned(), part(&site)));
    }

    let again = site.ferroce("again", &["system", "enable"])?;
    endings.push((
        "enabled twice".to_owned(),
        refused(&again, &["ferroce system disable"]),
    ));

    let disabled = site.ferroce("disable", &["system", "disable"])?;
    let ending = said(&disabled, &[]).and_then(|()| {
        let left = difference(&before, &site.listing("after")?);
        expect(left.is_empty(), || format!("is left or missing:\n{left}"))
    });
    endings.push(("nothing is left".to_owned(), ending));
    Ok(endings)
}

/// Settings with which daemons of users leave soon.
fn settings(site: &Site) -> Ending {
    let line = "mkdir -p /etc/ferroce && echo 'idle_exit = 1' > /etc/ferroce/ferroce.toml";
    said(&site.root("settings", &["sh", "-c", line])?, &[])
}

/// The machine's device does not leave, whatever those settings say.
fn stays(site: &Site) -> Ending {
    let before = site.daemon("before a pause")?;
    std::thread::sleep(Duration::from_secs(3));
    let after = site.daemon("after a pause")?;
    expect(before["pid"] == after["pid"], || {
        format!("it was {}, and is {}", before["pid"], after["pid"])
    })
}

/// An `enable` that is refused in the middle, by a file that somebody has, leaves nothing, and
/// somebody's file as it was; one that was killed there is undone by `disable`.
fn half(lab: &mut Lab) -> Ending {
    let site = Site::new(lab)?;
    let theirs = "/etc/environment.d/60-ferroce.conf";
    let made = site.root(
        "theirs",
        &[
            "sh",
            "-c",
            &format!("mkdir -p /etc/environment.d; echo theirs >{theirs}"),
        ],
    )?;
    said(&made, &[])?;
    let before = site.listing("before")?;
    let stopped = site.ferroce("enable", &["system", "enable"])?;
    refused(&stopped, &[theirs, "is there already"])?;
    let left = difference(&before, &site.listing("after")?);
    expect(left.is_empty(), || format!("is left or missing:\n{left}"))?;

    // As if it had been killed before its last file was made.
    said(&site.root("no-theirs", &["rm", theirs])?, &[])?;
    let before = site.listing("before-half")?;
    said(&site.ferroce("whole", &["system", "enable"])?, &[])?;
    said(&site.root("gone", &["rm", theirs])?, &[])?;
    let status = site.ferroce("status", &["system", "status"])?;
    expect(
        status.code() == Some(1) && status.out.contains(theirs),
        || format!("a missing file is not told:\n{}", status.out),
    )?;
    said(&site.ferroce("disable", &["system", "disable"])?, &[])?;
    let left = difference(&before, &site.listing("after-half")?);
    expect(left.is_empty(), || format!("is left or missing:\n{left}"))
}

/// A real device, a group that is none, somebody who is not root, an installation that others can
/// change: each is told in words, and nothing is made.
fn in_the_way(lab: &mut Lab) -> Ending {
    let site = Site::new(lab)?;
    let before = site.listing("before")?;
    let none = site.ferroce("no-group", &["system", "enable", "--group", "nobody-here"])?;
    refused(&none, &["nobody-here", "groupadd"])?;
    let user = site.login(
        "user",
        "alice",
        &format!("{PRODUCT}/bin/ferroce system enable"),
    )?;
    refused(&user, &["only root"])?;
    let nothing = site.ferroce("nothing", &["system", "disable"])?;
    refused(&nothing, &["nothing to undo"])?;

    let own = ["up", "--addr", "127.0.0.1"];
    said(&site.ferroce("own", &own)?, &[])?;
    let stopped = site.ferroce("beside-own", &["system", "enable"])?;
    refused(&stopped, &["root's own", "ferroce down"])?;
    said(&site.ferroce("own-down", &["down"])?, &[])?;

    let real = "mkdir /dev/infiniband && mknod /dev/infiniband/uverbs0 p";
    said(&site.root("real", &["sh", "-c", real])?, &[])?;
    let stopped = site.ferroce("beside", &["system", "enable"])?;
    refused(
        &stopped,
        &["/dev/infiniband/uverbs0", "RDMA device of its own"],
    )?;
    let clear = "rm -r /dev/infiniband; chmod g+w /opt/ferroce/lib";
    said(&site.root("clear", &["sh", "-c", clear])?, &[])?;
    let open = site.ferroce("open", &["system", "enable"])?;
    refused(&open, &["/opt/ferroce/lib", "others than root"])?;
    said(
        &site.root("shut", &["chmod", "g-w", "/opt/ferroce/lib"])?,
        &[],
    )?;
    let left = difference(&before, &site.listing("after")?);
    expect(left.is_empty(), || format!("is left or missing:\n{left}"))
}

/// What `enable` would give to systemd, where one runs: here a directory says so, and a program in
/// systemctl's place writes down what it is told. systemd-analyze reads the unit.
fn unit(lab: &mut Lab) -> Ending {
    let site = Site::new(lab)?;
    let systemctl = "mkdir -p /run/systemd/system /opt/bin && \
        printf '#!/bin/sh\\necho \"$@\" >>/run/told\\n' >/opt/bin/systemctl && chmod 755 /opt/bin/systemctl";
    said(&site.root("systemctl", &["sh", "-c", systemctl])?, &[])?;
    let before = site.listing("before")?;
    let ferroce = format!("PATH=/opt/bin:$PATH {PRODUCT}/bin/ferroce system");
    let enabled = site.root("enable", &["sh", "-c", &format!("{ferroce} enable")])?;
    said(&enabled, &["journalctl"])?;

    let file = "/etc/systemd/system/ferroced.service";
    let verified = site.root("verify", &["systemd-analyze", "verify", file])?;
    expect(
        verified.success() && !verified.err.contains("ferroced.service"),
        || format!("systemd does not take the unit:\n{}", verified.err),
    )?;
    let manager = site.dir.join("manager.py");
    std::fs::write(&manager, MANAGER).map_err(anyhow::Error::from)?;
    let input = std::fs::File::open(&manager).map_err(anyhow::Error::from)?;
    let start = format!("{PRODUCT}/bin/ferroce");
    let command = site.machine.root(&[
        "/usr/bin/python3",
        "-",
        &start,
        "system",
        "start",
        "--foreground",
    ]);
    let started = process::spawn_with(command, input.into(), &site.dir, "manager")?.finish(SOON);
    said(&started, &["told: READY=1", "ended: 0"])?;

    let disabled = site.root("disable", &["sh", "-c", &format!("{ferroce} disable")])?;
    said(&disabled, &[])?;
    let told = site.root("told", &["cat", "/run/told"])?;
    let wanted = "daemon-reload\nenable --now ferroced.service\ndisable --now ferroced.service\ndaemon-reload\n";
    expect(told.out == wanted, || {
        format!("systemctl is told:\n{}", told.out)
    })?;
    // systemd-analyze leaves a file of its own.
    let others = ["rm", "-f", "/run/told", "/run/systemd/systemd-units-load"];
    said(&site.root("forget", &others)?, &[])?;
    let left = difference(&before, &site.listing("after")?);
    expect(left.is_empty(), || format!("is left or missing:\n{left}"))
}
