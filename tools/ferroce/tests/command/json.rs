//! What `devices` and `status` say of ports, for programs.

use serde_json::Value;

use crate::place::Place;

/// The ports that both list, which are the same.
fn ports(place: &Place) -> Vec<Value> {
    let read = |arguments: &[&str]| -> Value {
        let output = place.output(arguments);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let devices = read(&["devices", "--json"]);
    let devices = devices.as_array().unwrap().iter();
    let ours: Vec<Value> = devices
        .filter(|port| port["ferroce"] == true)
        .cloned()
        .collect();
    let status = read(&["status", "--json"]);
    assert_eq!(status["ports"].as_array(), Some(&ours));
    assert_eq!(ours[0]["device"], status["device"]["name"]);
    ours
}

/// A list is an array of objects, and what has a name is found by it.
#[test]
fn lists_are_arrays_of_objects() {
    let Some(place) = Place::new() else { return };
    let up = place.output(&["up", "--addr", &place.addr]);
    assert!(up.status.success(), "{up:?}");
    let read = |arguments: &[&str]| -> Value {
        let output = place.output(arguments);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };

    let status = read(&["status", "--json"]);
    assert!(status["counters"]["sent_pkts"].is_u64(), "{status}");
    let lists = [
        &read(&["devices", "--json"]),
        &read(&["doctor", "--json"]),
        &status["gids"],
        &status["ports"],
    ];
    for list in lists {
        let items = list.as_array().unwrap_or_else(|| panic!("{list}"));
        let objects = items.iter().all(Value::is_object);
        assert!(!items.is_empty() && objects, "{list}");
    }
}

#[test]
fn they_agree_about_a_roce_port() {
    let Some(place) = Place::new() else { return };
    let up = place.output(&["up", "--addr", &place.addr]);
    assert!(up.status.success(), "{up:?}");
    let ports = ports(&place);
    assert_eq!(ports.len(), 1);
    assert_eq!(ports[0]["link_layer"], "Ethernet");
    assert_eq!(ports[0]["state"], "ACTIVE");
    assert_eq!(ports[0]["netdevs"], serde_json::json!(["lo"]));
}

#[test]
fn they_agree_about_infiniband_ports() {
    let Some(place) = Place::new() else { return };
    let mut arguments = vec!["up", "--link-layer", "infiniband"];
    let cable = |port: u16| format!("{0}:{port}={0}:{1}", place.addr, port + 100);
    let cables = [cable(7101), cable(7102)];
    for cable in &cables {
        arguments.extend(["--cable", cable]);
    }
    let up = place.output(&arguments);
    assert!(up.status.success(), "{up:?}");

    let ports = ports(&place);
    assert_eq!(ports.len(), 2);
    for (i, port) in ports.iter().enumerate() {
        assert_eq!(port["port"], i + 1);
        assert_eq!(port["link_layer"], "InfiniBand");
        // Nobody is at the other end.
        assert_eq!(port["state"], "DOWN");
        assert_eq!(port["lid"], 0);
    }
}
