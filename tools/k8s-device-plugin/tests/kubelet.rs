//! The plugin beside a stand-in for the kubelet, over the real API, with the real daemon. What a
//! pod's programs then see is tried with containers, in `cargo xtask test containers`.

#[allow(dead_code, reason = "the plugin uses the other half")]
#[path = "../src/api.rs"]
mod api;
#[path = "kubelet/node.rs"]
mod node;

use std::time::Duration;

use api::{AllocateRequest, ContainerAllocateRequest, Empty, ListAndWatchResponse};
use node::{Kubelet, Node, Plugin};
use tonic::{Code, Streaming};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(60);

async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(LIMIT, happens).await;
    waited.unwrap_or_else(|_| panic!("{what}: not within {LIMIT:?}"))
}

/// The next list in which all devices have this health.
async fn until(lists: &mut Streaming<ListAndWatchResponse>, health: &str) {
    loop {
        let list = soon(health, lists.message()).await.unwrap();
        let list = list.expect("the stream ended");
        let ids: Vec<_> = list.devices.iter().map(|device| &*device.id).collect();
        assert_eq!(ids, ["rdma-0", "rdma-1", "rdma-2"]);
        if list.devices.iter().all(|device| device.health == health) {
            return;
        }
    }
}

fn request(containers: &[&[&str]]) -> AllocateRequest {
    let requests = containers.iter().map(|ids| ContainerAllocateRequest {
        device_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
    });
    AllocateRequest {
        container_requests: requests.collect(),
    }
}

#[tokio::test]
async fn devices_are_as_healthy_as_the_daemon_and_containers_get_what_cdi_says() {
    let Some(node) = Node::new() else { return };
    let plugin = Plugin::start(&node, &["--devices", "3"]);

    // The kubelet comes after the plugin.
    let mut kubelet = Kubelet::start(&node);
    let registered = soon("registration", kubelet.registered()).await;
    assert_eq!(registered.version, "v1beta1");
    assert_eq!(registered.resource_name, "ferroce.dev/rdma");

    let mut client = node.client(&registered.endpoint).await;
    let options = client.get_device_plugin_options(Empty {}).await.unwrap();
    assert!(!options.into_inner().pre_start_required);

    let lists = client.list_and_watch(Empty {}).await.unwrap();
    let mut lists = lists.into_inner();
    until(&mut lists, api::UNHEALTHY).await;
    let refused = client.allocate(request(&[&["rdma-0"]])).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("ferroced"), "{refused}");

    node.ferroce(&["up", "--addr", &node.addr]);
    until(&mut lists, api::HEALTHY).await;
    let allocated = client.allocate(request(&[&["rdma-0"], &["rdma-1", "rdma-2"]]));
    let allocated = allocated.await.unwrap().into_inner().container_responses;
    assert_eq!(allocated.len(), 2);
    for container in &allocated {
        node.assert_as_cdi_says(container);
    }

    let refused = client.allocate(request(&[&["rdma-3"]])).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.message().contains("rdma-3"), "{refused}");

    node.ferroce(&["down"]);
    until(&mut lists, api::UNHEALTHY).await;
    node.ferroce(&["up", "--addr", &node.addr]);
    until(&mut lists, api::HEALTHY).await;
    node.ferroce(&["down"]);

    plugin.terminate();
    assert!(!node.kubelet_dir().join(&registered.endpoint).exists());
}

#[tokio::test]
async fn a_kubelet_that_starts_anew_is_told_again() {
    let Some(node) = Node::new() else { return };
    let mut kubelet = Kubelet::start(&node);
    let plugin = Plugin::start(&node, &["--devices", "3", "--resource", "example.com/rdma"]);
    let registered = soon("registration", kubelet.registered()).await;
    assert_eq!(registered.resource_name, "example.com/rdma");
    let mut client = node.client(&registered.endpoint).await;
    let lists = client.list_and_watch(Empty {}).await.unwrap();
    let mut lists = lists.into_inner();
    until(&mut lists, api::UNHEALTHY).await;

    for _ in 0..3 {
        drop(kubelet);
        node.empty_kubelet_dir();
        kubelet = Kubelet::start(&node);
        let again = soon("registration", kubelet.registered()).await;
        assert_eq!(again, registered);

        let mut client = node.client(&again.endpoint).await;
        let lists = client.list_and_watch(Empty {}).await.unwrap();
        until(&mut lists.into_inner(), api::UNHEALTHY).await;
    }

    // The stream of the first kubelet is over.
    while let Ok(Some(_)) = soon("the end", lists.message()).await {}
    plugin.terminate();
}

#[tokio::test]
async fn a_daemon_is_kept_up_if_asked_for_and_containers_may_get_a_name() {
    let Some(node) = Node::new() else { return };
    let mut kubelet = Kubelet::start(&node);
    let options = [
        "--devices",
        "3",
        "--cdi",
        "--up",
        "--",
        "--addr",
        &node.addr,
    ];
    let plugin = Plugin::start(&node, &options);
    let registered = soon("registration", kubelet.registered()).await;
    let mut client = node.client(&registered.endpoint).await;
    let lists = client.list_and_watch(Empty {}).await.unwrap();
    let mut lists = lists.into_inner();
    until(&mut lists, api::HEALTHY).await;

    let allocated = client.allocate(request(&[&["rdma-2"]])).await.unwrap();
    let allocated = &allocated.into_inner().container_responses[0];
    assert_eq!(allocated.cdi_devices[0].name, "ferroce.dev/rdma=all");
    assert!(allocated.envs.is_empty() && allocated.mounts.is_empty());

    node.kill_daemon();
    until(&mut lists, api::UNHEALTHY).await;
    until(&mut lists, api::HEALTHY).await;
    plugin.terminate();
    node.ferroce(&["down"]);
}

#[test]
fn without_the_kubelets_directory_it_says_so() {
    let Some(node) = Node::new() else { return };
    std::fs::remove_dir(node.kubelet_dir()).unwrap();
    let output = node.plugin(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("--kubelet-dir"), "{words}");
}
