//! Tests of `deploy/kubernetes`: the manifests are read, and say what the plugin needs.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use clap::Parser;
use serde::Deserialize;
use serde_norway::Value;

use crate::Arguments;

/// The documents of a file.
fn documents(name: &str) -> Vec<Value> {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes");
    let text = fs::read_to_string(deploy.join(name)).unwrap();
    let documents = serde_norway::Deserializer::from_str(&text);
    documents
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_sequence().expect("a list")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// The container's command line.
fn words(container: &Value) -> Vec<&str> {
    list(&container["command"]).iter().map(text).collect()
}

#[test]
fn the_daemon_set_runs_both_from_the_same_places_as_on_the_node() {
    let [set] = &documents("daemonset.yaml")[..] else {
        panic!("one document");
    };
    assert_eq!(text(&set["kind"]), "DaemonSet");
    let labels = &set["spec"]["selector"]["matchLabels"];
    let template = &set["spec"]["template"];
    assert_eq!(labels, &template["metadata"]["labels"]);

    // What the plugin tells the kubelet are paths of the node.
    let pod = &template["spec"];
    let volumes: HashMap<_, _> = list(&pod["volumes"])
        .iter()
        .map(|volume| (text(&volume["name"]), text(&volume["hostPath"]["path"])))
        .collect();
    let containers = list(&pod["containers"]).iter();
    for container in containers.chain(list(&pod["initContainers"])) {
        for mount in list(&container["volumeMounts"]) {
            assert_eq!(volumes[text(&mount["name"])], text(&mount["mountPath"]));
        }
    }

    let [daemon, plugin] = list(&pod["containers"]) else {
        panic!("two containers");
    };
    let (daemon, plugin) = (words(daemon), words(plugin));
    let same = |words: &[&str]| words[..3].join(" ");
    assert_eq!(same(&daemon), same(&plugin));
    assert_eq!(daemon[3..5], ["up", "--foreground"]);

    // As `ferroce` splits them.
    assert_eq!(plugin[3], "k8s-device-plugin");
    let arguments = Arguments::try_parse_from(&plugin[3..]).unwrap();
    assert!(
        volumes
            .values()
            .any(|path| Path::new(path) == arguments.kubelet_dir)
    );
    assert!(volumes.values().any(|path| plugin[2] == *path));
    assert!(volumes.values().any(|path| plugin[0].starts_with(path)));
}

#[test]
fn the_pods_ask_for_what_the_plugin_offers() {
    let resource = Arguments::try_parse_from(["x"]).unwrap().resource;
    let documents = documents("pods.yaml");
    let pods = documents.iter().filter(|found| found["kind"] == "Pod");
    let limits = |pod: &Value| pod["spec"]["containers"][0]["resources"]["limits"].clone();
    let asked: Vec<_> = pods
        .map(|pod| limits(pod)[resource.as_str()].as_u64())
        .collect();
    assert_eq!(asked, [Some(1), Some(1)]);
}
