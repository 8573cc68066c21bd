//! The command as its users meet it, with the daemon beside it. The shared objects are stand-ins:
//! what they do is tested with the stock programs elsewhere.

#[path = "command/blind.rs"]
mod blind;
#[path = "command/configured.rs"]
mod configured;
#[path = "command/doctor.rs"]
mod doctor;
#[path = "command/env.rs"]
mod env;
#[path = "command/json.rs"]
mod json;
#[path = "command/metrics.rs"]
mod metrics;
#[path = "command/place.rs"]
mod place;
#[path = "command/statuses.rs"]
mod statuses;
#[path = "command/wait.rs"]
mod wait;

use ferroce_cabi::pabi;
use place::Place;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn up_status_devices_down() {
    let Some(place) = Place::new() else { return };
    let output = place.output(&["status"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("`ferroce up`"), "{output:?}");

    let addr = place.addr.as_str();
    let output = place.output(&["up", "--addr", addr, "--name", "soft1"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout), format!("soft1 is up at {addr}\n"));
    assert_eq!(text(&output.stderr), "");
    let output = place.output(&["up", "--addr", "127.0.7.59"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("another ferroced"),
        "{output:?}"
    );

    let output = place.output(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["device"]["name"], "soft1");
    assert_eq!(status["gids"][0]["addr"], addr);
    let output = text(&place.output(&["status"]).stdout);
    assert!(
        output.contains("port 1: ACTIVE") && output.contains(addr),
        "{output}"
    );

    let output = text(&place.output(&["devices"]).stdout);
    assert!(
        output
            .lines()
            .any(|l| l.starts_with("soft1 ") && l.contains("ACTIVE")),
        "{output}"
    );

    let output = place.output(&["down"]);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );

    assert!(!place.dir().exists());
    assert_eq!(place.output(&["down"]).status.code(), Some(1));
}

#[test]
fn first_uses_at_once_start_one_daemon() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let print = "echo $LD_PRELOAD $RDMAV_DRIVERS $FERROCE_RUNTIME_DIR; exit 7";
    let children: Vec<_> = (0..8)
        .map(|_| {
            place
                .ferroce(&["run", "--", "sh", "-c", print])
                .env("RDMAV_DRIVERS", "mine")
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();

    let lib = place.dir().join("lib");
    let expected = format!(
        "{}/libferroce_shim.so mine:{}/libferroce {}\n",
        place.temp.path().display(),
        lib.display(),
        place.dir().display()
    );

    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(text(&output.stderr), "");
        assert_eq!(text(&output.stdout), expected);
        assert_eq!(output.status.code(), Some(7));
    }

    let links = fs::read_dir(&lib).unwrap().flatten();
    let names: Vec<_> = links
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), pabi::numbers().count(), "{names:?}");
    for number in pabi::numbers() {
        let driver = lib.join(pabi::driver_file("libferroce", number));
        assert!(driver.is_file(), "{}", driver.display());
    }
}

#[test]
fn who_comes_while_the_daemon_leaves_gets_another() {
    let Some(place) = Place::new() else { return };
    place.configure();
    for _ in 0..5 {
        assert!(place.output(&["run", "--", "true"]).status.success());
        let mut down = place.ferroce(&["down"]).spawn().unwrap();
        let output = place.output(&["run", "--", "true"]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(text(&output.stderr), "");
        assert!(down.wait().unwrap().success());
    }
}

#[test]
fn programs_that_cannot_be_run_have_the_usual_status() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let output = place.output(&["run", "--", "no-such-program"]);
    assert_eq!(output.status.code(), Some(127), "{output:?}");
    assert!(text(&output.stderr).contains("no-such-program"));
    let output = place.output(&["run", "--", "/etc/passwd"]);
    assert_eq!(output.status.code(), Some(126), "{output:?}");
    assert_eq!(place.output(&["run"]).status.code(), Some(2));
}

#[test]
fn an_idle_daemon_stays_while_the_program_has_yet_to_open_the_device() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let mut child = place
        .ferroce(&["run", "--idle-exit", "1", "--", "sleep", "3"])
        .spawn()
        .unwrap();

    let start = Instant::now();
    while !place.dir().join("ferroced.sock").exists() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "no daemon was started"
        );
        std::thread::sleep(Duration::from_millis(10));
    }

    assert!(child.wait().unwrap().success());
    assert!(
        place.dir().join("ferroced.sock").exists(),
        "it left under the program's feet"
    );

    while place.dir().exists() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "it does not leave"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What programs inherit, and those that they start under other users, must not be a way to the
/// daemon.
#[test]
fn a_program_inherits_nothing_but_the_end_of_a_pipe() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let list = "readlink /proc/self/fd/100; echo request >&100";
    let output = place
        .ferroce(&["run", "--", "bash", "-c", list])
        .output()
        .unwrap();
    let (said, complaints) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{output:?}");
    assert!(said.starts_with("pipe:"), "{said}");
    assert_eq!(complaints, "");
    assert!(place.output(&["status"]).status.success());
}

/// Whoever waits for the end of something that he has open must not wait for the daemon's.
#[test]
fn a_daemon_keeps_nothing_that_its_starter_has_open() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let file = place.temp.path().join("somebodys");
    let line = format!(
        "exec 7>{}; exec {} up",
        file.display(),
        place.temp.path().join("ferroce").display()
    );
    let output = Command::new("sh")
        .args(["-c", &line])
        .env("FERROCE_RUNTIME_DIR", place.dir())
        .env("XDG_CONFIG_HOME", place.temp.path().join("config"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");

    let status = place.output(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let open = fs::read_dir(format!("/proc/{}/fd", status["pid"])).unwrap();
    let mut open = open.flatten().map(|entry| fs::read_link(entry.path()));
    assert!(open.all(|link| link.is_ok_and(|link| link != file)));
}

/// A limit of open files below the number where things are put out of the way.
#[test]
fn few_descriptors_are_enough() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let up = place.output(&["up"]);
    assert!(up.status.success(), "{up:?}");
    let few = format!(
        "ulimit -n 40; exec {} run -- true",
        place.temp.path().join("ferroce").display()
    );

    let output = Command::new("sh")
        .args(["-c", &few])
        .env("FERROCE_RUNTIME_DIR", place.dir())
        .env("XDG_CONFIG_HOME", place.temp.path().join("config"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Somebody else has been starting a daemon for too long: he is named.
#[test]
fn who_starts_a_daemon_and_does_not_finish_is_named() {
    let Some(place) = Place::new() else { return };
    place.configure();
    assert!(place.output(&["up"]).status.success());

    // Killed, it leaves the directory and its marker behind.
    let status = place.output(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let pid = rustix::process::Pid::from_raw(status["pid"].as_i64().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let hold = "import fcntl, os, signal, sys\n\
        f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX)\n\
        print('held', flush=True); os.kill(os.getpid(), signal.SIGSTOP)";
    let holder = Command::new("python3")
        .args(["-c", hold])
        .arg(place.dir().join(".ferroce-runtime"))
        .stdout(Stdio::piped())
        .spawn();

    let Ok(mut holder) = holder else {
        eprintln!("skipped: there is no python3");
        return;
    };

    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(holder.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();

    assert_eq!(line, "held\n");
    let start = Instant::now();
    let output = place.output(&["run", "--", "true"]);
    holder.kill().unwrap();
    holder.wait().unwrap();
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(start.elapsed() < Duration::from_secs(60));
    assert!(
        words.contains("which is stopped") && words.contains(&format!("process {}", holder.id())),
        "{words}"
    );

    // And then it is started as it was.
    let output = place.output(&["run", "--", "true"]);
    assert!(output.status.success(), "{output:?}");
    assert!(
        text(&output.stderr).contains(&format!("up again at {}", place.addr)),
        "{output:?}"
    );
}

#[test]
fn a_directory_with_somebodys_files_is_left_alone() {
    let Some(place) = Place::new() else { return };
    place.configure();
    for name in ["lib", "sys", "dev"] {
        fs::create_dir_all(place.dir().join(name)).unwrap();
    }
    for arguments in [&["up"][..], &["run", "--", "true"], &["down"]] {
        let output = place.output(arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }

    assert!(text(&place.output(&["up"]).stderr).contains("is not empty"));
    assert_eq!(fs::read_dir(place.dir()).unwrap().count(), 3);
    fs::remove_dir_all(place.dir()).unwrap();

    // An empty one is used, and left as it was.
    fs::create_dir(place.dir()).unwrap();
    assert!(place.output(&["up"]).status.success());
    assert!(place.output(&["down"]).status.success());
    assert_eq!(fs::read_dir(place.dir()).unwrap().count(), 0);
}

#[test]
fn a_daemon_that_cannot_start_says_why() {
    let Some(place) = Place::new() else { return };
    place.configure_at("203.0.113.9");
    for arguments in [&["up"][..], &["run", "--", "true"]] {
        let output = place.output(arguments);
        assert_eq!(output.status.code(), Some(1));
        let words = text(&output.stderr);
        assert!(
            words.contains("203.0.113.9 is not an address of this host"),
            "{words}"
        );
    }
}

/// A stand-in for libibverbs that has nothing but a private ABI.
fn libibverbs(dir: &Path, number: u32) {
    let source = dir.join("stand_in.c");
    let text = format!(
        "void verbs_register_driver_{number}(void) {{}}\nvoid ibv_get_device_list(void) {{}}\n\
         void ibv_create_comp_cntr(void) {{}}\n"
    );
    fs::write(&source, text).unwrap();
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1", "-o"])
        .args([&dir.join("libibverbs.so.1"), &source])
        .status()
        .expect("a C compiler");
    assert!(status.success());
}

#[test]
fn a_libibverbs_without_driver_is_named() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let library = place.temp.path().join("library");
    fs::create_dir(&library).unwrap();
    let output = |arguments: &[&str]| {
        let mut command = place.ferroce(arguments);
        command.env("LD_LIBRARY_PATH", &library).output().unwrap()
    };

    for number in [25, 66] {
        libibverbs(&library, number);
        let file = library.join("libibverbs.so.1");
        let expected = format!(
            "{} has private ABI {number}; supported are ",
            file.display()
        );
        let checked = output(&["devices", "--check"]);
        assert_eq!(checked.status.code(), Some(1), "{checked:?}");
        assert!(text(&checked.stderr).contains(&expected), "{checked:?}");
        let run = output(&["run", "--", "sh", "-c", "exit 7"]);
        assert_eq!(run.status.code(), Some(7), "{run:?}");
        assert!(text(&run.stderr).contains(&expected), "{run:?}");
        assert_eq!(text(&run.stderr).lines().count(), 1, "{run:?}");
    }

    libibverbs(&library, 65);
    let checked = output(&["devices", "--check"]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    assert!(
        text(&checked.stdout).contains("private ABI 65"),
        "{checked:?}"
    );

    let run = output(&["run", "--", "true"]);
    assert_eq!(text(&run.stderr), "");
}
