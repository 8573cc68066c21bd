//! What `metrics` prints; that others can read it is tested with their parser elsewhere.

use crate::place::Place;
use crate::text;

#[test]
fn there_are_none_without_a_daemon() {
    let Some(place) = Place::new() else { return };
    let output = place.output(&["metrics"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("`ferroce up`"), "{output:?}");
}

#[test]
fn each_counter_is_a_line() {
    let Some(place) = Place::new() else { return };
    let up = place.output(&["up", "--addr", &place.addr, "--name", "soft1"]);
    assert!(up.status.success(), "{up:?}");

    let metrics = text(&place.output(&["metrics"]).stdout);
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    assert!(metrics.contains("\nferroce_up 1"), "{metrics}");
    let counter = "ferroce_rcvd_pkts_total{device=\"soft1\"} 0";
    assert!(metrics.lines().any(|line| line == counter), "{metrics}");
}

#[test]
fn an_address_that_is_taken_is_named() {
    let Some(place) = Place::new() else { return };
    let taken = std::net::TcpListener::bind((place.addr.as_str(), 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = place.output(&["metrics", "--listen", &address]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(&address), "{output:?}");
}
