//! Exit statuses, as `ferroce --help` has them: 0 if all went well, 1 if not, 2 if the command line
//! makes no sense; of `ferroce run` the program's, 127 if there is none and 126 if it cannot be
//! run.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use crate::place::Place;
use crate::text;

/// What has to say why on standard error, and nothing else there.
fn ends(place: &Place, arguments: &[&str], status: i32) {
    let output = place.output(arguments);
    assert_eq!(
        output.status.code(),
        Some(status),
        "{arguments:?}: {output:?}"
    );
    let says = !output.stderr.is_empty();
    assert_eq!(says, status != 0, "{arguments:?}: {output:?}");
}

#[test]
fn without_a_daemon() {
    let Some(place) = Place::new() else { return };
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["devices"],
        &["devices", "--json"],
        &["down"],
        &["wait", "--timeout", "0"],
        &["wait", "9", "--timeout", "0"],
        &["up", "--addr", "203.0.113.9"],
        &["up", "--config", "/no/such/file"],
        &["up", "--netdev", "no-such-interface"],
        &["fault", "add", "--loss", "1%"],
    ] {
        ends(&place, arguments, 1);
    }
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["env", "--unset"],
        &["env", "--unset", "--fish"],
        &["env", "--unset", "--csh"],
        &["env", "--unset", "--json"],
    ] {
        ends(&place, arguments, 0);
    }
}

#[test]
fn with_a_daemon() {
    let Some(place) = Place::new() else { return };
    place.configure();
    ends(&place, &["up"], 0);
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["devices"],
        &["devices", "--json"],
        &["env"],
        &["env", "--fish"],
        &["env", "--csh"],
        &["env", "--json"],
        &["env", "--github"],
        &["env", "--dotenv"],
        &["wait", "--timeout", "5"],
        &["run", "--", "true"],
    ] {
        ends(&place, arguments, 0);
    }
    ends(&place, &["up"], 1);
    ends(&place, &["down"], 0);
}

/// A cable, which fits to one port.
const ONE_CABLE: [&str; 2] = ["--cable", "127.0.0.1:7101=127.0.0.2:7101"];

#[test]
fn command_lines_that_make_no_sense() {
    let Some(place) = Place::new() else { return };
    for arguments in [
        &[][..],
        &["no-such-command"],
        &["up", "--no-such-option"],
        &["up", "--stretch-timeouts", "x"],
        &["up", "--idle-exit", "-1"],
        &["run"],
        &["env", "--fish", "--csh"],
        &["env", "--unset", "--github"],
        &["env", "--unset", "--dotenv"],
        &["wait", "0"],
        &["wait", "65536"],
        &["wait", "18515", "--timeout", "long"],
        &["switch"],
        &["switch", "--ports", "1", "--cable", "127.0.0.1:1=nonsense"],
        &["up", "--link-layer", "infiniband", "--cable", "nonsense"],
        &["up", "--congestion", "hope"],
        &["up", "--name", "a/b"],
        &["up", "--stretch-timeouts", "0"],
        &["up", "--stretch-timeouts", "10001"],
        &["up", "--addr", "127.0.0.1", "--addr", "127.0.0.1"],
        &["up", "--cable", "127.0.0.1:1=127.0.0.2:1"],
        &["up", "--link-layer", "infiniband"],
        &["switch", "--ports", "0"],
        &["switch", "--ports", "255"],
        &[&["switch", "--ports", "1"][..], &ONE_CABLE, &ONE_CABLE].concat(),
        &["fault", "add"],
        &["fault", "add", "--rnr", "--reorder"],
        &["fault", "add", "--nth", "0"],
        &["fault", "add", "--loss", "1%", "--qp", "0"],
        &["capture", "--json", "-w", "-"],
        &["cdi", "generate", "--output", "x.txt"],
        &["cdi", "generate", "--output", "x.json", "--format", "yaml"],
        &["system", "status", "--runtime-dir", "/elsewhere"],
        &["devices", "--check", "--json"],
        &["status", "too", "much"],
    ] {
        ends(&place, arguments, 2);
    }
}

#[test]
fn run_has_the_programs() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let plain = place.temp.path().join("plain");
    fs::write(&plain, "not a program\n").unwrap();
    let plain = plain.to_str().unwrap();
    let program = |line| ["run", "--", "sh", "-c", line];
    for (arguments, status) in [
        (&program("exit 0")[..], 0),
        (&program("echo why >&2; exit 1"), 1),
        (&program("echo why >&2; exit 2"), 2),
        (&program("echo why >&2; exit 77"), 77),
        (&["run", "--", "no-such-program"], 127),
        (&["run", "--", "/no/such/program"], 127),
        (&["run", "--", plain], 126),
        (&["run", "--", "/"], 126),
    ] {
        ends(&place, arguments, status);
    }

    let killed = place.output(&program("kill -TERM $$"));
    assert_eq!(killed.status.signal(), Some(15), "{killed:?}");
}

/// What it looks at decides, not whether it could print.
#[test]
fn doctor_says_by_its_status_whether_something_is_bad() {
    let Some(place) = Place::new() else { return };
    for name in ["libferroce_shim.so", "libferroce_provider.so"] {
        let output = place.output(&["doctor", "--json"]);
        let checks: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let bad = checks.as_array().unwrap().iter();
        let bad = bad.filter(|check| check["state"] == "bad").count();
        assert_eq!(output.status.code(), Some(i32::from(bad > 0)), "{output:?}");

        // What needs something done says what, in words.
        let silent = |check: &&serde_json::Value| {
            check["state"] != "ok" && check["advice"].as_str().is_none_or(str::is_empty)
        };
        let silent: Vec<_> = checks.as_array().unwrap().iter().filter(silent).collect();
        assert!(silent.is_empty(), "{silent:?}");
        fs::remove_file(place.temp.path().join(name)).unwrap();
    }

    let output = place.output(&["doctor"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stdout).contains("\nbad "), "{output:?}");
}
