//! The program `ferroced`: background, signals, idleness, and an interface that changes under it.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use common::{PATIENCE, eventually};
use ferroce_control::{Client, Event, RuntimeDir};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ferroced");

fn fresh() -> (tempfile::TempDir, RuntimeDir) {
    let temp = tempfile::tempdir().unwrap();
    let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
    (temp, dir)
}

fn ferroced(dir: &RuntimeDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("--runtime-dir").arg(dir.path()).args(arguments);
    // The settings of whoever runs the tests are not to matter.
    command
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn stop(dir: &RuntimeDir) {
    Client::connect(dir).unwrap().shutdown().unwrap();
    eventually("the directory is gone", || !dir.path().exists());
}

#[test]
fn in_the_background_it_is_ready_when_the_command_returns() {
    let (_temp, dir) = fresh();
    let output = run(&mut ferroced(&dir, &["--addr", "127.0.7.40"]));
    assert!(output.status.success(), "{output:?}");
    let status = Client::connect(&dir).unwrap().status().unwrap();
    assert_eq!(status.gids[0].addr.to_string(), "127.0.7.40");
    assert!(
        fs::read_to_string(dir.log())
            .unwrap()
            .contains("127.0.7.40")
    );

    // A second one on the same directory, and one on the same address.
    let output = run(&mut ferroced(&dir, &["--addr", "127.0.7.41"]));
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        words.contains(&format!("another ferroced (process {})", status.pid)),
        "{words}"
    );

    let (_temp, other) = fresh();
    let output = run(&mut ferroced(&other, &["--addr", "127.0.7.40"]));
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        words.contains("UDP port 4791 of 127.0.7.40 is taken"),
        "{words}"
    );

    assert!(!other.path().exists());
    stop(&dir);
}

#[test]
fn a_file_may_hold_the_settings() {
    let (temp, dir) = fresh();
    let file = temp.path().join("f.toml");
    fs::write(&file, "addr = [\"127.0.7.42\"]\nname = \"ferroce5\"\n").unwrap();
    let output = run(ferroced(&dir, &["--config"]).arg(&file));
    assert!(output.status.success(), "{output:?}");
    let status = Client::connect(&dir).unwrap().status().unwrap();
    assert_eq!(status.device.name, "ferroce5");
    assert!(
        dir.sysfs()
            .join("class/infiniband/ferroce5/node_guid")
            .is_file()
    );

    stop(&dir);
    fs::write(&file, "colour = \"red\"\n").unwrap();
    let output = run(ferroced(&dir, &["--config"]).arg(&file));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && words.contains("colour"),
        "{words}"
    );
}

/// A daemon in the foreground.
fn foreground(mut command: Command, dir: &RuntimeDir) -> Child {
    let child = command
        .arg("--foreground")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it serves", || Client::connect(dir).is_ok());
    child
}

fn exits(child: &mut Child) -> bool {
    eventually("it has left", || child.try_wait().unwrap().is_some());
    child.wait().unwrap().success()
}

#[test]
fn signals_make_it_leave_cleanly() {
    use rustix::process::{Pid, Signal, kill_process};
    for signal in [Signal::TERM, Signal::INT] {
        let (_temp, dir) = fresh();
        let mut child = foreground(ferroced(&dir, &["--addr", "127.0.7.43"]), &dir);
        let mut client = Client::connect(&dir).unwrap();
        client.attach("witness").unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(client.wait_event(PATIENCE), Some(Event::Shutdown));
        assert!(exits(&mut child));
        assert!(!dir.path().exists());
    }
}

#[test]
fn killed_it_can_be_started_again_at_once() {
    let (_temp, dir) = fresh();
    let mut child = foreground(ferroced(&dir, &["--addr", "127.0.7.44"]), &dir);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(dir.path().exists());
    let mut child = foreground(ferroced(&dir, &["--addr", "127.0.7.44"]), &dir);
    stop(&dir);
    assert!(exits(&mut child));
}

#[test]
fn idle_it_leaves_but_not_while_somebody_is_there() {
    let (_temp, dir) = fresh();
    let mut child = foreground(
        ferroced(&dir, &["--addr", "127.0.7.45", "--idle-exit", "1"]),
        &dir,
    );
    let client = Client::connect(&dir).unwrap();
    // Nothing can be waited for here but that it does not happen.
    std::thread::sleep(Duration::from_millis(2_500));
    assert!(child.try_wait().unwrap().is_none());
    drop(client);
    assert!(exits(&mut child));
    assert!(!dir.path().exists());
}

#[test]
fn it_stays_while_a_pipe_is_held_by_which_nothing_else_can_be_done() {
    use std::io::Write;

    let (_temp, dir) = fresh();
    let mut child = foreground(
        ferroced(&dir, &["--addr", "127.0.7.48", "--idle-exit", "1"]),
        &dir,
    );

    let mut client = Client::connect(&dir).unwrap();
    let [first, second] = [client.hold().unwrap(), client.hold().unwrap()];
    drop(client);
    let mut held = fs::File::from(first.try_clone().unwrap());
    held.write_all(br#"{"v":4,"id":1,"request":"shutdown"}"#)
        .unwrap();
    assert!(rustix::net::sockopt::socket_type(&held).is_err());

    // Nothing can be waited for here but that it does not happen.
    std::thread::sleep(Duration::from_millis(2_500));
    assert!(child.try_wait().unwrap().is_none());
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let ticks: Vec<u64> = stat
        .split_whitespace()
        .skip(13)
        .take(2)
        .map(|ticks| ticks.parse().unwrap())
        .collect();

    assert!(
        ticks.iter().sum::<u64>() < 100,
        "what was written keeps it busy: {ticks:?}"
    );

    drop((first, second, held));
    assert!(exits(&mut child));
}

/// A network namespace with an interface; removed when dropped.
struct Namespace {
    name: String,
}

impl Namespace {
    fn new() -> Option<Self> {
        let name = format!("ferroced-{}", std::process::id());
        let made = Command::new("ip").args(["netns", "add", &name]).output();
        if !made.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: network namespaces are not permitted here");
            return None;
        }

        let namespace = Self { name };
        if !namespace.ip(&[
            "link", "add", "eth7", "type", "veth", "peer", "name", "eth8",
        ]) {
            eprintln!("skipped: veth interfaces are not to be had here");
            return None;
        }

        assert!(namespace.ip(&["link", "set", "eth7", "up"]));
        assert!(namespace.ip(&["link", "set", "eth8", "up"]));
        Some(namespace)
    }

    fn ip(&self, arguments: &[&str]) -> bool {
        Command::new("ip")
            .args(["-n", &self.name])
            .args(arguments)
            .status()
            .unwrap()
            .success()
    }

    fn wrap(&self, command: &Command) -> Command {
        let mut wrapped = Command::new("ip");
        wrapped
            .args(["netns", "exec", &self.name])
            .arg(command.get_program());
        wrapped
            .args(command.get_args())
            .env("XDG_CONFIG_HOME", "/nonexistent");
        wrapped
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}

fn addresses(client: &mut Client) -> Vec<(u16, String)> {
    let gids = client.gids().unwrap();
    gids.into_iter()
        .filter(|gid| !gid.addr.to_string().starts_with("fe80"))
        .map(|gid| (gid.index, gid.addr.to_string()))
        .collect()
}

#[test]
fn the_gid_table_follows_the_interface() {
    let Some(namespace) = Namespace::new() else {
        return;
    };

    assert!(namespace.ip(&["addr", "add", "10.77.0.1/24", "dev", "eth7"]));
    let (_temp, dir) = fresh();
    let command = namespace.wrap(&ferroced(&dir, &["--netdev", "eth7"]));
    let mut child = foreground(command, &dir);
    let mut client = Client::connect(&dir).unwrap();
    client.attach("watcher").unwrap();
    let first = addresses(&mut client);
    assert_eq!(first, [(0, "10.77.0.1".to_owned())]);
    let port = dir.sysfs().join("class/infiniband/ferroce0/ports/1");
    let gid_of = |index: u16| fs::read_to_string(port.join(format!("gids/{index}"))).unwrap();
    let state = || fs::read_to_string(port.join("state")).unwrap();
    assert_eq!(state(), "4: ACTIVE\n");

    let wait_for = |client: &mut Client, wanted: &[&str]| {
        eventually(&format!("{wanted:?}"), || {
            while client.try_event().is_some() {}
            addresses(client)
                .iter()
                .map(|(_, a)| a.as_str())
                .eq(wanted.iter().copied())
        });
    };

    assert!(namespace.ip(&["addr", "add", "10.77.0.2/24", "dev", "eth7"]));
    let event = client.wait_event(PATIENCE);
    assert_eq!(event, Some(Event::GidChange));
    wait_for(&mut client, &["10.77.0.1", "10.77.0.2"]);
    let second = addresses(&mut client)[1].0;
    assert!(gid_of(second).ends_with("ffff:0a4d:0002\n"));
    let socket = client.receive_socket(second).unwrap();
    drop(socket);

    assert!(namespace.ip(&["addr", "add", "fd77::1/64", "dev", "eth7", "nodad"]));
    wait_for(&mut client, &["10.77.0.1", "10.77.0.2", "fd77::1"]);
    let third = addresses(&mut client)[2].0;
    assert!(namespace.ip(&["addr", "del", "10.77.0.2/24", "dev", "eth7"]));
    wait_for(&mut client, &["10.77.0.1", "fd77::1"]);
    assert_eq!(addresses(&mut client)[1].0, third, "an index has moved");
    assert_eq!(gid_of(second), "0000:0000:0000:0000:0000:0000:0000:0000\n");
    assert_eq!(
        client.receive_socket(second).unwrap_err().errno(),
        libc::ENOENT
    );

    while client.try_event().is_some() {}
    assert!(namespace.ip(&["link", "set", "eth7", "down"]));
    let mut down = false;
    eventually("the port is down", || {
        while let Some(event) = client.try_event() {
            down |= event == Event::PortState { active: false };
        }
        down
    });

    assert_eq!(state(), "1: DOWN\n");
    assert!(namespace.ip(&["link", "set", "eth7", "up", "mtu", "9000"]));
    eventually("the port is up", || state() == "4: ACTIVE\n");
    eventually("the MTU has grown", || {
        Client::connect(&dir)
            .unwrap()
            .status()
            .unwrap()
            .device
            .active_mtu
            == 4096
    });

    assert!(Path::new(&dir.socket()).exists());
    stop(&dir);
    assert!(exits(&mut child));
}

#[test]
fn without_descriptors_it_refuses_and_shuts_its_doors_for_a_while() {
    use ferroce_control::seqpacket;
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    let (_temp, dir) = fresh();
    assert!(
        run(&mut ferroced(&dir, &["--addr", "127.0.7.47"]))
            .status
            .success()
    );

    let mut steady = Client::connect(&dir).unwrap();
    steady.attach("steady").unwrap();
    let mut late = Client::connect(&dir).unwrap();
    let daemon = Pid::from_raw(late.status().unwrap().pid as i32);

    // No number is below this limit, so that there is no descriptor whatever is closed meanwhile.
    let none = Rlimit {
        current: Some(0),
        ..rustix::process::getrlimit(Resource::Nofile)
    };
    let usual = prlimit(daemon, Resource::Nofile, none).unwrap();

    assert_eq!(late.attach("late").unwrap_err().errno(), libc::ENFILE);
    assert_eq!(
        steady.receive_socket(0).unwrap_err().errno(),
        libc::ENFILE,
        "not EMFILE, which would mean the program's own"
    );

    assert_eq!(steady.gids().unwrap().len(), 1);
    let doors = [dir.socket(), dir.rdma_cm(), dir.umad()];
    let _knocking = doors
        .each_ref()
        .map(|path| seqpacket::connect(path).unwrap());
    let times = |words: &str| {
        let log = fs::read_to_string(dir.log()).unwrap();
        log.lines().filter(|line| line.contains(words)).count()
    };
    eventually("it has said so of each door", || {
        times("cannot let programs in") == doors.len()
    });
    assert_eq!(late.status().unwrap().clients[0].name, "steady");

    prlimit(daemon, Resource::Nofile, usual).unwrap();

    // Who waits is let in, and who comes.
    assert_eq!(Client::connect(&dir).unwrap().gids().unwrap().len(), 1);
    eventually("each door is open", || {
        times("lets programs in again") == doors.len()
    });
    assert_eq!(times("cannot let programs in"), doors.len());
    late.attach("late").unwrap();
    steady.receive_socket(0).unwrap();
    stop(&dir);
}
