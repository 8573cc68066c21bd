//! `ferroce wait`: what a script has between a server and its client.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::place::Place;
use crate::text;

#[test]
fn it_returns_as_soon_as_somebody_listens_and_connects_to_nobody() {
    let Some(place) = Place::new() else { return };
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);

    let mut waiting = place
        .ferroce(&["wait", &port.to_string(), "--timeout", "60"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Nothing can be waited for here but that it does not happen.
    std::thread::sleep(Duration::from_millis(300));
    assert!(waiting.try_wait().unwrap().is_none(), "nobody listens yet");

    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    assert!(waiting.wait().unwrap().success());
    listener.set_nonblocking(true).unwrap();
    let nobody = listener.accept().unwrap_err();
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_time_that_is_over_is_said_with_what_was_waited_for() {
    let Some(place) = Place::new() else { return };
    let start = Instant::now();
    let output = place.output(&["wait", "9", "--timeout", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(start.elapsed() >= Duration::from_secs(1));
    let words = text(&output.stderr);
    assert!(
        words.contains("port 9") && words.contains("after 1 s"),
        "{words}"
    );
}

#[test]
fn ports_that_are_not_active_are_named() {
    let Some(place) = Place::new() else { return };
    let none = place.output(&["wait", "--timeout", "0"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("`ferroce up`"), "{none:?}");

    let cable = format!("{0}:7103={0}:7104", place.addr);
    let up = place.output(&["up", "--link-layer", "infiniband", "--cable", &cable]);
    assert!(up.status.success(), "{up:?}");
    let output = place.output(&["wait", "--timeout", "0"]);
    assert_eq!(output.status.code(), Some(1));
    let words = text(&output.stderr);
    assert!(words.contains("port 1 of ferroce0 is DOWN"), "{words}");
    assert!(words.contains("opensm"), "{words}");
}
