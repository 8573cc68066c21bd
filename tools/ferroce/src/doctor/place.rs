//! Where the device is, or would be: the runtime directory, the daemon, the port, and whose other
//! devices there are.

use std::env;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ferroce_control::{Client, ControlError, RuntimeDir, Status, holder, process};
use ferroce_wire::ROCE_V2_PORT;
use rustix::fs::{CWD, Dir, Mode, OFlags};

use super::Check;

const DAEMON: &str = "daemon";
const UDP_PORT: &str = "UDP port 4791";

pub(super) fn checks(dir: &RuntimeDir) -> Vec<Check> {
    let connected = Client::connect(dir).and_then(|mut client| client.status());
    let port = match &connected {
        Ok(status) => served(status),
        Err(_) => unserved(&holder::of_port(ROCE_V2_PORT), rxe_is_loaded()),
    };
    vec![directory(dir), daemon(dir, connected), port, others()]
}

/// Made, if there is none, and removed again.
fn directory(dir: &RuntimeDir) -> Check {
    const NAME: &str = "runtime directory";
    match dir.prepare() {
        Ok(_) => Check::ok(NAME, dir.path().display().to_string()),
        Err(error) => Check::bad(
            NAME,
            error.to_string(),
            "daemon and programs meet there: nothing works without",
        ),
    }
}

fn daemon(dir: &RuntimeDir, connected: Result<Status, ControlError>) -> Check {
    match connected {
        Ok(status) => {
            let exe = fs::read_link(format!("/proc/{}/exe", status.pid)).ok();
            running(&status.version, status.pid, exe.as_deref(), &beside())
        }
        Err(ControlError::NotRunning { .. }) if dir.settings().is_file() => Check::note(
            DAEMON,
            format!("has died; {} may say why", dir.log().display()),
            "`ferroce run` and `ferroce env` start it as it was, `ferroce down` forgets it",
        ),
        Err(ControlError::NotRunning { .. }) => Check::ok(
            DAEMON,
            "none; `ferroce run`, `ferroce env` and `ferroce up` start one",
        ),
        Err(error) => Check::bad(
            DAEMON,
            error.to_string(),
            "programs cannot open the device: end that daemon (`ferroce down` of its own build), \
             or choose another runtime directory",
        ),
    }
}

/// The daemon that this program would start.
fn beside() -> PathBuf {
    let exe = env::current_exe().unwrap_or_default();
    exe.with_file_name("ferroced")
}

/// `exe`: the daemon's program, as far as this user may know; `ours`: the one that belongs to this.
fn running(version: &str, pid: u32, exe: Option<&Path>, ours: &Path) -> Check {
    let own = env!("CARGO_PKG_VERSION");
    let who = format!("{version}, {}", process::describe(pid));
    let anew = "`ferroce down` and `ferroce up` start this one";
    match exe {
        _ if version != own => Check::note(DAEMON, who, format!("this is {own}: {anew}")),
        // What the kernel says of a program that was removed, or replaced by a newer.
        Some(exe) if exe.to_string_lossy().ends_with(" (deleted)") => {
            let advice = format!("its program has been replaced since it was started: {anew}");
            Check::note(DAEMON, who, advice)
        }
        Some(exe) if exe != fs::canonicalize(ours).unwrap_or_else(|_| ours.into()) => {
            let advice = format!("it is {}, of another installation: {anew}", exe.display());
            Check::note(DAEMON, who, advice)
        }
        _ => Check::ok(DAEMON, who),
    }
}

/// The daemon has what it needs.
fn served(status: &Status) -> Check {
    let name = &status.device.name;
    let addrs: Vec<String> = status.gids.iter().map(|gid| gid.addr.to_string()).collect();
    match status.device.ib_ports {
        0 => Check::ok(UDP_PORT, format!("{name} has it at {}", addrs.join(", "))),
        _ => Check::ok(UDP_PORT, format!("{name} has cables instead")),
    }
}

/// Whether there is room for a device that is started now. `rxe`: the kernel has its soft-RoCE.
fn unserved(holders: &[(IpAddr, String)], rxe: bool) -> Check {
    if holders.is_empty() {
        return Check::ok(UDP_PORT, "free at all addresses");
    }

    let found: Vec<String> = holders
        .iter()
        .map(|(ip, who)| match (ip.is_unspecified(), who.as_str()) {
            (true, who) => format!("taken at all addresses{who}"),
            (false, who) => format!("taken at {ip}{who}"),
        })
        .collect();
    let found = found.join("; ");

    // One that has the port at all IPv6 addresses may leave IPv4 alone, or not: no more is known.
    if !holders.iter().any(|(ip, _)| ip.is_unspecified()) {
        let advice = "a device needs another address: `ferroce run` looks for a free one of the \
                      loopback interface, `ferroce up --addr` takes the one you name";
        return Check::note(UDP_PORT, found, advice);
    }

    match rxe {
        true => Check::bad(
            UDP_PORT,
            found,
            "if it is the kernel's rdma_rxe, `rdma link delete` of its devices and `modprobe -r \
             rdma_rxe` free it; else end that program; or use a network namespace",
        ),
        false => Check::bad(
            UDP_PORT,
            found,
            "end that program, or use a network namespace",
        ),
    }
}

fn rxe_is_loaded() -> bool {
    Path::new("/sys/module/rdma_rxe").exists()
}

/// Devices of the kernel's. Asked past the C library, as the shim would show the daemon's image to
/// this program, too, where a shell has evaluated `ferroce env`.
fn others() -> Check {
    const NAME: &str = "other devices";
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let class = rustix::fs::openat(CWD, "/sys/class/infiniband", flags, Mode::empty());
    let entries = class.and_then(Dir::new).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();

    match names.is_empty() {
        true => Check::ok(NAME, "none"),
        false => Check::ok(NAME, format!("{}; programs see them too", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn a_taken_port_is_as_bad_as_it_leaves_no_address() {
        let at = |ip: &str| (ip.parse().unwrap(), " by x (process 7)".to_owned());
        assert_eq!(unserved(&[], false).state, State::Ok);
        let check = unserved(&[at("127.0.0.1")], false);
        assert_eq!(check.state, State::Note);
        assert_eq!(check.found, "taken at 127.0.0.1 by x (process 7)");
        let check = unserved(&[at("127.0.0.1"), at("0.0.0.0")], false);
        assert_eq!(check.state, State::Bad);
        assert!(!check.advice.contains("rdma_rxe"), "{check:?}");
        assert!(unserved(&[at("::")], true).advice.contains("rdma_rxe"));
    }

    #[test]
    fn a_daemon_of_another_build_is_told_apart() {
        let own = env!("CARGO_PKG_VERSION");
        let ours = Path::new("/opt/x/bin/ferroced");
        let said = |version, exe: Option<&str>| running(version, 1, exe.map(Path::new), ours);
        assert_eq!(said(own, Some("/opt/x/bin/ferroced")).state, State::Ok);
        assert_eq!(said(own, None).state, State::Ok);
        let older = said("0.0.1", Some("/opt/x/bin/ferroced"));
        assert!(older.advice.contains(own), "{older:?}");
        let replaced = said(own, Some("/opt/x/bin/ferroced (deleted)"));
        assert!(replaced.advice.contains("replaced"), "{replaced:?}");
        let other = said(own, Some("/opt/y/bin/ferroced"));
        assert!(other.advice.contains("/opt/y/bin/ferroced"), "{other:?}");
    }
}
