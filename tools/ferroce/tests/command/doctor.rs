//! `ferroce doctor`, with and without a daemon.

use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::place::Place;
use crate::text;

/// What it says, by what was looked at, and its exit status.
fn asked(place: &Place) -> (BTreeMap<String, Value>, Option<i32>) {
    let output = place.output(&["doctor", "--json"]);
    let checks: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let mut found = BTreeMap::new();
    for check in checks {
        let object = check.as_object().unwrap();
        let keys: Vec<&str> = object.keys().map(String::as_str).collect();
        assert_eq!(keys.len(), 4, "{check}");
        for key in ["check", "state", "found", "advice"] {
            assert!(object[key].is_string(), "{check}");
        }
        let ok = check["state"] == "ok";
        assert_eq!(ok, check["advice"] == "", "{check}");
        found.insert(check["check"].as_str().unwrap().to_owned(), check);
    }

    (found, output.status.code())
}

#[test]
fn it_looks_at_everything_and_leaves_nothing_behind() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let (found, status) = asked(&place);
    let expected = [
        "/dev/null",
        "/dev/shm",
        "GRO",
        "GSO",
        "IPv6 loopback",
        "UDP port 4791",
        "configuration",
        "daemon",
        "environment",
        "ferroce",
        "io_uring",
        "kernel",
        "libibverbs",
        "librdmacm",
        "locked memory",
        "loopback",
        "other devices",
        "packet steering",
        "receive buffer",
        "runtime directory",
        "seccomp",
        "send buffer",
        "shared memory",
    ];

    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, expected);
    let bad = found.values().any(|check| check["state"] == "bad");
    assert_eq!(status, Some(i32::from(bad)), "{found:#?}");
    assert!(!place.dir().exists());

    // The same in lines, the state first.
    let output = place.output(&["doctor"]);
    let lines = text(&output.stdout);
    assert_eq!(lines.lines().count(), expected.len(), "{lines}");
    let states = ["ok ", "note ", "bad "];
    for line in lines.lines() {
        assert!(states.iter().any(|state| line.starts_with(state)), "{line}");
    }
}

#[test]
fn what_is_set_is_looked_at() {
    let Some(place) = Place::new() else { return };
    let (found, _) = asked(&place);
    let none = &found["configuration"];
    assert_eq!(none["state"], "ok", "{none}");

    place.configure();
    let file = place.temp.path().join("config/ferroce/ferroce.toml");
    let (found, _) = asked(&place);
    assert_eq!(found["configuration"]["found"], file.to_str().unwrap());

    for (text, why) in [
        ("name = 7\n", ":1:8: invalid type"),
        ("stretch_timeouts = 0\n", "1 to 10000"),
        ("log = \"a=b=c\"\n", "log filter"),
    ] {
        fs::write(&file, text).unwrap();
        let (found, status) = asked(&place);
        let check = &found["configuration"];
        assert_eq!((&check["state"], status), (&"bad".into(), Some(1)));
        let words = check["found"].as_str().unwrap();
        assert!(words.starts_with(file.to_str().unwrap()), "{words}");
        assert!(words.contains(why), "{words}");
    }

    let mut doctor = place.ferroce(&["doctor"]);
    let output = doctor.env("FERROCE_GSO", "OFF").output().unwrap();
    let lines = text(&output.stdout);
    assert!(
        lines.contains("note  environment        FERROCE_GSO=OFF"),
        "{lines}"
    );
    assert!(!place.dir().exists());
}

#[test]
fn the_daemon_and_its_build_are_told() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let (found, _) = asked(&place);
    assert!(
        found["daemon"]["found"]
            .as_str()
            .unwrap()
            .starts_with("none")
    );

    let up = place.output(&["up"]);
    assert!(up.status.success(), "{up:?}");
    let (found, _) = asked(&place);
    assert_eq!(found["daemon"]["state"], "ok", "{found:#?}");
    let port = found["UDP port 4791"]["found"].as_str().unwrap();
    assert!(port.contains(&place.addr), "{port}");

    // Replaced by another file, as an upgrade does.
    let program = place.temp.path().join("ferroced");
    let beside = place.temp.path().join("newer");
    fs::copy(&program, &beside).unwrap();
    fs::rename(&beside, &program).unwrap();
    let (found, _) = asked(&place);
    assert_eq!(found["daemon"]["state"], "note", "{found:#?}");
    let advice = found["daemon"]["advice"].as_str().unwrap();
    assert!(advice.contains("replaced"), "{advice}");
}

#[test]
fn who_has_the_port_is_named() {
    let Some(place) = Place::new() else { return };
    let _socket = UdpSocket::bind((place.addr.as_str(), 4791)).unwrap();
    let (found, _) = asked(&place);
    let port = &found["UDP port 4791"];
    assert_ne!(port["state"], "ok", "{port}");
    let words = port["found"].as_str().unwrap();
    let own = format!("(process {})", std::process::id());
    let taken = words.split("; ").find(|one| one.contains(&place.addr));
    assert!(taken.is_some_and(|taken| taken.contains(&own)), "{words}");
}

#[test]
fn a_directory_that_others_could_change_is_bad() {
    let Some(place) = Place::new() else { return };
    fs::create_dir(place.dir()).unwrap();
    fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    let (found, status) = asked(&place);
    assert_eq!(found["runtime directory"]["state"], "bad", "{found:#?}");
    assert_eq!(status, Some(1));
}
